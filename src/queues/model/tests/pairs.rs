//! What two options do together: a test for each row of docs/queue-options.md. The name of a test is the name of its
//! row.

use super::super::{Fate, NackOptions, Push, Rate, State};
use super::Pair;
use super::ttl::upkeep;

const FREE: NackOptions<'_> = NackOptions { is_free: true, error: b"" };

/// Pushes with AGAIN.
fn again(pair: &mut Pair, now: u64, id: &str, more: impl FnOnce(&mut Push<'_>)) {
    let mut push = Push { payload: b"again", id: Some(id.as_bytes()), due: now, again: true, ..Push::default() };
    more(&mut push);
    assert!(pair.push(now, &push).is_some());
}

fn due(pair: &Pair, now: u64, id: &str) -> u64 {
    pair.primary.get(now, id.as_bytes()).expect("a job").time
}

fn group<'a>(pair: &'a Pair, id: &str) -> &'a [u8] {
    pair.primary.get(0, id.as_bytes()).expect("a job").group
}

/// Claims all that a claim gets. Returns the IDs.
fn all(pair: &mut Pair, now: u64) -> Vec<String> {
    pair.claim(now, now + 1000, 99).into_iter().map(|job| String::from_utf8(job.id).unwrap()).collect()
}

fn held(pair: &Pair, now: u64, group: &str) -> Option<u64> {
    pair.primary.groups(now, None).find(|view| view.name == group.as_bytes()).and_then(|view| view.held_until)
}

#[test]
fn delay_and_priority() {
    let mut pair = Pair::new();
    pair.job_with(1, "first", 50, |p| p.priority = -9);
    pair.job(1, "second", 1);
    assert_eq!((all(&mut pair, 49), all(&mut pair, 50)), (vec!["second".into()], vec!["first".into()]));
}

#[test]
fn delay_and_every() {
    let mut pair = Pair::new();
    pair.job_with(1, "a", 70, |p| p.every = Some(100));
    let token = pair.take(75, 80, "a");
    assert!(pair.ack(76, "a", token));
    assert_eq!(due(&pair, 76, "a"), 170);
}

#[test]
fn delay_and_ttl() {
    let mut pair = Pair::new();
    pair.job_with(1, "a", 70, |p| p.ttl = Some(10));
    assert_eq!(pair.expires(1, "a"), Some(80));
}

#[test]
fn delay_and_again() {
    let mut pair = Pair::new();
    pair.job(1, "a", 70);
    again(&mut pair, 2, "a", |p| p.due = 90);
    assert_eq!(due(&pair, 2, "a"), 70);
    let token = pair.take(70, 200, "a");
    again(&mut pair, 71, "a", |p| p.due = 95);
    assert!(pair.ack(80, "a", token));
    assert_eq!(due(&pair, 80, "a"), 95, "its delay began with its push");
}

#[test]
fn delay_and_aging() {
    let mut pair = Pair::configured(|s| s.aging = 10);
    pair.job_with(1, "late", 31, |p| p.priority = -2);
    pair.job(1, "early", 10);
    assert_eq!(all(&mut pair, 40), ["early", "late"]);
}

#[test]
fn delay_and_ordered() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    pair.job(1, "a", 70);
    pair.job(1, "b", 1);
    assert_eq!((all(&mut pair, 69), all(&mut pair, 70)), (vec![], vec!["a".into()]));
}

#[test]
fn priority_and_group() {
    let mut pair = Pair::new();
    for (id, group, priority) in [("a1", "a", 5), ("a2", "a", 4), ("b1", "b", 0)] {
        pair.job_with(1, id, 1, |p| (p.group, p.priority) = (group.as_bytes(), priority));
    }
    assert_eq!(all(&mut pair, 1), ["a2", "b1", "a1"]);
}

#[test]
fn priority_and_aging() {
    let mut pair = Pair::configured(|s| s.aging = 10);
    pair.job_with(1, "urgent", 50, |p| p.priority = -3);
    pair.job(1, "waits", 1);
    assert_eq!(all(&mut pair, 60), ["waits", "urgent"], "1 comes before 50 - 3 x 10");
}

