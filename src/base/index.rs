//! A hash table that maps names to numbers. The table never rehashes all entries at once. The names are stored
//! elsewhere.
//!
//! The table uses linear hashing (Litwin 1980) over *shards* of about a thousand entries. When the average number of
//! entries per shard reaches `SHARD`, the next shard in turn is split in two. So growth takes a few microseconds at
//! a time instead of one rehash of all entries.
//!
//! A shard is an open-addressing table. A slot has 8 bytes: 32 bits of the name's hash, and the number. The hash bits
//! determine the shard and the slot, so the table can move an entry without reading its name. A lookup reads a name
//! only if all 32 bits are equal. The entries of a shard are ordered by their hashes, so a lookup of a missing name
//! ends at the first higher hash. A full shard grows by an eighth. So in a growing shard, 3/4 to 7/8 of the slots are
//! in use, and an entry takes about 10 bytes.
//!
//! [`Index::hash`] is keyed (SipHash with a random key for each process), so no client can choose colliding names. The
//! tracker of expiring sets handles many keyspace events, and hashes the key of each. So the tracker uses a faster hash
//! with a random seed instead. Nothing that is stored, compared or replicated depends on a hash.

use crate::base::relocate::Mover;
use lazy_static::lazy_static;
use std::hash::{BuildHasher, RandomState};

lazy_static! {
    static ref KEYS: RandomState = RandomState::new();
}

/// The average number of entries per shard at which a shard is split.
#[cfg(not(test))]
const SHARD: usize = 1024;
#[cfg(test)]
const SHARD: usize = 128;

/// A slot of a shard: the 32-bit hash of a name in the upper half, the number of the name in the lower half.
type Slot = u64;
const VACANT: Slot = Slot::MAX;

fn slot_of(hash: u32, id: u32) -> Slot {
    u64::from(hash) << 32 | u64::from(id)
}

fn id_of(slot: Slot) -> u32 {
    slot as u32
}

fn hash_of(slot: Slot) -> u32 {
    (slot >> 32) as u32
}

#[derive(Clone, Debug, Default)]
struct Shard {
    /// The entries in the order of their hashes. An entry is at its [`home`](Shard::home), or after its home without a
    /// vacant slot in between. The last slot is vacant.
    slots: Vec<Slot>,
    used: u32,
    /// The number of slots that can be the [`home`](Shard::home) of an entry. The other slots follow these.
    homes: u32,
}

impl Shard {
    /// Returns the home of an entry: its preferred position.
    fn home(&self, slot: Slot) -> usize {
        ((u64::from(hash_of(slot)) * u64::from(self.homes)) >> 32) as usize
    }

    /// Searches from the entry's home to the first slot that is not lower than the entry, and returns the position of
    /// this slot. The entry is at this position, or must be inserted there. A vacant slot is higher than every entry.
    fn position(&self, slot: Slot) -> usize {
        let mut at = self.home(slot);
        while self.slots[at] < slot {
            at += 1; // ends at the last slot
        }
        at
    }

    /// Returns the position of the entry with this hash for which `is` returns true.
    fn find(&self, hash: u32, is: impl FnMut(u32) -> bool) -> Option<usize> {
        let from = self.position(slot_of(hash, 0));
        let same = self.slots[from..].iter().take_while(|&&slot| hash_of(slot) == hash && slot != VACANT);
        Some(from + same.map(|&slot| id_of(slot)).position(is)?)
    }

    fn put(&mut self, slot: Slot) {
        let at = self.position(slot);
        let vacant = self.slots[at..].iter().position(|&slot| slot == VACANT).map_or(at, |behind| at + behind);
        self.slots.copy_within(at..vacant, at + 1);
        self.slots[at] = slot;
        self.used += 1;
        if vacant + 1 == self.slots.len() {
            self.push(VACANT);
        }
    }

    fn push(&mut self, slot: Slot) {
        self.slots.reserve_exact(1);
        self.slots.push(slot);
    }

    /// Removes the entry at `at`. Closes the gap: moves the next entries that are not at their homes.
    fn take(&mut self, at: usize) {
        let mut last = at;
        while self.slots[last + 1] != VACANT && self.home(self.slots[last + 1]) <= last {
            last += 1;
        }
        self.slots.copy_within(at + 1..=last, at);
        self.slots[last] = VACANT;
        self.used -= 1;
    }

    /// Returns the number of slots for a new shard with this many entries, including room for growth.
    fn room_for(entries: usize) -> usize {
        entries + entries / 4 + 2
    }

    /// Builds a shard. The entries must be in the order of their hashes, and fewer than `capacity`.
    fn build(capacity: usize, entries: impl IntoIterator<Item = Slot>) -> Shard {
        let mut shard = Shard { slots: Vec::with_capacity(capacity), used: 0, homes: capacity as u32 - 1 };
        for slot in entries {
            shard.slots.resize(shard.home(slot).max(shard.slots.len()), VACANT);
            shard.push(slot);
            shard.used += 1;
        }
        shard.slots.resize((capacity - 1).max(shard.slots.len()), VACANT);
        shard.push(VACANT);
        shard
    }

