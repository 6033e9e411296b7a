//! Tests of groups: turns, limits, ORDERED, and costs.

use super::super::groups::MAX_COUNTED;
use super::super::groups::times::WORKED_OUT;
use super::super::manage::MAX_CONFIG_UPDATES;
use super::super::wake::CLEARED_AFTER;
use super::super::{Fate, JobFilter, NackOptions, Push, Queue, Rate, Settings, State};
use super::{Pair, decoded, encoded, rebuilt};
use crate::server::counting;

const FREE: NackOptions<'static> = NackOptions { is_free: true, error: b"" };

fn in_group(pair: &mut Pair, now: u64, id: &str, group: &str) {
    let push = Push { id: Some(id.as_bytes()), due: now, group: group.as_bytes(), ..Push::default() };
    assert_eq!(pair.push(now, &push).as_deref(), Some(id.as_bytes()));
}

fn in_group_due(pair: &mut Pair, id: &str, group: &str, due: u64) {
    let push = Push { id: Some(id.as_bytes()), due, group: group.as_bytes(), ..Push::default() };
    assert_eq!(pair.push(1, &push).as_deref(), Some(id.as_bytes()));
}

/// Claims the next jobs, with leases until 1000. Returns the IDs of the jobs.
fn next(pair: &mut Pair, now: u64, count: u64) -> Vec<String> {
    pair.claim(now, 1000, count).into_iter().map(|job| String::from_utf8(job.id).unwrap()).collect()
}

#[test]
fn groups_take_turns_and_the_jobs_without_one_are_a_group() {
    let mut pair = Pair::new();
    for (id, group) in [("a1", "a"), ("a2", "a"), ("n1", ""), ("a3", "a"), ("b1", "b"), ("n2", ""), ("b2", "b")] {
        in_group(&mut pair, 1, id, group);
    }
    let order = ["a1", "n1", "b1", "a2", "n2", "b2", "a3"];
    assert_eq!(pair.ids(1, State::Ready), order, "PEEK tells");
    assert_eq!(next(&mut pair, 1, 9), order);
}

#[test]
fn a_new_group_comes_last_and_one_that_was_closed_is_owed_one_turn() {
    let mut pair = Pair::new();
    for i in 0..5 {
        in_group(&mut pair, 1, &format!("a{i}"), "a");
        in_group(&mut pair, 1, &format!("b{i}"), "b");
    }
    pair.job_with(1, "later", 50, |push| push.group = b"c");
    pair.job_with(1, "later too", 50, |push| push.group = b"c");
    assert_eq!(next(&mut pair, 1, 4), ["a0", "b0", "a1", "b1"]);
    in_group(&mut pair, 2, "new", "d");
    assert_eq!(next(&mut pair, 50, 7), ["later", "a2", "b2", "new", "later too", "a3", "b3"]);
}

#[test]
fn priority_holds_within_a_group_only() {
    let mut pair = Pair::new();
    for (id, group, priority) in [("a1", "a", 5), ("a2", "a", -5), ("b1", "b", 9)] {
        pair.job_with(1, id, 1, |push| (push.group, push.priority) = (group.as_bytes(), priority));
    }
    assert_eq!(next(&mut pair, 1, 9), ["a2", "b1", "a1"]);
}

#[test]
fn a_group_at_its_concurrency_is_skipped_and_wakes_when_a_lease_expires() {
    let mut pair = Pair::configured(|s| s.group_concurrency = 2);
    for i in 0..4 {
        in_group(&mut pair, 1, &format!("a{i}"), "a");
    }
    assert_eq!(pair.claim(1, 100, 1).len(), 1);
    assert_eq!(pair.claim(1, 60, 9).len(), 1, "two at once");
    assert_eq!((pair.primary.claimable(1), pair.primary.next_claimable(1)), (0, Some(60)));
    in_group(&mut pair, 2, "b", "b");
    assert_eq!(next(&mut pair, 2, 9), ["b"], "another group is not held up");
    assert_eq!(pair.primary.next_claimable(2), Some(60));
    pair.configure(3, |s| s.group_concurrency = 1);
    assert_eq!(pair.primary.next_claimable(3), Some(100), "two leases have to end");
}

