//! The sets of one database: by name, and by the moment of their next visit.
//!
//! Linear hashing (W. Litwin, "Linear hashing: a new tool for file and table addressing", 1980): the table grows and shrinks
//! by one bucket at a time, so that no call ever moves more than a few dozen sets. A bucket keeps the names of its sets in one
//! piece of memory, which makes a set cost some 25 bytes beyond its name, and a table of a million sets quick to drop.
//!
//! What is due next is known bucket by bucket: each knows its own earliest moment, and an ordered set holds these.

use crate::model::time::Millis;
use hashbrown::DefaultHashBuilder;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::ops::BitXor;

/// A visit that is never due.
pub const NEVER: Millis = Millis::MAX;

/// Sets per bucket, on average, from which on the table grows.
const FULL: usize = 32;

/// Sets per bucket, on average, below which it shrinks.
const SPARSE: usize = 12;

/// Sets for which a bucket takes memory, at the least.
const LEAST: usize = 4;

/// Bytes for further names, at the least.
const LEAST_NAMES: usize = 64;

/// Buckets per piece of memory: so their list can grow without being moved as a whole.
const PIECE: usize = 256;

/// Buckets that are looked through at the most to say how many sets are due: some ten µs worth.
const SAMPLE: usize = 256;

/// What is known of a set's marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Holds,
    /// Plain commands may have changed the set.
    Touched,
    /// The marker is off, and stays so: all members have been dead for so long that the TTL would be a moment in the past.
    GivenUp,
}

#[derive(Clone, Copy)]
struct Slot {
    due: Millis,
    /// Bytes of its name, which stands behind those of the slots before.
    length: u32,
    /// A part of the name's hash, so that names are compared only where they are equal almost for certain.
    print: u16,
    mark: Mark,
}

/// The place of a set within its bucket.
#[derive(Clone, Copy)]
struct At {
    slot: usize,
    name: usize,
}

struct Bucket {
    /// A bit for the print of each set, so that of a name that is not here hardly more than this line of memory is read: most events
    /// are about keys that are no sets.
    prints: [u64; 4],
    slots: Vec<Slot>,
    names: Vec<u8>,
    /// The earliest moment of all slots.
    first: Millis,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket::with_room(0, 0)
    }
}

impl Bucket {
    fn with_room(slots: usize, names: usize) -> Bucket {
        Bucket { prints: [0; 4], slots: Vec::with_capacity(slots), names: Vec::with_capacity(names), first: NEVER }
    }

    /// Those of some sets, and a little more.
    fn of<'n>(sets: impl Iterator<Item = (Slot, &'n [u8])> + Clone) -> Bucket {
        let (slots, names) = sets.clone().fold((0, 0), |(slots, names), (_, name)| (slots + 1, names + name.len()));
        let mut bucket = Bucket::with_room(slots + slots / 8, names + names / 8);
        sets.for_each(|(slot, name)| bucket.push(slot, name));
        bucket
    }

    /// The word and the bit of a print.
    fn bit(print: u16) -> (usize, u64) {
        (usize::from(print >> 6 & 3), 1 << (print & 63))
    }

    /// Whether a set of this print may be here. Of those that are not, one in eight or so may be all the same.
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
        for (at, slot) in self.slots.iter().enumerate() {
            let length = slot.length as usize;
            if slot.print == print && length == name.len() && self.names[start..start + length] == *name {
                return Some(At { slot: at, name: start });
            }
            start += length;
        }
        None
    }

    fn each(&self) -> impl Iterator<Item = (Slot, &[u8])> + Clone {
        let mut rest = &*self.names;
        self.slots.iter().map(move |slot| {
            let (name, behind) = rest.split_at(slot.length as usize);
            rest = behind;
            (*slot, name)
        })
    }

    fn push(&mut self, slot: Slot, name: &[u8]) {
        // By a quarter: doubling would waste a third of the memory on average.
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact((self.slots.len() / 4).max(LEAST));
        }
        if self.names.capacity() - self.names.len() < name.len() {
            self.names.reserve_exact(name.len() + (self.names.len() / 4).max(LEAST_NAMES));
        }
        self.note_print(slot.print);
        self.slots.push(slot);
        self.names.extend_from_slice(name);
        self.first = self.first.min(slot.due);
    }

    fn remove(&mut self, at: At) {
        let slot = self.slots.remove(at.slot);
        self.prints = [0; 4];
        for at in 0..self.slots.len() {
            self.note_print(self.slots[at].print);
        }
        self.names.drain(at.name..at.name + slot.length as usize);
        if self.slots.len() < self.slots.capacity() / 2 {
            self.slots.shrink_to_fit();
            self.names.shrink_to_fit();
        }
        if slot.due == self.first {
            self.look();
        }
    }

    fn set_due(&mut self, at: usize, due: Millis) {
        let before = std::mem::replace(&mut self.slots[at].due, due);
        if due < self.first {
            self.first = due;
        } else if before == self.first && due != before {
            self.look();
        }
    }

    fn look(&mut self) {
        self.first = self.slots.iter().map(|slot| slot.due).min().unwrap_or(NEVER);
    }
}

