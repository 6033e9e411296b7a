//! A store of items under ids that stay theirs: [`Chunks`], and a list of the ids that are vacant.
//!
//! Nothing moves when an item goes, because a node is known to its parent, to its neighbours and to each of its members.

use crate::model::chunks::Chunks;

#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    /// Vacant ones hold defaults.
    items: Chunks<T>,
    vacant: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub(super) fn new() -> Self {
        Slab { items: Chunks::default(), vacant: Vec::new() }
    }

    /// Items held.
    pub(super) fn len(&self) -> usize {
        self.items.len() - self.vacant.len()
    }

    /// Bytes of the store itself, without what its items own.
    pub(super) fn bytes(&self) -> usize {
        self.items.bytes() + self.vacant.capacity() * size_of::<u32>()
    }

    /// Stores an item. The owner bounds the number of items far below [`NIL`](crate::model::chunks::NIL).
    pub(super) fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.vacant.pop() {
            self[id] = item;
            return id;
        }
        self.items.push(item)
    }

    /// Takes an item out; its id may be handed out again.
    pub(super) fn remove(&mut self, id: u32) -> T {
        let item = std::mem::take(&mut self[id]);
        self.vacant.push(id);
        if self.len() == 0 {
            *self = Self::new(); // nothing left: the chunks go too
        }
        item
    }

    /// The chunks, for their memory to be moved.
    pub(super) fn chunks_mut(&mut self) -> &mut [Vec<T>] {
        self.items.chunks_mut()
    }

    /// All slots, vacant ones as defaults, every `step`-th.
    pub(super) fn sample(&self, step: usize) -> impl Iterator<Item = &T> {
        (0..self.items.len() as u32).step_by(step.max(1)).map(|id| &self[id])
    }

    /// How many slots, vacant ones included.
    pub(super) fn slots(&self) -> usize {
        self.items.len()
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
