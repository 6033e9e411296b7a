//! Tests of AGAIN. If a job is pushed while it runs, it runs once more afterwards. Two runs never overlap.

use super::super::{Change, Effect, Fate, JobChange, NewJob, Push, Queue, State};
use super::{Pair, assert_sums, decoded, encoded, rebuilt};

fn again(pair: &mut Pair, now: u64, id: &str, payload: &str) {
    again_with(pair, now, id, payload, |_| {});
}

fn again_with<'a>(pair: &mut Pair, now: u64, id: &'a str, payload: &'a str, more: impl FnOnce(&mut Push<'a>)) {
    let mut push =
        Push { payload: payload.as_bytes(), id: Some(id.as_bytes()), due: now, again: true, ..Push::default() };
    more(&mut push);
    assert_eq!(
        pair.push(now, &push).as_deref(),
        Some(id.as_bytes()),
        "the reply is the id, whatever became of the push"
    );
    assert_sums(&pair.primary.stats(now));
}

fn payload(pair: &Pair, id: &str) -> String {
    text(pair.primary.get(0, id.as_bytes()).expect("a job").payload)
}

/// Returns the payload of the push with AGAIN that waits until a job is finished.
fn behind(pair: &Pair, id: &str) -> Option<String> {
    pair.primary.payload_behind(id.as_bytes()).map(text)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn take(pair: &mut Pair, now: u64, deadline: u64) -> (String, u64) {
    let got = pair.claim(now, deadline, 1);
    assert_eq!(got.len(), 1, "a job is claimable");
    (text(&got[0].payload), got[0].token)
}

#[test]
fn without_a_job_of_the_id_it_is_a_push_like_any_other() {
    let mut pair = Pair::new();
    again_with(&mut pair, 5, "a", "one", |p| (p.due, p.priority) = (20, 3));
    let job = pair.primary.get(5, b"a").unwrap();
    assert_eq!((job.time, job.priority, job.payload, pair.primary.payload_behind(b"a")), (20, 3, &b"one"[..], None));
}

#[test]
fn a_waiting_job_gets_the_payload_and_keeps_its_place() {
    let mut pair = Pair::new();
    pair.job_with(1, "a", 10, |p| (p.priority, p.group, p.max_attempts) = (-1, b"g", Some(7)));
    pair.job_with(0, "b", 10, |p| (p.priority, p.group) = (-1, b"g"));
    again_with(&mut pair, 5, "a", "two", |p| (p.due, p.priority, p.group, p.max_attempts) = (99, 9, b"h", Some(1)));
    let job = pair.primary.get(5, b"a").unwrap();
    assert_eq!((job.time, job.priority, job.group, job.max_attempts), (10, -1, &b"g"[..], 7));
    assert_eq!((job.payload, pair.primary.payload_behind(b"a"), job.created), (&b"two"[..], None, 1));
    assert_eq!(pair.ids(10, State::Ready), ["a", "b"]);
    let stats = pair.primary.stats(10);
    assert_sums(&stats);
    assert_eq!((stats.totals.pushed, stats.totals.replaced), (3, 1), "it is no job more");
}

#[test]
fn behind_a_claim_the_last_push_waits_until_the_job_is_done() {
    let mut pair = Pair::new();
    again(&mut pair, 0, "a", "one");
    let (_, token) = take(&mut pair, 1, 100);
    for (now, payload) in [(2, "two"), (3, "three")] {
        again(&mut pair, now, "a", payload);
        assert_eq!(behind(&pair, "a").as_deref(), Some(payload));
    }
    assert_eq!((pair.counts(3), pair.claim(3, 9, 1)), ([0, 0, 1, 0], vec![]), "never twice at a time");
    assert!(pair.ack(50, "a", token));
    let job = pair.primary.get(50, b"a").unwrap();
    assert_eq!((job.time, job.attempts, job.created, job.state), (50, 0, 50, State::Ready));
    assert_eq!(take(&mut pair, 50, 60).0, "three");
    let stats = pair.primary.stats(50);
    assert_sums(&stats);
    assert_eq!((stats.totals.pushed, stats.totals.replaced, stats.totals.acked), (3, 1, 1));
    assert!(!pair.ack(51, "a", token), "the token was the first run's");
}

#[test]
fn a_push_that_waits_has_its_own_delay_priority_group_and_ttl() {
    let mut pair = Pair::new();
    again_with(&mut pair, 0, "a", "one", |p| (p.group, p.ttl) = (b"g", Some(5)));
    let (_, token) = take(&mut pair, 1, 100);
    again_with(&mut pair, 2, "a", "two", |p| {
        (p.due, p.priority, p.group, p.max_attempts, p.every, p.ttl) = (70, 3, b"h", Some(2), Some(1000), Some(9));
    });
    assert!(pair.ack(10, "a", token));
    let job = pair.primary.get(10, b"a").unwrap();
    assert_eq!((job.time, job.priority, job.group, job.max_attempts), (70, 3, &b"h"[..], 2));
    assert_eq!((job.recurrence.unwrap().period, job.ttl.unwrap().expires), (1000, 79));
}

/// A push does not expire while it waits behind a claimed job.
#[test]
fn the_ttl_of_a_push_that_waits_begins_when_it_becomes_a_job() {
    let mut pair = Pair::new();
    again(&mut pair, 0, "a", "one");
    let (_, token) = take(&mut pair, 1, 100);
    again_with(&mut pair, 2, "a", "two", |p| p.ttl = Some(5));
    assert!(pair.ack(50, "a", token));
    assert_eq!(pair.expires(50, "a"), Some(55));
}

#[test]
fn a_renewed_job_is_worth_doing_as_long_as_the_last_push_says() {
    let mut pair = Pair::new();
    again_with(&mut pair, 0, "a", "one", |p| p.ttl = Some(10));
    again_with(&mut pair, 8, "a", "two", |p| p.ttl = Some(10));
    assert_eq!(pair.expires(8, "a"), Some(18));
    again(&mut pair, 9, "a", "three");
    assert_eq!(pair.expires(9, "a"), None);
    pair.job(9, "later", 500);
    again_with(&mut pair, 9, "later", "two", |p| p.ttl = Some(10));
    assert_eq!(pair.expires(9, "later"), Some(510), "from when it is due");
}

#[test]
fn it_waits_through_nacks_and_leases_that_end() {
    let mut pair = Pair::new();
    again(&mut pair, 0, "a", "one");
    let (_, token) = take(&mut pair, 1, 100);
    again(&mut pair, 2, "a", "two");
    assert_eq!(pair.nack(3, "a", token, Fate::At(10)), Some(Some(10)));
    assert_eq!(behind(&pair, "a").as_deref(), Some("two"));
    take(&mut pair, 10, 20);
    let (payload, token) = take(&mut pair, 20, 30);
    assert_eq!((payload.as_str(), behind(&pair, "a").as_deref()), ("one", Some("two")));
    assert!(pair.ack(25, "a", token));
    assert_eq!(take(&mut pair, 25, 30).0, "two");
}

/// A failed job waits for its retry. An earlier push with AGAIN waits until this job is finished. A new push with AGAIN
/// replaces the job's payload, and removes the earlier push. So the job runs only once more.
#[test]
fn a_job_that_waits_for_its_retry_takes_the_last_push() {
    let mut pair = Pair::new();
    again(&mut pair, 0, "a", "one");
    let (_, token) = take(&mut pair, 1, 100);
    again(&mut pair, 2, "a", "two");
    pair.nack(3, "a", token, Fate::At(10));
    again(&mut pair, 4, "a", "three");
    assert_eq!((payload(&pair, "a").as_str(), behind(&pair, "a")), ("three", None));
    let (_, token) = take(&mut pair, 10, 20);
    assert!(pair.ack(11, "a", token));
    assert_eq!(pair.primary.len(), 0);
}

/// The job is pushed again after its lease has expired. The old token must not acknowledge the job, because the payload
/// of the new push has not been processed yet.
#[test]
fn a_late_ack_does_not_finish_the_run_that_was_asked_for_meanwhile() {
    let mut pair = Pair::new();
    again(&mut pair, 0, "a", "one");
    let (_, token) = take(&mut pair, 1, 10);
    again(&mut pair, 10, "a", "two");
    assert!(!pair.ack(11, "a", token));
    assert_eq!(take(&mut pair, 11, 20).0, "two");
}

#[test]
fn it_takes_the_place_of_a_job_that_dies_by_nack() {
    for fate in [Fate::Dead, Fate::Default] {
        let mut pair = Pair::new();
        again_with(&mut pair, 0, "a", "one", |p| p.max_attempts = Some(1));
        let (_, token) = take(&mut pair, 1, 100);
        again(&mut pair, 2, "a", "two");
        assert_eq!(pair.nack(50, "a", token, fate), Some(None));
        assert_eq!((pair.counts(50), payload(&pair, "a").as_str()), ([1, 0, 0, 0], "two"));
        assert_sums(&pair.primary.stats(50));
    }
}

/// The lease of a job's final attempt expires, and the job becomes a dead letter. No command runs at that time. So the
/// upkeep replaces the dead letter with the push that waits behind it.
#[test]
fn it_takes_the_place_of_a_job_that_dies_at_the_end_of_its_lease() {
    let mut pair = Pair::new();
    again_with(&mut pair, 0, "a", "one", |p| p.max_attempts = Some(1));
    let (_, token) = take(&mut pair, 1, 100);
    assert!(pair.extend(2, "a", token, 60));
    again(&mut pair, 2, "a", "two");
    assert_eq!(pair.primary.next_upkeep(50, 500), Some(60));
    assert_eq!(pair.counts(60), [0, 0, 0, 1]);
    let Pair { primary, replica } = &mut pair;
    assert!(primary.needs_upkeep(60));
    assert_eq!(primary.run_upkeep(60, |effect| assert!(replica.apply(effect))), 1);
    assert_eq!((pair.counts(60), payload(&pair, "a").as_str()), ([1, 0, 0, 0], "two"));
    let stats = pair.primary.stats(60);
    assert_sums(&stats);
    assert_eq!((stats.totals.expired_leases, stats.totals.replaced, stats.totals.expired), (1, 1, 0));
}

#[test]
fn it_is_pushed_whatever_takes_the_job_away_but_replace() {
    let with_follower = |max_attempts| {
        let mut pair = Pair::new();
        again_with(&mut pair, 0, "a", "one", |p| p.max_attempts = Some(max_attempts));
        take(&mut pair, 1, 10);
        again(&mut pair, 2, "a", "two");
        pair
    };
    let mut pair = with_follower(0);
    assert!(pair.cancel(5, "a"));
    assert_eq!((payload(&pair, "a").as_str(), pair.counts(5)), ("two", [1, 0, 0, 0]));
    assert!(pair.cancel(5, "a"), "and that one can be cancelled as well");
    assert_eq!(pair.primary.len(), 0);

    let mut pair = with_follower(0);
    pair.job_with(5, "a", 5, |p| p.replace = true);
    assert_eq!((payload(&pair, "a").as_str(), behind(&pair, "a")), ("payload", None));

    // The job is dead, and the upkeep has not run yet.
    let mut pair = with_follower(1);
    pair.configure(11, |s| s.deadttl = 1);
    let Pair { primary, replica } = &mut pair;
    primary.drop_dead(11, |effect| assert!(replica.apply(effect)));
    assert_eq!((payload(&pair, "a").as_str(), pair.counts(11)), ("two", [1, 0, 0, 0]));

    let mut pair = with_follower(1);
    assert!(pair.redrive(11, 1));
    assert_eq!((payload(&pair, "a").as_str(), behind(&pair, "a").as_deref()), ("one", Some("two")));

    let mut pair = with_follower(1);
    again(&mut pair, 11, "a", "three");
    assert_eq!((payload(&pair, "a").as_str(), behind(&pair, "a"), pair.counts(11)), ("three", None, [1, 0, 0, 0]));
}

#[test]
fn a_dead_letter_of_the_id_is_replaced() {
    let mut pair = Pair::configured(|s| s.maxlen = 1);
    again(&mut pair, 0, "a", "one");
    let (_, token) = take(&mut pair, 1, 100);
    pair.nack(2, "a", token, Fate::Dead);
    again(&mut pair, 3, "a", "two");
    assert_eq!((pair.counts(3), payload(&pair, "a").as_str()), ([1, 0, 0, 0], "two"));
}

#[test]
fn a_push_that_waits_counts_for_maxlen() {
    let mut pair = Pair::configured(|s| s.maxlen = 2);
    again(&mut pair, 0, "a", "one");
    let (_, token) = take(&mut pair, 1, 100);
    again(&mut pair, 2, "a", "two");
    let full = |pair: &mut Pair, id: &[u8], again| {
        pair.primary.push(3, &Push { id: Some(id), due: 3, again, ..Push::default() }).is_err()
    };
    assert!(full(&mut pair, b"b", false) && full(&mut pair, b"b", true));
    again(&mut pair, 3, "a", "three");
    assert!(pair.ack(4, "a", token));
    assert_eq!(pair.counts(4), [1, 0, 0, 0], "it waits no more, and is a job");
    pair.configure(4, |s| s.maxlen = 1);
    let (_, token) = take(&mut pair, 5, 100);
    assert!(full(&mut pair, b"a", true), "there is no room to wait");
    assert!(pair.ack(6, "a", token));
}

/// A recurring job is pushed again while it is claimed. Its next occurrence has the payload and the TTL of this push.
#[test]
fn the_next_occurrence_of_a_recurring_job_has_the_payload_of_the_last_push() {
    let mut pair = Pair::new();
    again_with(&mut pair, 0, "a", "one", |p| (p.every, p.max_attempts) = (Some(100), Some(1)));
    let (_, token) = take(&mut pair, 1, 50);
    again_with(&mut pair, 2, "a", "two", |p| p.ttl = Some(30));
    assert!(pair.ack(3, "a", token));
    let job = pair.primary.get(3, b"a").unwrap();
    assert_eq!(
        (job.payload, pair.primary.payload_behind(b"a"), job.time, job.ttl.unwrap().expires),
        (&b"two"[..], None, 100, 130)
    );
    assert_eq!(job.recurrence.map(|recurrence| recurrence.period), Some(100));
    // One occurrence fails because its lease expires, the next one because of a NACK.
    take(&mut pair, 100, 110);
    again(&mut pair, 101, "a", "three");
    let (payload, token) = take(&mut pair, 200, 210);
    assert_eq!(payload, "three");
    again(&mut pair, 201, "a", "four");
    assert_eq!(pair.nack(202, "a", token, Fate::Default), Some(Some(300)));
    assert_eq!(take(&mut pair, 300, 310).0, "four");
}

#[test]
fn a_push_that_waits_for_an_ordered_group_comes_behind_those_pushed_meanwhile() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    again_with(&mut pair, 0, "a", "one", |p| p.group = b"g");
    let token = pair.take(1, 100, "a");
    again_with(&mut pair, 2, "a", "two", |p| p.group = b"g");
    pair.job_with(3, "b", 3, |p| p.group = b"g");
    assert!(pair.ack(4, "a", token));
    let token = pair.take(4, 100, "b");
    assert!(pair.ack(5, "b", token));
    pair.take(5, 100, "a");
}

