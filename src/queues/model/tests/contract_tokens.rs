//! Tests of ACK, NACK and EXTEND: how long a token is valid.

use super::super::{Fate, NackOptions, Push, Queue, State};
use super::{Pair, decoded, encoded};

#[test]
fn an_ack_past_the_deadline_counts() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    let token = pair.take(0, 10, "a");
    assert_eq!(pair.state(500, "a"), Some(State::Ready));
    assert!(pair.ack(500, "a", token));
    assert!(pair.primary.is_empty());
}

#[test]
fn an_ack_counts_even_if_the_job_is_a_dead_letter_since_its_lease_expired() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 0, |p| p.max_attempts = Some(1));
    let token = pair.take(0, 10, "a");
    assert_eq!(pair.state(500, "a"), Some(State::Dead));
    assert!(pair.ack(500, "a", token));
    assert!(pair.primary.is_empty());
}

#[test]
fn a_later_claim_ends_a_token() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    let old = pair.take(0, 10, "a");
    let new = pair.take(10, 20, "a");
    assert!(new > old);
    assert!(!pair.ack(11, "a", old));
    assert_eq!(pair.nack(11, "a", old, Fate::Dead), None);
    assert!(!pair.extend(11, "a", old, 99));
    assert!(pair.ack(11, "a", new));
}

#[test]
fn nack_and_redrive_end_a_token() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    let token = pair.take(0, 10, "a");
    assert_eq!(pair.nack(1, "a", token, Fate::Default), Some(Some(1)));
    assert!(!pair.ack(1, "a", token));
    let token = pair.take(1, 10, "a");
    assert_eq!(pair.nack(2, "a", token, Fate::Dead), Some(None));
    assert!(!pair.ack(2, "a", token));
    pair.job_with(3, "b", 0, |p| p.max_attempts = Some(1));
    let token = pair.take(3, 10, "b");
    assert!(pair.redrive(10, u64::MAX));
    assert!(!pair.ack(10, "b", token), "b had died and was redriven");
}

#[test]
fn reschedule_keeps_the_token() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    let token = pair.take(0, 10, "a");
    assert!(pair.reschedule(10, "a", Some(100), None));
    assert!(!pair.extend(20, "a", token, 99), "but there is no lease left");
    assert!(pair.ack(20, "a", token));
    assert!(pair.primary.is_empty());
}

const NOW: u64 = 1_767_225_600_000;

#[test]
fn tokens_grow_with_the_clock_and_without_it() {
    let mut pair = Pair::new();
    let mut last = 0;
    // The clock advances, stands still, and is set back.
    for now in [NOW, NOW, NOW + 5, NOW + 5, NOW - 3_600_000, NOW - 3_600_000, NOW + 6] {
        pair.job(now, "a", now);
        let token = pair.take(now, now + 1, "a");
        assert!(token > last && token >= now * 1000, "{token} after {last} at {now}");
        assert!(pair.ack(now, "a", token));
        last = token;
    }
    assert_eq!(last, (NOW + 6) * 1000, "no further ahead of the clock than need be");
}

#[test]
fn tokens_go_on_growing_in_a_queue_that_has_lost_its_memory() {
    let mut pair = Pair::new();
    pair.job(NOW, "a", NOW);
    pair.take(NOW, NOW + 1, "a");
    let earlier = encoded(&pair.primary);
    let mut last = 0;
    for now in NOW + 1..NOW + 20 {
        last = pair.take(now, now + 1, "a");
    }
    for mut queue in [decoded(&earlier), Queue::new()] {
        let push = Push { id: Some(b"a"), due: NOW, replace: true, ..Push::default() };
        queue.push(NOW + 20, &push).unwrap();
        let token = queue.claim((NOW + 20) * 1000, NOW + 30, 1, b"", |_| ())[0].token;
        assert!(token > last, "{token} after {last}");
        // The token of the first worker is no longer valid.
        assert!(queue.extend(NOW + 21, b"a", last, NOW + 99).is_none());
        assert!(queue.ack(NOW + 21, b"a", last).is_none());
        assert!(queue.ack(NOW + 21, b"a", token).is_some());
    }
}

/// Earlier versions of the module counted tokens from 1, or from the time of the first claim. A stored queue may have
/// such tokens.
#[test]
fn a_queue_with_small_tokens_goes_on_with_large_ones() {
    let mut pair = Pair::new();
    pair.job(1, "a", 0);
    let old = pair.take(1, NOW, "a");
    assert_eq!(old, 1000);
    pair.primary = decoded(&encoded(&pair.primary));
    assert!(pair.extend(NOW - 1, "a", old, NOW + 5), "a claim goes on");
    pair.job(NOW, "b", 0);
    assert_eq!(pair.take(NOW, NOW + 5, "b"), NOW * 1000);
    assert!(pair.ack(NOW, "a", old));
}