#[test]
fn priority_and_ordered() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    pair.job(1, "a", 1);
    pair.job_with(1, "b", 1, |p| p.priority = -9);
    pair.take(1, 5, "a");
}

#[test]
fn priority_and_again() {
    let mut pair = Pair::new();
    pair.job_with(1, "a", 1, |p| p.priority = 7);
    again(&mut pair, 2, "a", |p| p.priority = 1);
    assert_eq!(pair.primary.get(2, b"a").unwrap().priority, 7);
}

#[test]
fn maxattempts_and_every() {
    let mut pair = Pair::new();
    pair.job_with(1, "a", 1, |p| (p.max_attempts, p.every) = (Some(1), Some(100)));
    pair.take(1, 5, "a");
    let job = pair.primary.get(5, b"a").unwrap();
    assert_eq!((job.state, job.time, job.attempts), (State::Delayed, 101, 0));
    assert_eq!(pair.primary.stats(5).totals.missed, 1);
}

#[test]
fn maxattempts_and_ttl() {
    for by_nack in [true, false] {
        let mut pair = Pair::new();
        pair.job_with(1, "a", 1, |p| (p.max_attempts, p.ttl) = (Some(1), Some(10)));
        let token = pair.take(5, 50, "a");
        if by_nack {
            assert_eq!(pair.nack(40, "a", token, Fate::Default), Some(None));
        }
        assert_eq!(upkeep(&mut pair, 60), [""; 0]);
        assert_eq!((pair.state(60, "a"), pair.primary.stats(60).totals.expired), (Some(State::Dead), 0));
    }
}

#[test]
fn maxattempts_and_free() {
    let mut pair = Pair::new();
    pair.job_with(1, "a", 1, |p| p.max_attempts = Some(1));
    let token = pair.take(1, 50, "a");
    assert_eq!(pair.nack_with(2, "a", token, Fate::Default, FREE), Some(Some(2)));
    pair.take(2, 50, "a");
}

#[test]
fn maxattempts_and_backoff() {
    let mut pair = Pair::configured(|s| (s.backoff_base, s.backoff_max) = (100, 100));
    pair.job_with(1, "a", 1, |p| p.max_attempts = Some(1));
    pair.take(1, 5, "a");
    assert_eq!(pair.state(5, "a"), Some(State::Dead), "at once");
}

#[test]
fn maxattempts_and_deadttl() {
    let mut pair = Pair::configured(|s| s.deadttl = 20);
    pair.job_with(1, "a", 1, |p| p.max_attempts = Some(1));
    pair.take(1, 5, "a");
    assert_eq!((upkeep(&mut pair, 24), upkeep(&mut pair, 25)), (vec![], vec!["a".into()]), "from the end of the lease");
}

#[test]
fn every_and_ttl() {
    let mut pair = Pair::new();
    pair.job_with(1, "a", 1, |p| (p.every, p.ttl) = (Some(100), Some(10)));
    assert_eq!((all(&mut pair, 11), upkeep(&mut pair, 11)), (vec![], vec!["a".into()]));
    assert_eq!((due(&pair, 11, "a"), pair.expires(11, "a")), (101, Some(111)));
}

#[test]
fn every_and_again() {
    let mut pair = Pair::new();
    pair.job_with(1, "a", 1, |p| p.every = Some(100));
    let token = pair.take(1, 50, "a");
    again(&mut pair, 2, "a", |_| ());
    assert!(pair.ack(3, "a", token));
    let job = pair.primary.get(3, b"a").unwrap();
    assert_eq!((job.time, job.payload), (101, &b"again"[..]));
}

#[test]
fn every_and_backoff() {
    let mut pair = Pair::configured(|s| (s.backoff_base, s.backoff_max) = (7, 7));
    pair.job_with(1, "a", 1, |p| (p.every, p.max_attempts) = (Some(100), Some(2)));
    let token = pair.take(1, 50, "a");
    assert_eq!(pair.nack(2, "a", token, Fate::Default), Some(Some(9)));
    let token = pair.take(9, 50, "a");
    assert_eq!(pair.nack(10, "a", token, Fate::Default), Some(Some(101)), "the next occurrence");
}

