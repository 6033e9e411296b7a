//! The expiring sets of one database that the tracker knows: their names, and when the sweeper must visit each of them
//! (its *due time*). Also the tags that have to be added or removed, and the postponed visits.
//!
//! The sets are numbered from 0. An [`Index`] finds a set's number by its name. Blocks of [`BLOCK`] sets store the
//! names and due times. If a set is removed, the last set gets its number. So only the last block has vacant places,
//! and a set takes about 29 bytes in addition to its name. The index and the blocks grow and shrink in small steps.
//!
//! The blocks are also ordered by the earliest due time of their sets, to find the set that is due first.

use super::AT_ONCE;
use super::pending::PendingTags;
use crate::base::chunks::Chunks;
use crate::base::index::Index;
use crate::base::time::{self, Millis, NEVER};
use hashbrown::DefaultHashBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::rc::Rc;

/// The number of sets in a block.
const BLOCK: u32 = 32;

/// The maximum number of blocks in which [`Database::overdue`] counts the due sets one by one. If more blocks have due
/// sets, `overdue` also reads a sample of all blocks, of at most the same size, and estimates the number of due sets
/// from this sample. Both steps together take some tens of µs.
const SAMPLE: usize = 256;

#[derive(Clone, Copy)]
struct TrackedSet {
    due: Millis,
    hash: u32,
    /// The length of the name.
    length: u32,
}

struct Block {
    sets: Vec<TrackedSet>,
    /// The names, in the order of the sets.
    names: Vec<u8>,
    /// The earliest time at which the sweeper must visit a set of this block.
    first: Millis,
}

impl Block {
    fn name_start(&self, at: usize) -> usize {
        self.sets[..at].iter().map(|set| set.length as usize).sum()
    }

    fn name(&self, at: usize) -> &[u8] {
        &self.names[self.name_start(at)..][..self.sets[at].length as usize]
    }

    fn push(&mut self, set: TrackedSet, name: &[u8]) {
        self.sets.push(set);
        self.names.extend_from_slice(name);
        if self.sets.len() == BLOCK as usize {
            self.names.shrink_to_fit();
        }
    }

    fn pop(&mut self) -> Option<(TrackedSet, Vec<u8>)> {
        let set = self.sets.pop()?;
        Some((set, self.names.split_off(self.names.len() - set.length as usize)))
    }

    fn replace(&mut self, at: usize, set: TrackedSet, name: Vec<u8>) {
        let start = self.name_start(at);
        let old = std::mem::replace(&mut self.sets[at], set);
        self.names.splice(start..start + old.length as usize, name);
        self.names.shrink_to_fit();
    }
}

#[derive(Default)]
pub struct Database {
    blocks: Chunks<Block>,
    index: Index,
    hasher: DefaultHashBuilder,
    /// For each block, the earliest due time of its sets, and the block's number. Blocks that are never due are left
    /// out.
    order: BTreeSet<(Millis, u32)>,
    /// The number of sets that [`forget_some`](Database::forget_some), which reads from the last set to the first,
    /// still has to read.
    left_to_walk: usize,
    pub pending: PendingTags,
    /// The sets whose visit is postponed, because the sweeper could not check them. The key is the time of the next
    /// visit and the set's name. The value is the original due time. The time of the next visit is measured in
    /// [`Tracking::passed`](super::Tracking::passed), which ignores steps of the wall clock.
    pub postponed: BTreeMap<(Millis, Rc<[u8]>), Millis>,
}

impl Database {
    pub fn len(&self) -> usize {
        let Some(last) = self.blocks.len().checked_sub(1) else { return 0 };
        last * BLOCK as usize + self.blocks[last as u32].sets.len()
    }

    /// Returns when the sweeper's next visit to a set is due. `None` if the set is not tracked.
    pub fn due(&self, key: &[u8]) -> Option<Millis> {
        Some(self.set(self.find(key)?).due)
    }

    /// Tracks an expiring set. The sweeper's next visit is due at `due`.
    pub fn track(&mut self, key: &[u8], due: Millis) {
        match self.find(key) {
            Some(number) => self.set_due(number, due),
            None => self.add(key, due),
        }
    }

    /// Tracks a set if it is not tracked yet. The sweeper's next visit is due at `due`.
    pub fn track_new(&mut self, key: &[u8], due: Millis) {
        if self.find(key).is_none() {
            self.add(key, due);
        }
    }