    fn resize(&mut self, capacity: usize) {
        *self = Shard::build(capacity, self.entries());
    }

    fn entries(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().copied().filter(|slot| *slot != VACANT)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Empty if the table has no entries.
    shards: Vec<Shard>,
    len: usize,
}

impl Index {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of steps in which [`relocate`](Self::relocate) moves the entire table.
    pub fn relocations(&self) -> usize {
        self.shards.len()
    }

    pub fn relocate(&mut self, step: usize, mover: &mut impl Mover) {
        mover.vec(&mut self.shards[step].slots);
    }

    /// Returns the hash of a name as a slot stores it: the lower 32 bits of the keyed hash.
    pub fn hash(name: &[u8]) -> u32 {
        KEYS.hash_one(name) as u32
    }

    /// Returns the number of the shard that stores the entries with this hash (linear hashing). With at least `2^k` and
    /// fewer than `2^(k+1)` shards, this number is the low `k + 1` bits of the hash. If that shard does not exist yet,
    /// the number is the low `k` bits. At least one shard must exist.
    fn shard(&self, hash: u32) -> usize {
        let hash = hash as usize;
        let round = 1 << self.shards.len().ilog2();
        let wide = hash & (2 * round - 1);
        if wide < self.shards.len() { wide } else { hash & (round - 1) }
    }

    /// Returns the number of the entry with this hash for which `is` returns true. O(1).
    pub fn find(&self, hash: u32, is: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let shard = &self.shards[self.shard(hash)];
        shard.find(hash, is).map(|at| id_of(shard.slots[at]))
    }

    /// Adds an entry that is not in the table. O(1) amortized. May rebuild a shard.
    pub fn insert(&mut self, hash: u32, id: u32) {
        if self.shards.is_empty() {
            self.shards.reserve_exact(1); // a push would reserve four
            self.shards.push(Shard::default());
        } else if self.len >= self.shards.len() * SHARD {
            self.split();
        }
        let at = self.shard(hash);
        let shard = &mut self.shards[at];
        let (used, slots) = (shard.used as usize + 1, shard.slots.len());
        if used * 8 > slots * 7 {
            shard.resize((slots + slots / 8).max(Shard::room_for(used)));
        }
        shard.put(slot_of(hash, id));
        self.len += 1;
    }

    pub fn remove(&mut self, hash: u32, id: u32) {
        if self.is_empty() {
            return;
        }
        let at = self.shard(hash);
        let shard = &mut self.shards[at];
        let Some(slot) = shard.find(hash, |other| other == id) else { return };
        shard.take(slot);
        self.len -= 1;
        let room = Shard::room_for(shard.used as usize);
        if shard.slots.len() > 2 * room {
            shard.resize(room);
        }
        if self.len * 2 <= (self.shards.len() - 1) * SHARD {
            self.merge();
        }
    }

    /// Replaces the number `from` of an entry with `to`. Does nothing if there is no such entry. O(1).
    pub fn renumber(&mut self, hash: u32, from: u32, to: u32) {
        if self.is_empty() {
            return;
        }
        let at = self.shard(hash);
        let shard = &mut self.shards[at];
        if let Some(at) = shard.find(hash, |id| id == from) {
            shard.slots[at] = slot_of(hash, to);
        }
    }

    /// Splits a shard in two. The shards are split one after another, in the order of their numbers.
    fn split(&mut self) {
        let round = 1 << self.shards.len().ilog2();
        let from = self.shards.len() - round;
        let goes = |slot: &Slot| hash_of(*slot) as usize & round != 0;
        let (leaves, stays): (Vec<Slot>, Vec<Slot>) = self.shards[from].entries().partition(goes);
        self.shards[from] = Shard::build(Shard::room_for(stays.len()), stays);
        self.shards.push(Shard::build(Shard::room_for(leaves.len()), leaves));
    }

    /// Undoes the last split: moves the entries of the last shard back to the shard from which it was split. If there
    /// is only one shard, removes it.
    fn merge(&mut self) {
        let Some(gone) = self.shards.pop() else { return };
        let last = self.shards.len();
        if last > 0 {
            let into = &mut self.shards[last - (1 << last.ilog2())];
            let mut entries: Vec<Slot> = into.entries().chain(gone.entries()).collect();
            entries.sort_unstable();
            *into = Shard::build(Shard::room_for(entries.len()), entries);
        }
        if self.shards.capacity() / 4 >= last {
            self.shards.shrink_to(last);
        }
    }

    /// Returns the allocated bytes. O(shards).
    pub fn bytes(&self) -> usize {
        let slots = self.shards.iter().map(|shard| shard.slots.capacity()).sum::<usize>();
        slots * size_of::<Slot>() + self.shards.capacity() * size_of::<Shard>()
    }
}

#[cfg(test)]
mod tests;
