//! Random histories. The clock advances, stands still and steps back. After each step, the queue, its replica and the
//! simple model must be equal.

use super::super::{
    AfterError, Change, Counters, Fate, JobData, JobFilter, NackOptions, Push, Queue, Rate, Settings, State,
};
use super::model::{Model, ModelJob};
use super::{Pair, assert_sums, decoded, encoded, rebuilt};
use crate::base::histories;
use proptest::prelude::*;

/// An operation of a history. The IDs are few and the times small, so that operations often concern the same job. The
/// module `scale` tests large numbers.
#[derive(Clone, Debug)]
enum Op {
    Push {
        id: Option<u8>,
        delay: i64,
        priority: i32,
        max_attempts: Option<u32>,
        every: Option<u64>,
        ttl: Option<u64>,
        same: Same,
        group: u8,
    },
    Claim {
        lease: u64,
        count: u64,
        worker: &'static str,
    },
    Ack {
        token: usize,
    },
    Nack {
        token: usize,
        fate: Nacked,
        is_free: bool,
        error: &'static str,
        hold: Option<u64>,
    },
    Extend {
        token: usize,
        lease: u64,
    },
    Progress {
        token: usize,
        text: &'static str,
    },
    Cancel {
        id: u8,
    },
    Reschedule {
        id: u8,
        delay: Option<i64>,
        priority: Option<i32>,
    },
    Redrive {
        group: Option<u8>,
        count: u64,
    },
    RedriveOne {
        id: u8,
    },
    Clean {
        state: State,
        group: Option<u8>,
        older: Option<u64>,
        count: u64,
    },
    Hold {
        group: u8,
        duration: u64,
    },
    /// Drops dead letters. The server does this after each write.
    DropDead,
    /// Runs the upkeep.
    DropExpired,
    Configure(Settings),
    /// Saves and loads both queues, rebuilds them from an AOF file, or copies them.
    Reload(u8),
    /// Saves both queues. `Crash` restores this state.
    Save,
    /// A crash: both queues lose all changes since the last save.
    Crash,
}

#[derive(Clone, Copy, Debug)]
enum Nacked {
    Default,
    Delay(i64),
    Dead,
}

/// What a push does with a job that has the same ID.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Same {
    Keep,
    Replace,
    Again,
    /// DECLARE, with AT or DELAY or without.
    Declare {
        is_timed: bool,
    },
}

fn option<T: std::fmt::Debug + Clone>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop_oneof![Just(()).prop_map(|()| None), some.prop_map(Some)]
}

