//! Expiring sets: plain sorted sets whose key has a certain TTL, the marker ([`crate::model::marker`]).
//!
//! All changes of an expiring set go through [`TimedSet`]. It restores the marker, replicates the changes with the server's own commands
//! and absolute values, and sends the keyspace events.
//!
//! Reads ignore expired members. [`check`] deletes them, and restores the markers of sets that plain commands changed. The [`tracker`]
//! knows the sets and the time of each one's next check (its model is [`crate::model::tracking`]). It learns of sets from the module's own
//! commands, from events ([`watch`]) and from the keyspace [`scan`].
//!
//! Each file uses only earlier ones of this list: [`effects`], [`scan`], [`tracker`], [`TimedSet`], [`check`], [`watch`].

pub mod check;
mod effects;
mod scan;
mod timed_set;
pub mod tracker;
pub mod watch;

use crate::server::Context;
pub use effects::MemberName;
pub use timed_set::TimedSet;

/// Starts looking for expiring sets and sweeping them.
pub fn start(ctx: &Context) {
    tracker::start(ctx, check::run_slice);
}

/// Disarms the timer, before the module is unloaded.
pub fn stop(ctx: &Context) {
    tracker::stop(ctx);
}
