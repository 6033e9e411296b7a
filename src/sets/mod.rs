//! Expiring sets: plain sorted sets whose key has a special TTL, the marker ([`crate::sets::index::marker`]).
//!
//! All changes of an expiring set use [`ExpiringSet`]. `ExpiringSet` restores the marker, replicates the changes with
//! the server's own commands and absolute values, and sends the keyspace events.
//!
//! Reads ignore expired members. The [`sweeper`] deletes expired members, and restores the markers of sets that plain
//! commands changed. The [`tracker`] stores which sets exist, and when to check each set next. The tracker's algorithms
//! are in [`crate::sets::index`]. The tracker learns of sets from the module's own commands, from events
//! ([`key_events`]), and from the keyspace [`scan`].
//!
//! Each of these files uses only the files listed before it: [`effects`], [`scan`], [`tracker`], [`ExpiringSet`],
//! [`sweeper`], [`key_events`].

pub mod commands;
mod effects;
mod expiring_set;
mod index;
pub mod key_events;
mod report;
mod scan;
pub mod sweeper;
pub mod tracker;

use crate::server::Context;
pub use effects::MemberName;
pub use expiring_set::ExpiringSet;
pub use report::report;

/// Starts active expiry, and the search for expiring sets.
pub fn start(ctx: &Context) {
    tracker::start(ctx, sweeper::run_slice);
}

/// Disarms the timer, before the module is unloaded.
pub fn stop(ctx: &Context) {
    tracker::stop(ctx);
}
