//! Many jobs: what small histories do not reach.

use super::super::{Push, Queue, State};
use super::{Pair, decoded, encoded};

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
    let expected: Vec<_> = queue.peek(100, State::Ready).map(|job| (job.priority, job.id.to_vec())).collect();
    assert!(expected.is_sorted_by_key(|(priority, _)| *priority));
    for (_, id) in expected {
        assert_eq!(queue.claim(100, 200, 1).jobs[0].id, id);
    }
    queue.check();
}

#[test]
fn a_queue_that_drains_gives_its_memory_back() {
    let empty = Queue::new().memory_usage();
    let mut queue = many(20_000, |i| 1 + i);
    let full = queue.memory_usage();
    assert!(full / 20_000 < 10 + 6 + 150, "{} bytes a job", full / 20_000);
    let mut halfway = 0;
    for i in 0..20_000u64 {
        let claims = queue.claim(50_000, 60_000, 1);
        let (id, token) = (claims.jobs[0].id.to_vec(), claims.jobs[0].token);
        assert!(queue.ack(50_000, &id, token).is_some());
        if i == 15_000 {
            queue.check();
            halfway = queue.memory_usage();
        }
    }
    assert!(halfway < full);
    queue.check();
    assert!(queue.is_empty());
    assert!(queue.memory_usage() < empty + 100);
}

#[test]
fn slots_are_used_again() {
    let mut queue = many(3000, |_| 1);
    let before = queue.memory_usage();
    for round in 0..10_000u64 {
        let claims = queue.claim(round + 1, round + 1000, 1);
        let (id, token) = (claims.jobs[0].id.to_vec(), claims.jobs[0].token);
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
            (p.priority, p.attempts) = ((i % 5) as i32, Some((i % 3) as u32));
        });
        for job in pair.claim(i, i + 20, i % 4) {
            if job.token % 3 == 0 {
                assert!(pair.ack(i, std::str::from_utf8(&job.id).unwrap(), job.token));
            }
        }
        // Reading changes nothing, at whatever time the replica believes it is.
        pair.replica.stats(i * 1000);
        pair.replica.peek(0, State::Ready).count();
    }
    pair.check();
}
