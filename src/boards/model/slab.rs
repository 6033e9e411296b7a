//! A store of items. An item's ID never changes, because other data refers to the item by its ID. The store consists of
//! [`Chunks`] and a list of the vacant IDs.

use crate::base::chunks::Chunks;

#[derive(Clone, Debug, Default)]
pub(super) struct Slab<T> {
    /// Vacant items have default values.
    items: Chunks<T>,
    vacant: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub(super) fn len(&self) -> usize {
        self.items.len() - self.vacant.len()
    }

    /// Returns the allocated bytes. `owned` returns the bytes that an item owns. If `samples` is 0, calls `owned` for
    /// every item. Otherwise, calls `owned` for about `samples` evenly spread items, and estimates the bytes of the
    /// other items.
    pub(super) fn bytes(&self, samples: usize, owned: impl Fn(&T) -> usize) -> usize {
        let slots = self.items.len();
        let step = if samples == 0 { 1 } else { slots.div_ceil(samples).max(1) };
        let (mut seen, mut sum) = (0usize, 0usize);
        for id in (0..slots as u32).step_by(step) {
            seen += 1;
            sum += owned(&self[id]);
        }
        let estimate = (sum as u128 * slots as u128).checked_div(seen as u128).unwrap_or(0) as usize;
        self.items.bytes() + self.vacant.capacity() * size_of::<u32>() + estimate
    }

    /// Stores an item and returns its ID. The caller must keep the number of items far below
    /// [`NIL`](crate::base::chunks::NIL).
    pub(super) fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.vacant.pop() {
            self[id] = item;
            return id;
        }
        self.items.push(item)
    }

    /// Removes an item and returns it. A later item may get its ID.
    pub(super) fn remove(&mut self, id: u32) -> T {
        let item = std::mem::take(&mut self[id]);
        self.vacant.push(id);
        if self.len() == 0 {
            *self = Self::default(); // also frees the chunks
        }
        item
    }

    pub(super) fn chunks_mut(&mut self) -> &mut [Vec<T>] {
        self.items.chunks_mut()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        &self.items[id]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.items[id]
    }
}
