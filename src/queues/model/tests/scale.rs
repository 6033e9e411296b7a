//! Tests of large queues, which random histories do not contain.

use super::super::manage::MAX_CONFIG_UPDATES;
use super::super::query::STEPS;
use super::super::view::MAX_PASSED;
use super::super::{AfterError, Change, Effect, Fate, JobFilter, NackOptions, Push, Queue, Rate, Settings, State};
use super::{Pair, decoded, encoded};
use crate::base::chunks::CHUNK;
use crate::server::counting;
use rand::rngs::SmallRng;
use rand::{SeedableRng, seq::SliceRandom};

fn many(n: u64, due: impl Fn(u64) -> u64) -> Queue {
    let mut queue = Queue::new();
    for i in 0..n {
        let push = Push { payload: b"0123456789", due: due(i), priority: (i * 7919 % 1000) as i32, ..Push::default() };
        assert!(queue.push(1, &push).is_ok_and(|id| id.is_some()));
    }
    queue
}

#[test]
fn thousands_due_at_one_instant_are_served_in_order_from_the_first_claim() {
    let mut queue = many(5000, |_| 100);
    queue.check();
    assert_eq!((queue.count(99, State::Ready), queue.count(100, State::Ready)), (0, 5000));
    let expected: Vec<_> = queue.peek(100, State::Ready.into()).map(|job| (job.priority, job.id.to_vec())).collect();
    assert!(expected.is_sorted_by_key(|(priority, _)| *priority));
    for (_, id) in expected {
        assert_eq!(queue.claim(100_000, 200, 1, b"", |_| ())[0].id, id);
    }
    queue.check();
}

/// Returns the queue that `make` makes, and the number of bytes that `make` allocated.
fn bytes_of(make: impl FnOnce() -> Queue) -> (Queue, usize) {
    let before = counting::held();
    let queue = make();
    let bytes = usize::try_from(counting::held() - before).expect("a queue takes memory");
    (queue, bytes)
}

/// If all jobs have one priority, the cost of a page depends only on the length of the page, not on where the page
/// begins.
#[test]
fn a_page_of_ready_jobs_begins_anywhere_in_a_queue_of_one_priority() {
    const JOBS: u64 = 20_000;
    let mut queue = Queue::new();
    for n in 0..JOBS {
        // Some jobs are ready when they are pushed, some become due, and the leases of some expire.
        let push = Push { payload: b"x", due: if n % 3 == 0 { 5 } else { 100 + n * 7919 % 1000 }, ..Push::default() };
        assert!(queue.push(10, &push).is_ok_and(|id| id.is_some()));
    }
    assert_eq!(queue.claim(50, 11, 500, b"", |_| ()).len(), 500);
    for now in [600, 2000] {
        let all: Vec<_> = queue.peek(now, State::Ready.into()).map(|job| job.id.to_vec()).collect();
        assert!(all.len() > 1000);
        for at in (0..all.len()).step_by(97) {
            STEPS.set(0);
            let page = queue.peek_after(now, State::Ready.into(), &all[at]).unwrap().take(10);
            let page: Vec<_> = page.map(|job| job.id.to_vec()).collect();
            assert_eq!(page, all[at + 1..all.len().min(at + 11)]);
            assert!(STEPS.get() < 30, "{}", STEPS.get());
        }
    }
    queue.check();
}

/// Tests queues with several priorities, with several groups, with both, and with ORDERED.
#[test]
fn no_page_of_ready_jobs_walks_through_those_before_it() {
    const JOBS: u64 = 20_000;
    for (priorities, groups, ordered) in
        [(3, 1, false), (1000, 1, false), (1, 50, false), (3, 5000, false), (1, 3, true)]
    {
        let mut queue = Queue::new();
        assert_eq!(queue.configure(0, Settings { ordered, ..Settings::default() }).is_some(), ordered);
        for n in 0..JOBS {
            let group = if groups == 1 { String::new() } else { format!("g{}", n * 7919 % groups) };
            let priority = (n * 31 % priorities) as i32;
            let push = Push { priority, due: n % 997, group: group.as_bytes(), ..Push::default() };
            assert!(queue.push(1, &push).is_ok_and(|id| id.is_some()));
        }
        let all: Vec<_> = queue.peek(2000, State::Ready.into()).map(|job| job.id.to_vec()).collect();
        assert_eq!(all.len() as u64, JOBS);
        for at in (0..all.len()).step_by(333) {
            STEPS.set(0);
            let page = queue.peek_after(2000, State::Ready.into(), &all[at]);
            let page = page.map(|page| page.take(10).map(|job| job.id.to_vec()).collect::<Vec<_>>());
            assert!(STEPS.get() < JOBS / 2, "{} steps", STEPS.get());
            match page {
                Ok(page) => assert_eq!(page, all[at + 1..all.len().min(at + 11)]),
                Err(error) => assert!(error == AfterError::TooFar && at >= MAX_PASSED, "{error:?} at {at}"),
            }
        }
        assert_eq!(queue.peek_after(2000, State::Ready.into(), b"none").err(), Some(AfterError::NotInState));
    }
}

