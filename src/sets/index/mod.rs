//! Decides when the sweeper, which deletes expired members, must visit each expiring set, and when the sweeper's timer
//! must fire. This model uses no server and no clock.
//!
//! [`Tracking`] is a cache: every visit reads the tag `zeitset:expiring` and the members from the set itself. So a
//! wrong time does no harm. If the recorded time is too early, the visit finds nothing to do. If the key is gone,
//! [`Tracking`] forgets the set. If the sweeper cannot check the set, for example because this server must not change
//! it now, the visit's outcome is *unknown*: the set stays tracked, and is visited again later.
//!
//! [`Tracking`] also lists the keys whose tag has to be added or removed ([`PendingTag`]). This list is no cache.
//!
//! The timer is armed only for times within [`HORIZON`], so delays stay far below the integer limits of event loops.
//! Later times are left to the cron job ([`Tracking::at_cron`]), which runs at least once a second. So the module
//! notices a step of the wall clock within a second or two, and an idle server has no armed timer.

mod database;
mod pace;
mod pending;

#[cfg(test)]
mod tests;

use crate::base::alarm::{Alarm, HORIZON};
use crate::base::db_key::DbKey;
use crate::base::time::{self, Millis, NEVER};
pub use database::Database;
pub use pace::Pace;
use pending::Moved;
pub use pending::PendingTag;
use std::collections::BTreeMap;

/// The due time of a set that the sweeper must visit at once. This time has always passed, even if the clock has
/// stepped back.
pub const AT_ONCE: Millis = 0;

/// The minimum and maximum delay until the next visit to a set that the sweeper could not check. Such visits are
/// planned 1 ms apart, so at most a thousand of them are due in a second.
const RETRY_DELAYS: [Millis; 2] = [1000, 60_000];

/// The longest real time between two readings of the wall clock, in ms. If two readings differ by more, the clock has
/// stepped, and only `MAX_ELAPSED` ms count as passed time.
const MAX_ELAPSED: Millis = 2000;

/// One run of the cron job frees at most this many blocks of a dropped database. This takes some tens of µs.
const FREED: usize = 128;

/// Returns when the sweeper must visit a set whose lowest score is `first`.
pub fn visit_at(first: f64) -> Millis {
    // A member with a negative score has expired. A member with a score above the latest time never expires.
    match time::ceil_score(first.max(0.0)) {
        Some(expiry) if expiry < time::MAX => expiry,
        _ => NEVER,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sweeper's next visit to the set is due at `due`. At least `left` expired members remain.
    Next { due: Millis, left: u64 },
    /// The set is gone or is not an expiring set.
    Gone,
    /// The sweeper could not check the set, for example because this server must not change it now. Nothing was
    /// deleted, and the set must be visited again.
    Unknown,
}

/// What decides when the sweeper runs next. (One run of the sweeper is a *slice*.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Whether this server may delete expired members now.
    pub sweeps: bool,
    /// Whether the sweeper must run as soon as possible, even if no set is due.
    pub at_once: bool,
}

#[derive(Default)]
pub struct Tracking {
    databases: BTreeMap<i32, Database>,
    /// Dropped databases, which are freed gradually.
    dropped: Vec<Database>,
    /// The number of expired members that the sweeper's last visit left in the set.
    left: u64,
    /// The latest planned time of a new visit to a set that the sweeper could not check. Measured in
    /// [`Tracking::passed`].
    retry: Millis,
    /// The wall clock at the last reading.
    seen: Millis,
    /// The time in ms that has passed since the start, not counting steps of the wall clock.
    passed: Millis,
    /// The end of the sweeper's pause, measured in [`Tracking::passed`].
    paused_until: Millis,
    /// The wall clock time at which the armed timer fires.
    armed: Option<Millis>,
    /// The keys that are being renamed or moved: the event about the old name has come, the event about the new name
    /// has not.
    moving: Vec<Moved>,
    /// The last key that [`next_pending`](Tracking::next_pending) returned.
    last_pending: Option<DbKey>,
    /// Whether the list of pending tags ([`PendingTag`]) got a new entry since [`next_pending`](Tracking::next_pending)
    /// last began at the start of the list.
    has_new_pending: bool,
}

