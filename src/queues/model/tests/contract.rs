//! Tests of PUSH, CLAIM, the serving order, states, CANCEL, RESCHEDULE, REDRIVE, EVERY and `next_claimable`.

use super::super::{Fate, Full, MAX_TIME, Push, Queue, State};
use super::Pair;

#[test]
fn an_empty_queue_has_nothing_and_waits_for_nothing() {
    let mut pair = Pair::new();
    assert_eq!(pair.claim(5, 10, 9), []);
    assert_eq!(pair.primary.next_claimable(5), None);
    assert_eq!(pair.counts(5), [0; 4]);
    assert!(!pair.ack(5, "a", 0) && !pair.cancel(5, "a") && !pair.redrive(5, 1));
    assert!(pair.primary.is_empty());
}

#[test]
fn generated_ids_grow_even_when_the_clock_steps_back() {
    let mut pair = Pair::new();
    let push = Push::default();
    let mut ids = Vec::new();
    for now in [100, 100, 50, 101, 7] {
        ids.push(pair.push(now, &push).unwrap());
    }
    let expected: [&[u8]; 5] = [b"100-0", b"100-1", b"100-2", b"101-0", b"101-1"];
    assert_eq!(ids, expected);
}

#[test]
fn generated_ids_step_over_ids_that_somebody_pushed() {
    let mut pair = Pair::new();
    pair.job(9, "9-0", 9);
    pair.job(9, "9-1", 9);
    assert_eq!(pair.push(9, &Push::default()).unwrap(), b"9-2");
}

#[test]
fn an_id_is_pushed_once_whatever_state_its_job_is_in() {
    let mut pair = Pair::new();
    let again = Push { id: Some(b"a"), payload: b"other", ..Push::default() };
    pair.job_with(0, "a", 10, |p| p.max_attempts = Some(1));
    assert_eq!(pair.push(0, &again), None);
    let token = pair.take(10, 20, "a");
    assert_eq!(pair.push(10, &again), None);
    assert_eq!(pair.state(20, "a"), Some(State::Dead));
    assert_eq!(pair.push(20, &again), None);
    assert_eq!(pair.primary.get(20, b"a").unwrap().payload, b"payload");
    assert!(pair.ack(20, "a", token));
    assert!(pair.push(20, &again).is_some());
}

#[test]
fn replace_replaces_schedule_payload_attempts_and_token() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    let token = pair.take(0, 100, "a");
    pair.job_with(1, "a", 50, |p| {
        (p.replace, p.payload, p.priority) = (true, b"new", 3);
    });
    assert!(!pair.ack(1, "a", token), "the claim in progress is off");
    let job = pair.primary.get(1, b"a").unwrap();
    assert_eq!((job.payload, job.attempts, job.priority), (&b"new"[..], 0, 3));
    assert_eq!((job.state, job.time, job.token), (State::Delayed, 50, 0));
}

#[test]
fn replace_is_a_new_push_in_the_order() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    pair.job(0, "b", 0);
    pair.job_with(0, "a", 0, |p| p.replace = true);
    assert_eq!(pair.ids(0, State::Ready), ["b", "a"]);
}

#[test]
fn lower_priority_first_then_due_time_then_order_of_push() {
    let mut pair = Pair::new();
    pair.job_with(0, "late", 9, |p| p.priority = 0);
    pair.job_with(0, "first", 5, |p| p.priority = 0);
    pair.job_with(0, "second", 5, |p| p.priority = 0);
    pair.job_with(0, "low", 1, |p| p.priority = i32::MAX);
    pair.job_with(0, "high", 10, |p| p.priority = i32::MIN);
    let order = ["high", "first", "second", "late", "low"];
    assert_eq!(pair.ids(10, State::Ready), order);
    let got = pair.claim(10, 20, 9);
    let ids: Vec<_> = got.iter().map(|job| job.id.as_slice()).collect();
    assert_eq!(ids, order.map(str::as_bytes));
    assert!(got.is_sorted_by(|a, b| a.token < b.token));
}

#[test]
fn delayed_jobs_do_not_block_due_ones() {
    let mut pair = Pair::new();
    pair.job_with(0, "urgent", 11, |p| p.priority = -5);
    pair.job(0, "due", 10);
    pair.take(10, 90, "due");
    assert_eq!(pair.claim(10, 90, 1), []);
    pair.take(11, 90, "urgent");
}

