//! The marker: a TTL that identifies a plain sorted set as an expiring set.
//!
//! | TTL of the key (absolute, ms) | the key is           |
//! |------------------------------|----------------------|
//! | highest score + 47,111 ms    | an expiring set      |
//! | another TTL, or none         | an ordinary set      |
//!
//! Nothing else is stored: no marker key, no side table. So a set keeps its marker whenever the server keeps the TTL:
//! after a restart, on replicas, after RENAME, COPY and RESTORE, and after the module was unloaded. The marker needs no
//! memory. The server itself removes the key after its last member has expired, even without the module.
//!
//! # Why the marker is exact
//!
//! In a busy set, every new member with a later expiry changes the marker. Each change costs a second replicated
//! command, an event and two lookups: about 4,400 of the 22,500 instructions of a ZEXP.ADD to a small set. A coarser
//! marker, say 47,111 ms after the next multiple of `g` ms, would change once in `g` ms. But then only the TTL's
//! remainder modulo `g` would identify the set, because the highest score changes while the TTL stays. Any set whose
//! key expires 47.1 s to 47.1 s + `g` after its highest score would match once in `g` writes:
//!
//! | `g`               | chance of a false match | which sets                                                                         |
//! |-------------------|-------------------------|------------------------------------------------------------------------------------|
//! | 1 ms (in use)     | never, or always        | keys that expire exactly 47,111 ms after their highest score; no program does so   |
//! | 2^10 ms, 1 s      | 1 in 1,024              | logs of a limiter with a window of 48 s; at 1,000 requests a second, once a second |
//! | 2^20 ms, 17 min   | 1 in a million          | logs with a window of 1 to 18 min; of a million idle logs, about one matches       |
//! | 2^30 ms, 12 days  | 1 in a thousand million | logs and sessions of up to 12 days; without the module, keys live 12 days longer   |
//!
//! The sweeper deletes the expired members of every marked set. A hand-written limiter log holds only past times: a false match would empty
//! it, and the limiter would admit everyone.

use super::time::{self, Millis};

/// The time in ms from the expiry of the last member to the expiry of the key. In this time, the sweeper can drain a
/// large set in slices. Otherwise the server would free the whole set at once. Other programs are unlikely to use this
/// number. If a program did, the sweeper would delete members of its sets.
pub const GRACE: Millis = 47_111;

/// How far the TTL of a set in a new dataset may be below its marker, in ms. The module treats such a TTL as an older
/// marker of the set.
pub const TOLERANCE: Millis = 10_000;

/// How far the TTL of a restored set may differ from the marker, in ms. MIGRATE sends the *remaining* time. So the new
/// TTL differs from the old one by the transfer time and the clock skew.
pub const RESTORED: Millis = 5000;

/// How far the TTL may be below and above the marker, in ms, if all members of the set have expired. A log of past
/// times looks like such a set. But programs give logs a TTL of whole seconds after the highest score. The accepted
/// range is 47.011 to 47.911 s after the highest score, and contains no whole second.
const DEAD: (Millis, Millis) = (100, 800);

/// Why a sorted set without the marker may still be an expiring set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Nothing,
    /// The set had the marker. Plain commands have changed the set since then, but not its TTL.
    Dirty,
    /// The set was just restored. MIGRATE sends the TTL as remaining time.
    Restored,
    /// The set belongs to a dataset that is new to the module.
    Loaded,
    /// A command names the set. If all its members have expired, the command may treat it as an expiring set, but the
    /// sweeper does not.
    Named,
}

/// Returns the TTL (absolute, ms) of an expiring set with the highest score `highest`. `None` for NaN. All scores of
/// 2^53-1 or more have the same marker: their members never expire. A negative score has the marker of score 0.
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
            Reason::Restored => is_alive && is_near(highest, ttl, RESTORED, RESTORED),
            Reason::Loaded => is_alive && is_near(highest, ttl, TOLERANCE, RESTORED),
            Reason::Named => !is_alive && is_near(highest, ttl, DEAD.0, DEAD.1),
        }
}

fn is_near(highest: f64, ttl: Option<Millis>, below: Millis, above: Millis) -> bool {
    matches!((of(highest), ttl), (Some(marker), Some(ttl))
        if marker.saturating_sub(ttl) <= below && ttl.saturating_sub(marker) <= above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_of_an_expiring_set_is_its_last_expiry_and_the_grace() {
        assert_eq!(of(1_767_225_600_123.0), Some(1_767_225_647_234));
        assert_eq!(of(1_767_225_600_123.25), Some(1_767_225_647_235));
        assert_eq!(of(time::to_score(time::MAX)), Some(time::MAX + GRACE));
    }

    #[test]
    fn only_the_exact_ttl_is_the_marker() {
        let marker = 5_000_000 + GRACE;
        for (ttl, expected) in
            [(Some(marker), true), (Some(marker - 1), false), (Some(marker + 1), false), (None, false)]
        {
            assert_eq!(holds(5e6, ttl), expected, "{ttl:?}");
        }
        // The highest score NaN has no marker, so it must not match a missing TTL.
        assert!(!holds(f64::NAN, None));
    }

    #[test]
    fn what_never_expires_has_one_marker_and_what_is_before_the_epoch_another() {
        let never = Some(time::MAX + GRACE);
        for score in [9_007_199_254_740_991.0, 9_007_199_254_740_992.0, 1e308, f64::INFINITY] {
            assert_eq!(of(score), never, "{score}");
            assert!(holds(score, never), "{score}");
        }
        for score in [0.0, -0.0, -1.0, f64::NEG_INFINITY] {
            assert_eq!(of(score), Some(GRACE), "{score}");
        }
        assert_eq!(of(f64::NAN), None);
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
            for (reason, alive, dead) in
                [(Reason::Loaded, new, false), (Reason::Restored, restored, false), (Reason::Named, false, dead)]
            {
                let is_marker = ttl == Some(marker);
                assert_eq!(is_expiring(5e6, ttl, reason, 4_999_999), is_marker || alive, "{reason:?} {ttl:?}");
                assert_eq!(is_expiring(5e6, ttl, reason, 5_000_000), is_marker || dead, "{reason:?} {ttl:?}");
            }
            assert_eq!(is_expiring(5e6, ttl, Reason::Nothing, 1), ttl == Some(marker), "{ttl:?}");
            assert_eq!(is_expiring(5e6, ttl, Reason::Dirty, 1), ttl.is_some(), "{ttl:?}");
        }
    }

    #[test]
    fn a_log_whose_ttl_is_whole_seconds_is_no_dead_set() {
        for seconds in 1..100 {
            assert!(!is_expiring(5e6, Some(5_000_000 + 1000 * seconds), Reason::Named, 6_000_000), "{seconds} s");
        }
    }

    #[test]
    fn a_key_without_ttl_is_never_ours() {
        assert!(!holds(1.0, None));
        assert!(!is_expiring(1.0, None, Reason::Loaded, 0));
    }
}