#[test]
fn it_is_saved_and_rebuilt_with_its_queue_and_takes_nothing_when_it_is_gone() {
    let mut pair = Pair::new();
    again_with(&mut pair, 0, "a", "one", |p| p.group = b"g");
    let (_, token) = take(&mut pair, 1, 100);
    let empty = pair.primary.memory_usage();
    assert!(pair.primary.followers == 0);
    again_with(&mut pair, 2, "a", "two", |p| (p.due, p.group, p.ttl, p.every) = (9, b"another", Some(5), Some(50)));
    assert!(pair.primary.followers == 1 && pair.primary.memory_usage() > empty);
    for mut queue in [decoded(&encoded(&pair.primary)), rebuilt(&pair.primary), pair.primary.clone()] {
        assert!(queue.ack(5, b"a", token).is_some());
        let job = queue.get(5, b"a").unwrap();
        assert_eq!((job.payload, job.group, job.time, job.ttl.unwrap().ttl), (&b"two"[..], &b"another"[..], 9, 5));
        assert!(queue.followers == 0);
    }
}

#[test]
fn a_push_cannot_wait_behind_a_job_that_is_not_there_or_dead() {
    let mut queue = Queue::new();
    let job =
        NewJob { id: b"a", payload: b"x", group: b"", due: 5, priority: 0, max_attempts: 1, every: None, ttl: None };
    let effect = |at, change| Effect { at, change };
    assert!(!queue.apply(&effect(0, Change::RestoreFollower(job))));
    assert!(!queue.apply(&effect(0, Change::Push { job: NewJob { id: b"0-0", ..job }, generated: true, again: true })));
    assert!(queue.apply(&effect(0, Change::Push { job, generated: false, again: true })));
    assert!(!queue.apply(&effect(0, Change::Job { id: b"a", change: JobChange::Follow })));
    assert!(queue.apply(&effect(0, Change::RestoreFollower(job))));
    assert!(!queue.apply(&effect(0, Change::RestoreFollower(job))), "one at a time");
    assert!(!queue.apply(&effect(0, Change::Job { id: b"a", change: JobChange::Follow })), "the job is not dead");
    queue.check();
}

