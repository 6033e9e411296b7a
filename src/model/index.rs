//! A hash table from names to numbers: of the members of a board, or of the jobs of a queue. The table never rehashes
//! all entries at once. The names are stored elsewhere.
//!
//! The table uses linear hashing (Litwin 1980) over *shards* of about a thousand entries. When the average number of
//! entries per shard reaches this number, the next shard in turn is split in two. So growth takes a few microseconds at
//! a time instead of one rehash of all entries.
//!
//! A shard is an open-addressing table of 8-byte slots: 32 bits of the hash, and the number. These bits determine the
//! shard and the slot, so the table can move an entry without reading its name. A lookup reads a name only if all 32
//! bits are equal. A shard grows by an eighth, so 3/4 to 7/8 of its slots are in use, and an entry takes about 10
//! bytes.
//!
//! The hash is keyed (SipHash with a random key for each table), so no client can choose colliding names. Nothing that
//! is stored, compared or replicated depends on the key.

use std::hash::{BuildHasher, RandomState};

use crate::model::chunks::NIL;
use crate::model::relocate::Mover;

/// The average number of entries per shard at which a shard is split.
#[cfg(not(test))]
const SHARD: usize = 1024;
#[cfg(test)]
const SHARD: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    /// The number. `NIL` in a vacant slot.
    id: u32,
}

const VACANT: Slot = Slot { hash: 0, id: NIL };

#[derive(Clone, Debug, Default)]
struct Shard {
    slots: Vec<Slot>,
    used: usize,
}

impl Shard {
    /// Returns the preferred slot of a hash. All hashes in a shard have some bits in common, so the hash is mixed
    /// first.
    fn home(&self, hash: u32) -> usize {
        let mixed = hash.wrapping_mul(0x9E37_79B1);
        ((u64::from(mixed) * self.slots.len() as u64) >> 32) as usize
    }

    /// Returns the position of the entry that has this hash and for whose number `is` returns true.
    fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot.id == NIL {
                return None; // the search ends here, because a shard is at most 7/8 full
            }
            if slot.hash == hash && is(slot.id) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Adds an entry. At least one slot must be vacant.
    fn put(&mut self, slot: Slot) {
        let mut at = self.home(slot.hash);
        while self.slots[at].id != NIL {
            at = self.after(at);
        }
        self.slots[at] = slot;
        self.used += 1;
    }

    /// Removes the entry at `hole` and moves later entries up, so that no gap remains.
    fn take(&mut self, mut hole: usize) {
        let len = self.slots.len();
        let mut at = hole;
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot.id == NIL {
                break;
            }
            // The entry may move into the hole, unless the hole precedes the entry's home (modulo the length).
            let home = self.home(slot.hash);
            if (at + len - home) % len >= (at + len - hole) % len {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = VACANT;
        self.used -= 1;
    }

    /// Returns the number of slots for this many entries, with room for growth.
    fn room_for(entries: usize) -> usize {
        entries + entries / 4 + 4
    }

    fn build(capacity: usize, entries: impl IntoIterator<Item = Slot>) -> Shard {
        let mut shard = Shard { slots: vec![VACANT; capacity], used: 0 };
        entries.into_iter().for_each(|slot| shard.put(slot));
        shard
    }

    fn resize(&mut self, capacity: usize) {
        *self = Shard::build(capacity, self.entries());
    }

    fn entries(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().copied().filter(|slot| slot.id != NIL)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Empty while there are no entries.
    shards: Vec<Shard>,
    len: usize,
    keys: RandomState,
}

impl Index {
    /// Returns the number of steps of [`relocate`](Self::relocate), which is the number of allocations.
    pub fn relocations(&self) -> usize {
        self.shards.len()
    }

    pub fn relocate(&mut self, step: usize, mover: &mut impl Mover) {
        mover.vec(&mut self.shards[step].slots);
    }

    pub fn hash(&self, name: &[u8]) -> u32 {
        self.keys.hash_one(name) as u32
    }

    /// Returns the shard of a hash. With `2^k <= shards < 2^(k+1)`, the shard is given by the low k+1 bits of the hash,
    /// or by the low k bits if that shard does not exist yet. At least one shard must exist.
    fn shard(&self, hash: u32) -> usize {
        let hash = hash as usize;
        let round = 1 << self.shards.len().ilog2();
        let wide = hash & (2 * round - 1);
        if wide < self.shards.len() { wide } else { hash & (round - 1) }
    }

    /// Returns the number of the entry with this hash for which `is` returns true. O(1).
    pub fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let shard = &self.shards[self.shard(hash)];
        shard.find(hash, &mut is).map(|at| shard.slots[at].id)
    }

    /// Adds an entry that is not in the table. O(1) amortized, at worst the rebuild of one shard.
    pub fn insert(&mut self, hash: u32, id: u32) {
        if self.shards.is_empty() {
            self.shards.push(Shard::default());
        } else if self.len >= self.shards.len() * SHARD {
            self.split();
        }
        let at = self.shard(hash);
        let shard = &mut self.shards[at];
        if (shard.used + 1) * 8 > shard.slots.len() * 7 {
            let slots = shard.slots.len();
            shard.resize((slots + slots / 8).max(Shard::room_for(shard.used + 1)));
        }
        shard.put(Slot { hash, id });
        self.len += 1;
    }

    pub fn remove(&mut self, hash: u32, id: u32) {
        if self.len == 0 {
            return;
        }
        let at = self.shard(hash);
        let shard = &mut self.shards[at];
        let Some(slot) = shard.find(hash, |other| other == id) else { return };
        shard.take(slot);
        self.len -= 1;
        if shard.slots.len() > 2 * Shard::room_for(shard.used) {
            shard.resize(Shard::room_for(shard.used));
        }
        if self.len * 2 <= (self.shards.len() - 1) * SHARD {
            self.merge();
        }
    }

    /// Replaces the number `from` of an entry with `to`. O(1).
    pub fn renumber(&mut self, hash: u32, from: u32, to: u32) {
        let at = self.shard(hash);
        let shard = &mut self.shards[at];
        if let Some(at) = shard.find(hash, |id| id == from) {
            shard.slots[at] = Slot { hash, id: to };
        }
    }

    /// Splits the next shard in turn.
    fn split(&mut self) {
        let round = 1 << self.shards.len().ilog2();
        let from = self.shards.len() - round;
        let goes = |slot: &Slot| slot.hash as usize & round != 0;
        let (leaves, stays): (Vec<Slot>, Vec<Slot>) = self.shards[from].entries().partition(goes);
        self.shards[from] = Shard::build(Shard::room_for(stays.len()), stays);
        self.shards.push(Shard::build(Shard::room_for(leaves.len()), leaves));
    }

    /// Undoes the last split. If there is only one shard, removes it.
    fn merge(&mut self) {
        let Some(gone) = self.shards.pop() else { return };
        let last = self.shards.len();
        if last > 0 {
            let into = &mut self.shards[last - (1 << last.ilog2())];
            *into = Shard::build(Shard::room_for(into.used + gone.used), into.entries().chain(gone.entries()));
        }
        if self.shards.capacity() / 4 >= last {
            self.shards.shrink_to(2 * last);
        }
    }

    /// Returns the allocated bytes. O(shards).
    pub fn bytes(&self) -> usize {
        let slots = self.shards.iter().map(|shard| shard.slots.len()).sum::<usize>();
        slots * size_of::<Slot>() + self.shards.capacity() * size_of::<Shard>()
    }
}

#[cfg(test)]
mod tests;
