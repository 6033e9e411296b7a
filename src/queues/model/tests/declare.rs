//! DECLARE: a recurring job is what its program says, and runs once for each occurrence.

use super::super::{Fate, Full, NackOptions, Push, State};
use super::{Pair, encoded};

const DAY: u64 = 1000;

/// A declaration of the job `cron`, every [`DAY`]. `due` is its AT.
fn cron(payload: &str, due: u64) -> Push<'_> {
    Push { payload: payload.as_bytes(), id: Some(b"cron"), due, every: Some(DAY), ..Push::default() }
}

/// Returns the job's state, due time, payload and group.
fn now(pair: &Pair, now: u64) -> (State, u64, String, String) {
    let job = pair.primary.get(now, b"cron").expect("a job");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (job.state, job.time, text(job.payload), text(job.group))
}

fn is(state: State, due: u64, payload: &str, group: &str) -> (State, u64, String, String) {
    (state, due, payload.to_owned(), group.to_owned())
}

#[test]
fn a_declaration_of_what_is_there_changes_nothing() {
    let mut pair = Pair::new();
    assert!(pair.declare(10, true, &cron("a", 100)));
    let before = encoded(&pair.primary);
    assert!(!pair.declare(20, true, &cron("a", 100)) && !pair.declare(20, false, &cron("a", 20)));
    assert!(!pair.declare(20, true, &cron("a", 700)), "the due time alone changes nothing");
    assert_eq!(encoded(&pair.primary), before);
    let token = pair.take(100, 150, "cron");
    let claimed = encoded(&pair.primary);
    assert!(!pair.declare(120, true, &cron("a", 100)));
    assert_eq!(encoded(&pair.primary), claimed);
    assert!(pair.declare(120, true, &cron("b", 100)));
    let declared = encoded(&pair.primary);
    assert!(!pair.declare(130, true, &cron("b", 1100)), "it waits already");
    assert_eq!(encoded(&pair.primary), declared);
    assert!(pair.declare(130, true, &cron("a", 100)), "the last word counts");
    assert!(pair.ack(140, "cron", token));
    assert_eq!(now(&pair, 140), is(State::Delayed, 1100, "a", ""));
}

#[test]
fn a_waiting_job_takes_everything_and_keeps_its_due_time() {
    let mut pair = Pair::new();
    pair.declare(10, true, &cron("a", 100));
    let push = Push { group: b"g", priority: -3, max_attempts: Some(4), ttl: Some(50), ..cron("b", 900) };
    assert!(pair.declare(20, true, &push));
    assert_eq!(now(&pair, 20), is(State::Delayed, 100, "b", "g"));
    let job = pair.primary.get(20, b"cron").unwrap();
    assert_eq!((job.priority, job.max_attempts, job.ttl.unwrap().expires), (-3, 4, 150));
    let token = pair.take(100, 140, "cron");
    assert!(pair.ack(110, "cron", token));
    assert_eq!(now(&pair, 110), is(State::Delayed, 1100, "b", "g"));
    assert!(pair.declare(120, true, &cron("c", 100)));
    assert_eq!(now(&pair, 120), is(State::Delayed, 1100, "c", ""));
    assert_eq!(pair.primary.get(120, b"cron").unwrap().ttl, None);
    assert_eq!(pair.counts(120), [0, 1, 0, 0]);
}

#[test]
fn a_new_period_moves_a_job_that_is_ahead_of_its_run() {
    // With AT, it counts from AT, whether that is past or not.
    for (at, due) in [(100, 200), (135, 135), (133, 133), (33, 133), (650, 650)] {
        let mut pair = Pair::new();
        pair.declare(10, true, &cron("a", 50));
        let token = pair.take(50, 90, "cron");
        assert!(pair.ack(60, "cron", token));
        assert!(pair.declare(130, true, &Push { every: Some(100), ..cron("a", at) }));
        assert_eq!(now(&pair, 130).1, due, "{at}");
        let token = pair.take(due, due + 10, "cron");
        assert!(pair.ack(due + 1, "cron", token));
        assert_eq!(now(&pair, due + 1).1, due + 100);
    }
    // Without AT, it counts from the last occurrence.
    let mut pair = Pair::new();
    pair.declare(10, true, &cron("a", 50));
    let token = pair.take(50, 90, "cron");
    assert!(pair.ack(60, "cron", token));
    assert!(pair.declare(130, false, &Push { every: Some(30), ..cron("a", 130) }));
    assert_eq!(now(&pair, 130).1, 140);
    // A job that has not had an occurrence yet keeps its due time.
    let mut pair = Pair::new();
    pair.declare(10, true, &cron("a", 5000));
    assert!(pair.declare(20, false, &Push { every: Some(30), ..cron("a", 20) }));
    assert_eq!(now(&pair, 20).1, 5000);
}

