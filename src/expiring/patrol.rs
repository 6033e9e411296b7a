//! A walk through all keys of all databases, for ever: whatever way an expiring set came in, it is found.
//!
//! Two paces. After a dataset was loaded, or the module was, or a replica became a master, the patrol *hurries*: in slices of
//! the sweeper, as fast as they may follow. Otherwise it *strolls*: a few dozen keys at each run of the server's own
//! housekeeping, for which no timer needs to be armed.

use super::index::{Index, visit_at};
use crate::model::marker::Kind;
use crate::model::time::Millis;
use crate::server::Context;
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
}

impl Patrol {
    /// Begins anew, in a hurry.
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
    pub fn hurry_on(&mut self, ctx: Context<'_>, index: &mut Index, is_time_up: impl Fn() -> bool) {
        while self.hurries && !ctx.is_loading() && !is_time_up() {
            self.walk(ctx, index);
        }
    }

    /// Goes a few steps.
    pub fn stroll(&mut self, ctx: Context<'_>, index: &mut Index) {
        let started = Instant::now();
        while !self.hurries && started.elapsed() < STROLL {
            self.walk(ctx, index);
            if self.cursor.is_none() {
                return;
            }
        }
    }

    fn walk(&mut self, ctx: Context<'_>, index: &mut Index) {
        let database = self.database;
        if !ctx.select(database) {
            self.database = 0;
            self.hurries = false;
            self.completed += 1;
            return;
        }
        let cursor = self.cursor.get_or_insert_with(Cursor::new);
        for _ in 0..STEPS {
            let has_more = cursor.step(ctx, |name, set| {
                if let Some(due) = next_visit(set)
                    && !index.contains(database, name.bytes())
                {
                    index.track(database, name.bytes(), due);
                }
            });
            if !has_more {
                self.cursor = None;
                self.database += 1;
                return;
            }
        }
    }
}

/// When a sorted set is next worth a visit; `None` if it is no expiring set.
pub fn next_visit(set: &mut SortedSet<'_>) -> Option<Millis> {
    let ttl = set.key().expires_at()?;
    let highest = set.last()?.score;
    if !Kind::Expiring.holds(highest, Some(ttl)) {
        return None;
    }
    let first = set.first(Bound::From(f64::NEG_INFINITY))?.score;
    Some(visit_at(first))
}