#[test]
fn every_and_ordered() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    pair.job_with(1, "tick", 70, |p| p.every = Some(100));
    pair.job(1, "a", 1);
    let token = pair.take(1, 5, "a");
    pair.nack(2, "a", token, Fate::At(90));
    assert_eq!((all(&mut pair, 80), all(&mut pair, 90)), (vec![], vec!["a".into()]));
}

#[test]
fn group_and_ttl() {
    let mut pair = Pair::new();
    for n in 0..100 {
        pair.job_with(1, &n.to_string(), 1, |p| (p.group, p.ttl) = (b"a", Some(10)));
    }
    pair.job_with(20, "b", 20, |p| p.group = b"b");
    pair.take(20, 50, "b");
}

#[test]
fn group_and_replace() {
    let mut pair = Pair::new();
    pair.job_with(1, "x", 1, |p| p.group = b"a");
    pair.job_with(1, "x", 1, |p| (p.group, p.replace) = (b"b", true));
    assert_eq!(group(&pair, "x"), b"b");
}

#[test]
fn group_and_again() {
    let mut pair = Pair::new();
    pair.job_with(1, "x", 1, |p| p.group = b"a");
    again(&mut pair, 1, "x", |p| p.group = b"b");
    assert_eq!(group(&pair, "x"), b"a");
    let token = pair.take(1, 50, "x");
    again(&mut pair, 2, "x", |p| p.group = b"b");
    assert!(pair.ack(3, "x", token));
    assert_eq!(group(&pair, "x"), b"b");
}

#[test]
fn ttl_and_again() {
    let mut pair = Pair::new();
    pair.job_with(1, "a", 1, |p| p.ttl = Some(10));
    again(&mut pair, 5, "a", |p| p.ttl = Some(10));
    assert_eq!(pair.expires(5, "a"), Some(15));
    let token = pair.take(5, 100, "a");
    again(&mut pair, 6, "a", |p| p.ttl = Some(10));
    assert!(pair.ack(50, "a", token));
    assert_eq!(pair.expires(50, "a"), Some(60), "not while it waited");
}

#[test]
fn ttl_and_backoff() {
    let mut pair = Pair::configured(|s| (s.backoff_base, s.backoff_max) = (100, 100));
    pair.job_with(1, "a", 1, |p| p.ttl = Some(50));
    pair.take(1, 10, "a");
    assert_eq!((pair.state(50, "a"), upkeep(&mut pair, 51)), (Some(State::Delayed), vec!["a".into()]));
}

#[test]
fn ttl_and_ordered() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    pair.job_with(1, "a", 1, |p| p.ttl = Some(10));
    pair.job(1, "b", 1);
    let token = pair.take(1, 5, "a");
    pair.nack(2, "a", token, Fate::At(500));
    assert_eq!((all(&mut pair, 10), all(&mut pair, 11)), (vec![], vec!["b".into()]));
}

#[test]
fn ttl_and_maxlen() {
    let mut pair = Pair::configured(|s| s.maxlen = 1);
    pair.job_with(1, "a", 1, |p| p.ttl = Some(10));
    let other = Push { id: Some(b"b"), due: 20, ..Push::default() };
    assert!(pair.primary.push(20, &other).is_err(), "it counts until it is dropped");
    assert_eq!(upkeep(&mut pair, 20), ["a"]);
    pair.job(20, "b", 20);
}

#[test]
fn replace_and_hold() {
    let mut pair = Pair::new();
    pair.job_with(1, "x", 1, |p| p.group = b"a");
    assert!(pair.hold(1, "a", 50));
    pair.job_with(2, "x", 2, |p| (p.group, p.replace) = (b"a", true));
    assert_eq!(held(&pair, 2, "a"), Some(50), "although it was the group's only job");
}

