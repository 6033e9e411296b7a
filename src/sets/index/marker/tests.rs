//! Tests which TTLs mark a set as an expiring set. The right TTL depends on the set's highest score.

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
    for (ttl, expected) in [(Some(marker), true), (Some(marker - 1), false), (Some(marker + 1), false), (None, false)] {
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