    /// Updates the due time of a set after one of the module's commands has put members into it. `soonest` is the
    /// earliest expiry of these members. If the set is not tracked yet, it is due at once, because the expiries of its
    /// other members are unknown. But if `is_new` is true, it has no other members, and is due at `soonest`. Returns
    /// whether the set is due earlier than before.
    pub fn change(&mut self, key: &[u8], soonest: Option<Millis>, is_new: bool) -> bool {
        let soonest = soonest.filter(|&soonest| soonest < time::MAX).unwrap_or(NEVER);
        match self.find(key) {
            Some(number) if self.set(number).due <= soonest => return false,
            Some(number) => self.set_due(number, soonest),
            None => self.add(key, if is_new { soonest } else { AT_ONCE }),
        }
        true
    }

    /// Changes the time at which the sweeper's next visit to a tracked set is due.
    pub fn reschedule(&mut self, key: &[u8], due: Millis) {
        if let Some(number) = self.find(key) {
            self.set_due(number, due);
        }
    }

    /// Stops tracking a set. Returns its due time, or `None` if the set was not tracked.
    pub fn forget(&mut self, key: &[u8]) -> Option<Millis> {
        let number = self.find(key)?;
        let due = self.set(number).due;
        self.index.remove(self.set(number).hash, number);
        let last = self.len() as u32 - 1;
        let (set, name) = self.edit(last / BLOCK, Block::pop)?;
        if number != last {
            self.index.renumber(set.hash, last, number);
            self.edit(number / BLOCK, |block| block.replace((number % BLOCK) as usize, set, name));
        }
        if last.is_multiple_of(BLOCK) {
            self.blocks.pop();
        }
        Some(due)
    }

    pub fn next_due(&self) -> Option<Millis> {
        self.order.first().map(|&(due, _)| due)
    }

    /// Returns an estimate of the earliest due time after `moment`. The estimate may be too late, because it leaves out
    /// every block that has a set with a due time up to `moment`.
    pub fn next_due_after(&self, moment: Millis) -> Option<Millis> {
        self.order.range((moment + 1, 0)..).next().map(|&(due, _)| due)
    }

    /// Returns the name and the due time of the set that is due first.
    pub fn first(&self) -> Option<(&[u8], Millis)> {
        let &(due, block) = self.order.first()?;
        let block = &self.blocks[block];
        let at = block.sets.iter().position(|set| set.due == due)?;
        Some((block.name(at), due))
    }

    /// Returns the number of sets that are due at `now`. The number is exact if the due sets are in at most [`SAMPLE`]
    /// blocks. Otherwise it is estimated from a sample of at most [`SAMPLE`] blocks. O(1).
    pub fn overdue(&self, now: Millis) -> usize {
        let due_in = |block: u32| self.blocks[block].sets.iter().filter(|set| set.due <= now).count();
        let mut blocks = self.order.range(..=(now, u32::MAX)).map(|&(_, block)| due_in(block));
        let counted = blocks.by_ref().take(SAMPLE).sum();
        if blocks.next().is_none() {
            return counted;
        }
        let sample = (0..self.blocks.len()).step_by(self.blocks.len().div_ceil(SAMPLE));
        let size = sample.len();
        let due: usize = sample.map(|block| due_in(block as u32)).sum();
        counted.max(due * self.blocks.len() / size).min(self.len())
    }

    pub fn postpone(&mut self, key: &Rc<[u8]>, until: Millis) {
        if let Some(due) = self.due(key).filter(|&due| due != NEVER) {
            self.reschedule(key, NEVER);
            self.postponed.insert((until, Rc::clone(key)), due);
        }
    }

    /// Makes one set due again, if its visit was postponed until `passed` or earlier. Returns `false` if there is no
    /// such set.
    pub fn resume_one(&mut self, passed: Millis) -> bool {
        let Some(first) = self.postponed.first_entry().filter(|first| first.key().0 <= passed) else { return false };
        let ((_, key), due) = first.remove_entry();
        let due = self.due(&key).map_or(due, |known| known.min(due));
        self.reschedule(&key, due);
        true
    }

    /// Begins to read all sets, step by step: [`forget_some`](Database::forget_some) takes the next step. Sets that are
    /// added in the meantime may be left out.
    pub fn begin_walk(&mut self) {
        self.left_to_walk = self.len();
    }

