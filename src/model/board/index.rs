//! From a member's name to its id: a hash table that never stops to rehash.
//!
//! Linear hashing (Litwin 1980) over *shards* of about a thousand members: when the shards are full on average, the
//! next one in turn splits in two, so growth costs a few microseconds at a time instead of one rehash of everything.
//! A shard is an open-addressing table of 8-byte slots, 32 bits of the hash next to the id. These bits say in which
//! shard and where in it an entry belongs, so moving entries never reads a name; and a lookup reads a name only when
//! all of them agree. A shard grows by an eighth, so between 3/4 and 7/8 of the slots are in use: about 10 bytes a
//! member. The hash is keyed (SipHash, random for each board), so nobody can choose names that collide.

use std::hash::{BuildHasher, RandomState};

use crate::model::chunks::NIL;
use crate::model::relocate::Mover;

/// Members a shard has on average when another is split.
#[cfg(not(test))]
const SHARD: usize = 1024;
#[cfg(test)]
const SHARD: usize = 8;

/// A slot: the hash in the upper half, the id in the lower.
type Slot = u64;
const VACANT: Slot = NIL as u64;

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
    slots: Vec<Slot>,
    used: usize,
}

impl Shard {
    /// Where an entry belongs: the hash, mixed so that the bits its shard has in common do not matter, scaled to
    /// the number of slots.
    fn home(&self, hash: u32) -> usize {
        let mixed = hash.wrapping_mul(0x9E37_79B1);
        ((u64::from(mixed) * self.slots.len() as u64) >> 32) as usize
    }

    /// The slot of the entry with that hash which `is` accepts.
    fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == VACANT {
                return None; // there always is one: a shard is at most 7/8 full
            }
            if hash_of(slot) == hash && is(id_of(slot)) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Adds an entry; a vacant slot must be left.
    fn put(&mut self, slot: Slot) {
        let mut at = self.home(hash_of(slot));
        while self.slots[at] != VACANT {
            at = self.after(at);
        }
        self.slots[at] = slot;
        self.used += 1;
    }

