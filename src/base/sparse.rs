//! A value that most owners leave at its default. It takes memory only after it was changed.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

pub trait Off: 'static {
    const OFF: &'static Self;
}

impl<T: 'static> Off for BTreeSet<T> {
    const OFF: &'static Self = &BTreeSet::new();
}

/// Without a box, the value is [`Off::OFF`].
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
    /// Returns the bytes of the box.
    pub fn boxed_bytes(&self) -> usize {
        if self.0.is_some() { size_of::<T>() } else { 0 }
    }

    /// Returns the value if it has a box.
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
