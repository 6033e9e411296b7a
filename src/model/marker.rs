//! The marker: how a plain sorted set says what it is, by the time-to-live of its key.
//!
//! | TTL of the key (absolute, ms)                           | it is            |
//! |---------------------------------------------------------|------------------|
//! | highest score + 47,111 ms                               | an expiring set  |
//! | a whole second and 1 ms, within 21 s of highest score   | a rate limit     |
//! | anything else, or none                                  | somebody else's  |
//!
//! Nothing else is stored: no marker key, no side table. So the marker survives whatever keeps the key and its TTL
//! (restart, replication, RENAME, COPY, RESTORE, unloading the module), costs no byte, and makes the server itself
//! remove the key after its last member, with or without the module.

use super::time::{self, Millis};

/// Grace between the last member's expiry and the key's own, so that the sweeper can drain a large set in slices
/// before the server would free it in one blow. The odd number is the signature: the sweeper deletes on the strength
/// of it, so nobody may meet it by chance.
pub const GRACE: Millis = 47_111;

/// How far a TTL may be off and still be taken for a marker by a command that says what the key is meant to be.
/// MIGRATE sends the TTL as *remaining* time, so it arrives shifted by transfer time and clock skew.
pub const TOLERANCE: Millis = 10_000;

/// How long a rate limit may outlive its last unit, at the most: so long its TTL need not follow every unit that is taken,
/// which would cost two look-ups and a command to replicate each time. Less than [`GRACE`] by more than twice
/// [`TOLERANCE`], so that no TTL is taken for both.
const LINGER: Millis = 20_000;

/// A limit's TTL is this much after a whole second.
const OFF_SECOND: Millis = 1;

/// What a sorted set of ours may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Members with their expiry as score (ZEXP).
    Expiring,
    /// Units with the moment they come back as score (ZRL).
    Limit,
}

impl Kind {
    /// The TTL (absolute, ms) to give a set of this kind whose highest score is `highest`, and which holds things for
    /// `span` ms at a time. `None` where the score is no moment of ours (negative, not finite, above 2^53-1): such a set
    /// bears no marker.
    pub fn ttl(self, highest: f64, span: Millis) -> Option<Millis> {
        let last = time::ceil_score(highest)?;
        Some(match self {
            Kind::Expiring => last + GRACE,
            // An eighth of the window is what its memory is held too long, so that eight TTL writes a window do.
            Kind::Limit => (last + (span / 8).min(LINGER)).div_ceil(1000) * 1000 + OFF_SECOND,
        })
    }

    /// Whether `ttl`, the key's own, is the marker.
    pub fn holds(self, highest: f64, ttl: Option<Millis>) -> bool {
        match (self, time::ceil_score(highest), ttl) {
            (_, None, _) | (_, _, None) => false,
            (Kind::Expiring, Some(last), Some(ttl)) => ttl == last + GRACE,
            (Kind::Limit, Some(last), Some(ttl)) => {
                ttl % 1000 == OFF_SECOND && (last + OFF_SECOND..=last + LINGER + 1000).contains(&ttl)
            }
        }
    }

    /// Whether `ttl` is within `tolerance` of the marker, of a limit: of the earliest one.
    pub fn nearly_holds(self, highest: f64, ttl: Option<Millis>, tolerance: Millis) -> bool {
        matches!((self.ttl(highest, 0), ttl), (Some(marker), Some(ttl)) if marker.abs_diff(ttl) <= tolerance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_of_an_expiring_set_is_its_last_expiry_and_the_grace() {
        assert_eq!(Kind::Expiring.ttl(1_767_225_600_123.0, 0), Some(1_767_225_647_234));
        assert_eq!(Kind::Expiring.ttl(1_767_225_600_123.25, 0), Some(1_767_225_647_235));
        assert_eq!(Kind::Expiring.ttl(time::to_score(time::MAX), 0), Some(time::MAX + GRACE));
    }

    #[test]
    fn the_marker_of_a_limit_is_a_whole_second_and_one_ms() {
        assert_eq!(Kind::Limit.ttl(1_767_225_600_000.0, 0), Some(1_767_225_600_001));
        assert_eq!(Kind::Limit.ttl(1_767_225_600_001.0, 0), Some(1_767_225_601_001));
        assert_eq!(Kind::Limit.ttl(1_767_225_600_000.5, 0), Some(1_767_225_601_001));
        assert_eq!(Kind::Limit.ttl(1_767_225_600_000.0, 60_000), Some(1_767_225_608_001));
        assert_eq!(Kind::Limit.ttl(1_767_225_600_000.0, u64::MAX), Some(1_767_225_620_001));
    }

    #[test]
    fn a_limit_keeps_its_marker_until_its_units_reach_it() {
        let start = 1_767_225_600_123_u64;
        let ttl = Kind::Limit.ttl(time::to_score(start), 60_000);
        let kept = (start..).take_while(|&last| Kind::Limit.holds(time::to_score(last), ttl)).count();
        assert!((7_500..=8_500).contains(&kept), "{kept}");
    }

    #[test]
    fn no_set_is_both_even_within_the_tolerance() {
        for last in 1_767_225_600_000_u64..1_767_225_602_000 {
            let score = time::to_score(last);
            assert!(!Kind::Limit.holds(score, Kind::Expiring.ttl(score, 0)), "{last}");
            for span in [0, 1, 8_000, 60_000, 160_000, u64::MAX] {
                let limit = Kind::Limit.ttl(score, span);
                assert!(Kind::Limit.holds(score, limit), "{last} {span}");
                assert!(!Kind::Expiring.nearly_holds(score, limit, 2 * TOLERANCE), "{last} {span}");
            }
        }
    }

    #[test]
    fn a_score_that_is_no_moment_bears_no_marker() {
        for score in [-1.0, f64::INFINITY, f64::NEG_INFINITY, 9_007_199_254_740_992.0, 1e308] {
            assert_eq!(Kind::Expiring.ttl(score, 0), None, "{score}");
            assert!(!Kind::Limit.holds(score, None), "{score}");
        }
    }

    #[test]
    fn a_key_without_ttl_is_never_ours() {
        assert!(!Kind::Expiring.holds(1.0, None));
        assert!(!Kind::Expiring.nearly_holds(1.0, None, TOLERANCE));
        assert!(Kind::Expiring.nearly_holds(1.0, Some(1 + GRACE + TOLERANCE), TOLERANCE));
        assert!(!Kind::Expiring.nearly_holds(1.0, Some(1 + GRACE + TOLERANCE + 1), TOLERANCE));
    }
}