#[test]
fn due_and_expired_mean_at_that_very_millisecond() {
    let mut pair = Pair::new();
    pair.job(0, "a", 10);
    assert_eq!(pair.counts(9), [0, 1, 0, 0]);
    assert_eq!(pair.counts(10), [1, 0, 0, 0]);
    pair.take(10, 20, "a");
    assert_eq!(pair.counts(19), [0, 0, 1, 0]);
    assert_eq!(pair.counts(20), [1, 0, 0, 0]);
}

#[test]
fn an_expired_lease_makes_its_job_due_again_at_that_time() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    pair.take(0, 20, "a");
    pair.job(1, "b", 10);
    pair.job(1, "c", 20);
    pair.job(1, "d", 21);
    assert_eq!(pair.ids(30, State::Ready), ["b", "a", "c", "d"]);
    assert_eq!(pair.primary.get(30, b"a").unwrap().time, 20);
}

#[test]
fn attempts_count_at_the_claim_and_cannot_be_gone_round() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 0, |p| p.max_attempts = Some(2));
    assert_eq!(pair.claim(0, 5, 1)[0].attempt, 1);
    assert_eq!(pair.claim(5, 10, 1)[0].attempt, 2);
    assert_eq!(pair.counts(9), [0, 0, 1, 0]);
    assert_eq!(pair.counts(10), [0, 0, 0, 1]);
    assert_eq!(pair.claim(10, 20, 1), []);
    assert_eq!(pair.primary.next_claimable(10), None);
    assert_eq!(pair.primary.get(10, b"a").unwrap().time, 10);
}

#[test]
fn every_comes_back_on_its_own_beat_with_attempts_at_zero() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 100, |p| p.every = Some(10));
    let token = pair.take(100, 200, "a");
    assert!(pair.ack(134, "a", token));
    let job = pair.primary.get(134, b"a").unwrap();
    assert_eq!((job.state, job.time, job.attempts), (State::Delayed, 140, 0));
    assert!(!pair.ack(134, "a", token), "one claim, one ack");
    let token = pair.take(140, 200, "a");
    assert!(pair.ack(150, "a", token), "the moment itself is not the future");
    assert_eq!(pair.primary.get(150, b"a").unwrap().time, 160);
}

#[test]
fn every_keeps_its_beat_through_retries_and_takes_a_new_one_from_reschedule() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 100, |p| p.every = Some(10));
    let token = pair.take(100, 103, "a");
    assert!(pair.nack(102, "a", token, Fate::At(107)).is_some());
    let token = pair.take(107, 200, "a");
    assert!(pair.ack(108, "a", token));
    assert_eq!(pair.primary.get(108, b"a").unwrap().time, 110);
    assert!(pair.reschedule(108, "a", Some(115), None));
    let token = pair.take(115, 200, "a");
    assert!(pair.ack(116, "a", token));
    assert_eq!(pair.primary.get(116, b"a").unwrap().time, 125);
}

#[test]
fn every_does_not_run_an_occurrence_twice_when_the_clock_steps_back() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 100, |p| p.every = Some(10));
    let token = pair.take(100, 200, "a");
    assert!(pair.ack(50, "a", token));
    assert_eq!(pair.primary.get(50, b"a").unwrap().time, 110);
    let token = pair.take(144, 200, "a");
    assert!(pair.ack(144, "a", token));
    let token = pair.take(150, 200, "a");
    assert!(pair.ack(105, "a", token));
    assert_eq!(pair.primary.get(105, b"a").unwrap().time, 160);
}

#[test]
fn cancel_removes_in_whatever_state() {
    let mut pair = Pair::new();
    for (id, due) in [("ready", 0), ("claimed", 0), ("delayed", 9), ("dead", 0)] {
        pair.job(0, id, due);
    }
    let got = pair.claim(0, 100, 3);
    assert_eq!(got.len(), 3);
    assert_eq!(pair.nack(0, "dead", got[2].token, Fate::Dead), Some(None));
    assert_eq!(pair.nack(0, "ready", got[0].token, Fate::At(0)), Some(Some(0)));
    assert_eq!(pair.counts(0), [1, 1, 1, 1]);
    for id in ["ready", "claimed", "delayed", "dead"] {
        assert!(pair.cancel(0, id) && !pair.cancel(0, id));
    }
    assert!(pair.primary.is_empty());
}