#[test]
fn a_group_at_its_rate_is_passed_over_and_wakes_when_a_unit_is_back() {
    let mut pair = Pair::configured(|s| s.group_rate = Some(Rate { limit: 2, window: 50 }));
    for i in 0..5 {
        in_group(&mut pair, 1, &format!("a{i}"), "a");
    }
    assert_eq!(next(&mut pair, 1, 1), ["a0"]);
    assert_eq!(next(&mut pair, 11, 9), ["a1"]);
    assert_eq!(pair.primary.next_claimable(11), Some(51));
    assert_eq!(next(&mut pair, 51, 9), ["a2"]);
    assert_eq!(pair.primary.next_claimable(51), Some(61));
}

#[test]
fn the_units_of_a_group_outlive_its_jobs() {
    let mut pair = Pair::configured(|s| s.group_rate = Some(Rate { limit: 1, window: 50 }));
    in_group(&mut pair, 1, "a", "a");
    let token = pair.take(1, 30, "a");
    assert!(pair.ack(2, "a", token));
    in_group(&mut pair, 3, "b", "a");
    assert_eq!((pair.primary.claimable(3), pair.primary.next_claimable(3)), (0, Some(51)));
}

#[test]
fn a_step_back_of_the_clock_holds_no_unit_of_a_group_longer_than_a_window() {
    let mut pair = Pair::configured(|s| s.group_rate = Some(Rate { limit: 1, window: 50 }));
    for group in ["a", "b"] {
        in_group(&mut pair, 1, group, group);
        in_group(&mut pair, 1, &format!("{group}2"), group);
    }
    assert_eq!(pair.claim(10_000, 10_001, 9).len(), 2);
    assert!(pair.primary.needs_settling(100));
    assert_eq!(pair.primary.next_claimable(100), Some(10_050));
    assert!(pair.claim(100, 110, 9).is_empty());
    assert!(!pair.primary.needs_settling(100));
    assert_eq!(pair.primary.next_claimable(100), Some(150));
    assert_eq!(next(&mut pair, 150, 9).len(), 2, "a window from the new now");
}

/// In an ORDERED queue, the later jobs of a group wait for the first job. A NACK, an expired lease or a REDRIVE of the
/// first job does not change this.
#[test]
fn ordered_groups_wait_for_their_head() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    for (id, priority) in [("a1", 3), ("a2", 2), ("a3", 1)] {
        pair.job_with(1, id, 1, |push| (push.group, push.priority) = (b"a", priority));
    }
    in_group(&mut pair, 1, "b1", "b");
    let token = pair.take(1, 30, "a1");
    assert_eq!(next(&mut pair, 1, 9), ["b1"], "one at a time");
    assert_eq!(pair.primary.next_claimable(1), Some(30), "the lease of the head ends");
    assert_eq!(pair.nack(5, "a1", token, Fate::At(20)), Some(Some(20)));
    assert_eq!((pair.primary.claimable(19), pair.primary.next_claimable(5)), (0, Some(20)));
    let token = pair.take(20, 25, "a1");
    assert_eq!(pair.primary.claimable(24), 0);
    let again = pair.take(25, 40, "a1");
    assert!(again > token);
    assert_eq!(pair.nack(26, "a1", again, Fate::Dead), Some(None));
    let token = pair.take(26, 90, "a2");
    assert!(pair.redrive(27, 1), "a1 is alive, and in front of a2");
    assert!(pair.ack(28, "a2", token));
    let token = pair.take(28, 90, "a1");
    for queue in [&pair.primary, &decoded(&encoded(&pair.primary)), &rebuilt(&pair.primary)] {
        assert_eq!((queue.claimable(29), queue.next_claimable(29)), (0, Some(90)), "a crash changes nothing of it");
    }
    assert!(pair.ack(29, "a1", token));
    pair.take(29, 90, "a3");
}

#[test]
fn a_recurring_job_of_an_ordered_group_goes_behind_the_jobs_pushed_meanwhile() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    pair.job_with(1, "tick", 1, |push| (push.group, push.every) = (b"a", Some(100)));
    in_group(&mut pair, 1, "x", "a");
    let token = pair.take(1, 50, "tick");
    assert!(pair.ack(2, "tick", token));
    pair.take(2, 50, "x");
}

