//! Tests of the strings in which limits are stored.

mod policies;

use super::*;
use crate::base::{any_text, fuzzing};
use proptest::prelude::*;

#[test]
fn other_peoples_strings_are_no_limits() {
    for text in [
        "",
        "x",
        "5",
        "1767225600",
        "1767225600000",
        "sliding",
        "sliding:",
        "sliding: yes",
        "sliding:0123456789abcdef",
        "fixed",
        "leaky",
        "fixed: yes",
        "leaky:no",
        "{\"used\":5}",
        "1767225600.123",
        "null",
    ] {
        assert_eq!(StoredLimit::parse(text.as_bytes()), Err(NotThisFormat), "{text}");
    }
}

#[test]
fn a_string_of_one_algorithm_is_none_of_another() {
    let policy = |algorithm| Policy { algorithm, limit: 5, window: 1000, precision: None };
    let ring = b"sliding:\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0";
    let read = |text: &'static [u8]| {
        StoredLimit::parse(text).expect("a limit");
        Some(text)
    };
    let sliding = read(ring);
    let (fixed, leaky, cell) = (
        read(b"fixed:1767225600000:1"),
        read(b"leaky:1767225600000:5/1000!1767225599000"),
        read(b"1767225600000000000"),
    );
    for (algorithm, stored, is_one) in [
        (Algorithm::Fixed, fixed, true),
        (Algorithm::Fixed, leaky, false),
        (Algorithm::Fixed, cell, false),
        (Algorithm::Leaky, fixed, false),
        (Algorithm::Leaky, leaky, true),
        (Algorithm::Leaky, cell, false),
        (Algorithm::Fixed, sliding, false),
        (Algorithm::Leaky, sliding, false),
        (Algorithm::Sliding, sliding, true),
        (Algorithm::Sliding, fixed, false),
        (Algorithm::Sliding, leaky, false),
        (Algorithm::Sliding, cell, false),
    ] {
        let call = Call { policy: policy(algorithm), now: 0, cost: 1 };
        assert_eq!(assess(call, Intent::Take, stored).is_ok(), is_one, "{algorithm:?} {stored:?}");
    }
}

#[test]
fn what_is_in_use_is_told_until_the_last_unit_is_back() {
    const END: Millis = 1_767_225_600_000;
    let at = |text: &str, now: Millis| StoredLimit::parse(text.as_bytes()).unwrap().usage(now).unwrap();
    let some = |units: Option<u64>, next: Millis, all: Millis| LimitUsage {
        units,
        slots: 1,
        next_available: Some(next),
        all_available: Some(all),
    };
    let none = LimitUsage { units: Some(0), slots: 0, next_available: None, all_available: None };
    for (text, now, held) in [
        ("fixed:1767225600000:7", END - 1, some(Some(7), END, END)),
        ("fixed:1767225600000:7", END, none),
        ("fixed:1767225600000:7", END + 1, none),
        // One unit becomes available every 200 ms, the last one at END.
        ("leaky:1767225600000:5/1000!1767225599000", END - 1, some(Some(1), END, END)),
        ("leaky:1767225600000:5/1000!1767225599000", END - 200, some(Some(1), END, END)),
        ("leaky:1767225600000:5/1000!1767225599000", END - 201, some(Some(2), END - 200, END)),
        ("leaky:1767225600000:5/1000!1767225599000", END - 1000, some(Some(5), END - 800, END)),
        ("leaky:1767225600000:5/1000!1767225599000", END, none),
        // The number of units depends on the policy, which THROTTLE does not store. The arrival time of the last string
        // is not a whole ms, and is rounded up.
        ("1767225600000000000", END - 1, LimitUsage { next_available: None, ..some(None, END, END) }),
        ("1767225600000000000", END, none),
        ("1767225599999000001", END - 1, LimitUsage { next_available: None, ..some(None, END, END) }),
    ] {
        assert_eq!(at(text, now), held, "{text} at END{:+}", now as i64 - END as i64);
    }
}

#[test]
fn the_ttl_of_a_busy_limit_moves_seldom() {
    let mut ttl = None;
    let mut moves = 0;
    for at in 0..60_000 {
        let after = Lifetime::lingering(1_767_225_600_000 + at, 60_000).expires_at(ttl);
        moves += i32::from(ttl != Some(after));
        ttl = Some(after);
    }
    assert!((8..=9).contains(&moves), "{moves}");
}

proptest! {
    #![proptest_config(fuzzing())]

    #[test]
    fn no_string_makes_a_limit_panic(tag in prop_oneof![Just("sliding:"), Just("fixed:"), Just("leaky:"), Just("")], text in any_text()) {
        let text = [tag.as_bytes(), &text].concat();
        if let Ok(stored) = StoredLimit::parse(&text) {
            let _ = stored.usage(1_767_225_600_000);
            let _ = stored.refund(1_767_225_600_000, 1, 1_767_225_600_001);
        }
    }
}