/// The cost of a page of one group depends only on its length. The costs of CLEAN and REDRIVE depend only on the number
/// of jobs that they change.
#[test]
fn nothing_that_is_done_for_one_group_walks_through_the_jobs_of_others() {
    const JOBS: u64 = 20_000;
    let mut queue = Queue::new();
    for n in 0..JOBS {
        // The jobs of the group "few" are between the jobs of the group "many", and after them.
        let group = if n % 200 == 7 || n + 50 > JOBS { "few" } else { "many" };
        let due = if n % 2 == 0 { 100_000 + n } else { 5 };
        assert!(queue.push(1, &Push { due, group: group.as_bytes(), ..Push::default() }).is_ok());
    }
    let few = |state| JobFilter { state, group: Some(b"few") };
    for take in 0..2 {
        let got: Vec<_> =
            queue.claim(10_000, 50, 60, b"", |_| ()).iter().map(|job| (job.id.to_vec(), job.token)).collect();
        for (id, token) in got.iter().filter(|_| take == 0) {
            assert!(queue.nack(10, id, *token, Fate::Dead, NackOptions::default()).is_some());
        }
    }
    for state in State::ALL {
        let all: Vec<_> = queue.peek(10, few(state)).map(|job| (job.id.to_vec(), job.group.to_vec())).collect();
        assert!(all.len() >= 20 && all.iter().all(|(_, group)| group == b"few"), "{} {state:?}", all.len());
        for at in (0..all.len()).step_by(7) {
            STEPS.set(0);
            let page = queue.peek_after(10, few(state), &all[at].0).unwrap().take(10);
            let page: Vec<_> = page.map(|job| (job.id.to_vec(), job.group.to_vec())).collect();
            assert_eq!(page, all[at + 1..all.len().min(at + 11)]);
            assert!(STEPS.get() < 40, "{} steps", STEPS.get());
        }
    }
    STEPS.set(0);
    for state in [State::Ready, State::Delayed, State::Dead] {
        assert_eq!(queue.clean(10, few(state), None, 10, |_| ()), Ok(10));
    }
    assert!(STEPS.get() < 120, "{} steps", STEPS.get());
    let dead = queue.count(10, State::Dead);
    assert!(queue.redrive(10, Some(b"few"), u64::MAX).is_some());
    assert_eq!((queue.count(10, State::Dead), queue.peek(10, few(State::Dead)).count()), (dead - 20, 0));
    assert!(queue.redrive(10, Some(b"none"), u64::MAX).is_none());
    queue.check();
}

/// If only jobs of one priority and one group are left, `peek_after` can begin a page after any ready job. The
/// exception is a queue that once had more than eight priorities: there, `peek_after` may return an error.
#[test]
fn pages_begin_anywhere_again_when_there_is_but_one_priority_and_one_group_left() {
    for (group, others) in [(&b""[..], 1), (b"only", 1), (b"only", 7), (b"", 20)] {
        let mut queue = Queue::new();
        let push = |queue: &mut Queue, push: Push<'_>| assert!(queue.push(1, &push).is_ok_and(|id| id.is_some()));
        // Each of these jobs has a priority that no other job has.
        for n in 0..others {
            let id = format!("urgent {n}");
            push(&mut queue, Push { id: Some(id.as_bytes()), priority: -1 - n, group, ..Push::default() });
        }
        for n in 0..5000 {
            push(&mut queue, Push { due: n % 97, group, ..Push::default() });
        }
        push(&mut queue, Push { id: Some(b"foreign"), group: b"other", ..Push::default() });
        let ids: Vec<_> = queue.peek(100, State::Ready.into()).map(|job| job.id.to_vec()).collect();
        let last = &ids[ids.len() - 2];
        assert_eq!(queue.peek_after(100, State::Ready.into(), last).err(), Some(AfterError::TooFar));
        for id in (0..others).map(|n| format!("urgent {n}")).chain(["foreign".to_owned()]) {
            assert!(queue.cancel(1, id.as_bytes()).is_some());
        }
        queue.check();
        let page = queue.peek_after(100, State::Ready.into(), last).map(Iterator::count);
        // The queue counts jobs by priority, for up to eight priorities. With more priorities, the queue does not
        // notice that only one is left until no uncounted job is left.
        assert_eq!(page, if others < 8 { Ok(1) } else { Err(AfterError::TooFar) });
        for id in &ids[5..] {
            queue.cancel(1, id);
        }
        queue.check();
    }
}

