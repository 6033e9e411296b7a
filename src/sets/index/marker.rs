//! The marker: a TTL that identifies a plain sorted set as an expiring set.
//!
//! | TTL of the key (absolute, ms) | the key is           |
//! |------------------------------|----------------------|
//! | highest score + 47,111 ms    | an expiring set      |
//! | another TTL, or none         | an ordinary set      |
//!
//! Nothing else is stored: no marker key, no side table. So a set keeps its marker whenever the server keeps the TTL:
//! after a restart, on replicas, after RENAME, COPY and RESTORE, and after the module was unloaded. The marker needs no
//! memory. The server itself removes the key after the last member of the set has expired, even without the module.
//!
//! # Why the marker is exact
//!
//! In a busy set, every new member with a later expiry changes the marker. Each change costs a second replicated
//! command, an event and two lookups: about 4,400 of the 22,500 instructions of a ZEXP.ADD to a small set.
//!
//! A coarser marker would change less often, but ordinary sets would also match it. Suppose that the marker is the
//! highest score, rounded up to a multiple of `g` ms, plus 47,111 ms. A hand-written limiter log expires one window
//! after its highest score. If the window is from 47.1 s to 47.1 s + `g` ms, about one of `g` writes would give the log
//! the TTL of an expiring set. With `g` = 1,000, a log with a window of 48 s and 1,000 writes a second would match once
//! a second. With `g` = 1,000,000, about one of a million idle logs with a window of 1 to 17 minutes would match.
//!
//! The sweeper deletes the expired members of every marked set. A hand-written limiter log holds only past times: a
//! false match would empty it, and the limiter would admit everyone.

use crate::base::time::{self, Millis};

/// The time in ms from the expiry of the last member to the expiry of the key. In this time, the sweeper can delete the
/// members of a large set in slices. Without this time, the server would free the whole set at once. Other programs are
/// unlikely to use this number. If a program did, the sweeper would delete members of its sets.
pub const GRACE: Millis = 47_111;

/// How far the TTL of a loaded set may be below the marker (an expiring set's TTL), in ms. The module assumes that such
/// a TTL is an earlier marker, and that the highest score has grown since.
const FIRST_SCAN_TOLERANCE: Millis = 10_000;

/// How far the TTL of a restored set may differ from the marker, in ms. MIGRATE sends the *remaining* time. So the new
/// TTL differs from the old one by the transfer time and the clock skew.
const RESTORE_TOLERANCE: Millis = 5000;

/// How far the TTL of a set may be below and above the marker, in ms, if a command names the set and all members have
/// expired. A TTL in this range is 47,011 to 47,911 ms after the highest score. A program's own rate-limit log also has
/// only past scores. But such a log usually expires a whole number of seconds after its highest score. So the module
/// does not take the log for an expiring set.
const EXPIRED_TOLERANCE: (Millis, Millis) = (100, 800);

/// Why a sorted set without the marker may still be an expiring set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Nothing,
    /// The set had the marker. Plain commands have changed the set since then, but not its TTL.
    Dirty,
    /// The set was just restored. Its TTL may differ from the marker, because MIGRATE sends the remaining time.
    Restored,
    /// The module's first scan of a dataset has found the set.
    Loaded,
    /// A command names the set. A TTL close to the marker is accepted if all members have expired.
    Named,
}

/// Returns the TTL (absolute, ms) of an expiring set with the highest score `highest`. Returns `None` for NaN. All
/// scores of 2^53-1 or more have the same marker, because members with these scores never expire. A negative score has
/// the marker of score 0.
pub fn of(highest: f64) -> Option<Millis> {
    Some(time::ceil_score(highest.clamp(0.0, time::to_score(time::MAX)))? + GRACE)
}

/// Whether `ttl`, the key's TTL, is the marker.
pub fn holds(highest: f64, ttl: Option<Millis>) -> bool {
    ttl.is_some() && of(highest) == ttl
}

pub fn is_expiring(highest: f64, ttl: Option<Millis>, reason: Reason, now: Millis) -> bool {
    let is_alive = highest > time::to_score(now);
    holds(highest, ttl)
        || match reason {
            Reason::Nothing => false,
            Reason::Dirty => ttl.is_some(),
            Reason::Restored => is_alive && is_near(highest, ttl, RESTORE_TOLERANCE, RESTORE_TOLERANCE),
            Reason::Loaded => is_alive && is_near(highest, ttl, FIRST_SCAN_TOLERANCE, RESTORE_TOLERANCE),
            Reason::Named => !is_alive && is_near(highest, ttl, EXPIRED_TOLERANCE.0, EXPIRED_TOLERANCE.1),
        }
}

fn is_near(highest: f64, ttl: Option<Millis>, below: Millis, above: Millis) -> bool {
    matches!((of(highest), ttl), (Some(marker), Some(ttl))
        if marker.saturating_sub(ttl) <= below && ttl.saturating_sub(marker) <= above)
}

#[cfg(test)]
mod tests;
