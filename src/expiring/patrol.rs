//! A walk through all keys of all databases, forever: whatever way an expiring set came in, it is found.
//!
//! Two paces. After a dataset was loaded, or the module was, or a replica became a master, or the first expiring set is there and the
//! module begins to listen to what becomes of keys, the patrol *hurries*: in slices of
//! the sweeper, as fast as they may follow; on this first walk it also finds sets whose marker waited to be set again when the
//! snapshot was taken, the former master was lost, or nobody listened. Otherwise it *strolls*: a few dozen keys at each run of the server's own
//! housekeeping, for which no timer needs to be armed.
//!
//! Sets are not looked for while the dataset is loaded, though the server tells of each key then: it doubles the time of loading (a
//! million sets: 5.5 s instead of 2.5), in which nobody is served. What is not found yet costs memory only, as reads filter.

use crate::model::marker::Kind;
use crate::model::time::{self, Millis};
use crate::model::tracking::{Finds, Tracking, visit_at};
use crate::server::Context;
use crate::server::key::Access;
use crate::server::scan::Cursor;
use crate::server::zset::{Bound, SortedSet};
use std::time::{Duration, Instant};

/// How long a stroll takes at the most, at each run of the server's housekeeping (by default ten times a second).
const STROLL: Duration = Duration::from_micros(50);

/// Steps between two looks at the clock.
const STEPS: usize = 16;

/// Where the walk stands.
#[derive(Default)]
pub struct Patrol {
    database: i32,
    cursor: Option<Cursor>,
    /// A walk in a hurry, which began at the first key of the first database.
    hurries: bool,
    completed: u64,
    /// Met in the steps just gone.
    finds: Finds,
}

impl Patrol {
    /// Begins again, in a hurry.
    pub fn hurry(&mut self) {
        *self = Patrol { hurries: true, completed: self.completed, ..Patrol::default() };
    }

    pub fn is_hurrying(&self) -> bool {
        self.hurries
    }

    /// Walks through all databases so far.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Goes on until time is up, if in a hurry.
    pub fn hurry_on(&mut self, ctx: &Context, tracking: &mut Tracking, is_time_up: impl Fn() -> bool) {
        if ctx.is_loading() {
            return;
        }
        while self.hurries && !is_time_up() {
            self.walk(ctx, tracking);
        }
    }

    /// Goes a few steps.
    pub fn stroll(&mut self, ctx: &Context, tracking: &mut Tracking) {
        let started = Instant::now();
        while !self.hurries && started.elapsed() < STROLL {
            self.walk(ctx, tracking);
            if self.cursor.is_none() {
                return;
            }
        }
    }

    fn walk(&mut self, ctx: &Context, tracking: &mut Tracking) {
        let database = self.database;
        if !ctx.select(database) {
            self.database = 0;
            self.hurries = false;
            self.completed += 1;
            return;
        }
        let (is_new, now) = (self.hurries, ctx.now());
        let cursor = self.cursor.get_or_insert_with(Cursor::new);
        let mut has_more = true;
        for _ in 0..STEPS {
            has_more = cursor.step(ctx, |name, set| {
                if let Some(due) = next_visit(set) {
                    self.finds.push(name.bytes(), due);
                } else if is_new && waited_for_its_marker(set, now) && !tracking.is_tracked(database, name.bytes()) {
                    tracking.mend(database, name.bytes(), set.key().expires_at());
                }
            });
            if !has_more {
                break;
            }
        }
        tracking.find(database, &mut self.finds);
        if !has_more {
            self.cursor = None;
            self.database += 1;
        }
    }
}

/// Whether a set that is new to the module, and does not bear the marker, had it until plain commands prolonged it, or until RESTORE.
fn waited_for_its_marker(set: &mut SortedSet<'_, impl Access>, now: Millis) -> bool {
    let ttl = set.key().expires_at();
    set.last().is_some_and(|last| last.score > time::to_score(now) && Kind::Expiring.may_have_held(last.score, ttl))
}

/// When a sorted set is next worth a visit; `None` if it is no expiring set.
pub fn next_visit(set: &mut SortedSet<'_, impl Access>) -> Option<Millis> {
    let ttl = set.key().expires_at()?;
    let highest = set.last()?.score;
    if !Kind::Expiring.holds(highest, Some(ttl)) {
        return None;
    }
    let first = if set.len() == 1 { highest } else { set.first(Bound::From(f64::NEG_INFINITY))?.score };
    Some(visit_at(first))
}
