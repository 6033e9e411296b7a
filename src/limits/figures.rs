//! What all limits have said: sums for INFO, and the keys that are denied most, for ZRL.TOP.

use crate::model::limit::sketch::{Counter, Sketch};
use crate::model::time::Millis;
use crate::server::shared::Shared;
use crate::server::{Context, Str};
use lazy_static::lazy_static;
use std::sync::atomic::{AtomicU64, Ordering};

static ALLOWED: AtomicU64 = AtomicU64::new(0);
static DENIED: AtomicU64 = AtomicU64::new(0);
static UNITS: AtomicU64 = AtomicU64::new(0);

lazy_static! {
    static ref TOP: Shared<Sketch> = Shared::new(Sketch::new());
}

pub struct Figures {
    pub allowed: u64,
    pub denied: u64,
    /// Units taken.
    pub units: u64,
}

pub fn figures() -> Figures {
    let [allowed, denied, units] = [&ALLOWED, &DENIED, &UNITS].map(|figure| figure.load(Ordering::Relaxed));
    Figures { allowed, denied, units }
}

/// Counts a check that was allowed.
pub fn count_allowed() {
    ALLOWED.fetch_add(1, Ordering::Relaxed);
}

pub fn count_units(units: u64) {
    UNITS.fetch_add(units, Ordering::Relaxed);
}

/// Counts a check that was denied, by these keys.
pub fn count_denied<'a>(ctx: &Context, keys: impl IntoIterator<Item = Str<'a>>, now: Millis) {
    DENIED.fetch_add(1, Ordering::Relaxed);
    let database = ctx.database();
    TOP.with(ctx, |top| keys.into_iter().for_each(|key| top.add(database, key.bytes(), now)));
}

/// The keys of the database that were denied most.
pub fn top(ctx: &Context) -> Vec<Counter> {
    let database = ctx.database();
    TOP.with(ctx, |top| top.top().into_iter().filter(|counter| counter.database == database).cloned().collect())
}

/// Begins to count again.
pub fn reset_top(ctx: &Context) {
    TOP.with(ctx, Sketch::clear);
}
