//! The sets of one database: due times, dirty sets, postponed checks.

use super::table::{NEVER, Table};
use crate::model::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

/// A due set whose check was postponed.
pub struct Postponed {
    pub key: Rc<[u8]>,
    pub due: Millis,
}

#[derive(Default)]
pub struct Database {
    pub table: Table,
    /// The dirty sets, with their TTL when they became dirty.
    dirty: BTreeMap<Box<[u8]>, Millis>,
    /// The dirty sets, ordered by their TTL in `dirty`.
    ttls: BTreeSet<(Millis, Box<[u8]>)>,
    /// Sets whose check is postponed, by the time of the next attempt, measured in
    /// [`Tracking::passed`](super::Tracking::passed). The second number distinguishes sets with the same time.
    pub postponed: BTreeMap<(Millis, u64), Postponed>,
    /// The set whose last visit was not finished, and the number of remaining expired members.
    pub unfinished: Option<(Rc<[u8]>, u64)>,
}

impl Database {
    /// Tracks a set with a valid marker.
    pub fn track(&mut self, key: &[u8], due: Millis) {
        self.table.put(key, due);
        self.clean(key);
    }

    /// Changes the due time of a tracked set.
    pub fn reschedule(&mut self, key: &[u8], due: Millis) {
        if self.table.get(key).is_some() {
            self.table.put(key, due);
        }
    }

    pub fn remove(&mut self, key: &[u8]) {
        self.table.remove(key);
        self.clean(key);
    }

    pub fn postpone(&mut self, key: &Rc<[u8]>, until: (Millis, u64)) {
        if let Some(due) = self.table.get(key).filter(|&due| due != NEVER) {
            self.table.put(key, NEVER);
            self.postponed.insert(until, Postponed { key: Rc::clone(key), due });
        }
    }

    /// Ends the first postponement if its time has passed. Returns whether it did.
    pub fn resume_one(&mut self, passed: Millis) -> bool {
        let Some(first) = self.postponed.first_entry().filter(|first| first.key().0 <= passed) else { return false };
        let Postponed { key, due } = first.remove();
        if let Some(known) = self.table.get(&key) {
            self.table.put(&key, known.min(due));
        }
        true
    }

    /// Marks a set as dirty, and tracks it if it is untracked.
    pub fn note_dirty(&mut self, key: &[u8], ttl: Millis) {
        self.table.put_new(key, NEVER);
        self.clean(key);
        self.dirty.insert(key.into(), ttl);
        self.ttls.insert((ttl, key.into()));
    }

    pub fn clean(&mut self, key: &[u8]) {
        if let Some(ttl) = self.dirty.remove(key) {
            self.ttls.remove(&(ttl, key.into()));
        }
    }

    pub fn dirty_ttl(&self, key: &[u8]) -> Option<Millis> {
        self.dirty.get(key).copied()
    }

    pub fn dirty_with(&self, ttl: Millis) -> impl Iterator<Item = &[u8]> {
        let from = (ttl, Box::default());
        self.ttls.range(from..).take_while(move |(other, _)| *other == ttl).map(|(_, key)| &**key)
    }

    /// Returns the dirty set after `key` in byte order. If `key` is `None`, returns the first dirty set.
    pub fn next_dirty(&self, key: Option<&[u8]>) -> Option<&[u8]> {
        let behind = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.dirty.range::<[u8], _>((behind, Bound::Unbounded)).next().map(|(key, _)| &**key)
    }

    /// Reads the next buckets of the walk in progress, and removes the sets in them that `is_meant` selects.
    pub fn forget_some(&mut self, is_meant: impl Fn(&[u8]) -> bool) {
        /// The number of buckets that one call reads. Together, they hold a few hundred names on average.
        const BUCKETS: usize = 16;
        let meant: Vec<Box<[u8]>> = self.table.walk_on(BUCKETS).filter(|name| is_meant(name)).map(Box::from).collect();
        meant.iter().for_each(|name| self.remove(name));
    }

    /// Frees some of the memory of a dropped database: at most `most` entries of each map, or at most `most` buckets.
    /// Returns `false` when all memory is freed.
    pub fn free_some(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let is_more = self.dirty.pop_first().is_some() | self.ttls.pop_first().is_some();
            if !(is_more | self.postponed.pop_first().is_some()) {
                return self.table.free_some(most);
            }
        }
        true
    }
}