#[test]
fn a_job_that_is_due_stays_due_and_its_next_occurrence_has_the_new_period() {
    for (is_timed, at, next) in [(true, 160, 160), (true, 130, 230), (false, 120, 150)] {
        let mut pair = Pair::new();
        pair.declare(10, true, &cron("a", 50));
        assert!(pair.declare(120, is_timed, &Push { every: Some(100), ..cron("b", at) }));
        assert_eq!(now(&pair, 120), is(State::Ready, 50, "b", ""));
        assert_eq!(now(&pair, 40).0, State::Ready, "even if the clock steps back");
        let token = pair.take(130, 150, "cron");
        assert!(pair.ack(140, "cron", token));
        assert_eq!(now(&pair, 140).1, next, "{is_timed} {at}");
    }
}

#[test]
fn a_retry_keeps_its_time_and_has_the_new_payload() {
    let mut pair = Pair::new();
    pair.declare(10, true, &Push { max_attempts: Some(5), ..cron("a", 50) });
    let token = pair.take(50, 90, "cron");
    assert!(pair.declare(60, true, &Push { every: Some(100), max_attempts: Some(1), ..cron("b", 77) }));
    assert_eq!(now(&pair, 60), is(State::Claimed, 90, "a", ""), "the run goes on");
    assert_eq!(pair.primary.payload_behind(b"cron"), Some(&b"b"[..]));
    assert_eq!(pair.nack(70, "cron", token, Fate::At(80)), Some(Some(80)));
    assert_eq!(now(&pair, 70), is(State::Delayed, 80, "b", ""));
    assert!(pair.declare(72, true, &Push { every: Some(100), max_attempts: Some(1), ..cron("c", 77) }));
    let job = pair.primary.get(72, b"cron").unwrap();
    assert_eq!((job.time, job.attempts, job.max_attempts), (80, 0, 1), "one attempt is left");
    let token = pair.take(80, 90, "cron");
    assert!(pair.ack(85, "cron", token));
    assert_eq!(now(&pair, 85), is(State::Delayed, 177, "c", ""));
}

#[test]
fn a_claim_whose_lease_expires_ends_with_the_declaration() {
    for by_upkeep in [true, false] {
        let mut pair = Pair::new();
        pair.declare(10, true, &Push { group: b"old", ..cron("a", 50) });
        pair.take(50, 90, "cron");
        assert!(pair.declare(60, true, &Push { group: b"new", ..cron("b", 50) }));
        assert_eq!(pair.primary.next_upkeep(60, 60), Some(90));
        if by_upkeep {
            pair.keep_up(90);
            assert_eq!(now(&pair, 90), is(State::Ready, 90, "b", "new"));
            assert_eq!(pair.primary.next_upkeep(90, 90), None);
        }
        pair.hold(90, "new", 200);
        let got = pair.claim(90, 120, 1);
        if by_upkeep {
            assert_eq!(got, [], "the new group is held");
        } else {
            assert_eq!((&got[0].payload[..], got[0].attempt), (&b"b"[..], 2));
            assert_eq!(now(&pair, 90), is(State::Claimed, 120, "b", "new"));
        }
    }
}

#[test]
fn a_missed_run_waits_for_the_occurrence_that_the_declaration_says() {
    for by_upkeep in [true, false] {
        let mut pair = Pair::new();
        pair.declare(10, true, &Push { max_attempts: Some(1), ..cron("a", 50) });
        pair.take(50, 90, "cron");
        assert!(pair.declare(60, true, &Push { every: Some(100), ..cron("b", 75) }));
        if by_upkeep {
            pair.keep_up(95);
        } else {
            assert!(pair.reschedule(95, "cron", None, Some(4)));
        }
        assert_eq!(now(&pair, 95), is(State::Delayed, 175, "b", ""), "{by_upkeep}");
        assert_eq!(pair.primary.stats(95).totals.missed, 1);
    }
}

#[test]
fn a_run_that_dies_is_not_repeated_and_cancel_ends_the_schedule() {
    let mut pair = Pair::new();
    pair.declare(10, true, &cron("a", 50));
    let token = pair.take(50, 90, "cron");
    pair.declare(60, true, &cron("b", 50));
    assert_eq!(pair.nack(70, "cron", token, Fate::Dead), Some(None));
    assert_eq!(now(&pair, 70), is(State::Delayed, 1050, "b", ""));
    let token = pair.take(1050, 1090, "cron");
    pair.declare(1060, true, &cron("c", 50));
    assert!(pair.cancel(1070, "cron"));
    assert_eq!((pair.primary.len(), pair.ack(1070, "cron", token)), (0, false));
    // A dead letter is pushed again.
    pair.declare(1080, true, &cron("d", 1080));
    let token = pair.take(1080, 1090, "cron");
    pair.nack(1085, "cron", token, Fate::Dead);
    assert!(pair.declare(1086, true, &cron("d", 1100)));
    assert_eq!(now(&pair, 1086), is(State::Delayed, 1100, "d", ""));
}

