//! The most denied keys: a sketch of bounded size ("Space-Saving": Metwally, Agrawal, El Abbadi, 2005).
//!
//! The sketch has [`CAPACITY`] counters. When all of them are in use, a denied key without a counter takes over the
//! counter with the lowest count, and continues from that count. So after `n` denials, each count is at least the key's
//! number of denials, and exceeds this number by at most `n / CAPACITY`. A key with more than `n / CAPACITY` denials
//! has a counter. Counting a denial takes one lookup by hash. In a full sketch, the search for the lowest count takes
//! O(1) on average.

use crate::base::time::Millis;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

pub const CAPACITY: usize = 256;

/// The maximum length of a key's name in bytes. Keys with longer names are not counted, so that the sketch's size is
/// bounded.
pub const MAX_NAME: usize = 1024;

/// The counter of a key. The key's number of denials is at most `count`, and at least `count - error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    pub database: i32,
    pub key: Vec<u8>,
    hash: u64,
    pub count: u64,
    /// How much of `count` may belong to other keys: the value that the counter had when this key took it over from
    /// another key. 0 if the counter was new.
    pub error: u64,
    /// When the key got its counter.
    pub since: Millis,
}

pub struct Sketch {
    counters: Vec<Counter>,
    places: HashTable<usize>,
    hasher: DefaultHashBuilder,
    /// A lower bound of all counts. The lowest count may be higher.
    least: u64,
    /// The index from which the search for the lowest count continues.
    cursor: usize,
}

impl Sketch {
    pub fn new() -> Sketch {
        Sketch {
            counters: Vec::new(),
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            least: 0,
            cursor: 0,
        }
    }

    pub fn add(&mut self, database: i32, key: &[u8], now: Millis) {
        if key.len() > MAX_NAME {
            return;
        }
        let hash = self.hasher.hash_one((database, key));
        let counters = &mut self.counters;
        if let Some(&place) = self.places.find(hash, |&place| counters[place].is(database, key)) {
            counters[place].count += 1;
            return;
        }
        let place = if counters.len() < CAPACITY {
            counters.push(Counter { database, key: key.to_vec(), hash, count: 1, error: 0, since: now });
            counters.len() - 1
        } else {
            let place = self.place_of_least();
            let counter = &mut self.counters[place];
            if let Ok(entry) = self.places.find_entry(counter.hash, |&other| other == place) {
                entry.remove();
            }
            let mut name = std::mem::take(&mut counter.key);
            name.clear();
            name.extend_from_slice(key);
            let error = counter.count;
            *counter = Counter { database, key: name, hash, count: error + 1, error, since: now };
            place
        };
        self.places.insert_unique(hash, place, |&place| self.counters[place].hash);
    }

    /// Returns the index of a counter with the lowest count. The sketch must be full.
    fn place_of_least(&mut self) -> usize {
        loop {
            let next = (0..CAPACITY).map(|step| (self.cursor + step) % CAPACITY);
            if let Some(place) = next.into_iter().find(|&place| self.counters[place].count == self.least) {
                self.cursor = (place + 1) % CAPACITY;
                return place;
            }
            self.least = self.counters.iter().map(|counter| counter.count).min().unwrap_or(0);
        }
    }

    pub fn top(&self) -> Vec<&Counter> {
        let mut top: Vec<_> = self.counters.iter().collect();
        top.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        top
    }

    pub fn clear(&mut self) {
        *self = Sketch::new();
    }
}

impl Counter {
    fn is(&self, database: i32, key: &[u8]) -> bool {
        self.database == database && self.key == key
    }
}

#[cfg(test)]
mod tests;
