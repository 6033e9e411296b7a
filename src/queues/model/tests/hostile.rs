//! Tests of forged bytes and effects. A queue rejects such input, or passes all checks afterwards. Nothing panics.

use super::super::{
    Attempt, AutoId, Change, Counters, Effect, Extras, Fate, JobChange, JobData, MAX_TIME, NackOptions, NewJob, Push,
    Queue, Rate, Recurrence, Settings, State, Taken, Totals, Ttl,
};
use super::{ByteReader, Pair, encoded};
use crate::base::stream::{DecodeError, Reader, Writer};
use proptest::prelude::*;

/// Returns a queue with jobs in all states and most settings on. Some units of RATE are in use.
fn specimen() -> Queue {
    let mut pair = Pair::configured(|s| {
        *s = Settings {
            max_attempts: 3,
            backoff_base: 10,
            backoff_max: 100,
            aging: 5,
            maxlen: 50,
            concurrency: 9,
            rate: Some(Rate { limit: 200, window: 5000 }),
            paused: false,
            jitter: 10,
            deadlen: 40,
            deadttl: 100_000,
            group_concurrency: 3,
            group_rate: Some(Rate { limit: 4, window: 900 }),
            ordered: false,
        };
    });
    for (id, due) in [("leased", 0), ("buried", 1), ("spent", 2)] {
        pair.job_with(10, id, due, |p| {
            p.max_attempts = Some(if id == "spent" { 1 } else { 0 });
            p.every = Some(7);
        });
    }
    let got = pair.claim(10, 50, 3);
    assert!(pair.extend(10, "spent", got[2].token, 20));
    let dead = pair.nack(11, "buried", got[1].token, Fate::Dead);
    assert_eq!(dead, Some(None));
    pair.job(90, "ready", 90);
    pair.job(90, "scheduled", 900);
    pair.push(90, &Push::default());
    for (id, group) in [("x1", "x"), ("x2", "x"), ("y1", "y")] {
        pair.job_with(90, id, 0, |p| p.group = group.as_bytes());
    }
    assert_eq!(pair.claim(91, 95, 2).len(), 2);
    assert!(pair.hold(92, "x", 500) && pair.hold(92, "", 400));
    pair.primary.clone()
}

/// Calls all functions of a queue, and ignores the results. No function may panic.
fn exercise(mut queue: Queue) {
    queue.check();
    for now in [0, 30, 1000, MAX_TIME, u64::MAX] {
        queue.stats(now);
        queue.next_claimable(now);
        let jobs = queue.claim(now.saturating_mul(1000), now.saturating_add(5), 3, b"w", |_| ());
        let got: Vec<_> = jobs.iter().map(|j| (j.id.to_vec(), j.token)).collect();
        for (i, (id, token)) in got.into_iter().enumerate() {
            match i {
                0 => drop(queue.ack(now, &id, token)),
                1 => drop(queue.nack(now, &id, token, Fate::Default, NackOptions::default())),
                _ => drop(queue.extend(now, &id, token, u64::MAX)),
            }
        }
        let _ = queue.push(now, &Push::default());
        queue.redrive(now, None, 2);
        queue.hold(now, b"x", now / 2);
        queue.configure(now, Settings::default());
        queue.check();
        let bytes = encoded(&queue);
        assert_eq!(
            decode(&bytes).map(|again| encoded(&again)),
            Ok(bytes),
            "what was taken can be saved and loaded again"
        );
    }
}

fn decode(bytes: &[u8]) -> Result<Queue, DecodeError> {
    Queue::decode(&mut ByteReader(bytes))
}

#[test]
fn a_cut_short_queue_is_an_error_wherever_it_is_cut() {
    let bytes = encoded(&specimen());
    for len in 0..bytes.len() {
        assert_eq!(decode(&bytes[..len]).err(), Some(DecodeError::Truncated));
    }
}

#[test]
fn any_single_byte_changed_is_refused_or_gives_a_sound_queue() {
    let bytes = encoded(&specimen());
    for i in 0..bytes.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff, bytes[i] ^ 1, bytes[i] ^ 0x40] {
            let mut bytes = bytes.clone();
            bytes[i] = byte;
            if let Ok(queue) = decode(&bytes) {
                exercise(queue);
            }
        }
    }
}