/// A recurring job waits for its next occurrence in four cases: after an ACK, after the NACK of its last attempt, after
/// its last lease has expired, and before its first occurrence.
#[test]
fn a_recurring_job_that_waits_for_an_occurrence_leaves_its_group_open() {
    for case in ["acked", "nacked", "lapsed", "to come"] {
        let mut pair = Pair::configured(|s| s.ordered = true);
        let due = if case == "to come" { 101 } else { 1 };
        pair.job_with(1, "tick", due, |p| (p.group, p.every, p.max_attempts) = (b"a", Some(100), Some(1)));
        if due == 1 {
            let token = pair.take(1, 5, "tick");
            match case {
                "acked" => assert!(pair.ack(2, "tick", token)),
                "nacked" => assert!(pair.nack(2, "tick", token, Fate::Default).is_some()),
                _ => {}
            }
        }
        in_group(&mut pair, 6, "x", "a");
        in_group(&mut pair, 6, "y", "a");
        for queue in [&pair.primary, &decoded(&encoded(&pair.primary)), &rebuilt(&pair.primary)] {
            assert_eq!((queue.claimable(6) > 0, queue.next_claimable(6)), (true, Some(6)), "{case}");
        }
        let token = pair.take(6, 50, "x");
        assert!(pair.ack(6, "x", token));
        // From the due time of the occurrence on, the job's leases and retries keep its group closed.
        assert_eq!(pair.primary.next_claimable(7), Some(7));
        let token = pair.take(101, 150, "tick");
        assert_eq!(pair.primary.claimable(101), 0, "{case}");
        assert_eq!(pair.nack_with(102, "tick", token, Fate::At(120), FREE), Some(Some(120)));
        assert_eq!(
            (pair.primary.claimable(119), pair.primary.next_claimable(102)),
            (0, Some(120)),
            "{case}: it is not done"
        );
        let token = pair.take(120, 150, "tick");
        assert!(pair.ack(121, "tick", token));
        pair.take(121, 150, "y");
    }
}

/// RESCHEDULE moves the next occurrence of a recurring job. Until that occurrence, claims get other jobs of the group,
/// even with ORDERED.
#[test]
fn a_recurring_job_moved_to_another_time_leaves_its_group_open() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    pair.job_with(1, "tick", 1, |p| (p.group, p.every) = (b"a", Some(100)));
    in_group(&mut pair, 1, "x", "a");
    assert!(pair.reschedule(2, "tick", Some(70), None));
    pair.take(2, 50, "x");
}

/// A recurring job that is due waits behind the jobs of its group that were pushed before it, and behind a job that a
/// worker has given back.
#[test]
fn a_recurring_job_of_an_ordered_group_waits_its_turn() {
    type Job<'a> = (&'a str, u64, Option<u64>);
    let pushed = |jobs: &[Job<'_>]| {
        let mut pair = Pair::configured(|s| s.ordered = true);
        for &(id, due, every) in jobs {
            pair.job_with(1, id, due, |p| (p.group, p.every) = (b"a", every));
        }
        pair
    };
    let mut first_is_delayed = pushed(&[("x", 90, None), ("tick", 2, Some(100))]);
    assert_eq!((first_is_delayed.claim(89, 100, 9), first_is_delayed.primary.next_claimable(5)), (vec![], Some(90)));
    first_is_delayed.take(90, 95, "x");

    let mut given_back = pushed(&[("tick", 50, Some(100)), ("x", 1, None), ("y", 1, None)]);
    let token = given_back.take(1, 10, "x");
    given_back.nack(2, "x", token, Fate::At(80));
    assert_eq!((given_back.claim(60, 100, 9), given_back.primary.next_claimable(60)), (vec![], Some(80)));
    let token = given_back.take(80, 90, "x");
    assert!(given_back.ack(81, "x", token));
    let token = given_back.take(81, 90, "tick");
    assert!(given_back.ack(82, "tick", token), "it is due again at 150, behind y");
    let token = given_back.take(150, 160, "y");
    given_back.nack(151, "y", token, Fate::At(170));
    assert_eq!((given_back.claim(160, 180, 9), given_back.primary.next_claimable(160)), (vec![], Some(170)));
    let token = given_back.take(170, 180, "y");
    assert!(given_back.ack(171, "y", token));
    given_back.take(171, 180, "tick");

    let mut lease_expired = pushed(&[("tick", 50, Some(100)), ("x", 1, None)]);
    lease_expired.configure(1, |s| (s.backoff_base, s.backoff_max) = (40, 40));
    lease_expired.take(1, 45, "x");
    assert_eq!((lease_expired.claim(60, 100, 9), lease_expired.primary.next_claimable(60)), (vec![], Some(85)));
    lease_expired.take(85, 90, "x");

    let mut pushed_later = pushed(&[("tick", 2, Some(100)), ("x", 90, None)]);
    pushed_later.take(2, 10, "tick");
}