#[test]
fn memory_follows_the_jobs_in_whatever_order_they_go() {
    const JOBS: u64 = 30_000;
    let in_order = (0..JOBS).collect::<Vec<_>>();
    let mut at_random = in_order.clone();
    at_random.shuffle(&mut SmallRng::seed_from_u64(7));
    let every_hundredth_stays =
        in_order.iter().copied().filter(|i| i % 100 > 0).chain((0..JOBS).step_by(100)).collect();
    for order in [in_order.clone(), in_order.into_iter().rev().collect(), at_random, every_hundredth_stays] {
        let ids: Vec<_> = (0..JOBS).map(|i| format!("1-{i}")).collect();
        let before = counting::held();
        let mut queue = many(JOBS, |i| 1 + i % 50);
        for (gone, i) in order.into_iter().enumerate() {
            assert!(queue.cancel(100, ids[i as usize].as_bytes()).is_some());
            let left = JOBS as usize - gone - 1;
            if [20_000, 3000, 300, 30, 3, 0].contains(&left) {
                let held = usize::try_from(counting::held() - before).unwrap();
                let (_same, needed) = bytes_of(|| decoded(&encoded(&queue)));
                assert!(held <= 2 * needed + 200 * CHUNK, "{held} bytes for {left} jobs, which need {needed}");
                assert!(queue.memory_usage() <= held + 12 * left + size_of::<Queue>(), "counted as it is");
            }
        }
        queue.check();
    }
}

/// A job takes 88 bytes for its slot, 10 for the index, and the bytes of its ID and payload.
#[test]
fn a_job_takes_a_hundred_bytes_and_its_body() {
    const JOBS: usize = 20_000;
    let (queue, bytes) = bytes_of(|| many(JOBS as u64, |i| i));
    let bodies: usize =
        queue.peek(0, State::Ready.into()).chain(queue.peek(0, State::Delayed.into())).map(|j| j.id.len() + 10).sum();
    let each = (bytes - bodies) as f64 / JOBS as f64;
    assert!(each < 101.0, "{each} bytes a job");
    assert!(queue.memory_usage() >= bytes && queue.memory_usage() < bytes + JOBS * 13, "counted as it is");
}

/// MEMORY USAGE is close to the allocated memory for all kinds of jobs: jobs in groups, returned jobs, dead jobs, jobs
/// with texts.
#[test]
fn every_kind_of_job_is_counted_as_it_is() {
    const JOBS: usize = 20_000;
    let error = [b'e'; 300];
    for (groups, is_returned, is_bury) in [
        (0, false, false),
        (0, true, false),
        (0, true, true),
        (1, false, false),
        (1, true, false),
        (100, true, false),
        (JOBS, false, false),
        (JOBS, true, false),
        (JOBS, true, true),
    ] {
        let (queue, bytes) = bytes_of(|| {
            let mut queue = Queue::new();
            for n in 0..JOBS {
                let (id, group) = (format!("job {n}"), format!("customer {}", n % groups.max(1)));
                let group = if groups == 0 { "" } else { &group };
                let push = Push { payload: b"x", id: Some(id.as_bytes()), group: group.as_bytes(), ..Push::default() };
                assert!(queue.push(1, &push).is_ok_and(|pushed| pushed.is_some()));
            }
            for _ in 0..if is_returned { JOBS } else { 0 } {
                let claims = queue.claim(2000, 1000, 1, b"worker", |_| ());
                let (id, token) = (claims[0].id.to_vec(), claims[0].token);
                let fate = if is_bury { Fate::Dead } else { Fate::At(5000) };
                let options = NackOptions { error: &error, ..NackOptions::default() };
                assert!(queue.nack(2, &id, token, fate, options).is_some());
            }
            queue
        });
        let (reported, case) = (queue.memory_usage(), (groups, is_returned, is_bury));
        // MEMORY USAGE includes the overhead of the allocator. The counter of allocated bytes does not.
        assert!(reported >= bytes * 97 / 100 && reported <= bytes * 112 / 100, "{reported} for {bytes} of {case:?}");
    }
}