#[test]
fn replace_and_again() {
    let mut pair = Pair::new();
    pair.job(1, "a", 1);
    let token = pair.take(1, 50, "a");
    again(&mut pair, 2, "a", |_| ());
    pair.job_with(3, "a", 3, |p| p.replace = true);
    assert!(!pair.ack(4, "a", token));
    assert_eq!((pair.primary.payload_behind(b"a"), pair.primary.len()), (None, 1), "both are replaced");
}

#[test]
fn again_and_hold() {
    let mut pair = Pair::new();
    pair.job_with(1, "x", 1, |p| (p.group, p.max_attempts) = (b"a", Some(1)));
    pair.job_with(1, "y", 1, |p| p.group = b"a");
    let token = pair.take(1, 50, "x");
    again(&mut pair, 2, "x", |p| p.group = b"b");
    let group = pair.primary.group_of(b"x");
    assert_eq!(pair.nack(3, "x", token, Fate::Default), Some(None));
    let effect = pair.primary.hold_longer(3, &group, 50);
    assert!(pair.replica.apply(&effect.unwrap()));
    assert_eq!((held(&pair, 3, "a"), held(&pair, 3, "b")), (Some(50), None));
}

#[test]
fn again_and_maxlen() {
    let mut pair = Pair::configured(|s| s.maxlen = 1);
    pair.job(1, "a", 1);
    pair.take(1, 50, "a");
    let push = Push { id: Some(b"a"), due: 2, again: true, ..Push::default() };
    assert!(pair.primary.push(2, &push).is_err(), "a push that waits counts as a job");
}

