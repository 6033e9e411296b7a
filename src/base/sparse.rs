//! A value that usually keeps its default, such as the settings of a queue. It takes memory only after a change.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

pub trait Off: 'static {
    const OFF: &'static Self;
}

impl<T: 'static> Off for BTreeSet<T> {
    const OFF: &'static Self = &BTreeSet::new();
}

/// A value in a box. `None` stands for the default, [`Off::OFF`].
#[derive(Clone, Debug)]
pub struct Sparse<T>(Option<Box<T>>);

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Sparse(None)
    }
}

impl<T: Off + Default + PartialEq> From<T> for Sparse<T> {
    fn from(value: T) -> Self {
        Sparse((value != *T::OFF).then(|| Box::new(value)))
    }
}

impl<T> Sparse<T> {
    /// Returns the allocated bytes.
    pub fn boxed_bytes(&self) -> usize {
        if self.0.is_some() { size_of::<T>() } else { 0 }
    }

    /// Returns the value, or `None` if no memory was allocated for it. Unlike `deref_mut`, this function never
    /// allocates.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T: Off> Deref for Sparse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::OFF)
    }
}

impl<T: Off + Default> DerefMut for Sparse<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}
