//! Tests of AGING, CONCURRENCY, RATE and PAUSED, and of when they allow the next claim.

use super::super::{Fate, Rate, Settings, State};
use super::Pair;

fn rate(limit: u64, window: u64) -> Option<Rate> {
    Some(Rate { limit, window })
}

#[test]
fn with_aging_a_step_of_priority_is_worth_that_much_waiting() {
    let mut pair = Pair::configured(|s| s.aging = 10);
    pair.job_with(0, "old-low", 0, |p| p.priority = 2);
    pair.job_with(0, "new-high", 21, |p| p.priority = 0);
    pair.job_with(0, "tie", 10, |p| p.priority = 1);
    assert_eq!(pair.ids(30, State::Ready), ["old-low", "tie", "new-high"]);
}

#[test]
fn a_change_of_aging_ranks_waiting_jobs_again() {
    let mut pair = Pair::new();
    for i in 0..50 {
        pair.job_with(0, &format!("{i:02}"), i, |p| p.priority = -(i as i32));
    }
    let first = |pair: &Pair| pair.ids(100, State::Ready)[0].clone();
    assert_eq!(first(&pair), "49");
    pair.configure(0, |s| s.aging = 2);
    pair.check();
    assert_eq!(first(&pair), "49");
    pair.configure(0, |s| s.aging = 1);
    assert_eq!(first(&pair), "00", "all rank alike, the earliest due goes first");
    pair.take(100, 200, "00");
    pair.configure(0, |s| s.aging = 0);
    pair.take(100, 200, "49");
}

#[test]
fn concurrency_is_freed_by_an_ack_or_an_expired_lease() {
    let mut pair = Pair::configured(|s| s.concurrency = 2);
    for id in ["a", "b", "c", "d"] {
        pair.job_with(0, id, 0, |p| p.max_attempts = Some(1));
    }
    let got = pair.claim(0, 50, 9);
    assert_eq!(got.len(), 2);
    assert_eq!((pair.primary.claimable(0), pair.primary.next_claimable(0)), (0, Some(50)));
    assert!(pair.ack(1, "a", got[0].token));
    assert_eq!(pair.primary.next_claimable(1), Some(1));
    pair.take(1, 60, "c");
    assert_eq!(pair.claim(49, 60, 1), []);
    pair.take(50, 60, "d");
}

#[test]
fn concurrency_lowered_below_what_is_out_waits_for_several_leases() {
    let mut pair = Pair::new();
    for (i, id) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        pair.job_with(0, id, 0, |p| p.max_attempts = Some(i as u32 % 2));
    }
    for (id, end) in [("a", 10), ("b", 20), ("c", 20), ("d", 40)] {
        pair.take(0, end, id);
    }
    pair.configure(0, |s| s.concurrency = 2);
    assert_eq!(pair.primary.next_claimable(0), Some(20));
    assert_eq!((pair.primary.claimable(19), pair.primary.claimable(20)), (0, 1));
}

#[test]
fn paused_means_nothing_to_claim_and_nothing_to_wait_for() {
    let mut pair = Pair::new();
    pair.job(0, "a", 0);
    pair.job(0, "b", 5);
    assert!(pair.configure(0, |s| s.paused = true));
    assert!(!pair.configure(0, |s| s.paused = true), "as it was");
    assert_eq!(pair.claim(9, 20, 9), []);
    assert_eq!((pair.primary.claimable(9), pair.primary.next_claimable(0)), (0, None));
    assert_eq!(pair.counts(9), [2, 0, 0, 0]);
    pair.configure(0, |s| s.paused = false);
    assert_eq!(pair.primary.next_claimable(0), Some(0));
    assert_eq!(pair.claim(9, 20, 9).len(), 2);
}

