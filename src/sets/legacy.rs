//! Expiring sets of version 0.3, which had no tag `zeitset:expiring`. To be removed with version 1.0.
//!
//! In 0.3, the key of an expiring set had a TTL that ended 47,111 ms after the highest score. The module recognizes a
//! set of version 0.3 by exactly this TTL. The module adds the tag and removes the TTL when a command writes to the
//! set, when a plain ZADD changes the set, and when the keyspace scan finds the set. A replica only reads these sets,
//! and its master converts them.

use crate::base::time::{self, Millis};
use crate::server::key::Mode;
use crate::server::zset::SortedSet;

/// The time in ms from the expiry of the last member to the expiry of the key.
const GRACE: Millis = 47_111;

/// Returns the key's expiry (Unix ms) if it shows that an untagged sorted set is an expiring set of version 0.3.
pub fn ttl(set: &mut SortedSet<'_, impl Mode>) -> Option<Millis> {
    let ttl = set.expires_at()?;
    // Members that never expire have scores of 2^53-1 or more. A negative score had the TTL of score 0.
    let highest = set.last()?.score.clamp(0.0, time::to_score(time::MAX));
    (time::ceil_score(highest)? + GRACE == ttl).then_some(ttl)
}