#[test]
fn a_job_without_every_becomes_a_recurring_one() {
    let mut pair = Pair::new();
    pair.job(10, "cron", 100);
    assert!(pair.declare(20, false, &cron("b", 20)));
    assert_eq!(now(&pair, 20), is(State::Delayed, 100, "b", ""));
    assert!(pair.cancel(20, "cron"));
    // Claimed: its end is the beginning of the schedule.
    pair.job(10, "cron", 10);
    let token = pair.take(30, 90, "cron");
    assert!(pair.declare(40, true, &cron("b", 500)));
    assert!(pair.ack(50, "cron", token));
    assert_eq!(now(&pair, 50), is(State::Delayed, 500, "b", ""));
    assert_eq!(pair.counts(50), [0, 1, 0, 0]);
}

#[test]
fn again_and_declare_behind_one_claim_make_one_job() {
    let mut pair = Pair::new();
    pair.declare(10, true, &cron("a", 50));
    let token = pair.take(50, 90, "cron");
    pair.declare(60, true, &Push { group: b"g", ..cron("b", 50) });
    pair.job_with(61, "cron", 61, |push| (push.again, push.payload) = (true, b"trigger"));
    assert!(pair.ack(70, "cron", token));
    assert_eq!(now(&pair, 70), is(State::Delayed, 1050, "trigger", "g"));
    let token = pair.take(1050, 1090, "cron");
    pair.job_with(1060, "cron", 61, |push| (push.again, push.payload) = (true, b"trigger"));
    assert!(pair.declare(1061, true, &cron("c", 50)), "the last word counts");
    assert!(pair.ack(1070, "cron", token));
    assert_eq!(now(&pair, 1070), is(State::Delayed, 2050, "c", ""));
    // A job without EVERY: the push behind it becomes recurring, and keeps its due time.
    assert!(pair.cancel(1070, "cron"));
    pair.job(1070, "cron", 1070);
    let token = pair.take(1070, 1090, "cron");
    pair.job_with(1075, "cron", 1075, |push| push.again = true);
    assert!(pair.declare(1076, true, &cron("d", 1500)) && !pair.declare(1077, true, &cron("d", 1500)));
    assert!(pair.ack(1080, "cron", token));
    assert_eq!(now(&pair, 1080), is(State::Ready, 1080, "d", ""));
}

#[test]
fn a_declaration_counts_as_a_job_only_if_it_is_one() {
    let mut pair = Pair::configured(|settings| settings.maxlen = 2);
    pair.declare(10, true, &cron("a", 50));
    pair.job(10, "other", 5000);
    let refused = pair.primary.declare(10, &Push { id: Some(b"third"), ..cron("a", 50) }, true);
    assert_eq!(refused.map(|_| ()), Err(Full));
    assert!(pair.declare(20, true, &cron("b", 50)));
    let token = pair.take(50, 90, "cron");
    assert!(pair.declare(60, true, &cron("c", 50)));
    assert!(pair.cancel(60, "other"));
    pair.job(60, "other", 60);
    pair.job_with(60, "cron", 60, |push| push.again = true);
    assert!(pair.ack(70, "cron", token));
    assert_eq!(pair.counts(70), [1, 1, 0, 0]);
}

#[test]
fn a_token_stays_good_for_a_job_that_is_declared_after_its_lease() {
    let mut pair = Pair::new();
    pair.declare(10, true, &cron("a", 50));
    let token = pair.take(50, 90, "cron");
    assert!(pair.declare(95, true, &cron("b", 50)));
    assert_eq!(now(&pair, 95), is(State::Ready, 90, "b", ""));
    assert!(pair.ack(100, "cron", token), "the late run was a run");
    assert_eq!(now(&pair, 100), is(State::Delayed, 1050, "b", ""));
}

#[test]
fn a_dead_letter_that_is_redriven_before_the_upkeep_is_declared() {
    let mut pair = Pair::new();
    pair.job_with(10, "cron", 10, |push| push.max_attempts = Some(1));
    pair.take(10, 50, "cron");
    assert!(pair.declare(20, true, &cron("b", 300)));
    assert!(pair.redrive(60, 1));
    assert_eq!(now(&pair, 60), is(State::Ready, 60, "b", ""));
}

#[test]
fn progress_and_errors_stay_with_a_declared_job() {
    let mut pair = Pair::configured(|settings| settings.ordered = true);
    pair.declare(10, true, &Push { group: b"g", ..cron("a", 50) });
    let token = pair.take(50, 90, "cron");
    pair.declare(60, true, &Push { group: b"h", ..cron("b", 50) });
    assert!(pair.progress(61, "cron", token, "half"));
    let options = NackOptions { error: b"broken", ..NackOptions::default() };
    pair.nack_with(70, "cron", token, Fate::Default, options);
    let extras = pair.primary.get(70, b"cron").unwrap().extras;
    assert_eq!((extras.error, extras.progress, now(&pair, 70).3), (&b"broken"[..], &b"half"[..], "h".into()));
}