#[test]
fn zero_and_tokens_of_other_jobs_match_no_claim() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    pair.job(0, "b", 0);
    assert!(!pair.ack(0, "a", 0), "never claimed");
    let token = pair.take(0, 10, "a");
    assert!(!pair.ack(0, "b", token) && !pair.ack(0, "a", 0));
    assert!(!pair.ack(0, "a", token + 1) && !pair.ack(0, "absent", token));
}

#[test]
fn the_last_attempt_given_back_is_dead() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 0, |p| p.max_attempts = Some(2));
    let token = pair.take(0, 10, "a");
    assert_eq!(pair.nack(0, "a", token, Fate::At(5)), Some(Some(5)));
    assert_eq!(pair.state(0, "a"), Some(State::Delayed));
    let token = pair.take(5, 10, "a");
    assert_eq!(pair.nack(6, "a", token, Fate::At(7)), Some(None));
    assert_eq!(pair.state(6, "a"), Some(State::Dead));
}

#[test]
fn a_late_nack_of_the_last_attempt_makes_a_dead_letter() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 0, |p| p.max_attempts = Some(1));
    let token = pair.take(0, 10, "a");
    assert_eq!(pair.nack(50, "a", token, Fate::At(60)), Some(None));
    assert_eq!(pair.primary.get(50, b"a").unwrap().time, 50);
    assert_eq!(pair.primary.stats(50).totals.expired_leases, 1);
    assert_eq!(pair.state(0, "a"), Some(State::Dead), "whatever the clock says");
}

#[test]
fn extend_needs_a_lease_that_has_not_ended() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    let token = pair.take(0, 10, "a");
    assert!(pair.extend(9, "a", token, 50));
    assert_eq!(pair.counts(49), [0, 0, 1, 0]);
    assert!(pair.extend(9, "a", token, 12), "shorter is fine");
    assert!(!pair.extend(12, "a", token, 50));
    assert_eq!(pair.counts(12), [1, 0, 0, 0]);
}

#[test]
fn backoff_doubles_up_to_its_maximum() {
    let mut pair = Pair::configured(|s| (s.backoff_base, s.backoff_max) = (10, 65));
    pair.job(0, "a", 0);
    let mut now = 0;
    for wait in [10, 20, 40, 65, 65] {
        let token = pair.take(now, now + 5, "a");
        let due = pair.nack(now, "a", token, Fate::Default);
        assert_eq!(due, Some(Some(now + wait)));
        now += wait;
    }
    assert_eq!(pair.primary.settings().backoff(u32::MAX), 65);
}

#[test]
fn a_lease_that_ends_is_followed_by_the_backoff_and_its_jitter() {
    let mut pair = Pair::configured(|s| (s.backoff_base, s.backoff_max, s.jitter) = (100, 1000, 50));
    for n in 0..20 {
        pair.job(0, &n.to_string(), 0);
    }
    assert_eq!(pair.claim(0, 50, 20).len(), 20);
    assert_eq!(pair.counts(50), [0, 20, 0, 0]);
    let mut dues = Vec::new();
    for n in 0..20 {
        let id = n.to_string();
        let job = pair.primary.get(50, id.as_bytes()).unwrap();
        assert_eq!((job.state, job.extras.failed), (State::Delayed, 50));
        assert_eq!(pair.replica.get(50, id.as_bytes()), Some(job));
        assert_eq!(pair.state(job.time - 1, &id), Some(State::Delayed));
        assert_eq!(pair.state(job.time, &id), Some(State::Ready));
        dues.push(job.time);
    }
    assert!(dues.iter().all(|due| (150..=200).contains(due)), "{dues:?}");
    let spread = dues.iter().max().unwrap() - dues.iter().min().unwrap();
    assert!(spread > 20, "{dues:?}");
    assert_eq!(pair.primary.next_claimable(0), dues.iter().min().copied());
    let all = |pair: &Pair| pair.primary.peek(50, State::Delayed.into()).map(|job| job.time).collect::<Vec<_>>();
    let before = all(&pair);
    pair.configure(50, |s| (s.jitter, s.backoff_base) = (0, 0));
    assert_eq!(all(&pair), before, "the claim decided it");
    pair.check();
}

