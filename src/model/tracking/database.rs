//! The sets of one database, and those among them that plain commands have changed.

use super::table::{Known, Mark, NEVER, Table};
use crate::model::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

#[derive(Default)]
pub struct Database {
    /// Stays the same when SWAPDB gives the database another number.
    pub id: u64,
    pub table: Table,
    /// The touched sets that wait for their marker, with the TTL they had when that was noted.
    touched: BTreeMap<Box<[u8]>, Option<Millis>>,
    /// The same, by that TTL.
    ttls: BTreeSet<(Millis, Box<[u8]>)>,
}

impl Database {
    pub fn new(id: u64) -> Database {
        Database { id, ..Database::default() }
    }

    /// Notes what is known of a set, be it new or not; of a touched one, the TTL it has.
    pub fn put(&mut self, key: &[u8], known: Known, ttl: Option<Millis>) {
        self.table.put(key, known);
        self.untouch(key);
        if known.mark == Mark::Touched {
            self.touched.insert(key.into(), ttl);
            self.ttls.extend(ttl.map(|ttl| (ttl, key.into())));
        }
    }

    pub fn reschedule(&mut self, key: &[u8], due: Millis) {
        if let Some(known) = self.table.get(key) {
            self.table.put(key, Known { due, ..known });
        }
    }

    pub fn remove(&mut self, key: &[u8]) {
        self.table.remove(key);
        self.untouch(key);
    }

    /// Takes a set out of what is to be done; when it was due, if it is there.
    pub fn set_aside(&mut self, key: &[u8]) -> Option<Millis> {
        let known = self.table.get(key)?;
        self.table.put(key, Known { due: NEVER, ..known });
        self.untouch(key);
        Some(known.due)
    }

    /// Puts a set that was set aside back into what is to be done.
    pub fn take_up(&mut self, key: &[u8], due: Millis) {
        if let Some(known) = self.table.get(key) {
            self.table.put(key, Known { due: known.due.min(due), ..known });
            if known.mark == Mark::Touched {
                self.touched.entry(key.into()).or_insert(None);
            }
        }
    }

    pub fn touched_ttl(&self, key: &[u8]) -> Option<Millis> {
        self.touched.get(key).copied().flatten()
    }

    pub fn touched_with(&self, ttl: Millis) -> impl Iterator<Item = &[u8]> {
        let from = (ttl, Box::default());
        self.ttls.range(from..).take_while(move |(other, _)| *other == ttl).map(|(_, key)| &**key)
    }

    /// The touched set behind `key` in byte order; with `None`, the first one.
    pub fn next_touched(&self, key: Option<&[u8]>) -> Option<&[u8]> {
        let behind = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.touched.range::<[u8], _>((behind, Bound::Unbounded)).next().map(|(key, _)| &**key)
    }

    /// Goes on in a walk through all sets, and removes those that are meant: a few buckets of the table at a time.
    pub fn forget_some(&mut self, is_meant: impl Fn(&[u8]) -> bool) {
        /// Some hundred names.
        const BUCKETS: usize = 16;
        let meant: Vec<Box<[u8]>> = self.table.walk_on(BUCKETS).filter(|name| is_meant(name)).map(Box::from).collect();
        meant.iter().for_each(|name| self.remove(name));
    }

    /// Frees some of the memory; `false` once there is none left.
    pub fn free_some(&mut self, most: usize) -> bool {
        for _ in 0..most {
            if self.touched.pop_first().is_none() && self.ttls.pop_first().is_none() {
                return self.table.free_some(most);
            }
        }
        true
    }

    fn untouch(&mut self, key: &[u8]) {
        if let Some(ttl) = self.touched.remove(key).flatten() {
            self.ttls.remove(&(ttl, key.into()));
        }
    }
}
