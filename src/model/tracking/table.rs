//! The sets of one database, by name and by due time.
//!
//! This table uses linear hashing (W. Litwin, "Linear hashing: a new tool for file and table addressing", 1980). The
//! table grows and shrinks by one bucket at a time, so no call moves more than a few dozen sets. A bucket stores the
//! names of its sets in one allocation. So a set takes about 25 bytes in addition to its name, and a table of a million
//! sets is freed quickly.
//!
//! Each bucket stores the earliest due time of its sets. An ordered set of these times finds the bucket that is due
//! first.

use crate::model::time::Millis;
use hashbrown::DefaultHashBuilder;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::ops::BitXor;

/// The due time of a set that is never due.
pub const NEVER: Millis = Millis::MAX;

/// The average number of sets per bucket above which the table grows.
const FULL: usize = 32;

/// The average number of sets per bucket below which the table shrinks.
const SPARSE: usize = 12;

/// The minimum growth of a bucket's slots.
const LEAST: usize = 4;

/// The minimum growth of a bucket's names, in bytes.
const LEAST_NAMES: usize = 64;

/// The number of buckets per allocation. The list of allocations can grow without moving the buckets.
const PIECE: usize = 256;

/// The maximum number of buckets that are read to count the due sets. This takes some tens of µs.
const SAMPLE: usize = 256;

#[derive(Clone, Copy)]
struct TrackedSet {
    due: Millis,
    /// The length of the set's name. The names are stored in the order of the slots.
    length: u32,
    /// A part of the name's hash. A lookup compares names only if their prints are equal.
    print: u16,
}

#[derive(Clone, Copy)]
struct At {
    slot: usize,
    name: usize,
}

struct Bucket {
    /// A Bloom filter over the prints of the sets. Most events are about keys that are not expiring sets. For such a
    /// key, a lookup usually reads only this filter.
    prints: [u64; 4],
    sets: Vec<TrackedSet>,
    names: Vec<u8>,
    /// The earliest due time of all slots.
    first: Millis,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket::with_room(0, 0)
    }
}

impl Bucket {
    fn with_room(slots: usize, names: usize) -> Bucket {
        Bucket { prints: [0; 4], sets: Vec::with_capacity(slots), names: Vec::with_capacity(names), first: NEVER }
    }

    /// Creates a bucket with these sets, and with some spare capacity.
    fn of<'n>(sets: impl Iterator<Item = (TrackedSet, &'n [u8])> + Clone) -> Bucket {
        let (slots, names) = sets.clone().fold((0, 0), |(slots, names), (_, name)| (slots + 1, names + name.len()));
        let mut bucket = Bucket::with_room(slots + slots / 8, names + names / 8);
        sets.for_each(|(slot, name)| bucket.push(slot, name));
        bucket
    }

    /// Returns a print's place in the Bloom filter: the index of the word, and the mask of the bit.
    fn bit(print: u16) -> (usize, u64) {
        (usize::from(print >> 6 & 3), 1 << (print & 63))
    }

    /// Whether a set with this print may be in the bucket. False positives are about one in eight.
    fn may_hold(&self, print: u16) -> bool {
        let (word, bit) = Bucket::bit(print);
        self.prints[word] & bit != 0
    }

    fn note_print(&mut self, print: u16) {
        let (word, bit) = Bucket::bit(print);
        self.prints[word] |= bit;
    }

    fn find(&self, print: u16, name: &[u8]) -> Option<At> {
        if !self.may_hold(print) {
            return None;
        }
        let mut start = 0;
        for (at, slot) in self.sets.iter().enumerate() {
            let length = slot.length as usize;
            if slot.print == print && length == name.len() && self.names[start..start + length] == *name {
                return Some(At { slot: at, name: start });
            }
            start += length;
        }
        None
    }

    fn each(&self) -> impl Iterator<Item = (TrackedSet, &[u8])> + Clone {
        let mut rest = &*self.names;
        self.sets.iter().map(move |slot| {
            let (name, behind) = rest.split_at(slot.length as usize);
            rest = behind;
            (*slot, name)
        })
    }

    fn push(&mut self, set: TrackedSet, name: &[u8]) {
        // Grows by a quarter. Doubling would waste a third of the memory on average.
        if self.sets.len() == self.sets.capacity() {
            self.sets.reserve_exact((self.sets.len() / 4).max(LEAST));
        }
        if self.names.capacity() - self.names.len() < name.len() {
            self.names.reserve_exact(name.len() + (self.names.len() / 4).max(LEAST_NAMES));
        }
        self.note_print(set.print);
        self.sets.push(set);
        self.names.extend_from_slice(name);
        self.first = self.first.min(set.due);
    }

    fn remove(&mut self, at: At) {
        let slot = self.sets.remove(at.slot);
        self.prints = [0; 4];
        for at in 0..self.sets.len() {
            self.note_print(self.sets[at].print);
        }
        self.names.drain(at.name..at.name + slot.length as usize);
        if self.sets.len() < self.sets.capacity() / 2 {
            self.sets.shrink_to_fit();
            self.names.shrink_to_fit();
        }
        if slot.due == self.first {
            self.look();
        }
    }

    fn set_due(&mut self, at: usize, due: Millis) {
        let before = std::mem::replace(&mut self.sets[at].due, due);
        if due < self.first {
            self.first = due;
        } else if before == self.first && due != before {
            self.look();
        }
    }

    fn look(&mut self) {
        self.first = self.sets.iter().map(|slot| slot.due).min().unwrap_or(NEVER);
    }
}

