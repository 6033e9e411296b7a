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

/// What we know of a set's marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Holds,
    /// Plain commands may have changed the set; this was its TTL then.
    Touched(Option<Millis>),
    /// Off, and to stay so: all members are dead, and were so long ago that the marker would be a TTL in the past.
    GivenUp,
}

struct Tracked {
    place: Place,
    due: Millis,
    marker: Marker,
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

    /// Whether the set is tracked although its marker may be off, because it was changed by plain commands.
    pub fn is_touched(&self, database: i32, key: &[u8]) -> bool {
        let tracked = self.find(database, key).and_then(|slot| self.tracked(slot));
        tracked.is_some_and(|tracked| tracked.marker != Marker::Holds)
    }

    /// Whether the set is tracked, and nothing has been noted of its marker since it was set or given up.
    pub fn is_untouched(&self, database: i32, key: &[u8]) -> bool {
        let tracked = self.find(database, key).and_then(|slot| self.tracked(slot));
        tracked.is_some_and(|tracked| !matches!(tracked.marker, Marker::Touched(_)))
    }

    /// The TTL of a touched set, as it was when that was noted.
    pub fn touched_ttl(&self, database: i32, key: &[u8]) -> Option<Millis> {
        match self.find(database, key).and_then(|slot| self.tracked(slot))?.marker {
            Marker::Touched(ttl) => ttl,
            Marker::Holds | Marker::GivenUp => None,
        }
    }

    /// Whether some touched set had this TTL. O(number of touched sets).
    pub fn has_touched_ttl(&self, ttl: Millis) -> bool {
        let is_it = |&slot: &u32| self.tracked(slot).is_some_and(|t| t.marker == Marker::Touched(Some(ttl)));
        self.touched.iter().any(is_it)
    }

    /// Some set that is touched, and not given up.
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

    /// Lets a tracked set be visited at `due`, whatever its marker.
    pub fn reschedule(&mut self, database: i32, key: &[u8], due: Millis) {
        if let Some(slot) = self.find(database, key) {
            self.set_due(slot, due);
        }
    }

    /// Notes that somebody changed a tracked set by plain commands: its marker has to be looked after. `ttl` is the set's,
    /// and still the marker of what it was before. `false` if it is not tracked.
    pub fn touch(&mut self, database: i32, key: &[u8], ttl: Option<Millis>) -> bool {
        let slot = self.find(database, key);
        if let Some(slot) = slot {
            self.set_marker(slot, Marker::Touched(ttl));
        }
        slot.is_some()
    }

    /// Notes that the marker of a touched set cannot be set again: it is to be swept as it is.
    pub fn give_up(&mut self, database: i32, key: &[u8]) {
        if let Some(slot) = self.find(database, key) {
            self.set_marker(slot, Marker::GivenUp);
        }
    }

    /// The set that is due first, whenever that is.
    pub fn first(&self) -> Option<(Place, Millis)> {
        let &(due, slot) = self.by_due.first()?;
        Some((self.tracked(slot)?.place.clone(), due))
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
        self.forget_where(|place| place.database == database);
    }

    /// Forgets the sets at some places. O(number of sets).
    pub fn forget_where(&mut self, is_meant: impl Fn(&Place) -> bool) {
        let places = self.slots.iter().flatten().map(|tracked| &tracked.place);
        let meant: Vec<Place> = places.filter(|place| is_meant(place)).cloned().collect();
        for Place { database, key } in meant {
            self.forget(database, &key);
        }
    }

    /// Follows a SWAPDB. O(number of sets).
    pub fn swap(&mut self, one: i32, other: i32) {
        let slots = std::mem::take(self).slots;
        for Tracked { place, due, marker } in slots.into_iter().flatten() {
            let database = match place.database {
                database if database == one => other,
                database if database == other => one,
                database => database,
            };
            self.track(database, &place.key, due);
            if let Some(slot) = self.find(database, &place.key) {
                self.set_marker(slot, marker);
            }
        }
    }

    fn insert(&mut self, database: i32, key: &[u8], due: Millis) {
        let tracked = Tracked { place: Place { database, key: key.into() }, due, marker: Marker::Holds };
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

    /// Of a set whose marker holds.
    fn update(&mut self, slot: u32, due: Millis) {
        self.set_marker(slot, Marker::Holds);
        self.set_due(slot, due);
    }

    fn set_marker(&mut self, slot: u32, marker: Marker) {
        if let Some(tracked) = self.tracked_mut(slot) {
            tracked.marker = marker;
        }
        match marker {
            Marker::Touched(_) => self.touched.insert(slot),
            Marker::Holds | Marker::GivenUp => self.touched.remove(&slot),
        };
    }

    fn set_due(&mut self, slot: u32, due: Millis) {
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
        GiveUp(i32, u8),
        Reschedule(i32, u8, Millis),
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
            1 => place().prop_map(|(db, key)| Step::GiveUp(db, key)),
            2 => (place(), 0..100_u64).prop_map(|((db, key), due)| Step::Reschedule(db, key, due)),
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
            let mut map: HashMap<(i32, u8), (Millis, Marker)> = HashMap::new();
            for step in steps {
                match step {
                    Step::Track(db, key, due) => {
                        index.track(db, &[key], due);
                        map.insert((db, key), (due, Marker::Holds));
                    }
                    Step::Hasten(db, key, due) => {
                        let known = map.get_mut(&(db, key)).map(|known| *known = (known.0.min(due), Marker::Holds));
                        prop_assert_eq!(index.hasten(db, &[key], due), known.is_some());
                    }
                    Step::Touch(db, key) => {
                        let ttl = Some(u64::from(key));
                        let known = map.get_mut(&(db, key)).map(|known| known.1 = Marker::Touched(ttl));
                        prop_assert_eq!(index.touch(db, &[key], ttl), known.is_some());
                    }
                    Step::GiveUp(db, key) => {
                        index.give_up(db, &[key]);
                        map.entry((db, key)).and_modify(|known| known.1 = Marker::GivenUp);
                    }
                    Step::Reschedule(db, key, due) => {
                        index.reschedule(db, &[key], due);
                        map.entry((db, key)).and_modify(|known| known.0 = due);
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
                prop_assert_eq!(index.first_touched().is_some(), map.values().any(|(_, marker)| matches!(marker, Marker::Touched(_))));
                prop_assert_eq!(index.overdue(50), map.values().filter(|(due, _)| *due <= 50).count());
                for ((db, key), (_, marker)) in &map {
                    prop_assert!(index.contains(*db, &[*key]));
                    prop_assert_eq!(index.is_touched(*db, &[*key]), *marker != Marker::Holds);
                    if let Marker::Touched(ttl) = marker {
                        prop_assert_eq!(index.touched_ttl(*db, &[*key]), *ttl);
                        prop_assert!(index.has_touched_ttl(u64::from(*key)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_set_without_expiring_members_is_tracked_but_never_due() {
        let mut index = Index::default();
        index.track(0, b"k", NEVER);
        assert_eq!((index.len(), index.next_due(), index.first_due(u64::MAX - 1)), (1, None, None));
        assert!(index.touch(0, b"k", None));
        assert_eq!(index.next_due(), None);
    }
}
