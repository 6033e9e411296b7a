//! Tests of TTL, and of claims in queues with many expired jobs.

use super::super::query::STEPS;
use super::super::{Change, Fate, JobChange, Push, Queue, State, Ttl};
use super::{Pair, assert_sums};

fn with_ttl(pair: &mut Pair, now: u64, id: &str, due: u64, ttl: u64) {
    pair.job_with(now, id, due, |p| p.ttl = Some(ttl));
}

fn expired(pair: &Pair, now: u64) -> u64 {
    let stats = pair.primary.stats(now);
    assert_sums(&stats);
    stats.totals.expired
}

/// Runs the upkeep. Returns the IDs of the jobs that it dropped.
pub(super) fn upkeep(pair: &mut Pair, now: u64) -> Vec<String> {
    let Pair { primary, replica } = pair;
    let mut ids = Vec::new();
    primary.run_upkeep(now, |effect| {
        assert!(replica.apply(effect), "{effect:?} applies");
        ids.push(String::from_utf8_lossy(effect.id().unwrap_or_default()).into_owned());
    });
    ids
}

#[test]
fn a_job_is_handed_out_until_its_due_time_plus_ttl_and_not_after() {
    for (now, is_in_time) in [(109, true), (110, false)] {
        let mut pair = Pair::new();
        with_ttl(&mut pair, 0, "a", 100, 10);
        assert_eq!(pair.expires(0, "a"), Some(110));
        assert_eq!(pair.claim(now, now + 5, 1).len(), usize::from(is_in_time));
        assert_eq!(upkeep(&mut pair, now).len(), usize::from(!is_in_time));
        assert_eq!(expired(&pair, now), u64::from(!is_in_time));
        assert_eq!(pair.state(now, "a").is_some(), is_in_time);
    }
}

#[test]
fn a_claim_passes_over_expired_jobs_and_takes_the_next_ones() {
    let mut pair = Pair::new();
    for n in 0..10 {
        let ttl = if n % 2 == 0 { 10 } else { 1000 };
        with_ttl(&mut pair, 0, &n.to_string(), 0, ttl);
    }
    let ids: Vec<_> = pair.claim(50, 60, 3).into_iter().map(|job| String::from_utf8(job.id).unwrap()).collect();
    assert_eq!(ids, ["1", "3", "5"]);
    assert_eq!((expired(&pair, 50), pair.counts(50)), (0, [7, 0, 3, 0]), "a claim drops nothing");
    assert_eq!(upkeep(&mut pair, 50).len(), 5);
    assert_eq!((expired(&pair, 50), pair.counts(50)), (5, [2, 0, 3, 0]));
}

#[test]
fn a_lease_may_last_longer_than_the_ttl_and_is_acknowledged() {
    let mut pair = Pair::new();
    with_ttl(&mut pair, 0, "a", 0, 10);
    let token = pair.take(9, 500, "a");
    assert_eq!(upkeep(&mut pair, 400), [""; 0], "it is being worked on");
    assert!(pair.extend(400, "a", token, 900));
    assert!(pair.ack(800, "a", token));
    assert_eq!(expired(&pair, 800), 0);
}

#[test]
fn a_job_whose_lease_expires_after_its_ttl_is_not_tried_again() {
    let mut pair = Pair::configured(|s| (s.backoff_base, s.backoff_max) = (100, 100));
    with_ttl(&mut pair, 0, "a", 0, 10);
    with_ttl(&mut pair, 0, "b", 0, 10);
    let token = pair.take(5, 50, "a");
    pair.take(5, 60, "b");
    assert_eq!(pair.nack(20, "a", token, Fate::At(30)), Some(Some(30)), "returned, and expired");
    assert_eq!(pair.primary.next_upkeep(20, 0), Some(10));
    assert_eq!(upkeep(&mut pair, 20), ["a"]);
    assert_eq!(pair.primary.next_upkeep(20, 20), Some(60), "when the lease expires, not when BACKOFF ends");
    assert_eq!(upkeep(&mut pair, 60), ["b"]);
    assert_eq!((expired(&pair, 60), pair.primary.len()), (2, 0));
}

#[test]
fn dead_letters_do_not_expire() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 0, |p| (p.ttl, p.max_attempts) = (Some(10), Some(1)));
    pair.take(5, 8, "a");
    assert_eq!(pair.expires(8, "a"), None);
    assert_eq!((upkeep(&mut pair, 1000), pair.state(1000, "a")), (vec![], Some(State::Dead)));
    assert!(pair.redrive(1000, 1));
    assert_eq!(pair.expires(1000, "a"), Some(1010), "REDRIVE counts again");
    assert_eq!(pair.claim(1010, 1020, 1), []);
}