    pub fn is_walking(&self) -> bool {
        self.left_to_walk > 0
    }

    /// Reads the next sets, from the last to the first, and stops tracking those for which `is_meant` returns true. If
    /// a set is removed, the last set takes its place. No set is missed, because the last set has already been read.
    pub fn forget_some(&mut self, is_meant: impl Fn(&[u8]) -> bool) {
        /// The maximum number of sets that one call of `forget_some` reads.
        const SOME: usize = 512;
        for _ in 0..SOME {
            let Some(number) = self.left_to_walk.min(self.len()).checked_sub(1) else { return self.left_to_walk = 0 };
            self.left_to_walk = number;
            let name = self.blocks[number as u32 / BLOCK].name(number % BLOCK as usize);
            if is_meant(name) {
                self.forget(&Box::<[u8]>::from(name));
            }
        }
    }

    /// Frees some of the memory of a dropped database: at most `most` entries of each collection. Returns `false` when
    /// only the index is left. The index has one allocation per thousand sets, so the caller can free it at once.
    pub fn free_some(&mut self, most: usize) -> bool {
        (0..most).all(|_| {
            self.blocks.pop().is_some()
                | self.order.pop_first().is_some()
                | self.pending.pop_first()
                | self.postponed.pop_first().is_some()
        })
    }

    fn hash(&self, key: &[u8]) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// Finds a set by its name. Returns the number of the set, or `None` if it is not tracked.
    fn find(&self, key: &[u8]) -> Option<u32> {
        let name = |number: u32| self.blocks[number / BLOCK].name((number % BLOCK) as usize);
        self.index.find(self.hash(key), |number| name(number) == key)
    }

    fn add(&mut self, key: &[u8], due: Millis) {
        // Both numbers fit: the server does not accept longer names, and more sets would need more than 100 GB.
        let (Ok(number), Ok(length)) = (u32::try_from(self.len()), u32::try_from(key.len())) else { return };
        let hash = self.hash(key);
        self.index.insert(hash, number);
        if number.is_multiple_of(BLOCK) {
            self.blocks.push(Block { sets: Vec::new(), names: Vec::new(), first: NEVER });
        }
        self.edit(number / BLOCK, |block| block.push(TrackedSet { due, hash, length }, key));
    }

    fn set_due(&mut self, number: u32, due: Millis) {
        if self.set(number).due != due {
            self.edit(number / BLOCK, |block| block.sets[(number % BLOCK) as usize].due = due);
        }
    }

    fn set(&self, number: u32) -> TrackedSet {
        self.blocks[number / BLOCK].sets[(number % BLOCK) as usize]
    }

    /// Calls `edit` with a block, and then updates the block's entry in `order`.
    fn edit<R>(&mut self, number: u32, edit: impl FnOnce(&mut Block) -> R) -> R {
        let block = &mut self.blocks[number];
        let result = edit(block);
        let first = block.sets.iter().map(|set| set.due).min().unwrap_or(NEVER);
        let before = std::mem::replace(&mut block.first, first);
        if before != first {
            self.order.remove(&(before, number));
            if first != NEVER {
                self.order.insert((first, number));
            }
        }
        result
    }
}

#[cfg(test)]
impl Database {
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|number| self.blocks[number as u32 / BLOCK].name(number % BLOCK as usize))
    }

    /// Returns whether a tracked set's name has the same hash as `name`.
    pub fn looks_closer(&self, name: &[u8]) -> bool {
        self.index.find(self.hash(name), |_| true).is_some()
    }

    /// Returns the number of sets in each block.
    pub fn block_sizes(&self) -> impl Iterator<Item = usize> {
        (0..self.blocks.len()).map(|block| self.blocks[block as u32].sets.len())
    }

    /// Returns the allocated bytes of the blocks, the index and `order`. The bytes of `order` are a high estimate.
    pub fn bytes(&self) -> usize {
        let blocks = (0..self.blocks.len()).map(|block| &self.blocks[block as u32]);
        let in_blocks = blocks.map(|block| block.sets.capacity() * size_of::<TrackedSet>() + block.names.capacity());
        self.index.bytes() + self.blocks.bytes() + in_blocks.sum::<usize>() + 40 * self.order.len()
    }
}
