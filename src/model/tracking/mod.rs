//! Which expiring sets there are, when each is next worth a visit, and when to look next: without a server, and without a
//! clock of its own.
//!
//! [`Tracking`] is a cache, never the truth: what a set is and what has expired in it is read from the set itself at every
//! visit. So an entry may be too early (a visit finds nothing to do) or stand for a key that is gone (a visit finds nothing at
//! all). What a visit could not find out is *unknown*: the set stays tracked, and is looked at again after a while.
//!
//! A timer is armed only for what is due within [`HORIZON`]. What is further off is left to the server's own housekeeping
//! ([`Tracking::at_cron`]), which runs at least once a second. So no delay comes near the limits of the server's event loop,
//! a step of the wall clock is noticed within a second or two, and an idle server has no timer armed.

mod database;
mod finds;
mod pace;
mod table;

#[cfg(test)]
mod tests;

use super::alarm::Alarm;
use super::place::Place;
use super::time::{self, Millis};
use database::Database;
pub use finds::Finds;
pub use pace::Pace;
use std::collections::BTreeMap;
use std::rc::Rc;
pub use table::NEVER;
use table::{Known, Mark};

/// How far ahead a timer is armed: further than two runs of the server's housekeeping are apart, which is a second at the most.
pub const HORIZON: Millis = 1500;

/// How long a set is left alone of which a visit could find out nothing: this long at least, longer the more there are of them,
/// so that however many they are, they cost [`HELD_PER_SECOND`] visits a second or so; but never longer than that.
const HOLD: std::ops::RangeInclusive<Millis> = 1000..=60_000;
const HELD_PER_SECOND: usize = 1000;

/// The most that the clock is believed to have gone on between two looks at it. A server that runs looks more often; what is
/// more is a step.
const STEP: Millis = 2000;

/// Buckets of dropped tables that are freed at each run of the housekeeping: some ten µs worth.
const FREED: usize = 128;

/// The most sets that are on their way at the same time: one within the announcement of another.
const MOST_LEAVING: usize = 16;

/// A visit that is due at once, and stays so when the clock steps back.
const AT_ONCE: Millis = 0;

/// When a set is worth a visit whose first member has the score `first`.
pub fn visit_at(first: f64) -> Millis {
    // What lies before the epoch is dead, too; what lies after the last moment never dies.
    match time::ceil_score(first.max(0.0)) {
        Some(expiry) if expiry < time::MAX => expiry,
        _ => NEVER,
    }
}

/// What a visit to a set came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing dead is left; the set is worth the next visit at that moment.
    Done(Millis),
    /// Time was up. The first member of those left has been dead since `due`; `left` members are known to be dead.
    Unfinished { due: Millis, left: u64 },
    /// The set is gone, or is no expiring set.
    Gone,
    /// Nobody knows: nothing was deleted, and the set is to be looked at again.
    Unknown,
}

/// What was known of a set when it left its place for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// `None` if nobody said that anything left.
    pub database: Option<i32>,
    known: Option<Known>,
    /// The TTL of a touched set: by it the set is known at its new place.
    touched_ttl: Option<Millis>,
}

/// What is known of a set that has come from another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is none that was tracked.
    Nothing,
    /// All that there is to know is noted.
    Noted,
    /// The set has to be looked at.
    Unclear,
}

/// What there may be to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// This server may delete now what has expired.
    pub sweeps: bool,
    /// The patrol wants to go on as soon as may be.
    pub hurries: bool,
}

/// A set that is left alone for a while.
struct Held {
    /// Its database, whatever number that has by now.
    id: u64,
    key: Rc<[u8]>,
    due: Millis,
}

