//! Where the jobs live: fixed chunks of slots, addressed by a `u32`.
//!
//! Chunks, not one long vector, for two reasons. Growing never copies more than one chunk, so no push pays for a
//! million others. And a chunk whose jobs are all gone is given back, so a queue that was once a million jobs long
//! does not keep their memory: in a queue that drains roughly in order, chunks empty roughly in order.

use super::job::{Job, NIL};
use std::ops::{Index, IndexMut};

/// Slots in a chunk; a power of two.
const CHUNK: usize = 512;

/// The most jobs a queue can hold: every slot number below `NIL`, less one chunk of slack.
pub(super) const MAX_JOBS: usize = u32::MAX as usize - CHUNK;

#[derive(Clone, Debug)]
struct Chunk {
    slots: Vec<Job>,
    /// The vacant slots, chained by `Job::next`.
    vacant: u32,
    used: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Slab {
    chunks: Vec<Chunk>,
    /// The chunks that have room, in no order; a chunk is listed exactly while it is not full.
    roomy: Vec<u32>,
    len: usize,
    /// Slots that memory is held for.
    capacity: usize,
}

impl Slab {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// O(1). The caller keeps `len` below [`MAX_JOBS`].
    pub fn insert(&mut self, job: Job) -> u32 {
        let number = match self.roomy.last() {
            Some(&number) => number,
            None => {
                let number = self.chunks.len() as u32;
                self.chunks.push(Chunk { slots: Vec::new(), vacant: NIL, used: 0 });
                self.roomy.push(number);
                number
            }
        };
        let chunk = &mut self.chunks[number as usize];
        let offset = if chunk.vacant != NIL {
            let offset = chunk.vacant;
            let slot = &mut chunk.slots[offset as usize];
            chunk.vacant = slot.next;
            *slot = job;
            offset
        } else {
            let held = chunk.slots.capacity();
            if chunk.slots.len() == held {
                // Small queues stay small; the later chunks are taken whole.
                let more = if number == 0 { held.max(2) } else { CHUNK };
                chunk.slots.reserve_exact(more.min(CHUNK - held));
                self.capacity += chunk.slots.capacity() - held;
            }
            chunk.slots.push(job);
            chunk.slots.len() as u32 - 1
        };
        chunk.used += 1;
        if chunk.used as usize == CHUNK {
            self.roomy.pop();
        }
        self.len += 1;
        number * CHUNK as u32 + offset
    }

    /// O(1), apart from giving back the memory of a chunk once in a while.
    pub fn remove(&mut self, slot: u32) {
        let number = slot / CHUNK as u32;
        let offset = slot % CHUNK as u32;
        let chunk = &mut self.chunks[number as usize];
        if chunk.used as usize == CHUNK {
            self.roomy.push(number);
        }
        chunk.used -= 1;
        self.len -= 1;
        if chunk.used == 0 {
            self.capacity -= chunk.slots.capacity();
            chunk.slots = Vec::new();
            chunk.vacant = NIL;
        } else {
            let job = &mut chunk.slots[offset as usize];
            job.body = Box::default();
            job.recurrence = None;
            job.next = chunk.vacant;
            chunk.vacant = offset;
        }
        if self.len == 0 {
            self.chunks = Vec::new();
            self.roomy = Vec::new();
        }
    }
}

impl Index<u32> for Slab {
    type Output = Job;

    fn index(&self, slot: u32) -> &Job {
        &self.chunks[slot as usize / CHUNK].slots[slot as usize % CHUNK]
    }
}

impl IndexMut<u32> for Slab {
    fn index_mut(&mut self, slot: u32) -> &mut Job {
        &mut self.chunks[slot as usize / CHUNK].slots[slot as usize % CHUNK]
    }
}