#[test]
fn rate_is_exact_to_the_millisecond_up_to_100() {
    let mut pair = Pair::configured(|s| s.rate = rate(2, 100));
    for id in ["a", "b", "c", "d"] {
        pair.job(0, id, 0);
    }
    pair.take(7, 1000, "a");
    pair.take(30, 1000, "b");
    assert_eq!(pair.primary.next_claimable(30), Some(107));
    assert_eq!(pair.claim(106, 1000, 1), []);
    pair.take(107, 1000, "c");
    assert_eq!(pair.claim(129, 1000, 1), []);
    pair.take(130, 1000, "d");
}

#[test]
fn rate_opens_for_as_many_as_come_back_at_once() {
    let mut pair = Pair::configured(|s| s.rate = rate(3, 100));
    for i in 0..9 {
        pair.job(0, &format!("{i}"), 0);
    }
    assert_eq!(pair.claim(5, 1000, 9).len(), 3);
    assert_eq!(pair.primary.claimable(105), 3);
    assert_eq!(pair.claim(105, 1000, 9).len(), 3);
}

#[test]
fn rate_above_100_keeps_a_short_log_and_never_admits_more_in_any_window() {
    for (limit, window) in [(100, 250), (101, 250), (150, 1000), (1000, 12_345)] {
        let mut pair = Pair::configured(|s| s.rate = rate(limit, window));
        let mut times = std::collections::VecDeque::new();
        let (mut now, mut total) = (1, 0);
        while now < 4 * window {
            pair.push(now, &Default::default());
            pair.push(now, &Default::default());
            let got = pair.claim(now, now + 1, 9);
            total += got.len() as u64;
            times.extend(std::iter::repeat_n(now, got.len()));
            for job in got {
                assert!(pair.ack(now, std::str::from_utf8(&job.id).unwrap(), job.token));
            }
            while times.front().is_some_and(|&t| t + window <= now) {
                times.pop_front();
            }
            assert!(times.len() as u64 <= limit);
            assert!(pair.primary.rate_log.entries().len() <= 102);
            // Before the time that `next_claimable` returns, no job can be claimed.
            if pair.primary.claimable(now) == 0 {
                let wake = pair.primary.next_claimable(now).unwrap_or(now + 1);
                assert_eq!(pair.primary.claimable(wake - 1), 0);
            }
            now += 1 + now % 3;
        }
        assert!(total >= 3 * limit, "{total} of {limit} per {window}");
    }
}

#[test]
fn rate_holds_nothing_longer_than_a_window_after_a_step_back() {
    let mut pair = Pair::configured(|s| s.rate = rate(1, 100));
    pair.job(0, "a", 0);
    pair.job(0, "b", 0);
    pair.take(10_000, 10_001, "a");
    assert_eq!(pair.primary.next_claimable(50), Some(10_100));
    let (mut settled, Pair { primary, replica }) = (0, &mut pair);
    let empty = primary.claim(50_000, 60, 1, b"", |effect| {
        settled += 1;
        assert!(replica.apply(effect));
    });
    assert!(empty.is_empty());
    assert_eq!(settled, 1, "the settling is replicated");
    assert_eq!(pair.primary.next_claimable(50), Some(150));
    assert_eq!(pair.claim(60, 70, 1), [], "and is done once");
    assert_eq!(pair.primary.next_claimable(60), Some(150));
    pair.take(150, 160, "b");
}

#[test]
fn a_changed_rate_keeps_what_is_taken_but_no_longer_than_its_window() {
    let mut pair = Pair::configured(|s| s.rate = rate(2, 1000));
    for id in ["a", "b", "c"] {
        pair.job(0, id, 0);
    }
    assert_eq!(pair.claim(0, 5000, 9).len(), 2);
    pair.configure(100, |s| s.rate = rate(2, 50));
    assert_eq!(pair.primary.next_claimable(100), Some(150));
    pair.configure(100, |s| s.rate = rate(3, 50));
    assert_eq!(pair.primary.claimable(100), 1);
    pair.configure(100, |s| s.rate = rate(0, 50));
    assert_eq!(pair.primary.settings().rate, None, "0 is off");
    pair.configure(100, |s| s.rate = rate(2, 1000));
    assert_eq!(pair.primary.claimable(100), 1, "a new one starts full");
}