#[test]
fn the_units_of_groups_are_counted_as_they_are() {
    const GROUPS: u64 = 1000;
    for (limit, times) in [(1, 1), (5, 3), (100, 100), (5000, 300)] {
        let (queue, bytes) = bytes_of(|| {
            let mut queue = Queue::new();
            let group_rate = Some(Rate { limit, window: 1000 });
            assert!(queue.configure(1, Settings { group_rate, ..Settings::default() }).is_some());
            for now in 1..=times {
                for group in 0..GROUPS {
                    let group = format!("customer {group}");
                    assert!(queue.push(now, &Push { group: group.as_bytes(), due: now, ..Push::default() }).is_ok());
                }
                let claimed = queue.claim(now * 1000, now + 500, GROUPS, b"", |_| ());
                let claimed: Vec<_> = claimed.iter().map(|job| (job.id.to_vec(), job.token)).collect();
                for (id, token) in claimed {
                    assert!(queue.ack(now, &id, token).is_some());
                }
            }
            queue
        });
        assert_eq!((queue.len(), queue.group_count()), (0, GROUPS as usize));
        let reported = queue.memory_usage();
        assert!(reported >= bytes * 90 / 100 && reported <= bytes * 130 / 100, "{reported} for {bytes}, RATE {limit}");
    }
}

#[test]
fn slots_are_used_again() {
    let mut queue = many(3000, |_| 1);
    let before = queue.memory_usage();
    for round in 0..10_000u64 {
        let claims = queue.claim((round + 1) * 1000, round + 1000, 1, b"", |_| ());
        let (id, token) = (claims[0].id.to_vec(), claims[0].token);
        assert!(queue.ack(round + 1, &id, token).is_some());
        let push = Push { payload: b"0123456789", due: round, ..Push::default() };
        assert!(queue.push(round, &push).is_ok());
    }
    queue.check();
    assert!(queue.memory_usage() < before + before / 2);
}

#[test]
fn large_queues_are_saved_and_copied_whole() {
    let queue = many(3000, |i| i * 31 % 997);
    let bytes = encoded(&queue);
    assert_eq!(encoded(&decoded(&bytes)), bytes);
    let mut copy = queue.clone();
    assert!(copy.cancel(0, b"1-0").is_some());
    copy.check();
    assert_eq!(encoded(&queue), bytes, "a copy is on its own");
}

#[test]
fn effects_alone_make_a_large_replica_whatever_its_own_clock() {
    let mut pair = Pair::new();
    for i in 0..600u64 {
        let id = i.to_string();
        pair.job_with(i, &id, i * 13 % 700, |p| {
            (p.priority, p.max_attempts) = ((i % 5) as i32, Some((i % 3) as u32));
        });
        for job in pair.claim(i, i + 20, i % 4) {
            if job.token % 3 == 0 {
                assert!(pair.ack(i, std::str::from_utf8(&job.id).unwrap(), job.token));
            }
        }
        // A read changes nothing, whatever the clock of the replica says.
        pair.replica.stats(i * 1000);
        pair.replica.peek(0, State::Ready.into()).count();
    }
    pair.check();
}

#[test]
fn another_backoff_is_set_however_many_jobs_are_claimed() {
    let mut queue = many(MAX_CONFIG_UPDATES as u64 + 1, |_| 1);
    let waits = |base| Settings { backoff_base: base, backoff_max: 100, ..Settings::default() };
    queue.configure(1, waits(5));
    queue.claim(2000, 100, u64::MAX, b"", |_| ());
    assert!(!queue.is_too_long_for(&waits(6)));
    queue.configure(2, waits(6));
    assert_eq!(queue.count(104, State::Delayed), MAX_CONFIG_UPDATES as u64 + 1);
    assert_eq!(queue.count(105, State::Ready), MAX_CONFIG_UPDATES as u64 + 1);
    queue.check();
}

/// If the queue is too long, a command refuses to change AGING. A replica applies a replicated change of AGING to a
/// queue of any length, because the master has allowed it.
#[test]
fn aging_of_a_long_queue_is_refused_where_it_is_set_and_only_there() {
    let mut queue = many(MAX_CONFIG_UPDATES as u64, |_| 1);
    let aged = |aging| Settings { aging, ..Settings::default() };
    assert!(!queue.is_too_long_for(&aged(5)));
    assert!(queue.push(1, &Push::default()).is_ok());
    assert!(queue.is_too_long_for(&aged(5)));
    assert!(!queue.is_too_long_for(&Settings { concurrency: 7, ..Settings::default() }));
    assert!(queue.apply(&Effect { at: 1, change: Change::Configure(aged(5)) }));
    assert!(!queue.is_too_long_for(&aged(5)), "that is how it is");
    queue.check();
}
