//! The marker: how a plain sorted set says what it is, by the time-to-live of its key.
//!
//! | TTL of the key (absolute, ms)                           | it is            |
//! |---------------------------------------------------------|------------------|
//! | highest score + 47,111 ms                               | an expiring set  |
//! | anything else, or none                                  | somebody else's  |
//!
//! Nothing else is stored: no marker key, no side table. So the marker survives whatever keeps the key and its TTL
//! (restart, replication, RENAME, COPY, RESTORE, unloading the module), costs no byte, and makes the server itself
//! remove the key after its last member, with or without the module.
//!
//! # Why the marker is exact
//!
//! In a busy set every later member moves the marker: a second command to replicate, an event, two look-ups, about 4,400 of the
//! 22,500 instructions of a ZEXP.ADD to a small set. A coarser one, say 47,111 ms after the next multiple of `g` ms, would move once
//! in `g` ms. But the highest score moves while such a TTL stands still, so the TTL's remainder by `g` is all that is left of the
//! signature. Any set whose key ends 47.1 s to 47.1 s + `g` after its highest score would bear it once in `g` writes:
//!
//! | `g`              | by chance           | of whom                                                                          |
//! |------------------|---------------------|----------------------------------------------------------------------------------|
//! | 1 ms (as it is)  | never, or always    | keys that end exactly 47,111 ms after their highest score: nobody counts so      |
//! | 2^10 ms, 1 s     | 1 in 1,024          | logs of a limiter with a window of 48 s: at 1,000 requests a second, each second |
//! | 2^20 ms, 17 min  | 1 in a million      | logs with a window of 1 to 18 min, as nearly all are: one of a million idle ones |
//! | 2^30 ms, 12 days | 1 in a thousand million | all logs and sessions of up to 12 days; and a server without the module would keep each key 12 days longer |
//!
//! What bears the marker loses its members up to now, and those of a log are all of the past: it would be emptied, and let in whom it
//! is to keep out.

use super::time::{self, Millis};

/// Grace between the last member's expiry and the key's own, so that the sweeper can drain a large set in slices
/// before the server would free it in one blow. The odd number is the signature: the sweeper deletes on the strength
/// of it, so nobody may meet it by chance.
pub const GRACE: Millis = 47_111;

/// How far the TTL of a set may be below its marker, and still be believed to be that of what the set was a moment ago, when a
/// dataset is new to the module.
pub const TOLERANCE: Millis = 10_000;

/// How far the TTL of a set that was restored may be off the marker: MIGRATE sends it as *remaining* time, so it arrives
/// shifted by transfer time and clock skew.
pub const RESTORED: Millis = 5000;

/// How far below and above the marker it may be if all members are dead, as they are in a log of moments. People give logs a TTL of whole
/// seconds after the highest score, and there is none in here: 47.011 to 47.911 s.
const DEAD: (Millis, Millis) = (100, 800);

/// What a sorted set with the module's marker may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Members with their expiry as score (ZEXP).
    Expiring,
}

impl Kind {
    /// The TTL (absolute, ms) to give a set of this kind whose highest score is `highest`. `None` for what is no number. What lies
    /// above 2^53-1 never expires, and what is negative has expired long since.
    pub fn ttl(self, highest: f64) -> Option<Millis> {
        let Kind::Expiring = self;
        Some(time::ceil_score(highest.clamp(0.0, time::to_score(time::MAX)))? + GRACE)
    }

    /// Whether `ttl`, the key's own, is the marker.
    pub fn holds(self, highest: f64, ttl: Option<Millis>) -> bool {
        ttl.is_some() && self.ttl(highest) == ttl
    }

    /// Whether `ttl` may have been the marker of a set that is new to the module: before plain commands prolonged the set, or before
    /// RESTORE.
    pub fn may_have_held(self, highest: f64, ttl: Option<Millis>) -> bool {
        self.is_between(highest, ttl, (TOLERANCE, RESTORED))
    }