#[test]
fn what_opens_last_of_job_lease_and_rate_is_the_wake() {
    let mut pair = Pair::configured(|s| (s.concurrency, s.rate) = (1, rate(1, 100)));
    pair.job(0, "a", 0);
    pair.job(0, "b", 30);
    let token = pair.take(0, 150, "a");
    assert_eq!(pair.primary.next_claimable(0), Some(150));
    assert!(pair.extend(0, "a", token, 20));
    assert_eq!(pair.primary.next_claimable(0), Some(100));
    pair.configure(0, |s| s.rate = None);
    assert_eq!(pair.primary.next_claimable(0), Some(20), "a itself is due again");
    assert!(pair.ack(0, "a", token));
    assert_eq!(pair.primary.next_claimable(0), Some(30));
}

#[test]
fn dead_letters_are_dropped_by_number_and_by_age() {
    /// Makes `a`, `b` and `c` dead letters at the times 100, 200 and 300. Returns the dead letters that are left at
    /// each of `moments`.
    fn left(change: impl FnOnce(&mut Settings), moments: &[u64]) -> Vec<Vec<String>> {
        let mut pair = Pair::configured(change);
        for (died, id) in [(100, "a"), (200, "b"), (300, "c")] {
            pair.job(0, id, 0);
            let token = pair.take(died, died + 50, id);
            pair.nack(died, id, token, Fate::Dead);
        }
        moments
            .iter()
            .map(|&now| {
                let Pair { primary, replica } = &mut pair;
                primary.drop_dead(now, |effect| assert!(replica.apply(effect)));
                pair.ids(now, State::Dead)
            })
            .collect()
    }
    let abc = vec!["a", "b", "c"];
    assert_eq!(left(|_| (), &[300, 1_000_000]), [abc.clone(), abc.clone()], "without bounds");
    assert_eq!(left(|s| s.deadlen = 3, &[300, 1_000_000]), [abc.clone(), abc.clone()]);
    assert_eq!(left(|s| s.deadlen = 2, &[300]), [["b", "c"]]);
    let by_age = left(|s| s.deadttl = 1000, &[300, 1099, 1100, 1299, 1300]);
    assert_eq!(by_age, [abc.clone(), abc, vec!["b", "c"], vec!["c"], vec![]]);
    let by_both = left(|s| (s.deadlen, s.deadttl) = (2, 1000), &[300, 1199, 1200, 1300]);
    assert_eq!(by_both, [vec!["b", "c"], vec!["b", "c"], vec!["c"], vec![]]);
}

/// How long a job waits after its lease is decided when the job is claimed. So CONFIG changes no job.
#[test]
fn a_change_of_backoff_does_not_change_claimed_jobs() {
    let later = |s: &mut Settings| (s.backoff_base, s.backoff_max) = (500, 500);
    for first in [0, 5] {
        let mut pair = Pair::configured(|s| (s.backoff_base, s.backoff_max) = (first, first));
        pair.job(0, "a", 0);
        pair.job(0, "b", 0);
        let token = pair.take(0, 10, "a");
        assert_eq!(pair.state(20, "a"), Some(State::Ready));
        pair.take(1, 30, "b");
        assert!(pair.configure(20, later));
        let job = pair.primary.get(20, b"a").unwrap();
        assert_eq!((job.state, job.time, job.attempts, job.extras.failed), (State::Ready, 10 + first, 1, 10));
        assert_eq!(pair.primary.stats(20).totals.expired_leases, 1);
        assert_eq!(pair.primary.get(31, b"b").unwrap().time, 30 + first);
        assert_eq!(pair.state(35, "b"), Some(State::Ready));
        assert!(pair.ack(40, "a", token));
        let token = pair.take(40, 50, "b");
        assert_eq!(
            pair.nack(41, "b", token, super::super::Fate::Default),
            Some(Some(541)),
            "a NACK is a decision of now"
        );
    }
}