/// A part of a stored queue: a number or a byte string. A test can replace a part, even by one with more or fewer
/// bytes.
#[derive(Clone, Debug)]
enum Token {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Writer for Vec<Token> {
    fn number(&mut self, value: u64) {
        self.push(Token::Number(value));
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.push(Token::Bytes(bytes.to_vec()));
    }
}

impl Reader for &[Token] {
    type Bytes = Vec<u8>;
    fn number(&mut self) -> Result<u64, DecodeError> {
        match self.split_off_first() {
            Some(Token::Number(n)) => Ok(*n),
            _ => Err(DecodeError::Truncated),
        }
    }
    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        match self.split_off_first() {
            Some(Token::Bytes(b)) => Ok(b.clone()),
            _ => Err(DecodeError::Truncated),
        }
    }
}

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..12,
        Just(MAX_TIME),
        Just(MAX_TIME + 1),
        Just(1 << 62),
        Just((1 << 62) + 1),
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        Just(1 << 32),
        any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(queue) = decode(&bytes) {
            exercise(queue);
        }
        let behind_version = [&[4], bytes.as_slice()].concat();
        if let Ok(queue) = decode(&behind_version) {
            exercise(queue);
        }
    }

    #[test]
    fn numbers_changed_at_will_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), numbers()), 1..4),
    ) {
        let mut tokens: Vec<Token> = Vec::new();
        specimen().encode(&mut tokens);
        for (at, number) in changes {
            let at = at.index(tokens.len());
            if let Token::Number(old) = &mut tokens[at] {
                *old = number;
            }
        }
        if let Ok(queue) = Queue::decode(&mut tokens.as_slice()) {
            exercise(queue);
        }
    }

    #[test]
    fn effects_made_up_apply_whole_or_not_at_all(
        effects in prop::collection::vec((0u8..27, 0usize..7, prop::array::uniform7(numbers())), 1..6),
    ) {
        let mut queue = specimen();
        let ids: [&[u8]; 7] = [b"leased", b"buried", b"spent", b"ready", b"scheduled", b"90-0", b"new"];
        for (kind, id, [at, a, b, c, d, e, f]) in effects {
            let id = ids[id];
            let due = (a % 2 == 0).then_some(b);
            let group: &[u8] = [&b""[..], b"x", b"y", b"z"][(e % 4) as usize];
            let job = NewJob {
                id, payload: b"x", due: a, priority: b as i32, max_attempts: c as u32, group,
                every: (d % 2 == 0).then_some(e), ttl: (c % 3 == 0).then_some(f),
            };
            let of_job = |change| Change::Job { id, change };
            let change = match kind {
                0 => Change::Push { job, generated: f % 2 == 0, again: f % 3 == 0 },
                1 => of_job(JobChange::Claim { token: a, deadline: b, worker: [b"", b"w" as &[u8], &[b'w'; 256]][c as usize % 3] }),
                2 => Change::SettleRates,
                3 => of_job(JobChange::Ack { next_due: due }),
                4 => of_job(JobChange::Retry {
                    due: a, attempt: [Attempt::Counts, Attempt::Free, Attempt::Last][b as usize % 3],
                    error: [b"", b"broken" as &[u8], &[b'e'; 1025]][c as usize % 3],
                }),
                5 => of_job(JobChange::Dead { is_free: a % 2 == 0, error: b"broken" }),
                6 => of_job(JobChange::Extend { deadline: a }),
                7 => of_job(JobChange::Cancel),
                8 => of_job(JobChange::Reschedule { due, priority: Some(c as i32) }),
                9 => Change::Redrive { count: a, group: due.map(|_| group) },
                10 => Change::Configure(Settings {
                    max_attempts: a as u32, backoff_base: b, backoff_max: c, aging: d, maxlen: e,
                    concurrency: f, rate: Some(Rate { limit: b, window: c }), paused: false,
                    jitter: a as u32, deadlen: b, deadttl: c,
                    group_concurrency: c, group_rate: Some(Rate { limit: f, window: e }), ordered: d % 2 == 1,
                }),
                11 => Change::RestoreUnits { group: None, taken: Taken { back_at: a, units: b } },
                13 => Change::RestoreUnits { group: Some(group), taken: Taken { back_at: a, units: b } },
                14 => Change::RestoreTurn { group },
                15 => Change::Hold { group, until: a },
                19 => of_job(JobChange::Expire { next_due: due }),
                16 => of_job(JobChange::Follow),
                20 => Change::Declare { job, is_timed: f % 2 == 0 },
                21 => Change::Declare { job: NewJob { due: at, every: Some(1 + e % 50), ttl: None, ..job }, is_timed: f % 2 == 0 },
                24 => Change::RestoreProgress { id, text: [b"", b"half" as &[u8], &[b'p'; 1025]][c as usize % 3], at: a },
                22 => Change::RestoreDeclaration { job, is_timed: f % 2 == 0 },
                23 => of_job(JobChange::Progress { text: [b"", b"half" as &[u8], &[b'p'; 1025]][c as usize % 3] }),
                17 => Change::RestoreFollower(job),
                18 => Change::Push { job: NewJob { due: at, every: None, ttl: None, ..job }, generated: false, again: true },
                12 => Change::RestoreTotals(Totals {
                    last_token: a, last_id: AutoId { ms: b, seq: c }, next_seq: d,
                    counters: Counters { expired_leases: e, ..Counters::default() },
                }),
                _ => Change::RestoreJob(JobData {
                    id, payload: b"y", group,
                    state: [State::Ready, State::Delayed, State::Claimed, State::Dead][kind as usize % 4],
                    time: a, priority: b as i32, seq: c, token: d, attempts: e as u32,
                    max_attempts: f as u32,
                    recurrence: due.map(|period| Recurrence { period, anchor: c }),
                    created: f,
                    ttl: (f % 2 == 0).then_some(Ttl { ttl: b, expires: a }),
                    backoff: [None, Some(0), Some(a)][d as usize % 3],
                    extras: Extras {
                        claimed: a,
                        failed: b,
                        since: e,
                        worker: [b"", b"w" as &[u8], &[b'w'; 256]][c as usize % 3],
                        error: [b"", b"broken" as &[u8], &[b'e'; 1025]][d as usize % 3], progress: [b"", b"half" as &[u8]][a as usize % 2], progressed: b,
                    },
                }),
            };
            let before = encoded(&queue);
            if !queue.apply(&Effect { at, change }) {
                prop_assert_eq!(encoded(&queue), before);
            }
            queue.check();
        }
        exercise(queue);
    }
}