/// All sets that are tracked.
#[derive(Default)]
pub struct Tracking {
    databases: BTreeMap<i32, Database>,
    ids: u64,
    /// Dropped as a whole, and freed little by little.
    dropped: Vec<Database>,
    /// By the moment, on [`Tracking::passed`], at which they are looked at again.
    held: BTreeMap<(Millis, u64), Held>,
    holds: u64,
    /// The wall clock, as it was last seen.
    seen: Millis,
    /// How much time has passed since the beginning, steps of the wall clock left out.
    passed: Millis,
    /// No slice runs before that moment, on [`Tracking::passed`].
    rests_until: Millis,
    /// The moment, on the wall clock, at which the armed timer fires.
    armed: Option<Millis>,
    /// The earliest visit noted since the timer was last thought of.
    news: Option<Millis>,
    /// The sets that are on their way to other places; the one that left last arrives first.
    leaving: Vec<Left>,
    /// The set whose last visit could not finish, and how many dead members were left.
    unfinished: Option<(Place, u64)>,
}

/// What is tracked.
impl Tracking {
    pub fn len(&self) -> usize {
        self.databases.values().map(|database| database.table.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.databases.values().all(|database| database.table.len() == 0)
    }

    pub fn is_tracked(&self, database: i32, key: &[u8]) -> bool {
        self.known(database, key).is_some()
    }

    /// Whether the set is tracked although its marker may be off, because it was changed by plain commands.
    pub fn is_touched(&self, database: i32, key: &[u8]) -> bool {
        self.known(database, key).is_some_and(|known| known.mark != Mark::Holds)
    }

    /// Whether the set is tracked, and that plain commands have changed it would be news.
    pub fn is_untouched(&self, database: i32, key: &[u8]) -> bool {
        self.known(database, key).is_some_and(|known| known.mark != Mark::Touched)
    }

    /// Tracks a set whose marker holds, to be visited at `due`.
    pub fn track(&mut self, database: i32, key: &[u8], due: Millis) {
        self.database(database).put(key, Known { due, mark: Mark::Holds }, None);
        self.note_news(due);
    }

    /// As [`track`](Tracking::track), for each of some sets of a database, unless it is tracked already. None are left in `finds`.
    pub fn find(&mut self, database: i32, finds: &mut Finds) {
        if finds.is_empty() {
            return;
        }
        let table = &mut self.database(database).table;
        table.read_ahead(finds.each().map(|(key, _)| key));
        let mut soonest = NEVER;
        for (key, due) in finds.each() {
            if table.put_new(key, Known { due, mark: Mark::Holds }) {
                soonest = soonest.min(due);
            }
        }
        self.note_news(soonest);
        finds.clear();
    }

    /// Notes that one of our commands has changed a set, whose marker holds: members expire from `soonest` on. If it was there
    /// before and is not tracked, or plain commands have changed it, nobody knows what else is in it, so it is visited at once.
    pub fn change(&mut self, database: i32, key: &[u8], soonest: Option<Millis>, is_new: bool) {
        let soonest = soonest.filter(|&soonest| soonest < time::MAX).unwrap_or(NEVER);
        let due = match self.known(database, key) {
            Some(known) if known.mark == Mark::Holds => known.due.min(soonest),
            None if is_new => soonest,
            _ => AT_ONCE,
        };
        self.track(database, key, due);
    }

    /// Notes that somebody changed a tracked set by plain commands: its marker has to be looked after. `ttl` is the set's, and
    /// still the marker of what it was before. `false` if it is not tracked.
    pub fn touch(&mut self, database: i32, key: &[u8], ttl: Option<Millis>) -> bool {
        let Some(known) = self.known(database, key) else { return false };
        self.database(database).put(key, Known { mark: Mark::Touched, ..known }, ttl);
        true
    }

    /// Tracks a set that is ours beyond doubt, but whose marker is off: `ttl` is what it has instead.
    pub fn mend(&mut self, database: i32, key: &[u8], ttl: Option<Millis>) {
        if !self.touch(database, key, ttl) {
            self.database(database).put(key, Known { due: NEVER, mark: Mark::Touched }, ttl);
        }
    }

    /// Notes that the marker of a touched set is set again, or need not be; the set is worth a visit at `due`.
    pub fn mended(&mut self, database: i32, key: &[u8], due: Millis) {
        self.track(database, key, due);
    }

    /// Notes that the marker of a touched set cannot be set, since it would be a moment in the past: the set, all of whose
    /// members are dead, is to be swept as it is.
    pub fn give_up(&mut self, database: i32, key: &[u8], due: Millis) {
        self.database(database).put(key, Known { due, mark: Mark::GivenUp }, None);
        self.note_news(due);
    }

    pub fn forget(&mut self, database: i32, key: &[u8]) {
        if let Some(database) = self.databases.get_mut(&database) {
            database.remove(key);
        }
    }

    /// Forgets the sets of one database, or all.
    pub fn flush(&mut self, database: Option<i32>) {
        match database {
            Some(database) => self.dropped.extend(self.databases.remove(&database)),
            None => self.dropped.extend(std::mem::take(&mut self.databases).into_values()),
        }
    }

    /// Follows a SWAPDB.
    pub fn swap(&mut self, one: i32, other: i32) {
        let [was_one, was_other] = [one, other].map(|number| self.databases.remove(&number));
        self.databases.extend(was_one.map(|database| (other, database)));
        self.databases.extend(was_other.map(|database| (one, database)));
        if let Some((place, _)) = &mut self.unfinished {
            place.database = match place.database {
                database if database == one => other,
                database if database == other => one,
                database => database,
            };
        }
    }

    /// Begins a walk through all sets, on which [`forget_some`](Tracking::forget_some) forgets those at some places. One that is
    /// under way begins again.
    pub fn begin_to_forget(&mut self) {
        self.databases.values_mut().for_each(|database| database.table.begin_walk());
    }

    pub fn is_forgetting(&self) -> bool {
        self.databases.values().any(|database| database.table.is_walked())
    }

    /// A step of that walk: looks at some hundred sets, however many there are.
    pub fn forget_some(&mut self, is_meant: impl Fn(&[u8]) -> bool) {
        if let Some(database) = self.databases.values_mut().find(|database| database.table.is_walked()) {
            database.forget_some(is_meant);
        }
    }

    /// Notes that a set goes from one place to another: RENAME and MOVE announce both, one after the other. In between, other modules may
    /// move keys, too.
    pub fn leave(&mut self, database: i32, key: &[u8]) {
        let mut left = Left { database: Some(database), ..Left::default() };
        if let Some(from) = self.databases.get_mut(&database) {
            (left.known, left.touched_ttl) = (from.table.get(key), from.touched_ttl(key));
            from.remove(key);
        }
        if self.leaving.len() == MOST_LEAVING {
            self.leaving.remove(0);
        }
        self.leaving.push(left);
    }

    /// Notes that what left last is at its new place.
    pub fn arrive(&mut self) -> Left {
        self.leaving.pop().unwrap_or_default()
    }

    /// Notes that no command is under way: whatever left has arrived, whether somebody said so or not.
    pub fn all_arrived(&mut self) {
        self.leaving.clear();
    }

    /// Takes what was known of a set along to its new name, in the same database. Any other set of that name is gone.
    pub fn take_along(&mut self, database: i32, key: &[u8], left: Left) -> Arrival {
        match left.known {
            // Another module may hear of RENAME first, and move the key on before we hear that it left.
            None if self.leaving.is_empty() && self.next_touched(None).is_none() => {
                self.forget(database, key);
                Arrival::Nothing
            }
            // When one is due that was set aside is not known here; nor is it of one that was set aside and then changed by a command.
            Some(known) if known.mark == Mark::Holds && known.due != NEVER && self.held.is_empty() => {
                self.track(database, key, known.due);
                Arrival::Noted
            }
            // Nothing was known at a place that something is just coming to, which may have gone on from there.
            _ => Arrival::Unclear,
        }
    }

    /// Whether a set of this TTL that has just come to its place by RENAME or MOVE was touched where it comes from.
    pub fn left_touched(&self, left: Left, ttl: Option<Millis>) -> bool {
        ttl.is_some() && self.leaving.iter().chain([&left]).any(|left| left.touched_ttl == ttl)
    }

    /// Some of the touched sets that have this TTL: the sources of a COPY, perhaps.
    pub fn touched_with(&self, ttl: Millis) -> Vec<Place> {
        const SOME: usize = 8;
        let all = self.databases.iter();
        let places =
            all.flat_map(|(&number, database)| database.touched_with(ttl).map(move |key| Place::new(number, key)));
        places.take(SOME).collect()
    }

    /// The touched set that comes after `place` in the order of their places; with `None`, the first one.
    pub fn next_touched(&self, place: Option<&Place>) -> Option<Place> {
        let from = place.map_or(i32::MIN, |place| place.database);
        self.databases.range(from..).find_map(|(&number, database)| {
            let behind = place.filter(|place| place.database == number).map(|place| &*place.key);
            database.next_touched(behind).map(|key| Place::new(number, key))
        })
    }

    /// Lets a touched set whose marker could not be set be, for a while.
    pub fn mend_later(&mut self, place: &Place, now: Millis) {
        self.observe(now);
        self.hold(place);
    }

    /// A step of housekeeping: memory of what was dropped is freed, and of tables that have become sparse. `false` when there is
    /// none.
    pub fn free_some(&mut self) -> bool {
        let Some(last) = self.dropped.last_mut() else {
            return self.databases.values_mut().any(|database| database.table.shrink_some(FREED));
        };
        if !last.free_some(FREED) {
            self.dropped.pop();
        }
        true
    }

    fn known(&self, database: i32, key: &[u8]) -> Option<Known> {
        self.databases.get(&database)?.table.get(key)
    }

    fn database(&mut self, number: i32) -> &mut Database {
        self.databases.entry(number).or_insert_with(|| {
            self.ids += 1;
            Database::new(self.ids)
        })
    }
}

/// What stands out.
impl Tracking {
    /// How many sets are due at `now`, those among them that are left alone for a while.
    pub fn overdue(&self, now: Millis) -> usize {
        let due: usize = self.databases.values().map(|database| database.table.overdue(now)).sum();
        due + self.held.len()
    }

