//! Tests of CLEAN with OLDER, which depends on how long a job has been in its state.

use super::super::query::STEPS;
use super::super::{Fate, NackOptions, Push, Queue, State};
use super::{Pair, decoded, encoded, rebuilt};
use crate::server::counting;

const FREE: NackOptions<'static> = NackOptions { is_free: true, error: b"" };

/// Returns how many jobs CLEAN would remove. Checks that this number is equal on the primary, on the replica, after
/// loading an RDB file, and after loading an AOF file.
fn cleaned(pair: &Pair, now: u64, state: State, older: u64) -> u64 {
    let (primary, replica) = (&pair.primary, &pair.replica);
    let all = [primary.clone(), replica.clone(), decoded(&encoded(primary)), rebuilt(primary)];
    let counts = all.map(|mut queue| queue.clean(now, state.into(), Some(older), 10, |_| ()).expect("few jobs"));
    assert!(counts.iter().all(|&count| count == counts[0]), "{counts:?}");
    counts[0]
}

/// Claims the job `a` and calls `make` with the token. `make` must move the job to `state` at 1000. Checks that OLDER
/// counts from 1000.
fn since_1000(state: State, make: impl FnOnce(&mut Pair, u64)) {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    let token = pair.take(10, 900_000, "a");
    make(&mut pair, token);
    assert_eq!(pair.state(1000, "a"), Some(state));
    let counts = [1099, 1100].map(|now| cleaned(&pair, now, state, 100));
    assert_eq!(counts, [0, 1], "too early, or too late");
}

#[test]
fn a_job_is_delayed_since_a_command_made_it_so() {
    let later = Fate::At(500_000);
    since_1000(State::Delayed, |pair, token| {
        pair.nack(1000, "a", token, later).expect("the token is good");
    });
    since_1000(State::Delayed, |pair, token| {
        pair.nack_with(1000, "a", token, later, FREE).expect("the token is good");
    });
    since_1000(State::Delayed, |pair, token| {
        pair.nack_with(20, "a", token, later, FREE).expect("the token is good");
        assert!(pair.reschedule(1000, "a", Some(600_000), None));
    });
    since_1000(State::Delayed, |pair, token| {
        pair.nack_with(1000, "a", token, later, FREE).expect("the token is good");
        assert!(pair.reschedule(1050, "a", None, Some(5)), "another priority is no other state");
    });
    since_1000(State::Delayed, |pair, token| {
        pair.nack_with(1000, "a", token, later, FREE).expect("the token is good");
        let again = Push { payload: b"other", id: Some(b"a"), due: 1050, again: true, ..Push::default() };
        assert!(pair.push(1050, &again).is_some(), "another payload is no other state");
    });
    since_1000(State::Delayed, |pair, _| {
        assert!(pair.cancel(20, "a"));
        pair.job(20, "a", 400_000);
        assert!(pair.reschedule(1000, "a", Some(500_000), None));
    });
    since_1000(State::Delayed, |pair, _| {
        pair.job_with(1000, "a", 500_000, |p| p.replace = true);
    });
    since_1000(State::Delayed, |pair, token| {
        pair.configure(20, |s| (s.backoff_base, s.backoff_max) = (5000, 5000));
        pair.nack(20, "a", token, Fate::At(20));
        pair.take(20, 1000, "a");
    });
}

/// A job can become ready with a due time in the past. Its age counts from the command that made it ready.
#[test]
fn a_job_is_ready_since_a_command_made_it_so_however_early_it_was_due() {
    let past = Fate::At(5);
    since_1000(State::Ready, |pair, token| {
        pair.nack(1000, "a", token, past).expect("the token is good");
    });
    since_1000(State::Ready, |pair, token| {
        pair.nack_with(1000, "a", token, past, FREE).expect("the token is good");
    });
    since_1000(State::Ready, |pair, token| {
        pair.nack_with(20, "a", token, Fate::At(500_000), FREE).expect("the token is good");
        assert!(pair.reschedule(1000, "a", Some(5), None));
    });
    since_1000(State::Ready, |pair, _| {
        pair.job_with(1000, "a", 5, |p| p.replace = true);
    });
    since_1000(State::Ready, |pair, token| {
        pair.nack_with(20, "a", token, Fate::At(1000), FREE).expect("the token is good");
    });
    since_1000(State::Ready, |pair, token| assert!(pair.extend(20, "a", token, 1000), "the lease expires then"));
}