#[test]
fn a_late_nack_of_a_recurring_job_is_about_the_attempt_itself() {
    let mut pair = Pair::new();
    for id in ["a", "b", "c"] {
        pair.job_with(0, id, 0, |p| (p.max_attempts, p.every) = (Some(1), Some(100)));
    }
    let [a, b, c] = ["a", "b", "c"].map(|id| pair.take(0, 10, id));
    assert_eq!((pair.counts(10), pair.primary.stats(10).totals.missed), ([0, 3, 0, 0], 3));
    assert_eq!(pair.nack(20, "a", a, Fate::Default), Some(Some(100)));
    let free = NackOptions { is_free: true, error: b"" };
    assert_eq!(pair.nack_with(20, "b", b, Fate::Default, free), Some(Some(20)), "it never happened");
    assert_eq!(pair.nack(20, "c", c, Fate::Dead), Some(None));
    assert_eq!((pair.counts(20), pair.primary.stats(20).totals.missed), ([1, 1, 0, 1], 3), "missed stays missed");
    // After RESCHEDULE, the token stays valid. The number of attempts is 0, and NACK with FREE must not make it
    // negative.
    assert!(pair.cancel(20, "b"));
    let token = pair.take(100, 110, "a");
    assert!(pair.reschedule(120, "a", Some(500), None));
    assert_eq!(pair.primary.get(120, b"a").unwrap().attempts, 0);
    assert_eq!(pair.nack_with(130, "a", token, Fate::Default, free), Some(Some(130)));
    pair.check();
}

/// The lease of the last attempt has expired, and a command has already prepared the next run.
#[test]
fn a_late_end_of_a_missed_run_neither_skips_the_next_run_nor_repeats_the_missed_one() {
    let recurring = |p: &mut Push<'_>| (p.max_attempts, p.every) = (Some(1), Some(100));
    for by_declaration in [true, false] {
        let mut pair = Pair::new();
        ["a", "b", "c", "d"].into_iter().for_each(|id| pair.job_with(0, id, 0, recurring));
        let tokens = ["a", "b", "c", "d"].map(|id| pair.take(0, 10, id));
        for id in ["a", "b", "c", "d"] {
            if by_declaration {
                let mut push = Push { payload: b"new", id: Some(id.as_bytes()), due: 5, ..Push::default() };
                recurring(&mut push);
                assert!(pair.declare(5, false, &push));
            } else {
                assert!(pair.reschedule(15, id, None, Some(1)));
            }
        }
        pair.keep_up(15);
        let due = |pair: &Pair, id: &str| pair.primary.get(20, id.as_bytes()).map(|job| (job.state, job.time));
        let next = Some((State::Delayed, 100));
        assert!(["a", "b", "c", "d"].iter().all(|id| due(&pair, id) == next));
        assert!(pair.ack(20, "a", tokens[0]));
        assert_eq!(due(&pair, "a"), next);
        assert_eq!(pair.nack(20, "b", tokens[1], Fate::Default), Some(Some(100)));
        assert_eq!(due(&pair, "b"), next);
        let free = NackOptions { is_free: true, error: b"" };
        assert_eq!(pair.nack_with(20, "c", tokens[2], Fate::Default, free), Some(Some(20)), "it never happened");
        assert_eq!(pair.nack(20, "d", tokens[3], Fate::Dead), Some(None));
        assert_eq!(pair.primary.stats(20).totals.missed, 4, "each run is missed once");
        pair.check();
    }
}

#[test]
fn a_late_ack_does_not_take_a_missed_occurrence_back() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 0, |p| (p.max_attempts, p.every) = (Some(1), Some(100)));
    let token = pair.take(0, 10, "a");
    assert_eq!(pair.primary.stats(10).totals.missed, 1);
    assert!(pair.ack(20, "a", token));
    assert_eq!((pair.counts(20), pair.primary.stats(20).totals.missed), ([0, 1, 0, 0], 1));
}

#[test]
fn attempts_of_the_queue_hold_for_jobs_pushed_without_their_own() {
    let mut pair = Pair::configured(|s| s.max_attempts = 1);
    pair.job(0, "a", 0);
    pair.job_with(0, "b", 0, |p| p.max_attempts = Some(0));
    pair.configure(0, |s| s.max_attempts = 9);
    assert_eq!(pair.primary.get(0, b"a").unwrap().max_attempts, 1);
    assert_eq!(pair.claim(0, 5, 2).len(), 2);
    assert_eq!(pair.ids(5, State::Dead), ["a"]);
    assert_eq!(pair.ids(5, State::Ready), ["b"]);
}