/// The tracked sets.
impl Tracking {
    pub fn len(&self) -> usize {
        self.databases.values().map(Database::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.databases.values().all(|database| database.len() == 0)
    }

    pub fn database(&mut self, number: i32) -> &mut Database {
        self.databases.entry(number).or_default()
    }

    /// Returns when the sweeper's next visit to a set is due. `None` if the set is not tracked.
    pub fn due(&self, database: i32, key: &[u8]) -> Option<Millis> {
        self.databases.get(&database)?.due(key)
    }

    /// Forgets the sets of one database. If `database` is `None`, forgets all sets.
    pub fn flush(&mut self, database: Option<i32>) {
        match database {
            Some(database) => self.dropped.extend(self.databases.remove(&database)),
            None => self.dropped.extend(std::mem::take(&mut self.databases).into_values()),
        }
    }

    pub fn swap(&mut self, one: i32, other: i32) {
        let [was_one, was_other] = [one, other].map(|number| self.databases.remove(&number));
        self.databases.extend(was_one.map(|database| (other, database)));
        self.databases.extend(was_other.map(|database| (one, database)));
    }

    /// Begins to stop tracking the sets for which `is_meant` returns true. Forgets their pending tags ([`PendingTag`])
    /// at once. Then [`forget_some`](Tracking::forget_some) reads all sets step by step, and forgets these sets. An
    /// unfinished earlier pass over the sets ends.
    pub fn begin_to_forget(&mut self, is_meant: impl Fn(&[u8]) -> bool) {
        for database in self.databases.values_mut() {
            database.pending.retain(|key| !is_meant(key));
            database.begin_walk();
        }
    }

    pub fn is_forgetting(&self) -> bool {
        self.databases.values().any(Database::is_walking)
    }

    /// Reads the next few hundred sets after [`begin_to_forget`](Tracking::begin_to_forget), and stops tracking those
    /// for which `is_meant` returns true.
    pub fn forget_some(&mut self, is_meant: impl Fn(&[u8]) -> bool) {
        if let Some(database) = self.databases.values_mut().find(|database| database.is_walking()) {
            database.forget_some(is_meant);
        }
    }

    /// Frees some memory of dropped databases. Returns `false` if there was no memory to free.
    pub fn free_some(&mut self) -> bool {
        let Some(last) = self.dropped.last_mut() else { return false };
        if !last.free_some(FREED) {
            self.dropped.pop();
        }
        true
    }
}

/// Overdue work.
impl Tracking {
    /// Returns the number of sets that the sweeper should have visited by `now`, including all sets whose visit was
    /// postponed.
    pub fn overdue(&self, now: Millis) -> usize {
        self.databases.values().map(|database| database.overdue(now) + database.postponed.len()).sum()
    }

    /// Returns how late the sweeper's visit to the most overdue set is, in ms. Returns 0 if no visit is late. Sets
    /// whose due time is unknown do not count.
    pub fn lag(&self, now: Millis) -> Millis {
        let of = |database: &Database| {
            let postponed = database.postponed.values().next().copied();
            database.next_due_after(AT_ONCE).into_iter().chain(postponed).filter(|&due| due != AT_ONCE).min()
        };
        self.databases.values().filter_map(of).min().map_or(0, |due| now.saturating_sub(due))
    }

    /// Returns a lower bound for the number of expired members in the set that was visited last. Returns 0 if no set
    /// is due.
    pub fn backlog(&self, now: Millis) -> u64 {
        if self.overdue(now) > 0 { self.left } else { 0 }
    }

    pub fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Returns the set that the sweeper must visit next: the overdue set with the earliest due time, if any.
    pub fn next_visit(&mut self, now: Millis) -> Option<DbKey> {
        self.observe(now);
        self.resume();
        let firsts = self.databases.iter().filter_map(|(&number, database)| {
            let (name, due) = database.first()?;
            (due <= now).then_some((due, number, name))
        });
        let (_, number, name) = firsts.min_by_key(|&(due, number, _)| (due, number))?;
        Some(DbKey::new(number, name))
    }