/// Declares the job `x`, every 100. `due` is its AT.
fn declare(pair: &mut Pair, now: u64, due: u64, more: impl FnOnce(&mut Push<'_>)) {
    let mut push = Push { payload: b"declared", id: Some(b"x"), due, every: Some(100), ..Push::default() };
    more(&mut push);
    assert!(pair.declare(now, true, &push));
}

#[test]
fn declare_and_delay() {
    let mut pair = Pair::new();
    declare(&mut pair, 1, 70, |_| {});
    declare(&mut pair, 2, 90, |p| p.payload = b"other");
    assert_eq!(due(&pair, 2, "x"), 70);
    declare(&mut pair, 3, 90, |p| p.every = Some(50));
    assert_eq!(due(&pair, 3, "x"), 90);
}

#[test]
fn declare_and_priority() {
    let mut pair = Pair::new();
    declare(&mut pair, 1, 1, |_| {});
    pair.job(1, "other", 1);
    declare(&mut pair, 2, 1, |p| p.priority = 1);
    assert_eq!(all(&mut pair, 3), ["other", "x"]);
}

#[test]
fn declare_and_maxattempts() {
    let mut pair = Pair::new();
    declare(&mut pair, 1, 1, |_| {});
    for attempt in 1..=2 {
        let token = pair.take(attempt, 50, "x");
        pair.nack(attempt, "x", token, Fate::Default);
    }
    declare(&mut pair, 5, 1, |p| p.max_attempts = Some(2));
    let token = pair.take(6, 50, "x");
    pair.nack(7, "x", token, Fate::Default);
    assert_eq!((pair.state(7, "x"), due(&pair, 7, "x")), (Some(State::Delayed), 101), "it was the last one");
}

#[test]
fn declare_and_every() {
    let mut pair = Pair::new();
    pair.job(1, "x", 10);
    declare(&mut pair, 20, 10, |p| p.every = Some(30));
    let token = pair.take(20, 50, "x");
    declare(&mut pair, 21, 10, |p| p.every = Some(40));
    assert!(pair.ack(22, "x", token));
    assert_eq!(due(&pair, 22, "x"), 50);
}

#[test]
fn declare_and_group() {
    let mut pair = Pair::new();
    declare(&mut pair, 1, 1, |p| p.group = b"a");
    declare(&mut pair, 2, 1, |p| p.group = b"b");
    assert_eq!(group(&pair, "x"), b"b");
    let token = pair.take(2, 50, "x");
    declare(&mut pair, 3, 1, |p| p.group = b"c");
    assert_eq!(group(&pair, "x"), b"b");
    assert!(pair.ack(4, "x", token));
    assert_eq!(group(&pair, "x"), b"c");
}

#[test]
fn declare_and_ttl() {
    let mut pair = Pair::new();
    declare(&mut pair, 1, 40, |_| {});
    declare(&mut pair, 2, 70, |p| p.ttl = Some(10));
    assert_eq!(pair.expires(2, "x"), Some(50));
    declare(&mut pair, 3, 70, |_| {});
    assert_eq!(pair.primary.get(3, b"x").unwrap().ttl, None);
}

#[test]
fn declare_and_replace() {
    let mut pair = Pair::new();
    declare(&mut pair, 1, 1, |_| {});
    pair.take(1, 50, "x");
    declare(&mut pair, 2, 1, |p| p.payload = b"waits");
    pair.job_with(3, "x", 3, |p| p.replace = true);
    let token = pair.take(3, 50, "x");
    assert!(pair.ack(4, "x", token));
    assert!(pair.primary.is_empty());
}

#[test]
fn declare_and_again() {
    for is_declared_last in [true, false] {
        let mut pair = Pair::new();
        declare(&mut pair, 1, 1, |_| {});
        let token = pair.take(1, 50, "x");
        let payload = |pair: &Pair| pair.primary.get(9, b"x").unwrap().payload.to_vec();
        for nth in 0..2 {
            if (nth == 1) == is_declared_last {
                declare(&mut pair, 2, 1, |p| p.payload = b"new");
            } else {
                again(&mut pair, 2, "x", |_| {});
            }
        }
        assert!(pair.ack(3, "x", token));
        assert_eq!(payload(&pair), if is_declared_last { b"new".to_vec() } else { b"again".to_vec() });
        assert_eq!((pair.primary.len(), due(&pair, 3, "x")), (1, 101));
    }
}

#[test]
fn declare_and_hold() {
    let mut pair = Pair::new();
    declare(&mut pair, 1, 1, |p| p.group = b"a");
    pair.job_with(1, "other", 9, |p| p.group = b"a");
    let token = pair.take(1, 50, "x");
    declare(&mut pair, 2, 1, |p| p.group = b"b");
    let group = pair.primary.group_of(b"x");
    assert_eq!(pair.nack(3, "x", token, Fate::Default), Some(Some(3)));
    let effect = pair.primary.hold_longer(3, &group, 50);
    assert!(pair.replica.apply(&effect.unwrap()));
    assert_eq!((held(&pair, 3, "a"), held(&pair, 3, "b")), (Some(50), None));
}

#[test]
fn declare_and_ordered() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    declare(&mut pair, 1, 1, |p| p.group = b"a");
    pair.job_with(2, "later", 2, |p| p.group = b"a");
    declare(&mut pair, 3, 1, |p| (p.group, p.payload) = (b"a", b"new"));
    pair.take(4, 50, "x");
}

#[test]
fn declare_and_maxlen() {
    let mut pair = Pair::configured(|s| s.maxlen = 1);
    declare(&mut pair, 1, 1, |_| {});
    declare(&mut pair, 2, 1, |p| p.priority = 2);
    let token = pair.take(2, 50, "x");
    declare(&mut pair, 3, 1, |p| p.priority = 3);
    assert!(pair.ack(4, "x", token));
    let other = Push { id: Some(b"y"), every: Some(1), ..Push::default() };
    assert!(pair.primary.declare(5, &other, true).is_err());
}

#[test]
fn hold_and_ordered() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    pair.job(1, "a", 1);
    pair.job(1, "b", 1);
    pair.take(1, 30, "a");
    assert!(pair.hold(1, "", 20));
    assert_eq!(pair.primary.next_claimable(1), Some(30), "the later of both");
}

