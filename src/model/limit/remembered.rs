//! What is remembered of many keys, in little memory: a mark for each, the last that it was given.
//!
//! A key is a hash of 64 bits. Its place is one of the [`WAYS`] of a row, so that one cache line is read; what stands there is
//! half of the hash and the mark. A key that finds its row full takes another one's place. When that happens often, twice as
//! many rows take over, up to [`MOST_ROWS`]; those before them are still looked in, and their keys move as they are asked for. So no
//! call does work that grows with the number of keys.
//!
//! A key may be forgotten, then. It is taken for another one that is remembered once in 2^31, and only if both have the same mark.

/// Places of a row: 32 bytes.
const WAYS: usize = 4;

/// 8 KB for a start, and 16 MB at the end: two million keys.
const FIRST_ROWS: usize = 1 << 8;
const MOST_ROWS: usize = 1 << 19;

/// Half of a key's hash, never 0, and its mark. 0: nobody's.
type Entry = u64;
type Row = [Entry; WAYS];

#[derive(Default)]
pub struct Remembered {
    rows: Vec<Row>,
    /// Those before the last growth.
    former: Vec<Row>,
    /// How many keys lost their places to others since then.
    ousted: usize,
}

fn entry(key: u64, mark: u32) -> Entry {
    (key | 1 << 32) & !0xffff_ffff | u64::from(mark)
}

fn is_of(entry: Entry, key: u64) -> bool {
    entry >> 32 == (key | 1 << 32) >> 32
}

/// The row of a key, if there are any.
fn row(rows: &mut [Row], key: u64) -> Option<&mut Row> {
    // The number of rows is a power of two.
    let last = rows.len().checked_sub(1)?;
    rows.get_mut(usize::try_from(key & last as u64).unwrap_or(0))
}

impl Remembered {
    /// Whether no key was given a mark since the beginning, or since all was cleared.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether the key was given this mark last, and nothing else since.
    pub fn has(&mut self, key: u64, mark: u32) -> bool {
        let Some(row_now) = row(&mut self.rows, key) else { return false };
        if let Some(&found) = row_now.iter().find(|&&entry| is_of(entry, key)) {
            return found == entry(key, mark);
        }
        let is_former = row(&mut self.former, key).is_some_and(|row| row.contains(&entry(key, mark)));
        if is_former {
            self.put(key, mark);
        }
        is_former
    }

    pub fn put(&mut self, key: u64, mark: u32) {
        if self.rows.is_empty() {
            self.rows = vec![[0; WAYS]; FIRST_ROWS];
        }
        if self.ousted > self.rows.len() / 2 {
            self.grow();
        }
        let Some(row) = row(&mut self.rows, key) else { return };
        let free = row.iter().position(|&entry| is_of(entry, key)).or(row.iter().position(|&entry| entry == 0));
        let way = free.unwrap_or_else(|| {
            self.ousted += 1;
            self.ousted % WAYS
        });
        row[way] = entry(key, mark);
    }

    pub fn forget(&mut self, key: u64) {
        for rows in [&mut self.rows, &mut self.former] {
            let entries = row(rows, key).into_iter().flatten();
            entries.filter(|entry| is_of(**entry, key)).for_each(|entry| *entry = 0);
        }
    }

    pub fn clear(&mut self) {
        *self = Remembered::default();
    }

    fn grow(&mut self) {
        self.ousted = 0;
        if self.rows.len() < MOST_ROWS {
            // Zeroes, which the system hands out page by page as they are written.
            let more = vec![[0; WAYS]; self.rows.len() * 2];
            self.former = std::mem::replace(&mut self.rows, more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn what_a_key_was_given_last_is_known() {
        let mut known = Remembered::default();
        assert!(known.is_empty() && !known.has(7, 1));
        known.forget(7);
        known.put(7, 1);
        assert!(!known.is_empty() && known.has(7, 1) && !known.has(7, 2) && !known.has(7 + (1 << 40), 1));
        known.put(7, 2);
        assert!(known.has(7, 2) && !known.has(7, 1));
        known.forget(7);
        assert!(!known.has(7, 2));
        known.put(7, 0);
        assert!(known.has(7, 0));
        known.clear();
        assert!(!known.has(7, 0));
    }

    /// As many keys as are in use at once find their places, in the second round at the latest.
    #[test]
    fn a_hundred_thousand_keys_are_remembered() {
        let hasher = RandomState::new();
        let keys: Vec<u64> = (0..100_000).map(|key| hasher.hash_one(key)).collect();
        let mut known = Remembered::default();
        let mut missing = 0;
        for _ in 0..20 {
            missing = 0;
            for &key in &keys {
                if !known.has(key, 1) {
                    missing += 1;
                    known.put(key, 1);
                }
            }
        }
        assert!(missing < 1_000, "{missing} are looked through again each time");
        assert!(known.rows.len() <= 1 << 17, "{} rows", known.rows.len());
    }

    #[test]
    fn memory_is_bounded_however_many_keys_there_are() {
        let hasher = RandomState::new();
        let mut known = Remembered { rows: vec![[0; WAYS]; MOST_ROWS], ..Remembered::default() };
        (0..4 * MOST_ROWS * WAYS).for_each(|key| known.put(hasher.hash_one(key), 1));
        assert_eq!((known.rows.len(), known.former.len()), (MOST_ROWS, 0));
    }

    #[test]
    fn keys_move_as_they_are_asked_for_when_it_grows() {
        let hasher = RandomState::new();
        let keys: Vec<u64> = (0..500).map(|key| hasher.hash_one(key)).collect();
        let mut known = Remembered::default();
        keys.iter().for_each(|&key| known.put(key, 1));
        let kept: Vec<u64> = keys.into_iter().filter(|&key| known.has(key, 1)).collect();
        known.grow();
        assert!(kept.iter().all(|&key| known.has(key, 1)));
        known.former.clear();
        assert!(kept.iter().all(|&key| known.has(key, 1)), "they have moved");
        // What stands in the former rows is old as soon as a key has another mark.
        let key = kept[0];
        known.grow();
        known.put(key, 2);
        assert!(!known.has(key, 1));
        known.forget(key);
        assert!(!known.has(key, 1) && !known.has(key, 2));
    }

    proptest! {
        /// What it says it knows is so, whatever happened.
        #[test]
        fn nothing_is_known_but_the_last_mark(steps in prop::collection::vec((0_u64..300, 0_u32..3, 0_u8..8), 0..3000)) {
            let (mut known, mut truth) = (Remembered::default(), HashMap::new());
            for (n, mark, what) in steps {
                let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                match what {
                    0 => {
                        known.forget(key);
                        truth.remove(&key);
                    }
                    1 if n == 0 && !known.rows.is_empty() => known.grow(),
                    2..5 => {
                        known.put(key, mark);
                        truth.insert(key, mark);
                    }
                    _ => prop_assert!(!known.has(key, mark) || truth.get(&key) == Some(&mark)),
                }
            }
        }
    }
}
