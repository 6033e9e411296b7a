//! Where the jobs live: a dense array in chunks, addressed by a `u32`.
//!
//! **Chunks**, so that growing never copies more than one of them: no push pays for a million others. **Dense**, so that the memory
//! follows the jobs whatever order they leave in: the item in the last slot moves into the slot that has become free. Whoever
//! removes an item has to have the references to the moved one corrected ([`Slab::remove`] says which it is); that is a walk down its
//! tree and its hash chain.

use std::ops::{Index, IndexMut};

/// Slots in a chunk; a power of two.
pub(super) const CHUNK: usize = 128;

/// The most items: every slot number below `NIL`.
pub(super) const MAX_JOBS: usize = u32::MAX as usize - 1;

#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    /// All full but the last one, behind which there may be an empty one.
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes held, those of the items themselves only. O(1).
    pub fn bytes(&self) -> usize {
        // There is more than one chunk only when the first one is of full size.
        let slots = match self.chunks.as_slice() {
            [only] => only.capacity(),
            chunks => chunks.len() * CHUNK,
        };
        slots * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    pub fn chunks_mut(&mut self) -> &mut [Vec<T>] {
        &mut self.chunks
    }

    /// O(1). The caller keeps `len` below [`MAX_JOBS`].
    pub fn insert(&mut self, item: T) -> u32 {
        let number = self.len / CHUNK;
        if number == self.chunks.len() {
            self.chunks.push(Vec::new());
        }
        let chunk = &mut self.chunks[number];
        let held = chunk.capacity();
        if chunk.len() == held {
            // Small queues stay small; the later chunks are taken whole.
            let more = if number == 0 { held.max(2) } else { CHUNK };
            chunk.reserve_exact(more.min(CHUNK - held));
        }
        chunk.push(item);
        self.len += 1;
        self.len as u32 - 1
    }

    /// Takes an item out. The answer is the number of the slot whose item has moved into this one, if one has. O(1).
    #[must_use]
    pub fn remove(&mut self, slot: u32) -> Option<u32> {
        let last = self.len - 1;
        let item = self.chunks[last / CHUNK].pop()?;
        self.len = last;
        let moved = slot as usize != last;
        if moved {
            self[slot] = item;
        }
        self.shrink();
        moved.then_some(last as u32)
    }

    /// Gives memory back, but not so soon that the next insert has to ask for it again.
    fn shrink(&mut self) {
        let in_last = self.len % CHUNK;
        let spare = self.chunks.len() * CHUNK - self.len;
        if self.len == 0 {
            self.chunks = Vec::new();
        } else if spare >= CHUNK && (1..=CHUNK / 2).contains(&in_last) {
            self.chunks.pop();
            let held = self.chunks.len();
            if self.chunks.capacity() / 4 > held {
                self.chunks.shrink_to(2 * held);
            }
        } else if let [only] = self.chunks.as_mut_slice()
            && only.capacity() / 4 >= only.len()
        {
            only.shrink_to(2 * only.len());
        }
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}