#[test]
fn a_delayed_head_holds_its_group() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    pair.job_with(1, "first", 80, |push| push.group = b"a");
    in_group(&mut pair, 1, "second", "a");
    assert_eq!((pair.primary.claimable(1), pair.primary.next_claimable(1)), (0, Some(80)));
    assert!(pair.cancel(2, "first"));
    assert_eq!(next(&mut pair, 2, 9), ["second"]);
}

/// ZEITSET_JOBS=1000000 sets the number of jobs in the large group.
#[test]
fn many_jobs_of_one_group_do_not_delay_other_groups() {
    const OTHERS: usize = 1000;
    let many = crate::base::number("ZEITSET_JOBS").unwrap_or(20_000);
    let mut queue = Queue::new();
    let push = |queue: &mut Queue, group: &str| {
        assert!(queue.push(1, &Push { group: group.as_bytes(), ..Push::default() }).is_ok());
    };
    (0..many).for_each(|_| push(&mut queue, "one"));
    queue.claim(1000, 1000, 100, b"", |_| ());
    (0..OTHERS).for_each(|i| push(&mut queue, &format!("other {i}")));
    let claims = queue.claim(1000, 1000, OTHERS as u64 + 1, b"", |_| ());
    let ids: Vec<_> = claims.iter().map(|job| job.id.to_vec()).collect();
    let of_one = ids.iter().filter(|id| queue.get(1, id).unwrap().group == b"one").count();
    assert_eq!((ids.len(), of_one), (OTHERS + 1, 1), "each of the others is among them");
}

#[test]
fn a_group_costs_nothing_without_jobs() {
    const GROUPS: usize = 5000;
    let names: Vec<_> = (0..GROUPS).map(|i| format!("customer {i}")).collect();
    for step in [1, 7919] {
        let before = counting::held();
        let mut queue = Queue::new();
        assert!(queue.push(1, &Push { id: Some(b"stays"), ..Push::default() }).is_ok());
        // With room for a second job, as a queue has that had one.
        assert!(queue.push(1, &Push { id: Some(b"second"), ..Push::default() }).is_ok());
        assert!(queue.cancel(1, b"second").is_some());
        let alone = counting::held() - before;
        for name in &names {
            let push = Push { id: Some(name.as_bytes()), group: name.as_bytes(), ..Push::default() };
            assert!(queue.push(1, &push).is_ok());
        }
        queue.check();
        let full = usize::try_from(counting::held() - before).unwrap();
        assert!(full < GROUPS * 500, "{} bytes for a group and its job", full / GROUPS);
        let reported = queue.memory_usage();
        assert!(reported * 10 > full * 7 && reported * 7 < full * 10, "{reported} for {full}");
        for i in 0..GROUPS {
            assert!(queue.cancel(2, names[i * step % GROUPS].as_bytes()).is_some());
            if i == GROUPS / 2 {
                queue.check();
            }
        }
        assert!(!queue.knows_groups());
        let left = counting::held() - before;
        assert!(left <= alone + 64, "{left} bytes for one job, {alone} before");
    }
}

#[test]
fn units_of_groups_that_are_gone_are_forgotten() {
    let mut pair = Pair::configured(|s| s.group_rate = Some(Rate { limit: 5, window: 50 }));
    for i in 0..100u64 {
        let id = i.to_string();
        in_group(&mut pair, i * 10, &id, &id);
        let token = pair.take(i * 10, i * 10 + 5, &id);
        assert!(pair.ack(i * 10, &id, token));
        assert!(pair.primary.group_count() <= 8, "{}", pair.primary.group_count());
    }
}

