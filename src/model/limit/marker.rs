//! The marker of SLIDING: how a plain sorted set says that it is a rate limit.
//!
//! The TTL of its key (absolute) is a whole second and 1 ms, and lies after the last entry by at most 21 s. Every write sets it
//! again where it is off. So the marker survives whatever keeps the key and its TTL (restart, replication, RENAME, COPY, unloading
//! the module), and the server itself removes the key after its last unit.
//!
//! A TTL that someone else gave a set of times may be one by chance: 1 in 1000 where it happens to lie so close, more
//! often for jobs that run at whole seconds. So the TTL is not believed alone: the entries must say it as well
//! ([`are_entries`](super::sliding::are_entries)); of more than a thousand, a thousand in stretches all over the set
//! ([`are_entries_here_and_there`](super::sliding::are_entries_here_and_there)). Of the sets that people keep,
//!
//! | set                                                | is taken for a limit                                       |
//! |----------------------------------------------------|------------------------------------------------------------|
//! | the log of a limiter by hand, `ZADD key now now`   | never: its last member is its own score                     |
//! | the same with a random or unique member            | never, unless the members are numbers in a row              |
//! | sessions or leases, members any names              | never                                                      |
//! | sessions or leases, members numbers                | only numbers in a row, or `0` alone, and then 1 in 1000     |
//!
//! RESTORE (and so MIGRATE) may shift the TTL, as it sends remaining time. So right after a RESTORE the entries suffice if the
//! TTL is off by at most 5 s; and only a command that names the key as a limit asks.

use crate::model::time::Millis;

/// How long a limit may outlive its last unit, at the most: so long its TTL need not follow every unit that is taken, which
/// would cost two look-ups and a command to replicate each time. It is far below the grace of an expiring set (47,111 ms), so
/// that no TTL is taken for both.
const LINGER: Millis = 20_000;

/// The TTL is this much after a whole second.
const OFF_SECOND: Millis = 1;

/// How far the TTL may be off right after a RESTORE.
const RESTORED: Millis = 5_000;

/// The TTL to give a limit whose last entry comes back at `last`, and which holds units for a `window`.
pub fn ttl(last: Millis, window: Millis) -> Millis {
    // An eighth of the window is what its memory is held too long, so that eight TTL writes a window do.
    (last + (window / 8).min(LINGER)).div_ceil(1000) * 1000 + OFF_SECOND
}

/// Whether `ttl`, the key's own, is the marker.
pub fn holds(last: Millis, ttl: Option<Millis>) -> bool {
    ttl.is_some_and(|ttl| ttl % 1000 == OFF_SECOND && (last + OFF_SECOND..=last + LINGER + 1000).contains(&ttl))
}

