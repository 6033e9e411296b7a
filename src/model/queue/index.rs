//! From an id to its job (and from a name to its group): linear hashing (Litwin 1980), chained through the items themselves.
//!
//! The table grows and shrinks by one bucket at a time, so there is no rehash that would stall a queue of a million
//! jobs, and it costs four bytes an item besides the link and the hash in the item. The hash is keyed per queue
//! (SipHash), so nobody can choose ids that share a bucket. The keys differ from process to process; nothing that is
//! stored, compared or replicated depends on them.

use crate::model::chunks::NIL;
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::ops::{self, BitXor, IndexMut};

/// What can be found by its id: it holds its own link in the chain of its bucket.
pub(super) trait Chained {
    fn id(&self) -> &[u8];
    fn chain(&self) -> Chain;
    fn chain_mut(&mut self) -> &mut Chain;
}

/// The link of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    /// Of the id.
    pub hash: u32,
    /// The next item of the same bucket.
    pub next: u32,
}

impl Chain {
    /// Of an item that is not in an index yet.
    pub const NEW: Chain = Chain { hash: 0, next: NIL };
}

/// Buckets in a segment; segments keep growth from copying.
const SEGMENT: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    segments: Vec<Vec<u32>>,
    buckets: usize,
    keys: RandomState,
}

impl Index {
    /// Bytes held. O(1).
    pub fn bytes(&self) -> usize {
        let last = self.segments.last().map_or(0, Vec::capacity);
        let slots = self.segments.len().saturating_sub(1) * SEGMENT + last;
        slots * size_of::<u32>() + self.segments.capacity() * size_of::<Vec<u32>>()
    }

    pub fn segments_mut(&mut self) -> &mut [Vec<u32>] {
        &mut self.segments
    }

    #[cfg(test)]
    pub fn buckets(&self) -> usize {
        self.buckets
    }

    fn hash(&self, id: &[u8]) -> u32 {
        self.keys.hash_one(id) as u32
    }

    fn bucket(&mut self, number: usize) -> &mut u32 {
        &mut self.segments[number / SEGMENT][number % SEGMENT]
    }

    /// The first item of the bucket of `hash`, or `NIL`; there are buckets.
    fn head(&self, hash: u32) -> u32 {
        let number = Self::number(hash, self.buckets);
        self.segments[number / SEGMENT][number % SEGMENT]
    }

    /// The bucket of `hash` among `buckets` (> 0): the low bits, one fewer where the table has not grown that far.
    fn number(hash: u32, buckets: usize) -> usize {
        let mask = buckets.next_power_of_two() - 1;
        let number = hash as usize & mask;
        if number < buckets { number } else { number & (mask >> 1) }
    }

    /// O(1) expected.
    pub fn find<T: Chained>(&self, items: &impl ops::Index<u32, Output = T>, id: &[u8]) -> Option<u32> {
        if self.buckets == 0 {
            return None;
        }
        let hash = self.hash(id);
        let mut slot = self.head(hash);
        while slot != NIL {
            let item = &items[slot];
            let Chain { hash: other, next } = item.chain();
            if other == hash && item.id() == id {
                return Some(slot);
            }
            slot = next;
        }
        None
    }

    /// Reads what is about to be read to take these items out, or to [`renumber`](Self::renumber) them.
    pub fn read_ahead<T: Chained>(&self, items: &impl ops::Index<u32, Output = T>, slots: &[u32]) {
        let hashes = slots.iter().map(|&slot| items[slot].chain().hash);
        let heads: Vec<u32> = hashes.map(|hash| self.head(hash)).collect();
        let next = heads.iter().filter(|&&head| head != NIL).map(|&head| items[head].chain().next);
        black_box(next.fold(0, BitXor::bitxor));
    }

    /// Enters an item whose id is not in yet; `count`: how many items there are, this one included. O(1) expected.
    pub fn insert<T: Chained>(&mut self, items: &mut impl IndexMut<u32, Output = T>, count: usize, slot: u32) {
        if count > self.buckets {
            self.grow(items);
        }
        let hash = self.hash(items[slot].id());
        items[slot].chain_mut().hash = hash;
        self.chain(items, slot);
    }

    /// Takes an item out; `left`: how many items there will be. O(1) expected.
    pub fn remove<T: Chained>(&mut self, items: &mut impl IndexMut<u32, Output = T>, left: usize, slot: u32) {
        let Chain { hash, next } = items[slot].chain();
        self.relink(items, hash, slot, next);
        // Half full at least, so that growth and shrinking do not alternate: two rounds at most.
        while left * 2 < self.buckets {
            self.shrink(items);
        }
    }

    /// The item of slot `from` stands in slot `to` now. O(1) expected.
    pub fn renumber<T: Chained>(&mut self, items: &mut impl IndexMut<u32, Output = T>, from: u32, to: u32) {
        let hash = items[to].chain().hash;
        self.relink(items, hash, from, to);
    }

    /// What led to `slot` leads to `next`.
    fn relink<T: Chained>(&mut self, items: &mut impl IndexMut<u32, Output = T>, hash: u32, slot: u32, next: u32) {
        let number = Self::number(hash, self.buckets);
        let head = self.bucket(number);
        if *head == slot {
            *head = next;
            return;
        }
        let mut before = *head;
        while before != NIL && items[before].chain().next != slot {
            before = items[before].chain().next;
        }
        if before != NIL {
            items[before].chain_mut().next = next;
        }
    }

    fn chain<T: Chained>(&mut self, items: &mut impl IndexMut<u32, Output = T>, slot: u32) {
        let number = Self::number(items[slot].chain().hash, self.buckets);
        let head = self.bucket(number);
        items[slot].chain_mut().next = *head;
        *head = slot;
    }

    fn chain_all<T: Chained>(&mut self, items: &mut impl IndexMut<u32, Output = T>, mut slot: u32) {
        while slot != NIL {
            let next = items[slot].chain().next;
            self.chain(items, slot);
            slot = next;
        }
    }

    /// One more bucket: only the chain of the bucket it splits off from has to be gone through.
    fn grow<T: Chained>(&mut self, items: &mut impl IndexMut<u32, Output = T>) {
        match self.segments.last_mut() {
            Some(last) if last.len() < SEGMENT => last.push(NIL),
            _ => self.segments.push(vec![NIL]),
        }
        let new = self.buckets;
        self.buckets += 1;
        if new > 0 {
            let parent = Self::number(new as u32, new);
            let chain = std::mem::replace(self.bucket(parent), NIL);
            self.chain_all(items, chain);
        }
    }

    /// One bucket fewer: its items go back to the bucket it was split from.
    fn shrink<T: Chained>(&mut self, items: &mut impl IndexMut<u32, Output = T>) {
        let Some(last) = self.segments.last_mut() else {
            return;
        };
        let chain = last.pop().unwrap_or(NIL);
        if last.is_empty() {
            self.segments.pop();
            if self.segments.capacity() / 4 > self.segments.len() {
                self.segments.shrink_to(2 * self.segments.len());
            }
        } else if last.capacity() / 4 >= last.len() {
            last.shrink_to(2 * last.len());
        }
        self.buckets -= 1;
        if self.buckets == 0 {
            *self = Self { keys: self.keys.clone(), ..Self::default() };
        } else {
            self.chain_all(items, chain);
        }
    }
}