    /// For how long the set has been due that has been due longest. Of some it is not known: they do not count.
    pub fn lag(&self, now: Millis) -> Millis {
        let held = self.held.values().next().map(|held| held.due);
        let due = self.databases.values().filter_map(|database| database.table.next_due_after(AT_ONCE));
        due.chain(held).filter(|&due| due != AT_ONCE).min().map_or(0, |due| now.saturating_sub(due))
    }

    /// Dead members that are known to wait, in the set under way.
    pub fn backlog(&self) -> u64 {
        let is_there = |place: &Place| self.is_tracked(place.database, &place.key);
        self.unfinished.as_ref().filter(|(place, _)| is_there(place)).map_or(0, |&(_, left)| left)
    }

    pub fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// The set that is to be visited now: the one that has been due longest.
    pub fn next_visit(&mut self, now: Millis) -> Option<Place> {
        self.observe(now);
        self.release();
        let firsts = self.databases.iter().filter_map(|(&number, database)| {
            let (name, known) = database.table.first()?;
            (known.due <= now).then_some((known.due, number, name))
        });
        let (_, number, name) = firsts.min_by_key(|&(due, number, _)| (due, number))?;
        Some(Place::new(number, name))
    }

    /// Notes what a visit came to.
    pub fn visited(&mut self, place: &Place, outcome: Outcome, now: Millis) {
        self.observe(now);
        self.unfinished = None;
        match outcome {
            Outcome::Done(due) => self.reschedule(place, due),
            Outcome::Unfinished { due, left } => {
                self.reschedule(place, due);
                self.unfinished = (left > 0).then(|| (place.clone(), left));
            }
            Outcome::Gone => self.forget(place.database, &place.key),
            Outcome::Unknown => self.hold(place),
        }
    }

