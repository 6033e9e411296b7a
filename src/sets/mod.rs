//! Expiring sets: sorted sets whose scores are expiry times, in Unix ms.
//!
//! A sorted set is an expiring set if it has the [`tag`]: the member `zeitset:expiring` with the score `-inf`. Any
//! other sorted set is ordinary, except a set of version 0.3 ([`legacy`]). The module changes an ordinary set only if a
//! client calls ZEXP.ADOPT. The tag is data, so it goes wherever the set goes: into RDB and AOF files, to replicas, to
//! other keys and other servers. The tag's score is lower than every time, so commands that read a range of times do
//! not meet it.
//!
//! All changes of an expiring set use [`ExpiringSet`]. `ExpiringSet` adds the tag, replicates the changes with the
//! server's own commands and absolute values, and sends the keyspace events.
//!
//! Reads ignore expired members, and the [`sweeper`] deletes them. The [`tracker`] stores which sets exist, when to
//! check each set next, and which tags have to be added or removed after plain commands. The tracker's algorithms are
//! in [`crate::sets::index`]. The tracker learns of sets from the module's own commands, from events ([`key_events`]),
//! and from the keyspace [`scan`].
//!
//! Each of these files uses only the files listed before it: [`tag`], [`legacy`], [`effects`], [`scan`], [`tracker`],
//! [`ExpiringSet`], [`sweeper`], [`key_events`].

pub mod commands;
mod effects;
mod expiring_set;
mod index;
pub mod key_events;
mod legacy;
mod report;
mod scan;
pub mod settings;
pub mod sweeper;
mod tag;
pub mod tracker;

use crate::server::Context;
pub use effects::MemberName;
pub use expiring_set::ExpiringSet;
pub use report::report;
pub use tag::is_name as is_tag_name;

/// Starts active expiry, and the search for expiring sets.
pub fn start(ctx: &Context) {
    tracker::start(ctx, sweeper::run_slice);
}

/// Disarms the sweeper's timer and frees memory, before the module is unloaded.
pub fn stop(ctx: &Context) {
    tracker::unload(ctx);
}