fn settings(groups: Groups) -> impl Strategy<Value = Settings> {
    let rate = || prop_oneof![(1u64..6, 1u64..60), (90u64..120, 1u64..500),];
    let rate = || option(rate().prop_map(|(limit, window)| Rate { limit, window }));
    let of_groups = match groups {
        Groups::None => (Just(0).boxed(), Just(None).boxed(), Just(false).boxed()),
        Groups::Some => {
            (prop_oneof![2 => Just(0u64), 2 => 1u64..4].boxed(), rate().boxed(), prop::bool::weighted(0.3).boxed())
        }
    };
    (
        0u32..4,
        (0u64..20, 0u64..60, prop_oneof![2 => Just(0u32), 1 => 1u32..=100]),
        prop_oneof![3 => Just(0u64), 2 => 1u64..30],
        prop_oneof![3 => Just(0u64), 1 => 1u64..12],
        prop_oneof![2 => Just(0u64), 1 => 1u64..5],
        rate(),
        prop::bool::weighted(0.1),
        of_groups,
        (prop_oneof![2 => Just(0u64), 1 => 1u64..4], prop_oneof![2 => Just(0u64), 1 => 1u64..60]),
    )
        .prop_map(|(max_attempts, backoff, aging, maxlen, concurrency, rate, paused, of_groups, dead)| Settings {
            max_attempts,
            backoff_base: backoff.0,
            backoff_max: backoff.1,
            jitter: backoff.2,
            aging,
            maxlen,
            concurrency,
            rate,
            paused,
            group_concurrency: of_groups.0,
            group_rate: of_groups.1,
            ordered: of_groups.2,
            deadlen: dead.0,
            deadttl: dead.1,
        })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Groups {
    None,
    Some,
}

fn op(groups: Groups) -> impl Strategy<Value = Op> {
    let group = match groups {
        Groups::None => Just(0).boxed(),
        Groups::Some => (0u8..5).boxed(),
    };
    let hold = match groups {
        Groups::None => Just(None).boxed(),
        Groups::Some => prop_oneof![2 => Just(None), 1 => (1u64..50).prop_map(Some)].boxed(),
    };
    let of_a_group = match groups {
        Groups::None => Just(Op::DropDead).boxed(),
        Groups::Some => {
            (0u8..6, prop_oneof![Just(0), 1u64..50]).prop_map(|(group, duration)| Op::Hold { group, duration }).boxed()
        }
    };
    let id = || 0u8..10;
    let delay = || prop_oneof![2 => Just(0i64), 3 => -10i64..50];
    let token = || 0usize..12;
    let lease = || 1u64..40;
    let nacked = prop_oneof![2 => Just(Nacked::Default), 2 => delay().prop_map(Nacked::Delay), 1 => Just(Nacked::Dead)];
    let words = || prop_oneof![2 => Just(""), 1 => Just("one"), 1 => Just("another")];
    let push = (
        option(id()),
        delay(),
        -3i32..3,
        option(0u32..4),
        prop_oneof![3 => Just(None), 1 => (1u64..25).prop_map(Some)],
        prop_oneof![3 => Just(None), 1 => (1u64..60).prop_map(Some)],
        prop_oneof![2 => Just(Same::Keep), 1 => Just(Same::Replace), 2 => Just(Same::Again),
            2 => any::<bool>().prop_map(|is_timed| Same::Declare { is_timed })],
        group,
    );
    prop_oneof![
        8 => push.prop_map(|(id, delay, priority, max_attempts, every, ttl, same, group)| Op::Push {
            id, delay, priority, max_attempts, every, ttl, same, group,
        }),
        8 => (lease(), 0u64..5, words()).prop_map(|(lease, count, worker)| Op::Claim { lease, count, worker }),
        4 => token().prop_map(|token| Op::Ack { token }),
        5 => (token(), nacked, prop::bool::weighted(0.2), words(), hold)
            .prop_map(|(token, fate, is_free, error, hold)| Op::Nack { token, fate, is_free, error, hold }),
        2 => (token(), lease()).prop_map(|(token, lease)| Op::Extend { token, lease }),
        2 => (token(), words()).prop_map(|(token, text)| Op::Progress { token, text }),
        2 => id().prop_map(|id| Op::Cancel { id }),
        2 => (id(), option(delay()), option(-3i32..3))
            .prop_map(|(id, delay, priority)| Op::Reschedule { id, delay, priority }),
        2 => (option(0u8..6), 0u64..5).prop_map(|(group, count)| Op::Redrive { group, count }),
        1 => id().prop_map(|id| Op::RedriveOne { id }),
        1 => (0usize..3, option(0u8..6), option(0u64..40), 0u64..4).prop_map(|(state, group, older, count)| Op::Clean {
            state: [State::Ready, State::Delayed, State::Dead][state], group, older, count,
        }),
        2 => of_a_group,
        2 => Just(Op::DropDead),
        2 => Just(Op::DropExpired),
        1 => settings(groups).prop_map(Op::Configure),
        1 => (0u8..3).prop_map(Op::Reload),
        1 => Just(Op::Save),
        1 => Just(Op::Crash),
    ]
}

/// How the clock moves before an operation.
fn tick() -> impl Strategy<Value = i64> {
    prop_oneof![4 => Just(0i64), 4 => 1i64..8, 2 => 8i64..60, 1 => -40i64..0]
}

struct Run {
    pair: Pair,
    model: Model,
    /// All tokens, with the IDs of their jobs, the newest last.
    tokens: Vec<(String, u64)>,
    saved: (Vec<u8>, Model),
    /// The clock and the counters after the previous step.
    counted: (u64, Counters),
}

fn group_name(number: u8) -> String {
    if number == 0 { String::new() } else { format!("group {number}") }
}

fn at(now: u64, delay: i64) -> u64 {
    now.saturating_add_signed(delay)
}

impl Run {
    fn new(now: u64, settings: Settings) -> Run {
        let saved = (encoded(&Queue::new()), Model::default());
        let counted = (0, Counters::default());
        let mut run = Run { pair: Pair::new(), model: Model::default(), tokens: Vec::new(), saved, counted };
        run.step(now, &Op::Configure(settings));
        run
    }

    /// Runs a history. Calls `look` with the run and the clock after each step.
    fn through(settings: Settings, history: &[(i64, Op)], look: impl Fn(&Run, u64)) -> (Run, u64) {
        let mut now = 1000;
        let mut run = Run::new(now, settings);
        for (tick, op) in history {
            now = at(now, *tick);
            run.step(now, op);
            run.count(now, matches!(op, Op::Crash));
            look(&run, now);
        }
        (run, now)
    }

    /// Checks that `missed` and `expired_leases` have not decreased, unless the clock stepped back or the server
    /// crashed.
    fn count(&mut self, now: u64, is_new: bool) {
        let totals = self.pair.primary.stats(now).totals;
        let (then, before) = std::mem::replace(&mut self.counted, (now, totals));
        if !is_new && then <= now {
            let missed = (before.missed, totals.missed);
            assert!(missed.0 <= missed.1 && before.expired_leases <= totals.expired_leases, "{before:?} {totals:?}");
        }
    }

    fn step(&mut self, now: u64, op: &Op) {
        let (pair, model) = (&mut self.pair, &mut self.model);
        let held = |token: &usize| {
            let i = self.tokens.len().checked_sub(token + 1);
            let unknown = (String::from("0"), 77);
            i.map_or(unknown, |i| self.tokens[i].clone())
        };
        match op {
            Op::Push { id, delay, priority, max_attempts, every, ttl, same, group } => {
                let group = group_name(*group);
                let id = id.map(|id| id.to_string().into_bytes());
                let push = Push {
                    payload: &now.to_le_bytes(),
                    id: id.as_deref(),
                    due: at(now, *delay),
                    priority: *priority,
                    max_attempts: *max_attempts,
                    every: *every,
                    ttl: *ttl,
                    replace: *same == Same::Replace,
                    again: *same == Same::Again && id.is_some(),
                    group: group.as_bytes(),
                };
                if let (Same::Declare { is_timed }, Some(id), Some(_)) = (same, &id, every) {
                    let push = Push { due: if *is_timed { push.due } else { now }, ..push };
                    let before = encoded(&pair.primary);
                    let reply = model.declare(now, &push, *is_timed);
                    let found = pair.drop_if_expired(now, &push);
                    let found = found.and_then(|()| pair.primary.declare(now, &push, *is_timed));
                    assert_eq!(found.as_ref().map(|_| ()).map_err(|_| ()), reply);
                    if let Ok(effect) = found {
                        let is_changed = effect.is_some();
                        assert!(effect.is_none_or(|effect| pair.replica.apply(&effect)));
                        let repeated = pair.primary.declare(now, &push, *is_timed).expect("it is there");
                        assert_eq!(repeated, None, "the second declaration of {id:?} changes nothing");
                        assert!(!is_changed || encoded(&pair.primary) != before, "what is replicated is a change");
                    }
                    return;
                }
                match model.push(now, &push) {
                    Ok(reply) => assert_eq!(pair.push(now, &push), reply),
                    Err(()) => {
                        // A refused push changes nothing.
                        let mut dropped = 0;
                        let id = push.id.unwrap_or_default();
                        let refused = pair.primary.drop_if_expired(now, id, |_| dropped += 1).is_err();
                        assert_eq!((refused || pair.primary.push(now, &push).is_err(), dropped), (true, 0));
                    }
                }
            }
            Op::Claim { lease, count, worker } => {
                let got = pair.claim_as(now, now + lease, *count, worker);
                assert_eq!(got, model.claim(now, now + lease, *count, worker.as_bytes()));
                for job in got {
                    let id = String::from_utf8(job.id).unwrap();
                    self.tokens.push((id, job.token));
                }
            }
            Op::Ack { token } => {
                let (id, token) = held(token);
                let reply = model.ack(now, id.as_bytes(), token);
                assert_eq!(pair.ack(now, &id, token), reply);
            }
            Op::Nack { token, fate, is_free, error, hold } => {
                let (id, token) = held(token);
                let fate = match *fate {
                    Nacked::Default => Fate::Default,
                    Nacked::Delay(delay) => Fate::At(at(now, delay)),
                    Nacked::Dead => Fate::Dead,
                };
                let options = NackOptions { is_free: *is_free, error: error.as_bytes() };
                let group = model.group_of(id.as_bytes());
                assert_eq!(*pair.primary.group_of(id.as_bytes()), *group);
                let reply = model.nack(now, id.as_bytes(), token, fate, options);
                assert_eq!(pair.nack_with(now, &id, token, fate, options), reply);
                if let Some(hold) = hold.filter(|_| reply.is_some()) {
                    model.hold_longer(&group, now + hold);
                    let effect = pair.primary.hold_longer(now, &group, now + hold);
                    assert!(effect.is_none_or(|effect| pair.replica.apply(&effect)));
                }
            }
            Op::Hold { group, duration } => {
                let until = if *duration == 0 { 0 } else { now + duration };
                let reply = model.hold(group_name(*group).as_bytes(), until);
                let before = encoded(&pair.primary);
                let name = group_name(*group);
                let effect = pair.primary.hold(now, name.as_bytes(), until);
                assert_eq!(effect.is_some(), reply);
                assert!(effect.flatten().is_none_or(|effect| pair.replica.apply(&effect)));
                assert_eq!(effect.flatten().is_some(), encoded(&pair.primary) != before, "what changes is replicated");
            }
            Op::Extend { token, lease } => {
                let (id, token) = held(token);
                let reply = model.extend(now, id.as_bytes(), token, now + lease);
                assert_eq!(pair.extend(now, &id, token, now + lease), reply);
            }
            Op::Progress { token, text } => {
                let (id, token) = held(token);
                let reply = model.progress(now, id.as_bytes(), token, text.as_bytes());
                let effect = pair.primary.progress(now, id.as_bytes(), token, text.as_bytes());
                assert_eq!(effect.is_some(), reply);
                assert!(effect.flatten().is_none_or(|effect| pair.replica.apply(&effect)));
            }
            Op::Cancel { id } => {
                let id = id.to_string();
                let reply = model.cancel(now, id.as_bytes());
                assert_eq!(pair.cancel(now, &id), reply);
            }
            Op::Reschedule { id, delay, priority } => {
                let id = id.to_string();
                let due = delay.map(|delay| at(now, delay));
                let reply = model.reschedule(now, id.as_bytes(), due, *priority);
                let before = encoded(&pair.primary);
                let effect = pair.primary.reschedule(now, id.as_bytes(), due, *priority);
                assert_eq!(effect.is_some(), reply);
                if let Some(effect) = effect.flatten() {
                    assert!(pair.replica.apply(&effect));
                    assert_ne!(encoded(&pair.primary), before, "what changes nothing is not replicated");
                }
            }
            Op::Redrive { group, count } => {
                let group = group.map(group_name);
                let group = group.as_deref().map(str::as_bytes);
                let effect = pair.primary.redrive(now, group, *count);
                let reply = effect.map_or(0, |effect| match effect.change {
                    Change::Redrive { count, .. } => count,
                    other => panic!("{other:?}"),
                });
                assert!(effect.is_none_or(|effect| pair.replica.apply(&effect)));
                assert_eq!(reply, model.redrive(now, group, *count));
            }
            Op::RedriveOne { id } => {
                let id = id.to_string();
                let effect = pair.primary.redrive_one(now, id.as_bytes());
                assert!(effect.is_none_or(|effect| pair.replica.apply(&effect)));
                assert_eq!(effect.is_some(), model.redrive_one(now, id.as_bytes()));
            }
            Op::Clean { state, group, older, count } => {
                let replica = &mut pair.replica;
                let group = group.map(group_name);
                let which = JobFilter { state: *state, group: group.as_deref().map(str::as_bytes) };
                let reply = pair.primary.clean(now, which, *older, *count, |effect| assert!(replica.apply(effect)));
                assert_eq!(reply.expect("few jobs"), model.clean(now, which, *older, *count));
            }
            Op::DropDead => {
                let replica = &mut pair.replica;
                pair.primary.drop_dead(now, |effect| assert!(replica.apply(effect)));
                model.drop_dead(now);
            }
            Op::DropExpired => {
                let replica = &mut pair.replica;
                pair.primary.drop_expired(now, 100, |effect| {
                    assert!(replica.apply(effect));
                    model.keep_up(now, effect.id().expect("a job"));
                });
                assert!(!model.has_overdue(now));
            }
            Op::Configure(settings) => {
                let reply = model.configure(now, *settings);
                let ready = pair.ids(now, State::Ready);
                assert_eq!(pair.configure(now, |s| *s = *settings), reply);
                assert!(ready.iter().all(|id| pair.state(now, id) == Some(State::Ready)), "what is ready stays so");
            }
            Op::Reload(how) => {
                let primary = decoded(&encoded(&pair.primary));
                pair.replica = match how {
                    0 => rebuilt(&pair.replica),
                    1 => pair.replica.clone(),
                    _ => pair.primary.clone(),
                };
                pair.primary = primary;
            }
            Op::Save => self.saved = (encoded(&pair.primary), model.clone()),
            Op::Crash => {
                pair.primary = decoded(&self.saved.0);
                pair.replica = decoded(&self.saved.0);
                *model = self.saved.1.clone();
            }
        }
    }

    fn compare(&self, now: u64) {
        let (queue, model) = (&self.pair.primary, &self.model);
        self.pair.check();
        let stats = queue.stats(now);
        let states = [
            (State::Ready, stats.ready),
            (State::Delayed, stats.delayed),
            (State::Claimed, stats.claimed),
            (State::Dead, stats.dead),
        ];
        for (state, count) in states {
            let expected = model.peek(now, state);
            let jobs: Vec<_> = queue.peek(now, state.into()).collect();
            assert_eq!(jobs.len(), expected.len(), "{state:?}");
            assert_eq!(count, expected.len() as u64, "{state:?}");
            for (i, (job, expected)) in jobs.iter().zip(expected).enumerate() {
                let rest = queue.peek_after(now, state.into(), job.id).expect("it is in this state");
                assert!(rest.eq(jobs[i + 1..].iter().copied()), "the page behind a job is the rest of the list");
                let job = *job;
                same(queue, job, expected, now);
                assert_eq!(queue.get(now, job.id), Some(job));
            }
            for group in (0..6).map(group_name) {
                let which = JobFilter { state, group: Some(group.as_bytes()) };
                let of_group: Vec<_> = jobs.iter().copied().filter(|job| job.group == group.as_bytes()).collect();
                assert!(queue.peek(now, which).eq(of_group.iter().copied()), "the page of a group");
                for (i, job) in of_group.iter().enumerate() {
                    let rest = queue.peek_after(now, which, job.id).expect("it is in this state and group");
                    assert!(rest.eq(of_group[i + 1..].iter().copied()), "the page behind a job of the group");
                }
                if let Some(other) = jobs.iter().find(|job| job.group != group.as_bytes()) {
                    assert_eq!(queue.peek_after(now, which, other.id).err(), Some(AfterError::NotInState));
                }
            }
        }
        assert_eq!(stats.oldest_ready, model.waits_from(now));
        assert_eq!(
            stats.totals,
            Counters { expired_leases: model.expired(now), missed: model.missed(now), ..model.counters }
        );
        assert_sums(&stats);
        assert_eq!(queue.claimable(now), model.claimable(now));
        let groups = queue.groups(now, None).map(|g| (g.name, [g.ready, g.delayed, g.claimed], g.held_until));
        let groups: Vec<_> = groups.collect();
        assert_eq!(groups, model.groups(now));
        assert_eq!(queue.group_count(), groups.len());
        let mut largest: Vec<_> = groups.iter().filter(|(_, [ready, ..], _)| *ready > 0).collect();
        largest.sort_by_key(|(name, [ready, ..], _)| (std::cmp::Reverse(*ready), *name));
        let found = queue.largest_groups(now, 3).into_iter().map(|g| (g.name, g.ready)).filter(|(_, ready)| *ready > 0);
        assert!(found.eq(largest.into_iter().take(3).map(|&(name, [ready, ..], _)| (name, ready))));
        let (next, expected) = (queue.next_claimable(now), model.next_claimable(now));
        if model.has_ttls() {
            // The queue may return a time at which a job will have expired, but never a time that is too late.
            assert_eq!(next == Some(now), expected == Some(now));
            assert!(expected.is_none_or(|expected| next.is_some_and(|next| next <= expected)));
        } else {
            assert_eq!(next, expected);
        }
        assert_eq!(queue.is_unused(), model.is_unused());
        for announced_until in [0, now.saturating_sub(20), now] {
            assert_eq!(queue.next_upkeep(now, announced_until), model.next_upkeep(now, announced_until));
        }
        for now in [now, now + 100_000] {
            let mut clean = self.pair.primary.clone();
            let mut replica = self.pair.replica.clone();
            let mut done = 0;
            while clean.needs_upkeep(now) {
                let before = done;
                done += clean.run_upkeep(now, |effect| assert!(replica.apply(effect)));
                assert!(done > before);
            }
            assert_eq!(clean.run_upkeep(now, |_| panic!("there is nothing to do")), 0);
            assert!(clean.next_upkeep(now, now).is_none_or(|next| next > now));
            clean.check();
            assert_eq!(encoded(&clean), encoded(&replica), "the replica agrees");
        }
    }
}

fn same(queue: &Queue, job: JobData<'_>, expected: &ModelJob, now: u64) {
    assert_eq!(job.id, expected.id);
    assert_eq!(job.payload, expected.payload);
    assert_eq!(job.state, expected.state(now));
    assert_eq!(job.time, expected.due(now));
    assert_eq!(job.priority, expected.priority);
    assert_eq!(job.attempts, expected.attempts(now));
    assert_eq!(job.max_attempts, expected.max);
    assert_eq!(job.created, expected.created);
    assert_eq!(job.extras.claimed, expected.claimed.unwrap_or(0));
    assert_eq!(job.extras.failed, expected.failed(now).unwrap_or(0));
    assert_eq!(job.extras.worker, expected.worker);
    assert_eq!(job.extras.error, expected.error);
    assert_eq!(job.group, expected.group);
    assert_eq!((job.extras.progress, job.extras.progressed), (&*expected.progress, expected.progressed));
    let waiting = expected.next.as_ref().or(expected.declared.as_ref().map(|(declared, _)| declared));
    assert_eq!(queue.payload_behind(job.id), waiting.map(|next| next.payload.as_slice()));
    assert_eq!(job.ttl.map(|it| it.ttl), expected.ttl.map(|(ttl, _)| ttl));
    let expires = job.ttl.map(|it| it.expires).filter(|&expires| expires != 0);
    assert_eq!(expires, expected.expires(now).filter(|_| job.state != State::Dead));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: histories(100),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn queue_replica_and_model_agree_on_any_history(
        first in settings(Groups::None),
        history in prop::collection::vec((tick(), op(Groups::None)), 1..80),
    ) {
        Run::through(first, &history, |run, now| {
            run.compare(now);
            assert!(!run.pair.primary.knows_groups() && !run.pair.replica.knows_groups());
        });
    }

    #[test]
    fn groups_take_turns_as_the_model_says_on_any_history(
        first in settings(Groups::Some),
        history in prop::collection::vec((tick(), op(Groups::Some)), 1..80),
    ) {
        Run::through(first, &history, Run::compare);
    }

    #[test]
    fn a_wake_comes_neither_early_nor_late(
        first in settings(Groups::Some),
        mut history in prop::collection::vec((tick(), op(Groups::Some)), 1..40),
    ) {
        // Removes all TTLs. With TTLs, a job may have expired at the time of `next_claimable`.
        for (_, op) in &mut history {
            if let Op::Push { ttl, .. } = op {
                *ttl = None;
            }
        }
        let (run, now) = Run::through(first, &history, |_, _| ());
        let queue = &run.pair.primary;
        let first = (now..now + 700).find(|&t| queue.claimable(t) > 0);
        prop_assert_eq!(queue.next_claimable(now), first);
    }
}
