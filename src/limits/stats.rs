//! Statistics of all limits: totals for INFO, and the most denied keys for ZRL.TOP.

use crate::base::time::Millis;
use crate::limits::model::sketch::{Counter, Sketch};
use crate::server::under_lock::UnderLock;
use crate::server::{Context, Str};
use lazy_static::lazy_static;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of checks that were allowed without FORCE.
pub static ALLOWED: AtomicU64 = AtomicU64::new(0);
/// The number of checks that were allowed only because of FORCE.
pub static FORCED: AtomicU64 = AtomicU64::new(0);
/// The number of denied checks.
pub static DENIED: AtomicU64 = AtomicU64::new(0);
/// The number of units that all checks have taken.
pub static UNITS: AtomicU64 = AtomicU64::new(0);

lazy_static! {
    static ref TOP: UnderLock<Sketch> = UnderLock::new(Sketch::new());
}

/// Counts an allowed check that took `units`. `fits` is false if the check was allowed only because of FORCE.
pub fn count_taken(units: u64, fits: bool) {
    let counter = if fits { &ALLOWED } else { &FORCED };
    counter.fetch_add(1, Ordering::Relaxed);
    UNITS.fetch_add(units, Ordering::Relaxed);
}

/// Counts a check that the limits in `keys` denied.
pub fn count_denied<'a>(ctx: &Context, keys: impl IntoIterator<Item = Str<'a>>, now: Millis) {
    DENIED.fetch_add(1, Ordering::Relaxed);
    let database = ctx.database();
    TOP.with(ctx, |top| keys.into_iter().for_each(|key| top.add(database, key.bytes(), now)));
}

pub fn top(ctx: &Context) -> Vec<Counter> {
    let database = ctx.database();
    TOP.with(ctx, |top| top.top().into_iter().filter(|counter| counter.database == database).cloned().collect())
}

pub fn reset_top(ctx: &Context) {
    TOP.with(ctx, Sketch::clear);
}
