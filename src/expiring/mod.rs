//! The sorted sets that expire: plain sorted sets, marked by the TTL of their key ([`crate::model::marker`]).
//!
//! [`TimedSet`] is the one place that changes such a set, re-establishes its marker, replicates what it did as native
//! commands with absolute values, and announces it.
//!
//! Reads hide what has expired; the memory is given back by the [`sweeper`]. What plain commands changed gets its marker back from the
//! [`healer`]. Both go by the [`tracker`], which knows of the sets and of when to look next (a model of its own:
//! [`crate::model::tracking`]). It learns of sets from the module's own commands, from events ([`watch`]), and in any case from the
//! [`patrol`], which walks through all keys again and again.
//!
//! Each uses only what stands before it: [`patrol`], [`tracker`], [`TimedSet`], [`healer`] and [`sweeper`], [`watch`].

mod announce;
mod effects;
mod healer;
mod patrol;
pub mod sweeper;
mod timed_set;
pub mod tracker;
pub mod watch;

use crate::server::Context;
pub use effects::Member;
pub use timed_set::TimedSet;

/// Begins to look for expiring sets, and to sweep them.
pub fn start(ctx: &Context) {
    tracker::start(ctx, sweeper::run_slice);
}

/// Disarms the timer, for the unloading of the module.
pub fn stop(ctx: &Context) {
    tracker::stop(ctx);
}
