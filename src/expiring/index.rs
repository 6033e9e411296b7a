//! Which expiring sets there are, and when each is next worth a visit.
//!
//! A cache, never the truth: what a set is and what has expired in it is read from the set itself at every visit. So an
//! entry may be too early (a visit finds nothing to do) or stand for a key that is gone (a visit finds nothing at all).

use crate::model::time::{self, Millis};
use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};
use std::collections::BTreeSet;
use std::hash::BuildHasher;

/// A visit that is never due: the set has no member that expires.
pub const NEVER: Millis = Millis::MAX;

/// When a set is worth a visit whose first member has the score `first`.
pub fn visit_at(first: f64) -> Millis {
    // What lies before the epoch is dead, too; what lies after the last moment never dies.
    match time::ceil_score(first.max(0.0)) {
        Some(expiry) if expiry < time::MAX => expiry,
        _ => NEVER,
    }
}

/// A key of one of the server's databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub database: i32,
    pub key: Box<[u8]>,
}

struct Tracked {
    place: Place,
    due: Millis,
}

/// All tracked sets, by place and by the moment of their next visit.
#[derive(Default)]
pub struct Index {
    /// Slots of [`Index::by_place`] and [`Index::by_due`]; `None` ones are free.
    slots: Vec<Option<Tracked>>,
    free: Vec<u32>,
    by_place: HashTable<u32>,
    by_due: BTreeSet<(Millis, u32)>,
    touched: BTreeSet<u32>,
    hasher: DefaultHashBuilder,
}

impl Index {
    fn hash(&self, database: i32, key: &[u8]) -> u64 {
        self.hasher.hash_one((database, key))
    }

    fn find(&self, database: i32, key: &[u8]) -> Option<u32> {
        let is_it = |&slot: &u32| {
            self.tracked(slot).is_some_and(|tracked| tracked.place.database == database && *tracked.place.key == *key)
        };
        self.by_place.find(self.hash(database, key), is_it).copied()
    }

    fn tracked(&self, slot: u32) -> Option<&Tracked> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn tracked_mut(&mut self, slot: u32) -> Option<&mut Tracked> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub fn len(&self) -> usize {
        self.by_place.len()
    }

    pub fn contains(&self, database: i32, key: &[u8]) -> bool {
        self.find(database, key).is_some()
    }

    /// Whether the set is tracked and was changed by plain commands since its marker was last seen to hold.
    pub fn is_touched(&self, database: i32, key: &[u8]) -> bool {
        !self.touched.is_empty() && self.find(database, key).is_some_and(|slot| self.touched.contains(&slot))
    }

    /// Some set that is touched.
    pub fn first_touched(&self) -> Option<Place> {
        self.touched.first().and_then(|&slot| self.tracked(slot)).map(|tracked| tracked.place.clone())
    }

    /// The moment of the next visit of any set.
    pub fn next_due(&self) -> Option<Millis> {
        self.by_due.first().map(|&(due, _)| due).filter(|&due| due != NEVER)
    }

    /// How many sets are due at `now`. O(number of them).
    pub fn overdue(&self, now: Millis) -> usize {
        self.by_due.range(..=(now, u32::MAX)).count()
    }

    /// Tracks a set whose marker holds, to be visited at `due`.
    pub fn track(&mut self, database: i32, key: &[u8], due: Millis) {
        match self.find(database, key) {
            Some(slot) => self.update(slot, due),
            None => self.insert(database, key, due),
        }
    }

    /// Lets a tracked set, whose marker holds, be visited at `due` or sooner. `false` if it is not tracked.
    pub fn hasten(&mut self, database: i32, key: &[u8], due: Millis) -> bool {
        let Some(slot) = self.find(database, key) else { return false };
        if let Some(tracked) = self.tracked(slot) {
            self.update(slot, due.min(tracked.due));
        }
        true
    }

    /// Notes that somebody changed a tracked set by plain commands: its marker has to be looked after. `false` if it is not
    /// tracked.
    pub fn touch(&mut self, database: i32, key: &[u8]) -> bool {
        let slot = self.find(database, key);
        self.touched.extend(slot);
        slot.is_some()
    }

    /// The set whose visit is due longest.
    pub fn first_due(&self, now: Millis) -> Option<Place> {
        let &(_, slot) = self.by_due.first().filter(|&&(due, _)| due <= now)?;
        Some(self.tracked(slot)?.place.clone())
    }

    pub fn forget(&mut self, database: i32, key: &[u8]) {
        let hash = self.hash(database, key);
        let Some(slot) = self.find(database, key) else { return };
        if let Ok(entry) = self.by_place.find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
        self.release(slot);
    }

    /// Forgets the sets of one database, or all.
    pub fn forget_database(&mut self, database: Option<i32>) {
        let Some(database) = database else {
            *self = Index::default();
            return;
        };
        let is_there = |tracked: &Option<Tracked>| tracked.as_ref().is_some_and(|t| t.place.database == database);
        let there: Vec<Place> =
            self.slots.iter().filter(|slot| is_there(slot)).flatten().map(|tracked| tracked.place.clone()).collect();
        for Place { database, key } in there {
            self.forget(database, &key);
        }
    }

