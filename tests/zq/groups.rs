//! Groups of a queue: turns, limits, strict order. Replicas and files have the same data.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use testkit::{Server, show, start};

#[test]
fn groups_take_turns_and_are_shown() {
    let (_server, mut c) = start();
    for (id, group) in [("a1", "GROUP a"), ("a2", "GROUP a"), ("n1", ""), ("b1", "group b"), ("b2", "GROUP b DELAY 1d")]
    {
        c.string(&format!("ZQ.PUSH q job ID {id} {group}"));
    }
    let jobs = c.jobs("ZQ.CLAIM 1 q LEASE 1h COUNT 3");
    assert_eq!(jobs.iter().map(|job| &job.id).collect::<Vec<_>>(), ["a1", "n1", "b1"]);
    c.script(&[
        ("ZQ.GROUPS q", "[['' 0 0 1 nil] ['a' 1 0 1 nil] ['b' 0 1 1 nil]]"),
        ("ZQ.GROUPS q COUNT 1", "[['' 0 0 1 nil]]"),
        ("ZQ.GROUPS q AFTER \"\" COUNT 1", "[['a' 1 0 1 nil]]"),
        ("ZQ.GROUPS q AFTER a", "[['b' 0 1 1 nil]]"),
        ("ZQ.GROUPS none", "[]"),
        ("ZQ.GROUPS q LARGEST", "[['a' 1 0 1 nil] ['' 0 0 1 nil] ['b' 0 1 1 nil]]"),
        ("ZQ.GROUPS q COUNT 1 largest", "[['a' 1 0 1 nil]]"),
        ("ZQ.GROUPS none LARGEST", "[]"),
        ("ZQ.GROUPS q LARGEST AFTER a", "!ERR syntax error"),
        ("ZQ.GROUPS q LARGEST LARGEST", "!ERR syntax error"),
        ("ZQ.GROUPS q COUNT 0", "!ERR value is out of range, must be positive"),
        ("ZQ.GROUPS q AFTER", "!ERR syntax error"),
        ("ZQ.PUSH q x GROUP", "!ERR syntax error"),
        ("ZQ.PUSH q x GROUP a GROUP b", "!ERR syntax error"),
        ("ZQ.CANCEL q b1 b2", "2"),
        ("ZQ.GROUPS q", "[['' 0 0 1 nil] ['a' 1 0 1 nil]]"),
    ]);
    let stats = show(&c.run("ZQ.STATS q"));
    assert!(stats.contains("'groups' 2"), "{stats}");
    assert!(show(&c.run("ZQ.GET q a2")).contains("'group' 'a'"));
    assert!(show(&c.run("ZQ.GET q n1")).contains("'group' nil"));
}

/// Workers finish, fail, stall and vanish, and the server crashes about ten times. The jobs of each group are finished
/// in the order of their pushes. ZEITSET_GROUPS=10000 and ZEITSET_JOBS=100 make the test long.
#[test]
fn ordered_groups_are_finished_in_the_order_of_their_pushes() {
    let number = |name: &str, few: usize| std::env::var(name).map_or(few, |text| text.parse().expect("a number"));
    let (groups, each) = (number("ZEITSET_GROUPS", 60), number("ZEITSET_JOBS", 5));
    const WORKERS: usize = 50;
    let mut random = StdRng::seed_from_u64(17);
    let mut server = Server::builder().config("appendonly yes").start();
    let mut c = server.client();
    c.script(&[("ZQ.CONFIG q ORDERED yes", "+OK")]);
    for job in 0..each {
        for group in 0..groups {
            c.string(&format!(
                "ZQ.PUSH q {group}:{job} ID {group}:{job} GROUP {group} PRIORITY {}",
                random.random_range(-3..3)
            ));
        }
    }
    let mut workers: Vec<Option<(String, i64)>> = vec![None; WORKERS];
    let mut finished: HashMap<String, usize> = HashMap::new();
    let mut left = groups * each;
    let mut steps = 0_u64;
    while left > 0 {
        steps += 1;
        if steps.is_multiple_of((groups * each / 3) as u64) {
            server.crash_and_restart();
            c = server.client();
        }
        let worker = random.random_range(0..WORKERS);
        let Some((id, token)) = workers[worker].take() else {
            let lease = if random.random_ratio(1, 4) { "20ms" } else { "2s" };
            let jobs = c.jobs(&format!("ZQ.CLAIM 1 q LEASE {lease} BLOCK 50ms"));
            workers[worker] = jobs.into_iter().next().map(|job| (job.id, job.token));
            continue;
        };
        match random.random_range(0..10) {
            0 => drop(c.run(&format!("ZQ.NACK q {id} {token} DELAY 5ms"))),
            // The worker vanishes, so its lease expires.
            1 if random.random_ratio(1, 4) => drop(c.run(&format!("ZQ.EXTEND q 30ms {id} {token}"))),
            // The worker stalls and continues in a later step.
            2 => workers[worker] = Some((id, token)),
            _ if c.int(&format!("ZQ.ACK q {id} {token}")) == 1 => {
                let (group, job) = id.split_once(':').expect("group:job");
                let next = finished.entry(group.to_string()).or_default();
                assert_eq!(job, next.to_string(), "group {group}");
                *next += 1;
                left -= 1;
            }
            _ => {}
        }
    }
    c.script(&[("ZQ.GROUPS q", "[]")]);
}