/// A claimed job has an attempt, a token, and a lease that expires in the future. A queue rejects an effect that breaks
/// this rule.
#[test]
fn claims_without_an_attempt_a_token_or_a_lease_are_refused() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    pair.take(5, 50, "a");
    for (deadline, fits) in [(6, true), (5, false), (0, false), (MAX_TIME, true), (MAX_TIME + 1, false)] {
        let mut queue = pair.primary.clone();
        assert_eq!(
            queue.apply(&Effect { at: 5, change: Change::Job { id: b"a", change: JobChange::Extend { deadline } } }),
            fits,
            "{deadline}"
        );
    }
    let data = |attempts, token, backoff| JobData {
        id: b"b",
        payload: b"y",
        group: b"",
        state: State::Claimed,
        time: 50,
        priority: 0,
        seq: 9,
        token,
        attempts,
        max_attempts: 2,
        recurrence: None,
        created: 1,
        ttl: None,
        backoff,
        extras: Extras::default(),
    };
    let (none, most) = (Some(0), Some(MAX_TIME));
    for (attempts, token, backoff, fits) in [
        (1, 1, none, true),
        (0, 1, none, false),
        (1, 0, none, false),
        (1, 1, None, true),
        (1, 1, most, true),
        (1, 1, Some(MAX_TIME + 1), false),
        (2, 1, none, true),
        (2, 1, Some(1), false),
    ] {
        let mut queue = pair.primary.clone();
        let change = Change::RestoreJob(data(attempts, token, backoff));
        assert_eq!(queue.apply(&Effect { at: 5, change }), fits, "{attempts} {token} {backoff:?}");
        queue.check();
    }
}

/// An AOF file cannot lower the counters of a queue, so no ID and no token occurs twice.
#[test]
fn totals_that_would_take_a_counter_back_are_refused() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    pair.job(0, "b", 0);
    let token = pair.take(5, 50, "a");
    let totals = pair.primary.totals();
    for (change, fits) in [
        ((0, 0), true),
        ((1, 0), true),
        ((0, 1), true),
        ((-1, 0), false),
        ((0, -1), false),
        ((-1, 1), false),
        ((1, -1), false),
    ] {
        let mut queue = pair.primary.clone();
        let mut totals = totals;
        totals.next_seq = totals.next_seq.checked_add_signed(change.0).unwrap();
        totals.last_token = totals.last_token.checked_add_signed(change.1).unwrap();
        assert_eq!(queue.apply(&Effect { at: 5, change: Change::RestoreTotals(totals) }), fits, "{change:?}");
        assert_eq!(encoded(&queue) == encoded(&pair.primary), !fits || change == (0, 0), "{change:?}");
    }
    assert_eq!(totals.last_token, token);
}

/// A counter at the maximum that RESTORE accepts must not grow. Otherwise, no server could load the RDB file of the
/// queue.
#[test]
fn counters_at_their_limit_stay_loadable() {
    let mut tokens: Vec<Token> = Vec::new();
    specimen().encode(&mut tokens);
    for at in 0..tokens.len() {
        for limit in [1 << 62, MAX_TIME] {
            let mut tokens = tokens.clone();
            tokens[at] = Token::Number(limit);
            if let Ok(queue) = Queue::decode(&mut tokens.as_slice()) {
                exercise(queue);
            }
        }
    }
}

#[test]
fn false_lengths_reserve_no_memory() {
    let mut bytes = encoded(&Queue::new());
    assert_eq!(bytes.split_off(bytes.len() - 2), [0, 0], "the number of jobs, and the end");
    bytes.number(u64::MAX);
    assert_eq!(decode(&bytes).err(), Some(DecodeError::Truncated));
    bytes.number(u64::MAX);
    assert_eq!(decode(&bytes).err(), Some(DecodeError::Truncated));
}

#[test]
fn two_jobs_of_one_id_or_one_push_number_are_refused() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    pair.job(0, "b", 0);
    let mut tokens: Vec<Token> = Vec::new();
    pair.primary.encode(&mut tokens);
    let reason = |tokens: &[Token]| match Queue::decode(&mut &tokens[..]) {
        Err(DecodeError::Invalid(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let second = tokens.len() - 7;
    let mut same_id = tokens.clone();
    same_id[second] = Token::Bytes(b"a".to_vec());
    assert_eq!(reason(&same_id), "impossible job");
    let mut same_number = tokens;
    same_number[second + 5] = Token::Number(0);
    assert_eq!(reason(&same_number), "push number used twice");
}