    fn next_due(&self) -> Option<Millis> {
        self.databases.values().filter_map(|database| database.table.next_due()).min()
    }

    fn reschedule(&mut self, place: &Place, due: Millis) {
        if let Some(database) = self.databases.get_mut(&place.database) {
            database.reschedule(&place.key, due);
        }
    }

    fn hold(&mut self, place: &Place) {
        let wait = self.held.len().saturating_mul(1000) / HELD_PER_SECOND;
        let wait = Millis::try_from(wait).unwrap_or(Millis::MAX).clamp(*HOLD.start(), *HOLD.end());
        let Some(database) = self.databases.get_mut(&place.database) else { return };
        let Some(due) = database.set_aside(&place.key) else { return };
        self.holds += 1;
        let held = Held { id: database.id, key: place.key.clone(), due };
        self.held.insert((self.passed + wait, self.holds), held);
    }

    /// Takes those up again that have been left alone for long enough.
    fn release(&mut self) {
        /// At a time; a slice asks again for every set.
        const SOME: usize = 16;
        for _ in 0..SOME {
            let Some(first) = self.held.first_entry().filter(|first| first.key().0 <= self.passed) else { return };
            let Held { id, key, due } = first.remove();
            if let Some(database) = self.databases.values_mut().find(|database| database.id == id) {
                database.take_up(&key, due);
            }
        }
    }
}

/// When to look.
impl Tracking {
    /// After a command or an event: the timer is armed for what is due sooner than it.
    /// `need` is asked only if it matters.
    pub fn after_change(&mut self, now: Millis, need: impl FnOnce() -> Need) -> Alarm {
        self.observe(now);
        let delay = self.news.take().and_then(|due| self.delay(now, due));
        match delay.filter(|delay| self.armed.is_none_or(|at| at > now + delay)) {
            Some(delay) if need().sweeps => self.arm(now, delay),
            _ => Alarm::AsItIs,
        }
    }