    /// Follows a SWAPDB. O(number of sets).
    pub fn swap(&mut self, one: i32, other: i32) {
        let Index { slots, touched, .. } = std::mem::take(self);
        for (slot, tracked) in slots.into_iter().enumerate() {
            let Some(Tracked { place, due }) = tracked else { continue };
            let database = match place.database {
                database if database == one => other,
                database if database == other => one,
                database => database,
            };
            self.track(database, &place.key, due);
            if u32::try_from(slot).is_ok_and(|slot| touched.contains(&slot)) {
                self.touch(database, &place.key);
            }
        }
    }

    fn insert(&mut self, database: i32, key: &[u8], due: Millis) {
        let tracked = Tracked { place: Place { database, key: key.into() }, due };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            // Four thousand million expiring sets are more than a server holds; beyond that the patrol finds them again.
            None => match u32::try_from(self.slots.len()) {
                Ok(slot) => {
                    self.slots.push(None);
                    slot
                }
                Err(_) => return,
            },
        };
        self.slots[slot as usize] = Some(tracked);
        let hash = self.hash(database, key);
        let Index { by_place, slots, hasher, .. } = self;
        let rehash = |&slot: &u32| match &slots[slot as usize] {
            Some(tracked) => hasher.hash_one((tracked.place.database, &*tracked.place.key)),
            None => 0,
        };
        match by_place.entry(hash, |&other| other == slot, rehash) {
            Entry::Vacant(vacant) => drop(vacant.insert(slot)),
            Entry::Occupied(_) => {}
        }
        self.by_due.insert((due, slot));
    }

    fn update(&mut self, slot: u32, due: Millis) {
        self.touched.remove(&slot);
        let Some(tracked) = self.tracked_mut(slot) else { return };
        let before = std::mem::replace(&mut tracked.due, due);
        if before != due {
            self.by_due.remove(&(before, slot));
            self.by_due.insert((due, slot));
        }
    }

    fn release(&mut self, slot: u32) {
        if let Some(tracked) = self.slots[slot as usize].take() {
            self.by_due.remove(&(tracked.due, slot));
            self.touched.remove(&slot);
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Clone, Debug)]
    enum Step {
        Track(i32, u8, Millis),
        Hasten(i32, u8, Millis),
        Touch(i32, u8),
        Forget(i32, u8),
        Flush(Option<i32>),
        Swap(i32, i32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let place = || (0..3_i32, 0..20_u8);
        let step = prop_oneof![
            8 => (place(), 0..100_u64).prop_map(|((db, key), due)| Step::Track(db, key, due)),
            4 => (place(), 0..100_u64).prop_map(|((db, key), due)| Step::Hasten(db, key, due)),
            3 => place().prop_map(|(db, key)| Step::Touch(db, key)),
            4 => place().prop_map(|(db, key)| Step::Forget(db, key)),
            1 => prop::option::of(0..3_i32).prop_map(Step::Flush),
            1 => (0..3_i32, 0..3_i32).prop_map(|(one, other)| Step::Swap(one, other)),
        ];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        /// Against a map of places.
        #[test]
        fn it_says_what_a_plain_map_says(steps in steps()) {
            let mut index = Index::default();
            let mut map: HashMap<(i32, u8), (Millis, bool)> = HashMap::new();
            for step in steps {
                match step {
                    Step::Track(db, key, due) => {
                        index.track(db, &[key], due);
                        map.insert((db, key), (due, false));
                    }
                    Step::Hasten(db, key, due) => {
                        let known = map.get_mut(&(db, key)).map(|known| *known = (known.0.min(due), false));
                        prop_assert_eq!(index.hasten(db, &[key], due), known.is_some());
                    }
                    Step::Touch(db, key) => {
                        let known = map.get_mut(&(db, key)).map(|known| known.1 = true);
                        prop_assert_eq!(index.touch(db, &[key]), known.is_some());
                    }
                    Step::Forget(db, key) => {
                        index.forget(db, &[key]);
                        map.remove(&(db, key));
                    }
                    Step::Flush(db) => {
                        index.forget_database(db);
                        map.retain(|(at, _), _| db.is_some_and(|db| *at != db));
                    }
                    Step::Swap(one, other) => {
                        index.swap(one, other);
                        let swapped = |db| if db == one { other } else if db == other { one } else { db };
                        map = map.into_iter().map(|((db, key), value)| ((swapped(db), key), value)).collect();
                    }
                }
                prop_assert_eq!(index.len(), map.len());
                prop_assert_eq!(index.by_due.len(), map.len());
                prop_assert_eq!(index.next_due(), map.values().map(|(due, _)| *due).min());
                prop_assert_eq!(index.first_touched().is_some(), map.values().any(|(_, touched)| *touched));
                prop_assert_eq!(index.overdue(50), map.values().filter(|(due, _)| *due <= 50).count());
                for ((db, key), (_, touched)) in &map {
                    prop_assert!(index.contains(*db, &[*key]));
                    prop_assert_eq!(index.is_touched(*db, &[*key]), *touched);
                }
            }
        }
    }

    #[test]
    fn a_set_without_expiring_members_is_tracked_but_never_due() {
        let mut index = Index::default();
        index.track(0, b"k", NEVER);
        assert_eq!((index.len(), index.next_due(), index.first_due(u64::MAX - 1)), (1, None, None));
        assert!(index.touch(0, b"k"));
        assert_eq!(index.next_due(), None);
    }
}