    /// Removes the entry at `hole` and moves later ones up, so that no mark of it stays behind.
    fn take(&mut self, mut hole: usize) {
        let len = self.slots.len();
        let mut at = hole;
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot == VACANT {
                break;
            }
            // It may fill the hole unless that lies before its home, going round.
            let home = self.home(hash_of(slot));
            if (at + len - home) % len >= (at + len - hole) % len {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = VACANT;
        self.used -= 1;
    }

    /// The slots that `entries` entries should have: an eighth and a little more than they fill at most.
    fn room_for(entries: usize) -> usize {
        entries + entries / 4 + 4
    }

    fn rebuild(&mut self, capacity: usize) {
        let old = std::mem::replace(&mut self.slots, vec![VACANT; capacity]);
        self.used = 0;
        for slot in old {
            if slot != VACANT {
                self.put(slot);
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Index {
    shards: Vec<Shard>,
    len: usize,
    keys: RandomState,
}

impl Index {
    /// Steps of [`relocate`](Self::relocate).
    pub(super) fn relocations(&self) -> usize {
        self.shards.len()
    }

    /// Has the memory of a shard moved.
    pub(super) fn relocate(&mut self, step: usize, mover: &mut impl Mover) {
        mover.vec(&mut self.shards[step].slots);
    }

    pub(super) fn new() -> Self {
        Index { shards: vec![Shard::default()], len: 0, keys: RandomState::new() }
    }

    /// The hash by which a name is filed here.
    pub(super) fn hash(&self, name: &[u8]) -> u32 {
        self.keys.hash_one(name) as u32
    }

    /// Linear hashing: with `2^k <= shards < 2^(k+1)`, the low k+1 bits if that shard exists already, else the low k.
    fn shard(&self, hash: u32) -> usize {
        let hash = hash as usize;
        let round = 1 << self.shards.len().ilog2();
        let wide = hash & (2 * round - 1);
        if wide < self.shards.len() { wide } else { hash & (round - 1) }
    }

    /// The id filed under `hash` that `is` recognises. O(1).
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let shard = &self.shards[self.shard(hash)];
        shard.find(hash, &mut is).map(|at| id_of(shard.slots[at]))
    }

    /// Files an id that is not filed yet. O(1) amortised, at worst one shard's rebuild.
    pub(super) fn insert(&mut self, hash: u32, id: u32) {
        if self.len >= self.shards.len() * SHARD {
            self.split();
        }
        let at = self.shard(hash);
        let shard = &mut self.shards[at];
        if (shard.used + 1) * 8 > shard.slots.len() * 7 {
            let slots = shard.slots.len();
            shard.rebuild((slots + slots / 8).max(Shard::room_for(shard.used + 1)));
        }
        shard.put(slot_of(hash, id));
        self.len += 1;
    }

    /// Forgets an id.
    pub(super) fn remove(&mut self, hash: u32, id: u32) {
        let at = self.shard(hash);
        let shard = &mut self.shards[at];
        let Some(slot) = shard.find(hash, |other| other == id) else { return };
        shard.take(slot);
        self.len -= 1;
        if self.len == 0 {
            self.shards = vec![Shard::default()];
        } else if shard.slots.len() > 2 * Shard::room_for(shard.used) {
            shard.rebuild(Shard::room_for(shard.used));
        }
    }

    /// Files under the id `to` what is filed under `from`. O(1).
    pub(super) fn renumber(&mut self, hash: u32, from: u32, to: u32) {
        let at = self.shard(hash);
        let shard = &mut self.shards[at];
        if let Some(at) = shard.find(hash, |id| id == from) {
            shard.slots[at] = slot_of(hash, to);
        }
    }

    /// Splits the next shard in turn.
    fn split(&mut self) {
        let round = 1 << self.shards.len().ilog2();
        let from = self.shards.len() - round;
        let old = std::mem::take(&mut self.shards[from]);
        let entries = || old.slots.iter().copied().filter(|s| *s != VACANT);
        let goes = |slot: &Slot| hash_of(*slot) as usize & round != 0;
        let leaving = entries().filter(goes).count();
        let mut halves =
            [old.used - leaving, leaving].map(|used| Shard { slots: vec![VACANT; Shard::room_for(used)], used: 0 });
        for slot in entries() {
            halves[usize::from(goes(&slot))].put(slot);
        }
        let [stays, leaves] = halves;
        self.shards[from] = stays;
        self.shards.push(leaves);
    }

    /// Allocations held.
    pub(super) fn allocations(&self) -> usize {
        self.shards.len()
    }

    /// Bytes held. O(number of shards), a thousandth of the members.
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|s| s.slots.capacity() * size_of::<Slot>()).sum::<usize>()
            + self.shards.capacity() * size_of::<Shard>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn finds_exactly_what_was_filed_through_growth_and_removal() {
        let mut index = Index::new();
        let mut filed = HashMap::new();
        let mut seed = 1u64;
        for round in 0..20_000u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let hash = ((seed >> 33) as u32) & 0xFFF; // few hashes: long runs and true collisions
            if seed >> 60 < 9 || filed.is_empty() {
                index.insert(hash, round);
                filed.insert(round, hash);
            } else {
                let (&id, &hash) = filed.iter().next().unwrap();
                index.remove(hash, id);
                filed.remove(&id);
            }
            if round % 500 == 0 {
                for (&id, &hash) in &filed {
                    assert_eq!(index.find(hash, |i| i == id), Some(id));
                }
            }
        }
        for (id, hash) in filed {
            assert_eq!(index.find(hash, |i| i == id), Some(id));
            index.remove(hash, id);
            assert_eq!(index.find(hash, |i| i == id), None);
        }
        assert_eq!(index.len, 0);
    }

    /// A shard is what one step moves at the most, when it grows or is split; and its memory follows what it holds.
    #[test]
    fn no_shard_grows_large_and_memory_follows_the_entries() {
        const ENTRIES: u32 = 20_000;
        let mut index = Index::new();
        let assert_fits = |index: &Index| {
            for shard in &index.shards {
                let (slots, used) = (shard.slots.len(), shard.used);
                assert!(used <= 8 * SHARD, "{used} entries in one shard of {SHARD} on average");
                assert!(slots <= 2 * Shard::room_for(used), "{slots} slots for {used}");
            }
        };
        for id in 0..ENTRIES {
            index.insert(spread(id), id);
            if id % 1000 == 0 {
                assert_fits(&index);
            }
        }
        assert!(index.allocations() >= ENTRIES as usize / SHARD);
        for id in 0..ENTRIES - 1 {
            index.remove(spread(id), id);
            if id % 1000 == 0 {
                assert_fits(&index);
            }
        }
        assert_eq!(index.find(spread(ENTRIES - 1), |id| id == ENTRIES - 1), Some(ENTRIES - 1));
    }

    /// Spread evenly, and always the same.
    fn spread(id: u32) -> u32 {
        let mixed = (id ^ id >> 16).wrapping_mul(0x45d9_f3b5);
        mixed ^ mixed >> 15
    }
}
