//! Tests of held groups: which group is held, until when, and what ends a hold.

use super::super::{Fate, Push, Rate};
use super::{Pair, decoded, encoded, rebuilt};

fn job(pair: &mut Pair, now: u64, id: &str, group: &str) {
    let push = Push { id: Some(id.as_bytes()), due: now, group: group.as_bytes(), ..Push::default() };
    assert!(pair.push(now, &push).is_some());
}

/// Claims the next jobs, with leases until 1000. Returns the IDs of the jobs.
fn next(pair: &mut Pair, now: u64) -> Vec<String> {
    pair.claim(now, 1000, 9).into_iter().map(|job| String::from_utf8(job.id).unwrap()).collect()
}

/// Returns the time at which a group's hold ends. Checks that this time is equal on the primary, on the replica, after
/// loading an RDB file, and after loading an AOF file.
fn held_until(pair: &Pair, now: u64, group: &str) -> Option<u64> {
    let (primary, replica) = (&pair.primary, &pair.replica);
    let all = [primary.clone(), replica.clone(), decoded(&encoded(primary)), rebuilt(primary)];
    let holds = all.map(|queue| {
        let view = queue.groups(now, None).find(|view| view.name == group.as_bytes());
        view.expect("the group is there").held_until
    });
    assert!(holds.iter().all(|&hold| hold == holds[0]), "{holds:?}");
    holds[0]
}

#[test]
fn the_jobs_of_a_held_group_rest_and_all_others_go_on() {
    let mut pair = Pair::new();
    for (id, group) in [("a1", "a"), ("b1", "b"), ("n1", ""), ("a2", "a")] {
        job(&mut pair, 1, id, group);
    }
    assert!(pair.hold(1, "a", 50));
    assert_eq!(held_until(&pair, 1, "a"), Some(50));
    assert_eq!(next(&mut pair, 1), ["b1", "n1"]);
    assert_eq!((pair.primary.claimable(49), pair.primary.next_claimable(1)), (0, Some(50)));
    assert_eq!(held_until(&pair, 50, "a"), None);
    assert_eq!(next(&mut pair, 50), ["a1", "a2"]);
}

#[test]
fn the_jobs_without_a_group_are_held_by_the_empty_name() {
    let mut pair = Pair::new();
    job(&mut pair, 1, "n1", "");
    assert!(pair.hold(1, "", 50));
    assert_eq!((pair.primary.claimable(1), pair.primary.next_claimable(1)), (0, Some(50)));
    assert_eq!(held_until(&pair, 1, ""), Some(50));
    job(&mut pair, 2, "a1", "a");
    assert_eq!(next(&mut pair, 2), ["a1"]);
    assert!(pair.cancel(3, "a1"));
    assert!(pair.primary.knows_groups(), "for the hold");
    assert_eq!(next(&mut pair, 50), ["n1"]);
    assert!(!pair.primary.knows_groups(), "a hold that is over costs nothing");
}

#[test]
fn a_hold_is_released_and_set_again() {
    let mut pair = Pair::new();
    job(&mut pair, 1, "a1", "a");
    assert!(pair.hold(1, "a", 50) && pair.hold(1, "a", 20), "shorter than before");
    assert_eq!(pair.primary.next_claimable(1), Some(20));
    assert!(pair.hold(1, "a", 0));
    assert_eq!((held_until(&pair, 1, "a"), pair.primary.next_claimable(1)), (None, Some(1)));
    assert!(pair.hold(1, "a", 0), "a job is in it, whether or not it was held");
    assert!(!pair.hold(1, "b", 50), "no job is in it");
    assert_eq!(pair.primary.group_count(), 1);
}

/// Example: two workers get a 429 from one API. One returns its job with a long hold. Then the other returns its job
/// with a shorter hold. The long hold stays.
#[test]
fn a_job_given_back_never_shortens_a_hold() {
    let mut pair = Pair::new();
    for id in ["a1", "a2", "a3"] {
        job(&mut pair, 1, id, "a");
    }
    let got = pair.claim(1, 1000, 2);
    let give_back = |pair: &mut Pair, n: usize, until| {
        let id = std::str::from_utf8(&got[n].id).unwrap();
        assert!(pair.nack(2, id, got[n].token, Fate::At(2)).is_some());
        let effect = pair.primary.hold_longer(2, b"a", until);
        assert!(effect.is_none_or(|effect| pair.replica.apply(&effect)));
    };
    give_back(&mut pair, 0, 60);
    give_back(&mut pair, 1, 10);
    assert_eq!(held_until(&pair, 2, "a"), Some(60));
    assert_eq!(pair.primary.next_claimable(2), Some(60));
    assert_eq!(next(&mut pair, 60), ["a3", "a1", "a2"]);
}

