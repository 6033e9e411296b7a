//! The keyspace scan, which repeatedly reads all keys of all databases, and finds every expiring set, however the set
//! was created.
//!
//! There are two kinds of scans. A *first scan* runs in consecutive slices (runs) of the sweeper. A first scan begins
//! after each of these events: a dataset or the module was loaded, a replica became a master, the move of a slot to
//! this server ended, or the module subscribed to events. Other scans read a few hundred keys in each run of the cron
//! job, without a timer.
//!
//! While a dataset is being loaded, the module scans nothing and ignores the events that the server sends for each key.
//! Otherwise the loading time, in which clients wait, would double (5.5 s instead of 2.5 s for a million sets). Until
//! the scan finds a set, its expired members only take memory, because reads ignore them.

use super::{legacy, tag};
use crate::base::time::Millis;
use crate::server::Context;
use crate::server::key::Mode;
use crate::server::scan::ScanCursor;
use crate::server::zset::SortedSet;
use crate::sets::index::{AT_ONCE, PendingTag, Tracking, visit_at};
use std::time::{Duration, Instant};

/// The time that a scan takes in each run of the cron job. By default, the cron job runs ten times per second.
const CRON_BUDGET: Duration = Duration::from_micros(50);

/// The minimum number of steps in a run of the cron job. The scan takes these steps even if [`CRON_BUDGET`] has passed,
/// which can happen on a busy machine.
const MIN_CRON_STEPS: usize = 64;

/// The number of steps between two readings of the clock.
const STEPS: usize = 16;

#[derive(Default)]
pub struct Scan {
    database: i32,
    cursor: Option<ScanCursor>,
    is_first: bool,
    completed: u64,
}

/// If the list of [`PendingTag`]s has this many keys, the scan waits. The scan adds each set of version 0.3 that it
/// finds to this list. The scan continues when the module has added the tag to these sets.
const MAX_PENDING: usize = 1000;

/// The kinds of sorted sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetKind {
    /// An expiring set. The value is the time at which the sweeper must visit the set next.
    Expiring(Millis),
    /// An expiring set of version 0.3. The value is its TTL.
    Legacy(Millis),
    Ordinary,
}

impl SetKind {
    pub fn of(set: &mut SortedSet<'_, impl Mode>) -> SetKind {
        match set.score(tag::name(set.key.ctx())) {
            Some(tag::SCORE) => SetKind::Expiring(due(set)),
            Some(_) => SetKind::Ordinary,
            None => legacy::ttl(set).map_or(SetKind::Ordinary, SetKind::Legacy),
        }
    }
}

/// Returns when the sweeper must visit a set that has the tag `zeitset:expiring`. If the tag is the only member, the
/// sweeper must delete the set, so the visit is due at once.
fn due(set: &mut SortedSet<'_, impl Mode>) -> Millis {
    if set.range(tag::SCORE, tag::SCORE).has_more_than(1) {
        return AT_ONCE;
    }
    set.range(f64::MIN, f64::INFINITY).next().map_or(AT_ONCE, |first| visit_at(first.score))
}

impl Scan {
    pub fn begin(&mut self) {
        *self = Scan { is_first: true, completed: self.completed, ..Scan::default() };
    }

    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Returns the number of complete scans of all databases.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    pub fn run_on(&mut self, ctx: &Context, tracking: &mut Tracking, is_time_up: impl Fn() -> bool) {
        while self.is_first && !is_waiting(ctx, tracking) && !is_time_up() {
            self.advance(ctx, tracking);
        }
    }

    /// Continues the current scan for a few steps, at most to the end of the last database. Does nothing during a first
    /// scan: [`Scan::run_on`] continues it.
    pub fn on_cron(&mut self, ctx: &Context, tracking: &mut Tracking) {
        let (started, completed, mut steps) = (Instant::now(), self.completed, 0);
        if self.is_first || is_waiting(ctx, tracking) {
            return;
        }
        while self.completed == completed && (steps < MIN_CRON_STEPS || started.elapsed() < CRON_BUDGET) {
            steps += self.advance(ctx, tracking);
        }
    }

    /// Continues the scan by up to [`STEPS`] steps in one database. Returns the number of steps.
    fn advance(&mut self, ctx: &Context, tracking: &mut Tracking) -> usize {
        let database = self.database;
        if !ctx.select(database) {
            self.database = 0;
            self.is_first = false;
            self.completed += 1;
            return 0;
        }
        let is_master = ctx.is_master();
        let cursor = self.cursor.get_or_insert_with(ScanCursor::new);
        let (mut has_more, mut steps) = (true, 0);
        while has_more && steps < STEPS {
            steps += 1;
            has_more = cursor.step(ctx, |name, set| match SetKind::of(set) {
                // A pending tag tells more than the set does.
                _ if tracking.pending(database, name.bytes()).is_some() => {}
                SetKind::Expiring(due) => tracking.database(database).track_new(name.bytes(), due),
                SetKind::Legacy(ttl) if is_master => {
                    tracking.note_pending(database, name.bytes(), PendingTag::Legacy(ttl));
                }
                _ => {}
            });
        }
        if !has_more {
            self.cursor = None;
            self.database += 1;
        }
        steps
    }
}

/// Whether the scan must wait: while the server loads a dataset, or while the module adds tags to the sets of version
/// 0.3 that the scan has found. The number of pending tags alone does not decide, because a replica adds no tags, and a
/// master may be unable to add some of them.
fn is_waiting(ctx: &Context, tracking: &Tracking) -> bool {
    ctx.is_loading() || ctx.is_master() && tracking.has_new_pending() && tracking.pending_count() >= MAX_PENDING
}
