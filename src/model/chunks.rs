//! Items in chunks, addressed by a `u32`.
//!
//! One large `Vec` would double its memory and copy everything at the moment it is full: a pause of the server. Here no push copies
//! more than one chunk: chunks come whole and stay where they are, and only the list of them is ever copied. The first one grows as
//! it must, so that what is small stays small.
//!
//! Two stores are built on this, which differ in what becomes of the number of an item that goes: queues move their last item
//! there (`queue/slab.rs`), boards keep the number for the next item (`board/slab.rs`).

use std::ops::{Index, IndexMut};

/// Items in a chunk; a power of two.
pub const CHUNK: usize = 128;

/// The number that means "none": the end of a chain, an empty tree. No item has it.
pub const NIL: u32 = u32::MAX;

/// The most items: every number below [`NIL`].
pub const MAX_ITEMS: usize = NIL as usize - 1;

#[derive(Clone, Debug)]
pub struct Chunks<T> {
    /// All full but the last one, behind which there may be an empty one.
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Chunks<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes held, without what the items own. O(1).
    pub fn bytes(&self) -> usize {
        // There is more than one chunk only if the first one is of full size.
        let room = match self.chunks.as_slice() {
            [only] => only.capacity(),
            chunks => chunks.len() * CHUNK,
        };
        room * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    /// The chunks, for their memory to be moved.
    pub fn chunks_mut(&mut self) -> &mut [Vec<T>] {
        &mut self.chunks
    }

    /// Adds an item, and tells its number. O(1). The owner keeps `len` below [`MAX_ITEMS`].
    pub fn push(&mut self, item: T) -> u32 {
        let number = self.len / CHUNK;
        if number == self.chunks.len() {
            self.chunks.push(Vec::new());
        }
        let chunk = &mut self.chunks[number];
        let held = chunk.capacity();
        if chunk.len() == held {
            let more = if number == 0 { held.max(2) } else { CHUNK };
            chunk.reserve_exact(more.min(CHUNK - held));
        }
        chunk.push(item);
        self.len += 1;
        self.len as u32 - 1
    }

    /// Takes the last item. O(1).
    pub fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let item = self.chunks[last / CHUNK].pop()?;
        self.len = last;
        self.shrink();
        Some(item)
    }

    /// Gives memory back, but not so soon that the next push has to ask for it again.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn held(chunks: &Chunks<u64>) -> usize {
        let room: usize = chunks.chunks.iter().map(Vec::capacity).sum();
        room * size_of::<u64>() + chunks.chunks.capacity() * size_of::<Vec<u64>>()
    }

    #[test]
    fn chunks_stay_where_they_are() {
        let mut chunks = Chunks::default();
        let numbers = 0..10 * CHUNK as u64;
        numbers.clone().take(CHUNK + 1).for_each(|item| assert_eq!(u64::from(chunks.push(item)), item));
        let first: *const u64 = &raw const chunks[0];
        numbers.skip(CHUNK + 1).for_each(|item| assert_eq!(u64::from(chunks.push(item)), item));
        assert!(std::ptr::eq(first, &raw const chunks[0]));
    }

    #[test]
    fn a_few_items_take_a_few_slots() {
        let mut chunks = Chunks::default();
        assert_eq!(chunks.bytes(), 0);
        chunks.push(1_u64);
        assert!(chunks.bytes() <= 2 * size_of::<u64>() + 4 * size_of::<Vec<u64>>(), "{}", chunks.bytes());
        assert_eq!(chunks.pop(), Some(1));
        assert_eq!((chunks.bytes(), chunks.pop()), (0, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a `Vec`: what is held, its numbers, its bytes.
        #[test]
        fn it_is_a_vec_that_gives_memory_back(runs in prop::collection::vec((any::<bool>(), 1..400_u64), 1..20)) {
            let (mut chunks, mut plain) = (Chunks::default(), Vec::new());
            for (is_push, count) in runs {
                for item in 0..count {
                    if is_push {
                        prop_assert_eq!(chunks.push(item) as usize, plain.len());
                        plain.push(item);
                    } else {
                        prop_assert_eq!(chunks.pop(), plain.pop());
                    }
                }
                prop_assert_eq!(chunks.len(), plain.len());
                for (number, item) in plain.iter().enumerate() {
                    prop_assert_eq!(&chunks[number as u32], item);
                }
                prop_assert_eq!(chunks.bytes(), held(&chunks));
                let room = chunks.chunks.iter().map(Vec::capacity).sum::<usize>();
                prop_assert!(room <= 4 * plain.len().max(1) && room <= plain.len() + 2 * CHUNK, "{} for {}", room, plain.len());
            }
        }
    }
}
