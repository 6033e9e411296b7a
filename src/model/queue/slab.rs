//! Where the jobs live: [`Chunks`] without holes, so that the memory follows the jobs whatever order they leave in.
//!
//! The item in the last slot moves into the slot that has become free. Whoever removes an item has to have the references to the
//! moved one corrected ([`Slab::remove`] says which it is); that is a walk down its tree and its hash chain.

use crate::model::chunks::Chunks;
use std::ops::{Index, IndexMut};

#[derive(Clone, Debug)]
pub(super) struct Slab<T>(Chunks<T>);

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self(Chunks::default())
    }
}

impl<T> Slab<T> {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes held, those of the items themselves only. O(1).
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    pub fn chunks_mut(&mut self) -> &mut [Vec<T>] {
        self.0.chunks_mut()
    }

    /// O(1). The caller keeps `len` below [`MAX_ITEMS`](crate::model::chunks::MAX_ITEMS).
    pub fn insert(&mut self, item: T) -> u32 {
        self.0.push(item)
    }

    /// Takes an item out. The answer is the number of the slot whose item has moved into this one, if one has. O(1).
    #[must_use]
    pub fn remove(&mut self, slot: u32) -> Option<u32> {
        let item = self.0.pop()?;
        let last = self.0.len() as u32;
        let moved = slot != last;
        if moved {
            self.0[slot] = item;
        }
        moved.then_some(last)
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        &self.0[slot]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.0[slot]
    }
}