#[test]
fn reschedule_counts_the_ttl_from_the_new_due_time_and_a_retry_does_not() {
    let mut pair = Pair::new();
    with_ttl(&mut pair, 0, "a", 0, 10);
    let expires = |pair: &Pair, now| pair.expires(now, "a");
    assert!(pair.reschedule(3, "a", None, Some(4)));
    assert_eq!(expires(&pair, 3), Some(10), "a priority is no time");
    assert!(pair.reschedule(3, "a", Some(100), None));
    assert_eq!(expires(&pair, 3), Some(110));
    let token = pair.take(100, 105, "a");
    pair.nack(101, "a", token, Fate::At(200));
    assert_eq!(expires(&pair, 101), Some(110));
}

#[test]
fn each_occurrence_of_a_recurring_job_has_the_ttl() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 0, |p| (p.ttl, p.every) = (Some(10), Some(100)));
    let at = |pair: &Pair, now| pair.primary.get(now, b"a").map(|job| (job.time, job.ttl.unwrap().expires)).unwrap();
    assert_eq!((pair.claim(10, 20, 1), upkeep(&mut pair, 10)), (vec![], vec!["a".into()]), "the first one is over");
    assert_eq!((at(&pair, 10), expired(&pair, 10)), ((100, 110), 1));
    let token = pair.take(105, 120, "a");
    assert!(pair.ack(115, "a", token));
    assert_eq!(at(&pair, 115), (200, 210));
    assert_eq!(upkeep(&mut pair, 555), ["a"]);
    assert_eq!((at(&pair, 555), expired(&pair, 555)), ((600, 610), 2), "missed ones are skipped");
    pair.job_with(555, "b", 555, |p| (p.ttl, p.every, p.max_attempts) = (Some(10), Some(100), Some(1)));
    pair.take(560, 570, "b");
    let b = pair.primary.get(570, b"b").unwrap();
    assert_eq!((b.time, b.ttl.unwrap().expires), (655, 665), "out of attempts, it waits for the next one");
    assert_eq!(pair.primary.next_upkeep(570, 570), Some(610));
    assert_eq!(upkeep(&mut pair, 700), ["a", "b"]);
    assert_eq!(pair.primary.stats(700).totals.missed, 1);
}

#[test]
fn a_push_does_not_meet_an_expired_job_of_its_id() {
    let mut pair = Pair::configured(|s| s.maxlen = 1);
    with_ttl(&mut pair, 0, "a", 0, 10);
    assert_eq!(pair.push(5, &Push { id: Some(b"a"), due: 5, ..Push::default() }), None);
    pair.job(10, "a", 10);
    assert_eq!((expired(&pair, 10), pair.counts(10)), (1, [1, 0, 0, 0]));
}

#[test]
fn an_expired_head_holds_its_ordered_group_no_longer() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    for (id, ttl) in [("a", Some(50)), ("b", None)] {
        pair.job_with(0, id, 0, |p| (p.group, p.ttl) = (b"g", ttl));
    }
    let token = pair.take(5, 40, "a");
    pair.nack(6, "a", token, Fate::At(1000));
    assert_eq!((pair.claim(49, 60, 1), pair.primary.next_claimable(49)), (vec![], Some(50)));
    pair.take(50, 60, "b");
    assert_eq!(upkeep(&mut pair, 50), ["a"], "although it was still there");
}

/// Many expired jobs, of one group or of a thousand, are before the jobs of two other groups. Each of the next two claims
/// gets one of these. The cost of a claim does not depend on the number of expired jobs.
#[test]
fn a_claim_passes_over_any_number_of_expired_jobs_and_groups() {
    const EXPIRED: u64 = 10_000;
    for groups in [1, 1000] {
        for (is_delayed, priorities, is_ordered) in
            [(false, 1, false), (false, 7, false), (true, 1, false), (true, 1, true)]
        {
            let mut pair = Pair::configured(|s| s.ordered = is_ordered);
            let (primary, mut replica) = (&mut pair.primary, pair.replica.clone());
            let mut push = |now: u64, group: &[u8], id: &[u8], due: u64, priority: u64, ttl| {
                let push = Push { id: Some(id), group, due, priority: priority as i32, ttl, ..Push::default() };
                assert!(replica.apply(&primary.push(now, &push).unwrap().unwrap()));
            };
            for n in 0..EXPIRED {
                let due = if is_delayed { 2 + n % 3 } else { 1 };
                push(1, format!("g{}", n % groups).as_bytes(), n.to_string().as_bytes(), due, n % priorities, Some(10));
            }
            push(20, b"g0", b"live", 20, 9, Some(10));
            push(20, b"bloom", b"bloom", 20, 0, None);
            pair.replica = replica;
            STEPS.set(0);
            assert_eq!(pair.primary.next_claimable(20), Some(20));
            let ids = [(); 3].map(|()| pair.claim(20, 100, 1).pop().map(|job| String::from_utf8(job.id).unwrap()));
            assert_eq!(ids, [Some("live".into()), Some("bloom".into()), None], "{groups} {is_delayed} {priorities}");
            assert!(STEPS.get() < 2000, "{groups} {is_delayed} {priorities}: {}", STEPS.get());
            assert_eq!(pair.primary.next_claimable(20), Some(100));
            assert_eq!(expired(&pair, 20), 0, "the upkeep drops them");
        }
    }
}