/// What a table says of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub due: Millis,
    pub mark: Mark,
}

pub struct Table {
    pieces: Vec<Vec<Bucket>>,
    buckets: usize,
    len: usize,
    /// The buckets with something due at some time, by their earliest moment.
    order: BTreeSet<(Millis, usize)>,
    hasher: DefaultHashBuilder,
    /// The bucket that a walk through all of them comes to next.
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

    pub fn get(&self, name: &[u8]) -> Option<Known> {
        let (bucket, print) = self.address(name);
        let bucket = self.bucket(bucket);
        let slot = bucket.slots[bucket.find(print, name)?.slot];
        Some(Known { due: slot.due, mark: slot.mark })
    }

    /// Notes what is known of a set, be it new or not.
    pub fn put(&mut self, name: &[u8], Known { due, mark }: Known) {
        self.note(name, Known { due, mark }, |bucket, slot| {
            bucket.slots[slot].mark = mark;
            bucket.set_due(slot, due);
        });
    }

    /// Notes what is known of a set that is new; `false` if it is not.
    pub fn put_new(&mut self, name: &[u8], known: Known) -> bool {
        self.note(name, known, |_, _| ())
    }

    /// Reads what is about to be read for these names. Of many, the processor reads it at once; one after the other, it would wait
    /// for its memory each time, which is most of what [`put_new`](Table::put_new) takes in a large table.
    pub fn read_ahead<'n>(&self, names: impl Iterator<Item = &'n [u8]> + Clone) {
        let buckets = || names.clone().map(|name| self.bucket(self.address(name).0));
        black_box(buckets().map(|bucket| bucket.first ^ bucket.slots.len() as u64).fold(0, BitXor::bitxor));
        let ends = |bucket: &Bucket| {
            let (slot, byte) = (bucket.slots.last(), bucket.names.last());
            slot.map_or(0, |slot| slot.due) ^ byte.map_or(0, |&byte| u64::from(byte))
        };
        black_box(buckets().map(ends).fold(0, BitXor::bitxor));
    }

    /// Notes what is known of a new set; `true` if it is one. Of another one, `change` is shown the bucket and the place in it.
    fn note(&mut self, name: &[u8], Known { due, mark }: Known, change: impl FnOnce(&mut Bucket, usize)) -> bool {
        let (at, print) = self.address(name);
        // A longer name is none that the server takes.
        let Ok(length) = u32::try_from(name.len()) else { return false };
        let is_new = self.change(at, |bucket| match bucket.find(print, name) {
            Some(At { slot, .. }) => {
                change(bucket, slot);
                false
            }
            None => {
                bucket.push(Slot { due, length, print, mark }, name);
                true
            }
        });
        if is_new {
            self.len += 1;
            self.grow();
        }
        is_new
    }

    /// What was known of it; `None` if it was not there.
    pub fn remove(&mut self, name: &[u8]) -> Option<Known> {
        let (at, print) = self.address(name);
        let gone = self.change(at, |bucket| {
            let found = bucket.find(print, name)?;
            let Slot { due, mark, .. } = bucket.slots[found.slot];
            bucket.remove(found);
            Some(Known { due, mark })
        })?;
        self.len -= 1;
        self.shrink();
        Some(gone)
    }

    /// The moment of the earliest visit of any set.
    pub fn next_due(&self) -> Option<Millis> {
        self.order.first().map(|&(due, _)| due)
    }

    /// The same, buckets left out that hold one due at `moment` or before.
    pub fn next_due_after(&self, moment: Millis) -> Option<Millis> {
        self.order.range((moment + 1, 0)..).next().map(|&(due, _)| due)
    }

    /// The set whose visit is the earliest.
    pub fn first(&self) -> Option<(&[u8], Known)> {
        let &(due, bucket) = self.order.first()?;
        let found = self.bucket(bucket).each().find(|(slot, _)| slot.due == due);
        found.map(|(Slot { due, mark, .. }, name)| (name, Known { due, mark }))
    }

    /// How many sets are due at `now`: exactly, while they lie in a few hundred buckets; of more, an estimate from as many buckets all
    /// over the table, and never fewer than were counted. O(1).
    pub fn overdue(&self, now: Millis) -> usize {
        let due_in = |at: usize| self.bucket(at).slots.iter().filter(|slot| slot.due <= now).count();
        let mut buckets = self.order.range(..=(now, usize::MAX)).map(|&(_, bucket)| due_in(bucket));
        let counted = buckets.by_ref().take(SAMPLE).sum();
        if buckets.next().is_none() {
            return counted;
        }
        let sample = (0..self.buckets).step_by(self.buckets.div_ceil(SAMPLE));
        let size = sample.len();
        counted.max(sample.map(due_in).sum::<usize>() * self.buckets / size).min(self.len)
    }

    /// Begins a walk through all buckets, which [`walk_on`](Table::walk_on) continues.
    pub fn begin_walk(&mut self) {
        self.walk = Some(0);
    }

    pub fn is_walked(&self) -> bool {
        self.walk.is_some()
    }

    /// The names in the next buckets of the walk, `most` buckets at the most. Every set that was there when the walk began, and
    /// still is, comes up: sets move to the last bucket only, since the table does not shrink meanwhile.
    pub fn walk_on(&mut self, most: usize) -> impl Iterator<Item = &[u8]> {
        let from = self.walk.unwrap_or(self.buckets);
        let to = from.saturating_add(most).min(self.buckets);
        self.walk = (to < self.buckets).then_some(to);
        (from..to).flat_map(|at| self.bucket(at).each().map(|(_, name)| name))
    }

    /// Gives back some buckets of which there are too many; `false` when there are not.
    pub fn shrink_some(&mut self, most: usize) -> bool {
        (0..most).take_while(|_| self.shrink()).count() > 0
    }

    /// Frees some buckets of a table that is not used any more; `false` once there are none left.
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

    /// The bucket of a hash: by as many of its low bits as there are buckets for; those behind the last one are not split off
    /// yet.
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

    /// Changes a bucket, and keeps its place in the order.
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
            // A server with a few sets only keeps a few buckets.
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

    /// Moves the sets that belong to a new bucket there, from the one bucket that had them so far.
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