#[test]
fn a_push_of_an_expired_jobs_id_finds_what_waits_behind_that_job_even_if_the_queue_is_full() {
    let mut pair = Pair::new();
    pair.job_with(1000, "a", 1000, |p| p.ttl = Some(7));
    pair.take(1000, 1001, "a");
    again(&mut pair, 1000, "a", "again");
    pair.job(1000, "b", 1000);
    pair.configure(1000, |s| s.maxlen = 1);
    let push = Push { payload: b"new", id: Some(b"a"), due: 1050, ..Push::default() };
    assert_eq!(pair.push(1050, &push), None, "the push with AGAIN has become the job");
    assert_eq!(pair.primary.get(1050, b"a").map(|job| job.payload), Some(&b"again"[..]));
}

#[test]
fn a_push_that_waited_for_a_missed_run_counts_though_a_declaration_comes_before_the_upkeep() {
    let mut pair = Pair::configured(|s| s.max_attempts = 1);
    pair.job_with(1000, "a", 1000, |p| p.every = Some(10));
    pair.take(1000, 1002, "a");
    again(&mut pair, 1000, "a", "again");
    let push = Push { payload: b"new", id: Some(b"a"), due: 1003, every: Some(10), ..Push::default() };
    let effect = pair.primary.declare(1003, &push, false).expect("there is room").expect("a change");
    assert!(pair.replica.apply(&effect));
    pair.check();
    let totals = pair.primary.stats(1003).totals;
    assert_eq!((totals.pushed, totals.replaced, totals.missed), (2, 1, 1));
}
