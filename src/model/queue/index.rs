//! From an id to its job: linear hashing (Litwin 1980), chained through the jobs themselves.
//!
//! The table grows and shrinks by one bucket at a time, so there is no rehash that would stall a queue of a million
//! jobs, and it costs four bytes a job besides the link and the hash in the job. The hash is keyed per queue
//! (SipHash), so nobody can choose ids that share a bucket. The keys differ from process to process; nothing that is
//! stored, compared or replicated depends on them.

use super::job::NIL;
use super::slab::Slab;
use std::hash::{BuildHasher, RandomState};

/// Buckets in a segment; segments keep growth from copying.
const SEGMENT: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    segments: Vec<Vec<u32>>,
    buckets: usize,
    keys: RandomState,
}

impl Index {
    pub fn buckets(&self) -> usize {
        self.buckets
    }

    fn hash(&self, id: &[u8]) -> u32 {
        self.keys.hash_one(id) as u32
    }

    fn bucket(&mut self, number: usize) -> &mut u32 {
        &mut self.segments[number / SEGMENT][number % SEGMENT]
    }

    /// The bucket of `hash` among `buckets` (> 0): the low bits, one fewer where the table has not grown that far.
    fn number(hash: u32, buckets: usize) -> usize {
        let mask = buckets.next_power_of_two() - 1;
        let number = hash as usize & mask;
        if number < buckets { number } else { number & (mask >> 1) }
    }

    /// O(1) expected.
    pub fn find(&self, jobs: &Slab, id: &[u8]) -> Option<u32> {
        if self.buckets == 0 {
            return None;
        }
        let hash = self.hash(id);
        let number = Self::number(hash, self.buckets);
        let mut slot = self.segments[number / SEGMENT][number % SEGMENT];
        while slot != NIL {
            let job = &jobs[slot];
            if job.hash == hash && job.id() == id {
                return Some(slot);
            }
            slot = job.next;
        }
        None
    }

    /// Enters a job whose id is not in yet. O(1) expected.
    pub fn insert(&mut self, jobs: &mut Slab, slot: u32) {
        if jobs.len() > self.buckets {
            self.grow(jobs);
        }
        let hash = self.hash(jobs[slot].id());
        jobs[slot].hash = hash;
        self.chain(jobs, slot);
    }

    /// Takes a job out; before it leaves the slab. O(1) expected.
    pub fn remove(&mut self, jobs: &mut Slab, slot: u32) {
        let next = jobs[slot].next;
        let number = Self::number(jobs[slot].hash, self.buckets);
        let head = self.bucket(number);
        if *head == slot {
            *head = next;
        } else {
            let mut before = *head;
            while before != NIL && jobs[before].next != slot {
                before = jobs[before].next;
            }
            if before != NIL {
                jobs[before].next = next;
            }
        }
        // `len` still counts the job that leaves. Half full at least, so that growth and shrinking do not alternate: two
        // rounds at most.
        while (jobs.len() - 1) * 2 < self.buckets {
            self.shrink(jobs);
        }
    }

    fn chain(&mut self, jobs: &mut Slab, slot: u32) {
        let number = Self::number(jobs[slot].hash, self.buckets);
        let head = self.bucket(number);
        jobs[slot].next = *head;
        *head = slot;
    }

    fn chain_all(&mut self, jobs: &mut Slab, mut slot: u32) {
        while slot != NIL {
            let next = jobs[slot].next;
            self.chain(jobs, slot);
            slot = next;
        }
    }

    /// One more bucket: only the chain of the bucket it splits off from has to be gone through.
    fn grow(&mut self, jobs: &mut Slab) {
        match self.segments.last_mut() {
            Some(last) if last.len() < SEGMENT => last.push(NIL),
            _ => self.segments.push(vec![NIL]),
        }
        let new = self.buckets;
        self.buckets += 1;
        if new > 0 {
            let parent = Self::number(new as u32, new);
            let chain = std::mem::replace(self.bucket(parent), NIL);
            self.chain_all(jobs, chain);
        }
    }

    /// One bucket fewer: its jobs go back to the bucket it was split from.
    fn shrink(&mut self, jobs: &mut Slab) {
        let Some(last) = self.segments.last_mut() else {
            return;
        };
        let chain = last.pop().unwrap_or(NIL);
        if last.is_empty() {
            self.segments.pop();
        }
        self.buckets -= 1;
        if self.buckets == 0 {
            *self = Self { keys: self.keys.clone(), ..Self::default() };
        } else {
            self.chain_all(jobs, chain);
        }
    }
}