/// From other bits of the hash than its bucket.
fn print(hash: u64) -> u16 {
    u16::try_from(hash >> 48).unwrap_or(0)
}

#[cfg(test)]
impl Table {
    /// All names. O(number of sets).
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flatten().flat_map(|bucket| bucket.each().map(|(_, name)| name))
    }

    /// Whether more than one line of memory has to be read to say whether a set is here.
    pub fn looks_closer(&self, name: &[u8]) -> bool {
        let (bucket, print) = self.address(name);
        self.bucket(bucket).may_hold(print)
    }

    pub fn bucket_count(&self) -> usize {
        self.buckets
    }

    pub fn longest_bucket(&self) -> usize {
        self.pieces.iter().flatten().map(|bucket| bucket.slots.len()).max().unwrap_or(0)
    }

    /// What it has asked the allocator for; of the ordered set, an estimate on the high side.
    pub fn bytes(&self) -> usize {
        use std::mem::size_of;
        let in_bucket = |bucket: &Bucket| bucket.slots.capacity() * size_of::<Slot>() + bucket.names.capacity();
        let in_piece =
            |piece: &Vec<Bucket>| piece.capacity() * size_of::<Bucket>() + piece.iter().map(in_bucket).sum::<usize>();
        self.pieces.iter().map(in_piece).sum::<usize>() + 40 * self.order.len()
    }
}