/// An expired job that the upkeep has not dropped yet can be claimed again after the clock has stepped back.
#[test]
fn a_job_has_not_expired_after_a_step_back_of_the_clock() {
    for group in ["", "g"] {
        let mut pair = Pair::new();
        pair.job_with(0, "a", 0, |p| (p.group, p.ttl) = (group.as_bytes(), Some(10)));
        assert_eq!((pair.claim(10, 20, 1), pair.primary.next_claimable(10)), (vec![], None));
        assert_eq!(pair.primary.next_claimable(9), Some(9));
        pair.take(9, 20, "a");
    }
}

#[test]
fn nothing_is_dropped_by_a_claim_that_may_take_nothing() {
    let mut pair = Pair::configured(|s| s.paused = true);
    with_ttl(&mut pair, 0, "a", 0, 10);
    assert_eq!((pair.claim(50, 60, 1), expired(&pair, 50)), (vec![], 0));
    assert_eq!(pair.primary.next_claimable(50), None);
    assert_eq!(upkeep(&mut pair, 50), ["a"], "the upkeep does it");
}

/// The queue rejects an `Expire` effect if the TTL of the job has not ended.
#[test]
fn what_has_not_expired_cannot_be_dropped_for_it() {
    let mut pair = Pair::new();
    with_ttl(&mut pair, 0, "waits", 0, 10);
    with_ttl(&mut pair, 0, "claimed", 0, 10);
    pair.job(0, "other", 0);
    pair.job_with(0, "recurs", 0, |p| (p.ttl, p.every) = (Some(10), Some(100)));
    assert!(pair.claim(5, 500, 2).iter().any(|job| job.id == b"claimed"));
    let effect = |at, id, next_due| super::super::Effect {
        at,
        change: Change::Job { id, change: JobChange::Expire { next_due } },
    };
    for (at, id, next_due, fits) in [
        (9, &b"recurs"[..], Some(100), false),
        (10, b"recurs", Some(100), true),
        (10, b"recurs", None, false),
        (10, b"recurs", Some(u64::MAX), false),
        (10, b"claimed", None, false),
        (500, b"claimed", None, true),
        (500, b"claimed", Some(600), false),
        (500, b"other", None, false),
        (500, b"nobody", None, false),
    ] {
        let mut queue = pair.primary.clone();
        assert_eq!(queue.apply(&effect(at, id, next_due)), fits, "{at} {id:?} {next_due:?}");
    }
}

#[test]
fn a_job_without_a_ttl_takes_no_byte_for_it() {
    let job = |ttl| {
        let mut queue = Queue::new();
        let push = Push { payload: b"payload", id: Some(b"a"), ttl, ..Push::default() };
        assert!(queue.push(0, &push).is_ok());
        ([queue.owned_bytes, queue.expiries.len()], super::encoded(&queue).len())
    };
    let (without, with) = (job(None), job(Some(10)));
    assert_eq!((without.0, with.0), ([8, 0], [8 + size_of::<Ttl>(), 1]));
    assert!(without.1 < with.1);
}

#[test]
fn reschedule_to_the_present_due_time_restarts_a_ttl_that_counts_from_another_time() {
    let mut pair = Pair::new();
    pair.job_with(0, "a", 0, |p| p.ttl = Some(100));
    let token = pair.take(0, 10, "a");
    assert_eq!(pair.nack(5, "a", token, Fate::At(50)), Some(Some(50)));
    let expires = |pair: &Pair| pair.primary.get(6, b"a").unwrap().ttl.unwrap().expires;
    assert_eq!(expires(&pair), 100);
    assert!(pair.reschedule(6, "a", Some(50), None));
    assert_eq!(expires(&pair), 150);
    pair.check();
}
