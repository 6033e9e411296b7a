//! A growing store of items under small integer ids.
//!
//! One large `Vec` would double its memory and copy everything at the moment it is full, which on a large board is a
//! pause of the server. Here items live in chunks of 256 that never move; only the list of chunks is ever copied.

const CHUNK: usize = 256;

/// The id that means "none". No store hands it out.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Vec<T>>,
    free: Vec<u32>,
    /// Ids ever handed out: `0..end`, of which those in `free` are vacant.
    end: u32,
}

impl<T: Default> Slab<T> {
    pub(super) fn new() -> Self {
        Slab { chunks: Vec::new(), free: Vec::new(), end: 0 }
    }

    /// Items held.
    pub(super) fn len(&self) -> usize {
        self.end as usize - self.free.len()
    }

    /// Bytes of the store itself, without what its items own.
    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
            + self.chunks.capacity() * size_of::<Vec<T>>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// Stores an item. The owner bounds the number of items far below `NONE`.
    pub(super) fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self[id] = item;
            return id;
        }
        let id = self.end;
        if self.chunks.last().is_none_or(|c| c.len() == CHUNK) {
            // The first chunk grows as it must, for small boards; later ones come whole.
            let room = if self.chunks.is_empty() { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(room));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(item);
        }
        self.end += 1;
        id
    }

    /// Takes an item out; its id may be handed out again.
    pub(super) fn remove(&mut self, id: u32) -> T {
        let item = std::mem::take(&mut self[id]);
        self.free.push(id);
        if self.len() == 0 {
            *self = Self::new(); // nothing left: the chunks go too
        }
        item
    }

    /// The chunks, for their memory to be moved.
    pub(super) fn chunks_mut(&mut self) -> &mut [Vec<T>] {
        &mut self.chunks
    }

    /// All slots, vacant ones as defaults, every `step`-th.
    pub(super) fn sample(&self, step: usize) -> impl Iterator<Item = &T> {
        (0..self.end).step_by(step.max(1)).map(|id| &self[id])
    }

    /// How many slots, vacant ones included.
    pub(super) fn slots(&self) -> usize {
        self.end as usize
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, id: u32) -> &T {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}