    pub fn visited(&mut self, key: &DbKey, outcome: Outcome, now: Millis) {
        self.observe(now);
        let Some(database) = self.databases.get_mut(&key.database) else { return };
        self.left = 0;
        match outcome {
            Outcome::Next { due, left } => {
                database.reschedule(&key.name, due);
                self.left = left;
            }
            Outcome::Gone => drop(database.forget(&key.name)),
            Outcome::Unknown => {
                let [soonest, latest] = RETRY_DELAYS.map(|delay| self.passed + delay);
                self.retry = (self.retry + 1).clamp(soonest, latest);
                database.postpone(&key.name, self.retry);
            }
        }
    }

    fn next_due(&self) -> Option<Millis> {
        self.databases.values().filter_map(Database::next_due).min()
    }

    /// Makes the sets due again whose postponement has ended.
    fn resume(&mut self) {
        /// The maximum number of sets that one call makes due in each database. Later calls continue.
        const SOME: usize = 16;
        for database in self.databases.values_mut() {
            (0..SOME).take_while(|_| database.resume_one(self.passed)).count();
        }
    }
}

/// The timer.
impl Tracking {
    /// Returns what to do with the sweeper's timer after a command or an event. Usually, the timer stays as it is. The
    /// timer is armed for the visit to the next due set if all of these conditions are true:
    ///
    /// - The visit is due within the [`HORIZON`].
    /// - The timer is not armed, or would fire later than the visit is due.
    /// - [`Need::sweeps`] is true.
    pub fn after_change(&mut self, now: Millis, need: impl FnOnce() -> Need) -> Alarm {
        self.observe(now);
        let delay = self.next_due().and_then(|due| self.delay(now, due));
        match delay.filter(|delay| self.armed.is_none_or(|at| at > now + delay)) {
            Some(delay) if need().sweeps => self.arm(now, delay),
            _ => Alarm::AsItIs,
        }
    }

    /// Returns what to do with the sweeper's timer after each cron job and after each run of the sweeper. If the next
    /// work is due within the [`HORIZON`], the timer is armed for this work. Otherwise, the timer is disarmed.
    pub fn at_cron(&mut self, now: Millis, need: Need) -> Alarm {
        self.observe(now);
        self.resume();
        match self.next_delay(now, need) {
            Some(delay) if self.armed == Some(now + delay) => Alarm::AsItIs,
            Some(delay) => self.arm(now, delay),
            None if self.armed.take().is_some() => Alarm::Off,
            None => Alarm::AsItIs,
        }
    }

    /// Notes that the timer has fired, or that it was disarmed.
    pub fn disarmed(&mut self) {
        self.armed = None;
    }

    /// Notes that the sweeper has stopped. The sweeper's next run begins after at least `pause` ms.
    pub fn pause(&mut self, now: Millis, pause: Millis) {
        self.observe(now);
        self.paused_until = self.passed + pause;
    }

    fn arm(&mut self, now: Millis, delay: Millis) -> Alarm {
        self.armed = Some(now + delay);
        Alarm::In(delay)
    }

    /// Returns the delay until the sweeper has work again. `None` if there is no work, or if the delay exceeds the
    /// [`HORIZON`].
    fn next_delay(&self, now: Millis, need: Need) -> Option<Millis> {
        if need.at_once {
            return self.delay(now, now);
        }
        let postponed = self.databases.values().filter_map(|database| database.postponed.keys().next());
        let postponed = postponed.map(|(until, _)| now + until.saturating_sub(self.passed)).min();
        let due = self.next_due().into_iter().chain(postponed).min().filter(|_| need.sweeps)?;
        self.delay(now, due)
    }

    /// Returns the delay until `due` or until the end of the sweeper's pause, whichever is later. `None` if the delay
    /// exceeds the [`HORIZON`].
    fn delay(&self, now: Millis, due: Millis) -> Option<Millis> {
        let pause = self.paused_until.saturating_sub(self.passed);
        let delay = due.saturating_sub(now).max(pause).max(1);
        (delay <= HORIZON).then_some(delay)
    }

    fn observe(&mut self, now: Millis) {
        self.passed += now.saturating_sub(self.seen).min(MAX_ELAPSED);
        self.seen = now;
    }
}