/// A push with AGAIN of another group takes the place of a job that a NACK with HOLD makes a dead letter. The hold is
/// that of the job's own group.
#[test]
fn a_nack_holds_the_group_of_its_job_not_that_of_the_push_behind_it() {
    for fate in [Fate::Dead, Fate::Default] {
        let mut pair = Pair::new();
        pair.job_with(1, "a1", 1, |push| (push.group, push.max_attempts) = (b"a", Some(1)));
        job(&mut pair, 1, "a2", "a");
        let token = pair.take(1, 100, "a1");
        let again = Push { id: Some(b"a1"), due: 1, group: b"b", again: true, ..Push::default() };
        assert!(pair.push(1, &again).is_some());
        let group = pair.primary.group_of(b"a1");
        assert_eq!(pair.nack(2, "a1", token, fate), Some(None));
        let effect = pair.primary.hold_longer(2, &group, 50);
        assert!(pair.replica.apply(&effect.expect("a2 is in the group")));
        assert_eq!((held_until(&pair, 2, "a"), held_until(&pair, 2, "b")), (Some(50), None));
        assert_eq!(next(&mut pair, 2), ["a1"]);
    }
}

#[test]
fn a_hold_ends_with_the_last_job_of_its_group_but_not_with_its_replacement() {
    let mut pair = Pair::new();
    job(&mut pair, 1, "a1", "a");
    assert!(pair.hold(1, "a", 50));
    let push = Push { id: Some(b"a1"), due: 2, group: b"a", replace: true, ..Push::default() };
    assert!(pair.push(2, &push).is_some());
    assert_eq!(held_until(&pair, 2, "a"), Some(50));
    let elsewhere = Push { group: b"b", ..push };
    assert!(pair.push(2, &elsewhere).is_some());
    assert_eq!(held_until(&pair, 2, "b"), None);
    assert!(pair.push(2, &push).is_some());
    assert_eq!(held_until(&pair, 2, "a"), None, "it had no job for a while");
    assert!(pair.hold(2, "a", 50) && pair.cancel(2, "a1"));
    job(&mut pair, 3, "a2", "a");
    assert_eq!((held_until(&pair, 3, "a"), next(&mut pair, 3)), (None, vec!["a2".to_owned()]));
}

/// A dead letter counts as a job of its group.
#[test]
fn a_group_of_dead_letters_stays_held() {
    let mut pair = Pair::new();
    job(&mut pair, 1, "a1", "a");
    let token = pair.take(1, 100, "a1");
    assert_eq!(pair.nack(2, "a1", token, Fate::Dead), Some(None));
    assert!(pair.hold(2, "a", 50) && pair.redrive(3, 1));
    assert_eq!(pair.primary.next_claimable(3), Some(50));
}

/// The group opens when its hold, GROUPRATE, GROUPCONCURRENCY and ORDERED all allow it.
#[test]
fn a_hold_goes_together_with_all_other_bounds() {
    let mut pair = Pair::configured(|s| {
        (s.ordered, s.group_concurrency) = (true, 1);
        s.group_rate = Some(Rate { limit: 1, window: 30 });
    });
    job(&mut pair, 1, "a1", "a");
    job(&mut pair, 1, "a2", "a");
    let token = pair.take(1, 100, "a1");
    assert!(pair.hold(2, "a", 20));
    assert_eq!(pair.primary.next_claimable(2), Some(100), "the lease");
    assert!(pair.ack(3, "a1", token));
    assert_eq!(pair.primary.next_claimable(3), Some(31), "the unit");
    assert!(pair.hold(3, "a", 40));
    assert_eq!(pair.primary.next_claimable(3), Some(40), "the hold");
    pair.configure(3, |s| s.paused = true);
    assert_eq!(pair.primary.next_claimable(3), None);
    pair.configure(3, |s| s.paused = false);
    assert_eq!(next(&mut pair, 40), ["a2"]);
}

/// A hold ends at a fixed time of the clock, as a lease does. So if the clock steps back, more time passes until the
/// hold ends.
#[test]
fn a_hold_lasts_longer_when_the_clock_steps_back() {
    let mut pair = Pair::new();
    job(&mut pair, 100, "a1", "a");
    assert!(pair.hold(100, "a", 150));
    assert_eq!((pair.primary.claimable(60), pair.primary.next_claimable(60)), (0, Some(150)));
}

#[test]
fn a_job_of_a_held_group_or_a_paused_queue_waits_for_no_claim() {
    let mut pair = Pair::new();
    job(&mut pair, 5, "a", "held");
    assert!(pair.hold(5, "held", 100));
    job(&mut pair, 8, "b", "open");
    let oldest = |pair: &Pair, now| pair.primary.stats(now).oldest_ready;
    assert_eq!(oldest(&pair, 20), Some(8), "the held job, which is older, does not hide it");
    pair.take(20, 200, "b");
    assert_eq!(oldest(&pair, 99), None);
    assert_eq!(oldest(&pair, 101), Some(100), "it waits from the end of the hold on");
    assert!(pair.hold(101, "held", 0));
    assert_eq!(oldest(&pair, 101), Some(5));
    pair.configure(101, |s| s.paused = true);
    assert_eq!((oldest(&pair, 101), pair.primary.waits_from()), (None, None));
}
