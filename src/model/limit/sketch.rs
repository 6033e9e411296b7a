//! The most denied keys: a sketch of bounded size ("Space-Saving": Metwally, Agrawal, El Abbadi, 2005).
//!
//! The sketch has [`CAPACITY`] counters. A denied key without a counter takes over the counter with the lowest count,
//! and continues from that count. So after `n` denials, each count is at least the key's number of denials, and at most
//! `n / CAPACITY` above it. A key with more than `n / CAPACITY` denials has a counter. Counting a denial takes one
//! lookup by hash. In a full sketch, the search for the lowest count takes O(1) on average.

use crate::model::time::Millis;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

pub const CAPACITY: usize = 256;

/// Keys with longer names are not counted, so that the sketch's size is bounded.
pub const LONGEST_NAME: usize = 1024;

/// The counter of a key. The key's number of denials is at most `count`, and at least `count - error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    pub database: i32,
    pub key: Vec<u8>,
    pub count: u64,
    /// The last count of the key that had this counter before. 0 if there was no such key.
    pub error: u64,
    /// When the key got its counter.
    pub since: Millis,
}

pub struct Sketch {
    counters: Vec<Counter>,
    places: HashTable<usize>,
    hasher: DefaultHashBuilder,
    /// The lower bound of all counts.
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
        if key.len() > LONGEST_NAME {
            return;
        }
        let Sketch { counters, places, hasher, .. } = self;
        let hash = hasher.hash_one((database, key));
        if let Some(&place) = places.find(hash, |&place| counters[place].is(database, key)) {
            counters[place].count += 1;
            return;
        }
        let place = if counters.len() < CAPACITY {
            counters.push(Counter { database, key: key.to_vec(), count: 1, error: 0, since: now });
            counters.len() - 1
        } else {
            let place = self.place_of_least();
            let counter = &mut self.counters[place];
            let old = self.hasher.hash_one((counter.database, &counter.key[..]));
            if let Ok(entry) = self.places.find_entry(old, |&other| other == place) {
                entry.remove();
            }
            counter.key.clear();
            counter.key.extend_from_slice(key);
            let (key, error) = (std::mem::take(&mut counter.key), counter.count);
            *counter = Counter { database, key, count: error + 1, error, since: now };
            place
        };
        let Sketch { counters, places, hasher, .. } = self;
        places
            .insert_unique(hash, place, |&place| hasher.hash_one((counters[place].database, &counters[place].key[..])));
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn up_to_its_capacity_a_sketch_is_exact() {
        let mut sketch = Sketch::new();
        for key in 0..CAPACITY {
            (0..=key).for_each(|_| sketch.add(0, key.to_string().as_bytes(), 7));
        }
        let top = sketch.top();
        assert_eq!(top.len(), CAPACITY);
        for (counter, expected) in top.iter().zip((0..CAPACITY).rev()) {
            assert_eq!((&counter.key[..], counter.count), (expected.to_string().as_bytes(), expected as u64 + 1));
        }
    }

    #[test]
    fn databases_are_told_apart_and_long_names_are_not_counted() {
        let mut sketch = Sketch::new();
        sketch.add(0, b"k", 1);
        sketch.add(1, b"k", 2);
        sketch.add(0, &[b'x'; LONGEST_NAME + 1], 3);
        let seen: Vec<_> = sketch.top().iter().map(|counter| (counter.database, counter.count)).collect();
        assert_eq!(seen.len(), 2);
        sketch.clear();
        assert!(sketch.top().is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// No count is less than its key's number of denials. After `n` denials in total, no count exceeds this number
        /// by more than `n / CAPACITY`, or by more than `error`. Every key with more than `n / CAPACITY` denials has a
        /// counter.
        #[test]
        fn counts_are_bounded_from_both_sides(
            keys in prop::collection::vec(prop_oneof![0_u32..20, 0_u32..400, 0_u32..100_000], 1..20_000),
        ) {
            let (mut sketch, mut exact) = (Sketch::new(), HashMap::new());
            for key in &keys {
                sketch.add(0, key.to_string().as_bytes(), 0);
                *exact.entry(*key).or_insert(0_u64) += 1;
            }
            let slack = keys.len() as u64 / CAPACITY as u64;
            let counters: HashMap<&[u8], &Counter> = sketch.top().iter().map(|&counter| (&counter.key[..], counter)).collect();
            for (&key, &count) in &exact {
                match counters.get(key.to_string().as_bytes()) {
                    Some(seen) => {
                        prop_assert!((count..=count + slack).contains(&seen.count));
                        prop_assert!((seen.count - seen.error..=seen.count).contains(&count));
                    }
                    None => prop_assert!(count <= slack),
                }
            }
            prop_assert!(sketch.counters.len() <= CAPACITY && sketch.places.len() == sketch.counters.len());
        }
    }
}