    /// At a run of the server's housekeeping: the timer is armed for what is due within the [`HORIZON`], and not without.
    pub fn at_cron(&mut self, now: Millis, need: Need) -> Alarm {
        self.observe(now);
        self.release();
        self.news = None;
        match self.next_delay(now, need) {
            Some(delay) if self.armed == Some(now + delay) => Alarm::AsItIs,
            Some(delay) => self.arm(now, delay),
            None if self.armed.take().is_some() => Alarm::Off,
            None => Alarm::AsItIs,
        }
    }

    /// The timer has fired.
    pub fn fired(&mut self) {
        self.armed = None;
    }

    /// After a slice, which is to be followed by a rest of `rest` ms.
    pub fn after_slice(&mut self, now: Millis, rest: Millis, need: Need) -> Alarm {
        self.observe(now);
        self.rests_until = self.passed + rest;
        self.at_cron(now, need)
    }

    /// The timer is disarmed.
    pub fn stopped(&mut self) {
        self.armed = None;
    }

    fn arm(&mut self, now: Millis, delay: Millis) -> Alarm {
        self.armed = Some(now + delay);
        Alarm::In(delay)
    }

    fn note_news(&mut self, due: Millis) {
        self.news = Some(self.news.map_or(due, |news| news.min(due)));
    }

    /// The delay until there is something to do, if that is near.
    fn next_delay(&self, now: Millis, need: Need) -> Option<Millis> {
        if need.hurries {
            return self.delay(now, now);
        }
        let held = self.held.keys().next().map(|&(at, _)| now + at.saturating_sub(self.passed));
        let due = self.next_due().into_iter().chain(held).min().filter(|_| need.sweeps)?;
        self.delay(now, due)
    }

    /// The delay until `due`, and the end of the rest, if that is near.
    fn delay(&self, now: Millis, due: Millis) -> Option<Millis> {
        let rest = self.rests_until.saturating_sub(self.passed);
        let delay = due.saturating_sub(now).max(rest).max(1);
        (delay <= HORIZON).then_some(delay)
    }

    /// Looks at the clock.
    fn observe(&mut self, now: Millis) {
        self.passed += now.saturating_sub(self.seen).min(STEP);
        self.seen = now;
    }
}