#[test]
fn reschedule_is_for_ready_and_delayed_jobs() {
    let mut pair = Pair::new();
    assert!(!pair.reschedule(0, "a", Some(1), None));
    pair.job(0, "a", 10);
    assert!(pair.reschedule(0, "a", Some(20), Some(-1)));
    let job = pair.primary.get(10, b"a").unwrap();
    assert_eq!((job.state, job.time, job.priority), (State::Delayed, 20, -1));
    assert!(pair.reschedule(20, "a", Some(5), None));
    assert_eq!(pair.state(0, "a"), Some(State::Ready));
    let token = pair.take(20, 30, "a");
    assert!(!pair.reschedule(29, "a", Some(40), None), "claimed");
    assert!(pair.reschedule(30, "a", None, Some(7)), "its lease has ended");
    let job = pair.primary.get(30, b"a").unwrap();
    assert_eq!((job.state, job.time, job.priority), (State::Ready, 30, 7));
    assert!(pair.nack(30, "a", token, Fate::Dead).is_some());
    assert!(!pair.reschedule(30, "a", Some(40), None), "dead");
}

#[test]
fn reschedule_to_what_is_there_has_no_effect() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 50, |p| p.every = Some(100));
    let mut effect =
        |now, due, priority| pair.primary.reschedule(now, b"a", due, priority).expect("it waits").is_some();
    assert!(!effect(1, None, None) && !effect(1, Some(50), None) && !effect(1, None, Some(0)));
    assert!(!effect(60, Some(50), Some(0)), "it is ready by now");
    assert!(effect(1, Some(51), Some(0)));
    assert!(effect(1, Some(51), Some(1)));
    pair.replica = pair.primary.clone();
    let token = pair.take(60, 70, "a");
    assert!(pair.nack(61, "a", token, Fate::At(80)).is_some());
    let effect = pair.primary.reschedule(61, b"a", Some(80), None).expect("it waits");
    assert!(effect.is_some(), "its occurrences count from there now");
    pair.replica = pair.primary.clone();
}

#[test]
fn extend_to_the_deadline_that_is_there_has_no_effect() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    let token = pair.take(0, 50, "a");
    let mut effect = |now, deadline| pair.primary.extend(now, b"a", token, deadline).map(|effect| effect.is_some());
    assert_eq!(effect(1, 50), Some(false));
    assert_eq!((effect(1, 0), effect(1, 2)), (Some(true), Some(false)), "brought to the next ms");
    assert_eq!((effect(1, u64::MAX), effect(1, u64::MAX)), (Some(true), Some(false)), "brought to the last moment");
    assert_eq!(effect(1, 50), Some(true));
    assert_eq!(effect(50, 50), None, "it has ended");
    pair.replica = pair.primary.clone();
}

#[test]
fn redrive_takes_the_longest_dead_first_however_they_died() {
    let mut pair = Pair::new();
    for id in ["a", "b", "c"] {
        pair.job_with(0, id, 0, |p| p.max_attempts = Some(1));
    }
    let got = pair.claim(0, 10, 3);
    assert!(pair.extend(0, "c", got[2].token, 30));
    assert!(pair.nack(20, "b", got[1].token, Fate::Default).is_some());
    assert_eq!(pair.ids(30, State::Dead), ["a", "b", "c"]);
    assert!(pair.redrive(30, 2));
    assert_eq!(pair.ids(30, State::Ready), ["a", "b"]);
    let job = pair.primary.get(30, b"a").unwrap();
    assert_eq!((job.time, job.attempts, job.token), (30, 0, 0));
    assert!(pair.redrive(30, u64::MAX) && !pair.redrive(30, u64::MAX));
    assert_eq!(pair.counts(30), [3, 0, 0, 0]);
}

#[test]
fn a_step_back_of_the_clock_does_not_hide_what_was_due_at_once() {
    let mut pair = Pair::new();
    pair.job(1000, "now", 1000);
    pair.job(1000, "at", 1010);
    assert_eq!(pair.counts(1010), [2, 0, 0, 0]);
    assert_eq!(pair.counts(10), [1, 1, 0, 0]);
    assert_eq!(pair.primary.next_claimable(10), Some(10));
    pair.take(10, 20, "now");
    assert_eq!(pair.primary.next_claimable(10), Some(20));
}

#[test]
fn peek_lists_each_state_in_its_order() {
    let mut pair = Pair::new();
    pair.job(0, "d2", 90);
    pair.job_with(0, "d1", 80, |p| p.priority = 9);
    pair.job_with(0, "d0", 80, |p| p.priority = -9);
    pair.job(0, "c2", 0);
    pair.take(0, 60, "c2");
    pair.job_with(0, "c1", 0, |p| p.max_attempts = Some(1));
    pair.take(0, 50, "c1");
    assert_eq!(pair.ids(0, State::Delayed), ["d0", "d1", "d2"]);
    assert_eq!(pair.ids(0, State::Claimed), ["c1", "c2"]);
    assert_eq!(pair.ids(50, State::Claimed), ["c2"]);
    assert_eq!(pair.ids(50, State::Dead), ["c1"]);
}