/// Whether `ttl` may have been the marker before a RESTORE.
pub fn held_before_restore(last: Millis, ttl: Option<Millis>) -> bool {
    ttl.is_some_and(|ttl| {
        ((last + OFF_SECOND).saturating_sub(RESTORED)..=last + LINGER + 1000 + RESTORED).contains(&ttl)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::limit::sliding::{Entry, are_entries};
    use crate::model::time::to_score;
    use proptest::prelude::*;

    /// Whether a set would be believed to be a limit.
    fn is_believed(entries: &[(Millis, String)], ttl: Millis) -> bool {
        let last = entries.last().map_or(0, |(at, _)| *at);
        holds(last, Some(ttl))
            && are_entries(entries.iter().map(|(at, member)| Entry::parse(to_score(*at), member.as_bytes())))
    }

    #[test]
    fn the_marker_is_a_whole_second_and_one_ms() {
        for (last, window, marker) in [
            (1_767_225_600_000, 0, 1_767_225_600_001),
            (1_767_225_600_001, 0, 1_767_225_601_001),
            (1_767_225_600_000, 60_000, 1_767_225_608_001),
            (1_767_225_600_000, u64::MAX, 1_767_225_620_001),
        ] {
            assert_eq!(ttl(last, window), marker);
            assert!(holds(last, Some(marker)) && held_before_restore(last, Some(marker)));
        }
        assert!(!holds(1_767_225_600_000, None) && !held_before_restore(1_767_225_600_000, None));
    }

    /// All that are, within a minute on both sides.
    #[test]
    fn the_marker_lies_behind_the_last_entry_by_21_s_at_the_most() {
        let (last, second) = (1_767_225_600_000_u64, 1000);
        let of = |last: u64, is_marker: fn(u64, Option<u64>) -> bool| {
            (last - 60_000..last + 60_000).filter(|&ttl| is_marker(last, Some(ttl))).collect::<Vec<_>>()
        };
        let seconds = |ttls: std::ops::RangeInclusive<u64>| ttls.step_by(second).collect::<Vec<_>>();
        assert_eq!(of(last, holds), seconds(last + 1..=last + 20_001));
        assert_eq!(of(last + 1, holds), seconds(last + 1001..=last + 21_001));
        assert_eq!(of(last, held_before_restore), (last - 4_999..=last + 26_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_limit_keeps_its_marker_until_its_units_reach_it() {
        let start = 1_767_225_600_123_u64;
        let marker = ttl(start, 60_000);
        let kept = (start..).take_while(|&last| holds(last, Some(marker))).count();
        assert!((7_500..=8_500).contains(&kept), "{kept}");
    }

    #[test]
    fn no_marker_is_that_of_an_expiring_set() {
        for last in 1_767_225_600_000_u64..1_767_225_602_000 {
            let grace = crate::model::marker::GRACE;
            for off in [0, 1, 10_000] {
                assert!(!held_before_restore(last, Some(last + grace - off)) && !holds(last, Some(last + grace + off)));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn whatever_is_written_is_believed(last in 1_000_000_000_000_u64..2_000_000_000_000, window in 1_u64..1 << 40, units in 1_u64..100) {
            let member = if units == 1 { "0".to_owned() } else { format!("0:{units}") };
            prop_assert!(is_believed(&[(last, member)], ttl(last, window)));
        }

        /// `ZADD key now now`, `PEXPIRE key window` at each request, in ms, or in s or µs; even where the TTL is the marker.
        #[test]
        fn the_log_of_a_limiter_by_hand_is_never_a_limit(
            now in 1_000_000_000_000_u64..2_000_000_000_000, window in 1_u64..25_000,
            steps in prop::collection::vec(prop_oneof![Just(1_u64), 1_u64..5000], 0..6),
            (unit, is_marked) in (prop_oneof![Just((1000, 1)), Just((1, 1)), Just((1, 1000))], any::<bool>()),
        ) {
            let (divisor, factor) = unit;
            let times = steps.iter().scan(now, |at, step| { *at += step; Some(*at) });
            let entries: Vec<_> = std::iter::once(now).chain(times)
                .map(|at| (at / divisor * factor, (at / divisor * factor).to_string())).collect();
            let last = entries.last().map_or(0, |(at, _)| *at);
            let marker = if is_marked { ttl(last, window) } else { now + window };
            prop_assert!(!is_believed(&entries, marker));
        }

        /// Sessions, numbered by user: `ZADD sessions expiry user`, the key expiring with the last of them, or a little later.
        #[test]
        fn a_session_of_a_numbered_user_is_never_a_limit(
            expiry in 1_000_000_000_000_u64..2_000_000_000_000, user in 1_u64..1_000_000_000, later in 0_u64..25_000,
            is_marked in any::<bool>(),
        ) {
            let marker = if is_marked { ttl(expiry, later * 8) } else { expiry + later };
            prop_assert!(!is_believed(&[(expiry, user.to_string())], marker));
        }

        /// Several of them: believed only where the numbers are in a row.
        #[test]
        fn sessions_of_numbered_users_are_no_limit(
            expiry in 1_000_000_000_000_u64..2_000_000_000_000,
            users in prop::collection::vec((1_u64..1_000_000_000, 1_u64..5000), 2..6),
        ) {
            let mut at = expiry;
            let entries: Vec<_> = users.iter().map(|(user, step)| { at += step; (at, user.to_string()) }).collect();
            let is_row = users.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0);
            prop_assert!(is_row || !is_believed(&entries, ttl(at, 60_000)));
        }
    }
}
