//! FIXED: a quota per window, the windows aligned to the Unix epoch.

use std::collections::BTreeMap;
use testkit::{Client, Verdict, start};

/// A verdict and the end of the window in which it was given; asked again on a new key when a window ended meanwhile.
fn in_one_window(c: &mut Client, window: i64, call: impl Fn(u32) -> String) -> (i64, Verdict, i64, i64) {
    for attempt in 0.. {
        let (before, verdict, after) = c.timed_verdict(&call(attempt));
        if before / window == after / window {
            return (before, verdict, after, (before / window + 1) * window);
        }
    }
    unreachable!()
}

#[test]
fn units_come_back_at_the_end_of_the_aligned_window() {
    let (_server, mut c) = start();
    for (name, window) in [("1m", 60_000), ("1h", 3_600_000), ("1d", 86_400_000), ("7d", 604_800_000)] {
        let (before, verdict, after, end) =
            in_one_window(&mut c, window, |n| format!("ZRL.CHECK {name}:{n} 3 {name} FIXED COST 2"));
        assert_eq!((verdict.allowed, verdict.remaining, verdict.charged_until), (1, 1, end));
        assert!((end - after..=end - before).contains(&verdict.reset_after));
    }
}

#[test]
fn a_spent_quota_is_open_again_in_the_next_window() {
    let (_server, mut c) = start();
    let mut admitted = BTreeMap::<i64, i64>::new();
    let mut denied = 0;
    let end = c.now() + 1500;
    while c.now() < end {
        let verdict = c.verdict("ZRL.CHECK k 5 200ms FIXED");
        let now = c.now();
        if verdict.allowed == 1 {
            assert_eq!(verdict.charged_until % 200, 0);
            *admitted.entry(verdict.charged_until).or_default() += 1;
        } else {
            denied += 1;
            assert!(verdict.retry_after <= 200);
            c.wait_until(now + verdict.retry_after);
        }
    }
    assert!(denied > 0);
    for (window, units) in admitted {
        assert!(units <= 5, "{units} in the window that ends at {window}");
    }
}

#[test]
fn a_window_is_one_count() {
    let (_server, mut c) = start();
    for _ in 0..50 {
        let end = c.verdict("ZRL.CHECK k 1000 30d FIXED").charged_until;
        assert!(c.string("GET k").starts_with(&format!("fixed:{end}:")));
    }
}

#[test]
fn a_denied_call_leaves_no_trace() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK k 2 30d FIXED COST 2");
    let before = c.trace("k");
    for line in ["ZRL.CHECK k 2 30d FIXED", "ZRL.PEEK k 2 30d FIXED", "ZRL.CHECK k 2 30d FIXED COST 3"] {
        assert_eq!(c.verdict(line).allowed, 0);
        assert_eq!(c.trace("k"), before, "{line}");
    }
}

#[test]
fn a_shorter_window_lets_go_in_time() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK k 2 365d FIXED COST 2");
    let verdict = c.verdict("ZRL.CHECK k 2 300ms FIXED");
    let now = c.now();
    assert!(verdict.allowed == 0 && verdict.retry_after <= 300, "{verdict:?}");
    c.wait_until(now + verdict.retry_after);
    assert_eq!(c.verdict("ZRL.CHECK k 2 300ms FIXED").allowed, 1);
}