#[test]
fn maxlen_counts_what_is_not_dead() {
    let mut pair = Pair::configured(|s| s.maxlen = 2);
    pair.job_with(0, "a", 0, |p| p.max_attempts = Some(1));
    pair.job(0, "b", 50);
    let push = |id: &'static [u8], replace| Push { id: Some(id), replace, ..Push::default() };
    assert_eq!(pair.primary.push(0, &push(b"c", false)), Err(Full));
    assert_eq!(pair.primary.push(0, &push(b"b", false)), Ok(None));
    assert!(pair.push(0, &push(b"b", true)).is_some(), "no growth");
    let got = pair.claim(0, 10, 2);
    assert_eq!(pair.primary.push(9, &push(b"c", false)), Err(Full));
    assert!(pair.push(10, &push(b"c", false)).is_some(), "a is dead by now");
    assert_eq!(pair.primary.push(10, &push(b"a", true)), Err(Full));
    assert!(pair.ack(10, "b", got[1].token));
    assert!(pair.push(10, &push(b"a", true)).is_some());
}

#[test]
fn a_full_queue_changes_nothing_not_even_the_next_id() {
    let mut pair = Pair::configured(|s| s.maxlen = 1);
    pair.push(5, &Push::default()).unwrap();
    assert_eq!(pair.primary.push(5, &Push::default()), Err(Full));
    assert!(pair.cancel(5, "5-0"));
    assert_eq!(pair.push(5, &Push::default()).unwrap(), b"5-1");
}

#[test]
fn stats_tell_the_oldest_ready_job_and_the_leases_that_ended() {
    let mut pair = Pair::new();
    for (id, due) in [("a", 5), ("b", 8), ("c", 70)] {
        pair.job(4, id, due);
    }
    assert_eq!(pair.primary.stats(4).oldest_ready, None);
    assert_eq!(pair.primary.stats(9).oldest_ready, Some(5));
    let token = pair.take(9, 20, "a");
    assert_eq!(pair.primary.stats(9).oldest_ready, Some(8));
    let expired = |pair: &Pair, now| pair.primary.stats(now).totals.expired_leases;
    assert_eq!((expired(&pair, 19), expired(&pair, 20)), (0, 1));
    assert!(pair.ack(20, "a", token));
    assert_eq!(expired(&pair, 20), 1, "counted once");
    let totals = pair.primary.stats(20).totals;
    assert_eq!((totals.pushed, totals.claimed, totals.acked), (3, 1, 1));
}

#[test]
fn ids_and_payloads_are_bytes() {
    let mut pair = Pair::new();
    let (id, payload) = ([0xff, 0, b'-', 0xfe], [0, 0x80, 0xff]);
    for id in [&id[..], b""] {
        let push = Push { id: Some(id), payload: &payload, ..Push::default() };
        assert_eq!(pair.push(0, &push).as_deref(), Some(id));
        assert_eq!(pair.primary.get(0, id).unwrap().payload, payload);
    }
}

#[test]
fn the_ends_of_time_and_number_do_no_harm() {
    let mut pair = Pair::configured(|s| {
        (s.aging, s.backoff_base, s.backoff_max) = (u64::MAX, u64::MAX, u64::MAX);
        s.rate = Some(super::super::Rate { limit: u64::MAX, window: u64::MAX });
    });
    for (id, priority) in [("a", i32::MIN), ("b", i32::MAX)] {
        pair.job_with(u64::MAX, id, u64::MAX, |p| {
            (p.priority, p.every, p.max_attempts) = (priority, Some(u64::MAX), Some(u32::MAX));
        });
    }
    assert_eq!(pair.counts(u64::MAX), [0, 2, 0, 0], "due after the end of time");
    assert!(pair.reschedule(u64::MAX, "a", Some(0), None));
    let token = pair.take(u64::MAX, u64::MAX, "a");
    assert!(pair.extend(u64::MAX, "a", token, 0));
    assert_eq!(pair.nack(u64::MAX, "a", token, Fate::Default), Some(Some(MAX_TIME)));
    assert_eq!(pair.primary.next_claimable(u64::MAX), None);
    assert!(pair.reschedule(0, "b", Some(0), Some(i32::MIN)));
    let token = pair.take(0, u64::MAX, "b");
    assert!(pair.ack(u64::MAX, "b", token));
    assert!(!pair.redrive(u64::MAX, u64::MAX));
    assert_eq!(Queue::default().claim(u64::MAX, 0, u64::MAX, b"", |_| ()), []);
}
