//! Expiring sets: sorted sets whose scores are expiry times, in Unix ms.
//!
//! A sorted set is an expiring set if it has the [`tag`]: the member `zeitset:expiring` with the score `-inf`. Any other
//! sorted set is ordinary, and the module never changes it. The tag is data, so it goes wherever the set goes: into RDB
//! and AOF files, to replicas, to other keys and other servers. Its score is lower than every time, so commands that
//! read a range of times do not meet it.
//!
//! All changes of an expiring set use [`ExpiringSet`]. `ExpiringSet` adds the tag, replicates the changes with the
//! server's own commands and absolute values, and sends the keyspace events.
//!
//! Reads ignore expired members. The [`sweeper`] deletes expired members. The [`tracker`] stores which sets exist, when
//! to check each set next, and which tags have to be added or removed after plain commands. Its algorithms are in
//! [`crate::model::tracking`]. The tracker learns of sets from the module's own commands, from events ([`key_events`]),
//! and from the keyspace [`scan`].
//!
//! Each of these files uses only the files listed before it: [`legacy`], [`effects`], [`scan`], [`tracker`],
//! [`ExpiringSet`], [`sweeper`], [`key_events`].

mod effects;
mod expiring_set;
pub mod key_events;
mod legacy;
mod scan;
pub mod sweeper;
pub mod tracker;

use crate::server::{Context, StaticStr, Str};
pub use effects::MemberName;
pub use expiring_set::ExpiringSet;
use lazy_static::lazy_static;

/// The name of the member that makes a sorted set an expiring set.
const TAG: &[u8] = b"zeitset:expiring";

lazy_static! {
    static ref TAG_NAME: StaticStr = StaticStr::new(TAG);
}

fn tag(ctx: &Context) -> Str<'static> {
    TAG_NAME.get(ctx)
}

/// Whether this member is the tag, which commands do not show or change.
pub fn is_tag(member: Str<'_>) -> bool {
    member.bytes() == TAG
}

/// Starts active expiry, and the search for expiring sets.
pub fn start(ctx: &Context) {
    tracker::start(ctx, sweeper::run_slice);
}

/// Disarms the timer, before the module is unloaded.
pub fn stop(ctx: &Context) {
    tracker::stop(ctx);
}