pub struct Table {
    pieces: Vec<Vec<Bucket>>,
    buckets: usize,
    len: usize,
    /// The buckets with a due set, by their earliest due time.
    order: BTreeSet<(Millis, usize)>,
    hasher: DefaultHashBuilder,
    /// The next bucket of the walk in progress.
    walk: Option<usize>,
}

impl Default for Table {
    fn default() -> Table {
        let mut table = Table {
            pieces: Vec::new(),
            buckets: 0,
            len: 0,
            order: BTreeSet::new(),
            hasher: DefaultHashBuilder::default(),
            walk: None,
        };
        table.add_bucket();
        table
    }
}

impl Table {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, name: &[u8]) -> Option<Millis> {
        let (bucket, print) = self.address(name);
        let bucket = self.bucket(bucket);
        Some(bucket.sets[bucket.find(print, name)?.slot].due)
    }

    /// Sets the due time of a set, and adds the set if it is new.
    pub fn put(&mut self, name: &[u8], due: Millis) {
        self.note(name, due, |bucket, slot| bucket.set_due(slot, due));
    }

    /// Adds a set if it is new. Returns whether it was.
    pub fn put_new(&mut self, name: &[u8], due: Millis) -> bool {
        self.note(name, due, |_, _| ())
    }

    /// Prefetches the buckets of these names. The processor loads many buckets in parallel, while separate lookups
    /// would each wait for memory. In a large table, this wait is most of the cost of [`put_new`](Table::put_new).
    pub fn read_ahead<'n>(&self, names: impl Iterator<Item = &'n [u8]> + Clone) {
        let buckets = || names.clone().map(|name| self.bucket(self.address(name).0));
        black_box(buckets().map(|bucket| bucket.first ^ bucket.sets.len() as u64).fold(0, BitXor::bitxor));
        let ends = |bucket: &Bucket| {
            let (slot, byte) = (bucket.sets.last(), bucket.names.last());
            slot.map_or(0, |slot| slot.due) ^ byte.map_or(0, |&byte| u64::from(byte))
        };
        black_box(buckets().map(ends).fold(0, BitXor::bitxor));
    }

    /// Adds a set if it is new, and returns whether it was. For a present set, calls `change` with its bucket and slot.
    fn note(&mut self, name: &[u8], due: Millis, change: impl FnOnce(&mut Bucket, usize)) -> bool {
        let (at, print) = self.address(name);
        // The server does not accept longer names.
        let Ok(length) = u32::try_from(name.len()) else { return false };
        let is_new = self.change(at, |bucket| match bucket.find(print, name) {
            Some(At { slot, .. }) => {
                change(bucket, slot);
                false
            }
            None => {
                bucket.push(TrackedSet { due, length, print }, name);
                true
            }
        });
        if is_new {
            self.len += 1;
            self.grow();
        }
        is_new
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<Millis> {
        let (at, print) = self.address(name);
        let gone = self.change(at, |bucket| {
            let found = bucket.find(print, name)?;
            let due = bucket.sets[found.slot].due;
            bucket.remove(found);
            Some(due)
        })?;
        self.len -= 1;
        self.shrink();
        Some(gone)
    }

    pub fn next_due(&self) -> Option<Millis> {
        self.order.first().map(|&(due, _)| due)
    }

    /// Returns the earliest due time of the buckets whose sets are all due after `moment`.
    pub fn next_due_after(&self, moment: Millis) -> Option<Millis> {
        self.order.range((moment + 1, 0)..).next().map(|&(due, _)| due)
    }

    /// Returns the set that is due first.
    pub fn first(&self) -> Option<(&[u8], Millis)> {
        let &(due, bucket) = self.order.first()?;
        self.bucket(bucket).each().find(|(slot, _)| slot.due == due).map(|(_, name)| (name, due))
    }

    /// Returns the number of sets that are due at `now`. The number is exact if the due sets are in at most [`SAMPLE`]
    /// buckets. Otherwise it is estimated from [`SAMPLE`] buckets across the table. O(1).
    pub fn overdue(&self, now: Millis) -> usize {
        let due_in = |at: usize| self.bucket(at).sets.iter().filter(|slot| slot.due <= now).count();
        let mut buckets = self.order.range(..=(now, usize::MAX)).map(|&(_, bucket)| due_in(bucket));
        let counted = buckets.by_ref().take(SAMPLE).sum();
        if buckets.next().is_none() {
            return counted;
        }
        let sample = (0..self.buckets).step_by(self.buckets.div_ceil(SAMPLE));
        let size = sample.len();
        counted.max(sample.map(due_in).sum::<usize>() * self.buckets / size).min(self.len)
    }

    pub fn begin_walk(&mut self) {
        self.walk = Some(0);
    }

    pub fn is_walked(&self) -> bool {
        self.walk.is_some()
    }

    /// Returns the names in the next `most` buckets of the walk. A walk returns every set that stays in the table
    /// during the whole walk. During a walk, the table does not shrink, so sets move only to a new last bucket.
    pub fn walk_on(&mut self, most: usize) -> impl Iterator<Item = &[u8]> {
        let from = self.walk.unwrap_or(self.buckets);
        let to = from.saturating_add(most).min(self.buckets);
        self.walk = (to < self.buckets).then_some(to);
        (from..to).flat_map(|at| self.bucket(at).each().map(|(_, name)| name))
    }

    /// Removes some surplus buckets. Returns `false` if there are none.
    pub fn shrink_some(&mut self, most: usize) -> bool {
        (0..most).take_while(|_| self.shrink()).count() > 0
    }

    /// Frees some buckets of a table that is no longer used. Returns `false` when all are freed.
    pub fn free_some(&mut self, most: usize) -> bool {
        self.order.clear();
        for _ in 0..most {
            let Some(piece) = self.pieces.last_mut() else { return false };
            if piece.pop().is_none() {
                self.pieces.pop();
            }
        }
        true
    }

    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Returns the bucket of a hash. If `2^k` is the number of buckets, rounded up to a power of two, the lowest `k`
    /// bits of the hash are the number of the bucket. If this bucket does not exist yet, its sets are in the bucket
    /// whose number is `2^(k-1)` lower.
    fn place(&self, hash: u64) -> usize {
        let wide = self.buckets.next_power_of_two();
        let at = usize::try_from(hash & (wide as u64 - 1)).unwrap_or(0);
        if at < self.buckets { at } else { at - wide / 2 }
    }

    fn address(&self, name: &[u8]) -> (usize, u16) {
        let hash = self.hash(name);
        (self.place(hash), print(hash))
    }

    fn bucket(&self, at: usize) -> &Bucket {
        &self.pieces[at / PIECE][at % PIECE]
    }

    /// Changes a bucket and updates its entry in `order`.
    fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut Bucket) -> R) -> R {
        let bucket = &mut self.pieces[at / PIECE][at % PIECE];
        let before = bucket.first;
        let result = change(bucket);
        let after = bucket.first;
        if before != after {
            self.order.remove(&(before, at));
            if after != NEVER {
                self.order.insert((after, at));
            }
        }
        result
    }

    fn add_bucket(&mut self) {
        if self.buckets.is_multiple_of(PIECE) {
            self.pieces.push(Vec::new());
        }
        if let Some(piece) = self.pieces.last_mut() {
            // Grows the allocation step by step, so that a server with few sets allocates few buckets.
            if piece.len() == piece.capacity() {
                piece.reserve_exact(piece.len().clamp(1, PIECE - piece.len()));
            }
            piece.push(Bucket::default());
            self.buckets += 1;
        }
    }

    fn grow(&mut self) {
        if self.len <= self.buckets * FULL {
            return;
        }
        self.add_bucket();
        let new = self.buckets - 1;
        self.split(new - self.buckets.next_power_of_two() / 2, new);
    }

    fn split(&mut self, old: usize, new: usize) {
        let both = self.take(old);
        let goes: Vec<bool> = both.each().map(|(_, name)| self.place(self.hash(name)) == new).collect();
        let part = |which: bool| {
            let sets = both.each().zip(&goes).filter(move |(_, goes)| **goes == which);
            Bucket::of(sets.map(|(set, _)| set))
        };
        let (stay, go) = (part(false), part(true));
        self.change(old, |bucket| *bucket = stay);
        self.change(new, |bucket| *bucket = go);
    }

    fn shrink(&mut self) -> bool {
        if self.walk.is_some() || self.buckets == 1 || self.len >= (self.buckets - 1) * SPARSE {
            return false;
        }
        let last = self.buckets - 1;
        let merged = last - self.buckets.next_power_of_two() / 2;
        let gone = self.take(last);
        self.buckets -= 1;
        if let Some(piece) = self.pieces.last_mut() {
            piece.pop();
            if piece.is_empty() {
                self.pieces.pop();
            }
        }
        self.change(merged, |bucket| gone.each().for_each(|(slot, name)| bucket.push(slot, name)));
        true
    }

    fn take(&mut self, at: usize) -> Bucket {
        self.change(at, std::mem::take)
    }
}