#[test]
fn groups_without_jobs_go_in_slices_although_no_command_comes() {
    const GROUPS: u64 = 200;
    let mut pair = Pair::configured(|s| s.group_rate = Some(Rate { limit: 5, window: 50 }));
    for i in 0..GROUPS {
        let id = i.to_string();
        in_group(&mut pair, 1, &id, &id);
    }
    for job in pair.claim(1, 5, GROUPS) {
        if job.id != b"7" {
            assert!(pair.cancel(2, std::str::from_utf8(&job.id).unwrap()));
        }
    }
    let due = 51 + CLEARED_AFTER;
    assert_eq!(pair.primary.next_upkeep(2, 2), Some(due));
    assert!(!pair.primary.needs_upkeep(due - 1));
    let mut left = vec![pair.primary.group_count()];
    while pair.primary.needs_upkeep(due) {
        let Pair { primary, replica } = &mut pair;
        primary.run_upkeep(due, |effect| assert!(replica.apply(effect)));
        left.push(pair.primary.group_count());
    }
    assert_eq!(left, [200, 136, 72, 9, 1], "the one with a job stays, without units");
    assert_eq!(pair.primary.next_upkeep(due, due), None);
}

/// Returns a queue with groups of one job each.
fn with_groups(groups: usize, change: impl FnOnce(&mut Settings)) -> Pair {
    let mut pair = Pair::configured(change);
    for i in 0..groups {
        let id = i.to_string();
        in_group(&mut pair, 1, &id, &id);
    }
    pair
}

/// Returns a queue with idle groups. An idle group has no jobs, but some of its units of GROUPRATE are in use.
fn with_idle_groups(groups: usize, rate: Rate) -> Pair {
    let mut pair = with_groups(groups, |s| s.group_rate = Some(rate));
    for job in pair.claim(1, 5, groups as u64) {
        assert!(pair.ack(2, std::str::from_utf8(&job.id).unwrap(), job.token));
    }
    assert_eq!((pair.primary.len(), pair.primary.group_count()), (0, groups));
    pair
}

#[test]
fn a_change_of_settings_goes_through_the_groups_only_if_it_concerns_them() {
    const GROUPS: usize = 300;
    let mut pair = with_groups(GROUPS, |s| s.group_concurrency = 2);
    let worked_out = |pair: &mut Pair, change: fn(&mut Settings)| {
        WORKED_OUT.set(0);
        assert!(pair.configure(2, change));
        WORKED_OUT.get() as usize
    };
    let others: [fn(&mut Settings); 9] = [
        |s| s.paused = true,
        |s| s.maxlen = 500,
        |s| s.max_attempts = 3,
        |s| s.concurrency = 7,
        |s| s.rate = Some(Rate { limit: 5, window: 50 }),
        |s| (s.backoff_base, s.backoff_max) = (5, 50),
        |s| s.jitter = 10,
        |s| s.deadlen = 9,
        |s| s.deadttl = 9,
    ];
    for change in others {
        assert_eq!(worked_out(&mut pair, change), 0);
    }
    let of_groups: [fn(&mut Settings); 4] = [
        |s| s.group_concurrency = 3,
        |s| s.group_rate = Some(Rate { limit: 5, window: 50 }),
        |s| s.ordered = true,
        |s| s.aging = 10,
    ];
    for change in of_groups {
        assert_eq!(worked_out(&mut pair, change), 2 * GROUPS, "on the primary and on the replica");
    }
}

#[test]
fn no_change_of_settings_is_refused_because_of_groups_without_jobs() {
    let mut pair = with_idle_groups(MAX_CONFIG_UPDATES + 1, Rate { limit: 5, window: 50 });
    let changes: [fn(&mut Settings); 5] = [
        |s| s.ordered = true,
        |s| s.aging = 10,
        |s| s.group_concurrency = 3,
        |s| s.group_rate = Some(Rate { limit: 5, window: 20 }),
        |s| s.group_rate = None,
    ];
    WORKED_OUT.set(0);
    for change in changes {
        let mut settings = *pair.primary.settings();
        change(&mut settings);
        assert!(!pair.primary.is_too_long_for(&settings));
        assert!(pair.configure(3, change));
    }
    assert_eq!(WORKED_OUT.get(), 0);
    assert_eq!(pair.primary.next_upkeep(3, 3), Some(3), "they go at once");
    let Pair { primary, replica } = &mut pair;
    while primary.needs_upkeep(3) {
        assert!(primary.run_upkeep(3, |effect| assert!(replica.apply(effect))) <= 64);
    }
    assert_eq!((primary.group_count(), replica.group_count()), (0, 0));
}