#[test]
fn clean_looks_past_the_young_ones_but_not_without_end() {
    const YOUNG: u64 = 30_000;
    for (state, due) in [(State::Delayed, 100_000), (State::Ready, 5)] {
        let mut queue = Queue::new();
        let push = |queue: &mut Queue, now, due, id: Option<&[u8]>| {
            let push = Push { id, due, ..Push::default() };
            assert!(queue.push(now, &push).is_ok_and(|pushed| pushed.is_some()));
        };
        push(&mut queue, 100, due, Some(b"first"));
        for _ in 0..YOUNG {
            push(&mut queue, 1000, due + 1, None);
        }
        push(&mut queue, 100, due + 2, Some(b"last"));
        let mut clean = |now| {
            let mut ids = Vec::new();
            STEPS.set(0);
            let cleaned =
                queue.clean(now, state.into(), Some(100), 10, |effect| ids.extend(effect.id().map(<[u8]>::to_vec)));
            assert!(STEPS.get() < YOUNG / 2, "{} jobs were looked at", STEPS.get());
            (cleaned, ids)
        };
        assert_eq!(clean(1000), (Ok(1), vec![b"first".to_vec()]), "the next call goes on behind it");
        let (cleaned, ids) = clean(1000);
        assert!(cleaned.is_err() && ids.is_empty(), "0 would say that there is none");
        assert_eq!(clean(1100).0, Ok(10));
        assert_eq!(queue.clean(1100, state.into(), None, 99_999, |_| ()), Ok(YOUNG + 1 - 10));
        assert_eq!(queue.clean(1100, state.into(), Some(5), 1, |_| ()), Ok(0));
    }
}

/// A job stores the time at which it began to wait, unless another field contains this time.
#[test]
fn a_job_that_was_never_moved_takes_no_more_memory() {
    let held = |moved: bool| {
        let before = counting::held();
        let mut queue = Queue::new();
        for n in 0..1000u64 {
            let id = n.to_string();
            let push = Push { id: Some(id.as_bytes()), due: 50, ..Push::default() };
            assert!(queue.push(1, &push).is_ok());
            let at = if moved { 2 } else { 1 };
            assert!(queue.reschedule(at, id.as_bytes(), Some(60), None).is_some());
        }
        let waiting = counting::held() - before;
        let claims = queue.claim(60_000, 90, 1000, b"", |_| ());
        assert_eq!(claims.len(), 1000);
        drop(claims);
        (waiting, counting::held() - before, queue)
    };
    let (fixed, claimed, _queue) = held(false);
    let (moved, claimed_after, _queue) = held(true);
    assert!(moved > fixed && moved < fixed + 100 * 1000, "{moved} {fixed}");
    assert!(claimed_after <= claimed + 1000, "a claim makes it void: {claimed_after} {claimed}");
}

#[test]
fn clean_leaves_schedules_where_they_are() {
    let mut pair = Pair::new();
    for (id, due, every) in
        [("due", 1, Some(100)), ("next", 50, Some(100)), ("job", 1, None), ("later", 50, None), ("retry", 1, Some(100))]
    {
        pair.job_with(1, id, due, |push| (push.every, push.priority) = (every, i32::from(id != "retry")));
    }
    let token = pair.take(1, 9, "retry");
    pair.nack(1, "retry", token, Fate::At(20)).expect("a valid token");
    let mut clean = |now, state: State| {
        let Pair { primary, replica } = &mut pair;
        primary.clean(now, state.into(), None, 100, |effect| assert!(replica.apply(effect))).expect("few jobs")
    };
    assert_eq!((clean(2, State::Ready), clean(2, State::Delayed), clean(60, State::Ready)), (1, 1, 0));
    assert_eq!(pair.ids(60, State::Ready), ["retry", "due", "next"]);
    for id in ["retry", "due", "next"] {
        let token = pair.take(60, 90, id);
        pair.nack(60, id, token, Fate::Dead);
    }
    let Pair { primary, replica } = &mut pair;
    let cleaned = primary.clean(61, State::Dead.into(), None, 100, |effect| assert!(replica.apply(effect)));
    assert_eq!(cleaned, Ok(3), "a dead letter is no schedule");
}