    /// The same, for a set all of whose members are dead.
    pub fn may_have_held_dead(self, highest: f64, ttl: Option<Millis>) -> bool {
        self.is_between(highest, ttl, DEAD)
    }

    /// Whether `ttl` may have been the marker before RESTORE, just now.
    pub fn may_have_held_before_restore(self, highest: f64, ttl: Option<Millis>) -> bool {
        self.is_between(highest, ttl, (RESTORED, RESTORED))
    }

    fn is_between(self, highest: f64, ttl: Option<Millis>, (below, above): (Millis, Millis)) -> bool {
        matches!((self.ttl(highest), ttl), (Some(marker), Some(ttl))
            if marker.saturating_sub(ttl) <= below && ttl.saturating_sub(marker) <= above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_of_an_expiring_set_is_its_last_expiry_and_the_grace() {
        assert_eq!(Kind::Expiring.ttl(1_767_225_600_123.0), Some(1_767_225_647_234));
        assert_eq!(Kind::Expiring.ttl(1_767_225_600_123.25), Some(1_767_225_647_235));
        assert_eq!(Kind::Expiring.ttl(time::to_score(time::MAX)), Some(time::MAX + GRACE));
    }

    #[test]
    fn only_the_exact_ttl_is_the_marker() {
        let marker = 5_000_000 + GRACE;
        for (ttl, expected) in
            [(Some(marker), true), (Some(marker - 1), false), (Some(marker + 1), false), (None, false)]
        {
            assert_eq!(Kind::Expiring.holds(5e6, ttl), expected, "{ttl:?}");
        }
        // A score that is no number has no marker, and so a set without a TTL does not have it.
        assert!(!Kind::Expiring.holds(f64::NAN, None));
    }

    #[test]
    fn what_never_expires_has_one_marker_and_what_is_before_the_epoch_another() {
        let never = Some(time::MAX + GRACE);
        for score in [9_007_199_254_740_991.0, 9_007_199_254_740_992.0, 1e308, f64::INFINITY] {
            assert_eq!(Kind::Expiring.ttl(score), never, "{score}");
            assert!(Kind::Expiring.holds(score, never), "{score}");
        }
        for score in [0.0, -0.0, -1.0, f64::NEG_INFINITY] {
            assert_eq!(Kind::Expiring.ttl(score), Some(GRACE), "{score}");
        }
        assert_eq!(Kind::Expiring.ttl(f64::NAN), None);
    }

    #[test]
    fn a_ttl_near_the_marker_may_have_been_the_marker() {
        let marker = 5_000_000 + GRACE;
        for (ttl, new, restored, dead) in [
            (Some(marker), true, true, true),
            (Some(marker + 800), true, true, true),
            (Some(marker + 801), true, true, false),
            (Some(marker + 5_000), true, true, false),
            (Some(marker + 5_001), false, false, false),
            (Some(marker - 100), true, true, true),
            (Some(marker - 101), true, true, false),
            (Some(marker - 5_000), true, true, false),
            (Some(marker - 5_001), true, false, false),
            (Some(marker - 10_000), true, false, false),
            (Some(marker - 10_001), false, false, false),
            (Some(1), false, false, false),
            (None, false, false, false),
        ] {
            let kind = Kind::Expiring;
            assert_eq!(kind.may_have_held(5e6, ttl), new, "{ttl:?}");
            assert_eq!(kind.may_have_held_before_restore(5e6, ttl), restored, "{ttl:?}");
            assert_eq!(kind.may_have_held_dead(5e6, ttl), dead, "{ttl:?}");
        }
    }

    #[test]
    fn a_log_whose_ttl_is_whole_seconds_is_no_dead_set() {
        for seconds in 1..100 {
            assert!(!Kind::Expiring.may_have_held_dead(5e6, Some(5_000_000 + 1000 * seconds)), "{seconds} s");
        }
    }

    #[test]
    fn a_key_without_ttl_is_never_ours() {
        assert!(!Kind::Expiring.holds(1.0, None));
        assert!(!Kind::Expiring.may_have_held(1.0, None));
    }
}