#[test]
fn units_that_are_left_of_a_rate_that_is_off_are_saved_and_loaded() {
    for group in ["", "a", "0"] {
        let mut pair = with_idle_groups(2, Rate { limit: 1, window: 1000 });
        in_group(&mut pair, 3, "waits", group);
        pair.configure(3, |s| s.group_rate = None);
        assert!(pair.primary.group_count() > 1, "{group}");
        pair.check();
    }
}

/// The first job of each group was claimed at time 1. `opens` returns the time at which a second job can be claimed.
#[test]
fn units_of_a_group_without_jobs_follow_a_change_of_grouprate() {
    let changed = |rate: Option<Rate>| {
        let mut pair = with_idle_groups(1, Rate { limit: 1, window: 1000 });
        assert!(pair.configure(2, |s| s.group_rate = rate));
        pair
    };
    let opens = |mut pair: Pair, group: &str| {
        in_group(&mut pair, 3, "next", group);
        pair.primary.next_claimable(3)
    };
    let shorter = Some(Rate { limit: 1, window: 50 });
    assert_eq!(opens(changed(shorter), "0"), Some(53), "no unit is held longer than a window");
    let mut pair = changed(shorter);
    let Pair { primary, replica } = &mut pair;
    assert_eq!(primary.run_upkeep(2, |effect| assert!(replica.apply(effect))), 1);
    assert_eq!(primary.next_upkeep(2, 2), Some(52 + CLEARED_AFTER));
    assert_eq!(opens(pair, "0"), Some(52));
    assert_eq!(opens(changed(Some(Rate { limit: 1, window: 5000 })), "0"), Some(1001), "as it was taken");
    assert_eq!(opens(changed(Some(Rate { limit: 2, window: 1000 })), "0"), Some(3));
    assert_eq!(opens(changed(None), "0"), Some(3), "without a rate there are no units");
}