/// Returns the print, from bits of the hash that do not select the bucket.
fn print(hash: u64) -> u16 {
    u16::try_from(hash >> 48).unwrap_or(0)
}

#[cfg(test)]
impl Table {
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flatten().flat_map(|bucket| bucket.each().map(|(_, name)| name))
    }

    /// Whether a lookup of this name has to read more than the Bloom filter.
    pub fn looks_closer(&self, name: &[u8]) -> bool {
        let (bucket, print) = self.address(name);
        self.bucket(bucket).may_hold(print)
    }

    pub fn bucket_count(&self) -> usize {
        self.buckets
    }

    pub fn longest_bucket(&self) -> usize {
        self.pieces.iter().flatten().map(|bucket| bucket.sets.len()).max().unwrap_or(0)
    }

    /// Returns the allocated bytes, with a high estimate for the ordered set.
    pub fn bytes(&self) -> usize {
        use std::mem::size_of;
        let in_bucket = |bucket: &Bucket| bucket.sets.capacity() * size_of::<TrackedSet>() + bucket.names.capacity();
        let in_piece =
            |piece: &Vec<Bucket>| piece.capacity() * size_of::<Bucket>() + piece.iter().map(in_bucket).sum::<usize>();
        self.pieces.iter().map(in_piece).sum::<usize>() + 40 * self.order.len()
    }
}
