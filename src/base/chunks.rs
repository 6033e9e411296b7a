//! A collection of items in chunks. Each item has a `u32` number.
//!
//! A push to a full `Vec` doubles its memory and copies all items, which would pause the server if the `Vec` is large.
//! A push to this collection copies at most one chunk and the list of chunks. Only the first chunk grows as needed, so
//! a small collection takes little memory. All other chunks are allocated in full size, so a push does not move them.
//!
//! The number of a removed item is used again. In a queue, the item with the highest number gets the free number
//! ([`Chunks::remove`]), so the memory shrinks with the number of jobs. In a board, the next new item gets the free
//! number (`boards/model/slab.rs`).

use crate::base::sparse::Off;
use std::ops::{Index, IndexMut};

/// The number of items per chunk, a power of two.
pub const CHUNK: usize = 128;

/// A number that no item has. It means `None`, but takes 4 bytes, whereas an `Option<u32>` takes 8.
pub const NIL: u32 = u32::MAX;

pub const MAX_ITEMS: usize = NIL as usize - 1;

#[derive(Clone, Debug)]
pub struct Chunks<T> {
    /// All chunks before the last non-empty chunk are full. At most one empty chunk follows the last non-empty chunk.
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T: 'static> Off for Chunks<T> {
    const OFF: &'static Self = &Self { chunks: Vec::new(), len: 0 };
}

impl<T> Chunks<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the allocated bytes, without the memory that the items own. O(1).
    pub fn bytes(&self) -> usize {
        // If there is more than one chunk, the first chunk has its full size.
        let room = match self.chunks.as_slice() {
            [only] => only.capacity(),
            chunks => chunks.len() * CHUNK,
        };
        room * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Returns the chunks, so that active defragmentation can move their memory.
    pub fn chunks_mut(&mut self) -> &mut [Vec<T>] {
        &mut self.chunks
    }

    /// Adds an item. Returns its number. O(1). The caller must keep `len` below [`MAX_ITEMS`].
    pub fn push(&mut self, item: T) -> u32 {
        let number = self.len / CHUNK;
        if number == self.chunks.len() {
            if number == 0 {
                self.chunks.reserve_exact(1); // a push would reserve four
            }
            self.chunks.push(Vec::new());
        }
        let chunk = &mut self.chunks[number];
        let capacity = chunk.capacity();
        if chunk.len() == capacity {
            let more = if number == 0 { capacity.max(1) } else { CHUNK };
            chunk.reserve_exact(more.min(CHUNK - capacity));
        }
        chunk.push(item);
        self.len += 1;
        self.len as u32 - 1
    }

    pub fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let item = self.chunks[last / CHUNK].pop()?;
        self.len = last;
        self.shrink();
        Some(item)
    }

    /// Removes an item, and gives its number to the last item. Returns the last item's old number, or `None` if the
    /// last item itself was removed. The caller must update all references to the old number. O(1).
    #[must_use]
    pub fn remove(&mut self, number: u32) -> Option<u32> {
        let item = self.pop()?;
        let last = self.len as u32;
        let moved = number != last;
        if moved {
            self[number] = item;
        }
        moved.then_some(last)
    }

    /// Frees spare memory. Unless the collection is empty, leaves room for the next push.
    fn shrink(&mut self) {
        let in_last = self.len % CHUNK;
        let spare = self.chunks.len() * CHUNK - self.len;
        if self.len == 0 {
            self.chunks = Vec::new();
        } else if spare >= CHUNK && (1..=CHUNK / 2).contains(&in_last) {
            self.chunks.pop();
            let used = self.chunks.len();
            if self.chunks.capacity() / 4 >= used {
                self.chunks.shrink_to(2 * used);
            }
        } else if let [only] = self.chunks.as_mut_slice()
            && only.capacity() / 4 >= only.len()
        {
            only.shrink_to(2 * only.len());
        }
    }
}

impl<T> Index<u32> for Chunks<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Chunks<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests;