#[test]
fn groups_are_listed_by_name_in_pages() {
    let mut pair = Pair::new();
    for (id, group, due) in [("1", "b", 1), ("2", "a", 9), ("3", "", 1), ("4", "c", 1), ("5", "b", 1)] {
        pair.job_with(1, id, due, |push| push.group = group.as_bytes());
    }
    assert_eq!(next(&mut pair, 1, 1), ["1"]);
    let queue = &pair.primary;
    let all: Vec<_> = queue.groups(1, None).map(|g| (g.name, [g.ready, g.delayed, g.claimed])).collect();
    assert_eq!(all, [(&b""[..], [1, 0, 0]), (b"a", [0, 1, 0]), (b"b", [1, 0, 1]), (b"c", [1, 0, 0])]);
    let behind =
        |name: &'static str| queue.groups(1, Some(name.as_bytes())).map(|g| g.name.to_vec()).collect::<Vec<_>>();
    assert_eq!(behind("a"), [b"b".to_vec(), b"c".to_vec()]);
    assert_eq!(behind("aa"), [b"b".to_vec(), b"c".to_vec()]);
    assert_eq!(behind(""), [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
}

fn largest(queue: &Queue, now: u64, count: usize) -> Vec<(String, u64)> {
    let groups = queue.largest_groups(now, count).into_iter();
    groups.map(|group| (String::from_utf8(group.name.to_vec()).unwrap(), group.ready)).collect()
}

#[test]
fn the_largest_groups_are_those_with_most_ready_jobs() {
    let mut pair = Pair::new();
    assert_eq!(largest(&pair.primary, 1, 10), []);
    pair.job(1, "alone", 1);
    assert_eq!(largest(&pair.primary, 1, 10), [("".into(), 1)]);
    let jobs = [("much", 1, 5), ("later", 9, 7), ("some", 1, 3), ("more", 1, 4), ("few", 1, 1)];
    for (group, due, count) in jobs {
        for number in 0..count {
            in_group_due(&mut pair, &format!("{group}:{number}"), group, due);
        }
    }
    let expected =
        |list: &[(&str, u64)]| list.iter().map(|&(name, ready)| (name.to_owned(), ready)).collect::<Vec<_>>();
    assert_eq!(largest(&pair.primary, 1, 3), expected(&[("much", 5), ("more", 4), ("some", 3)]));
    assert_eq!(largest(&pair.primary, 9, 2), expected(&[("later", 7), ("much", 5)]));
    let all = [("much", 5), ("more", 4), ("some", 3), ("", 1), ("few", 1), ("later", 0)];
    assert_eq!(largest(&pair.primary, 1, 100), expected(&all));
    assert_eq!(largest(&pair.primary, 1, 4), expected(&all[..4]), "by name if the numbers are equal");
    assert_eq!(largest(&pair.primary, 1, 0), []);
}

#[test]
fn the_largest_of_many_groups_are_found_if_few_others_have_more_jobs() {
    let mut pair = Pair::new();
    for number in 0..2 * MAX_COUNTED {
        in_group_due(&mut pair, &format!("a{number}"), &format!("{number}"), 1);
    }
    for number in 0..3 {
        in_group_due(&mut pair, &format!("b{number}"), "1234", 1);
        in_group_due(&mut pair, &format!("c{number}"), "later", 9);
    }
    assert_eq!(largest(&pair.primary, 1, 1), [("1234".into(), 4)]);
    // Now the first groups, by number of jobs, have no other ready job.
    for number in 0..MAX_COUNTED {
        for delayed in 0..4 {
            in_group_due(&mut pair, &format!("{number}:{delayed}"), &format!("{number}"), 9);
        }
    }
    let found = pair.primary.largest_groups(1, 2);
    assert!(found.iter().all(|group| group.ready == 1 || group.name == b"1234"), "the counts are right");
}

#[test]
fn a_queue_without_groups_is_saved_as_if_there_were_none() {
    let mut pair = Pair::new();
    pair.job(1, "a", 1);
    let before = encoded(&pair.primary);
    in_group(&mut pair, 1, "b", "g");
    assert!(encoded(&pair.primary).len() > before.len());
    assert!(pair.cancel(1, "b"));
    let mut other = Pair::new();
    other.job(1, "a", 1);
    other.job(1, "b", 1);
    assert!(other.cancel(1, "b"));
    assert!(!pair.primary.knows_groups());
    assert_eq!(encoded(&pair.primary), encoded(&other.primary));
}

#[test]
fn an_ordered_group_opens_after_a_restart_when_it_opened_before() {
    let mut pair = Pair::configured(|s| s.ordered = true);
    pair.job_with(1000, "recurring", 1001, |p| (p.every, p.group) = (Some(1), b"g"));
    pair.job_with(1000, "plain", 1000, |p| p.group = b"g");
    let token = pair.take(1000, 1001, "plain");
    assert!(pair.nack_with(1000, "plain", token, Fate::At(2000), FREE).is_some());
    let loaded = rebuilt(&pair.primary);
    loaded.check();
    assert_eq!(loaded.next_claimable(1000), Some(2000));
}

/// An idle group still has taken units of GROUPRATE. No job of this group comes in between.
#[test]
fn a_page_of_peek_begins_behind_any_job_if_only_one_group_has_jobs() {
    let mut pair = Pair::configured(|s| s.group_rate = Some(Rate { limit: 100, window: 3_600_000 }));
    pair.job_with(0, "b", 0, |p| p.group = b"b");
    let token = pair.take(0, 10, "b");
    assert!(pair.ack(1, "b", token));
    for n in 0..1000 {
        pair.job_with(2, &format!("{n:04}"), 2, |p| p.group = b"a");
    }
    let ready = JobFilter { state: State::Ready, group: None };
    let behind = pair.primary.peek_after(3, ready, b"0900").map(|jobs| jobs.map(|job| job.id.to_vec()).next());
    assert_eq!(behind.ok().flatten().as_deref(), Some(&b"0901"[..]));
}