#[test]
fn hold_and_grouprate() {
    let mut pair = Pair::configured(|s| s.group_rate = Some(Rate { limit: 1, window: 30 }));
    pair.job(1, "a", 1);
    pair.job(1, "b", 1);
    pair.take(1, 500, "a");
    assert!(pair.hold(1, "", 20));
    assert_eq!(pair.primary.next_claimable(1), Some(31), "the later of both");
}

#[test]
fn hold_and_groupconcurrency() {
    let mut pair = Pair::configured(|s| s.group_concurrency = 1);
    pair.job(1, "a", 1);
    pair.job(1, "b", 1);
    pair.take(1, 15, "a");
    assert!(pair.hold(1, "", 20));
    assert_eq!(pair.primary.next_claimable(1), Some(20), "the later of both");
}

#[test]
fn free_and_backoff() {
    let mut pair = Pair::configured(|s| (s.backoff_base, s.backoff_max) = (7, 100));
    pair.job(1, "a", 1);
    let token = pair.take(1, 50, "a");
    assert_eq!(pair.nack_with(2, "a", token, Fate::Default, FREE), Some(Some(9)), "as after an attempt that counts");
    let token = pair.take(9, 50, "a");
    assert_eq!(pair.nack(10, "a", token, Fate::Default), Some(Some(17)), "it is the first attempt again");
}

#[test]
fn backoff_and_jitter() {
    let mut pair = Pair::configured(|s| (s.backoff_base, s.backoff_max, s.jitter) = (1000, 1000, 50));
    pair.job(1, "a", 1);
    pair.take(1, 10, "a");
    let first = due(&pair, 10, "a");
    assert!((1010..=1510).contains(&first));
    pair.configure(10, |s| s.jitter = 0);
    assert_eq!(due(&pair, 10, "a"), first, "the claim decided it");
}

#[test]
fn backoff_and_ordered() {
    let mut pair = Pair::configured(|s| (s.ordered, s.backoff_base, s.backoff_max) = (true, 40, 40));
    pair.job(1, "a", 1);
    pair.job(1, "b", 1);
    pair.take(1, 10, "a");
    assert_eq!((all(&mut pair, 49), all(&mut pair, 50)), (vec![], vec!["a".into()]));
}

#[test]
fn aging_and_ordered() {
    let mut pair = Pair::configured(|s| (s.aging, s.ordered) = (10, true));
    pair.job_with(1, "a", 1, |p| p.priority = 9);
    pair.job(1, "b", 1);
    pair.take(1, 5, "a");
}

#[test]
fn concurrency_and_groupconcurrency() {
    let mut pair = Pair::configured(|s| (s.concurrency, s.group_concurrency) = (3, 2));
    for (id, group) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")] {
        pair.job_with(1, id, 1, |p| p.group = group.as_bytes());
    }
    assert_eq!(all(&mut pair, 1), ["a1", "b1", "a2"]);
}

#[test]
fn rate_and_grouprate() {
    let rate = |limit, window| Some(Rate { limit, window });
    let mut pair = Pair::configured(|s| (s.rate, s.group_rate) = (rate(3, 50), rate(2, 90)));
    for n in 0..6 {
        pair.job(1, &n.to_string(), 1);
    }
    assert_eq!((all(&mut pair, 1).len(), all(&mut pair, 60).len(), all(&mut pair, 91).len()), (2, 0, 2));
}

#[test]
fn groupconcurrency_and_ordered() {
    let mut pair = Pair::configured(|s| (s.group_concurrency, s.ordered) = (5, true));
    pair.job(1, "a", 1);
    pair.job(1, "b", 1);
    assert_eq!(all(&mut pair, 1), ["a"], "one at a time");
}

#[test]
fn deadlen_and_deadttl() {
    let mut pair = Pair::configured(|s| (s.deadlen, s.deadttl) = (2, 100));
    for id in ["a", "b", "c"] {
        pair.job_with(1, id, 1, |p| p.max_attempts = Some(1));
        pair.take(1, 5, id);
    }
    assert_eq!((upkeep(&mut pair, 5).len(), upkeep(&mut pair, 104).len(), upkeep(&mut pair, 105).len()), (1, 0, 2));
}
