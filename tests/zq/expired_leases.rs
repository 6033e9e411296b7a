//! After its lease has expired, a job waits for BACKOFF or for its next occurrence, and is due at the same time on
//! every server.

use std::time::Duration;
use testkit::{Client, Clock, Job, Server, assert_agree};

const HOUR: i64 = 3_600_000;

struct World {
    clock: Clock,
    server: Server,
    replica: Server,
    c: Client,
}

impl World {
    fn new() -> World {
        let clock = Clock::new();
        // When time jumps, neither server may take the other one for dead.
        let patient = || Server::builder().config("repl-timeout 1000000000").clock(&clock);
        let server = patient().keeping_aof().start();
        let replica = patient().replica_of(&server);
        let c = server.client();
        World { clock, server, replica, c }
    }

    fn advance(&mut self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.c.wait_for_cron();
    }

    /// Returns the reply of the server. The replica and a server that loads the AOF must give the same reply.
    fn everywhere(&mut self, line: &str) -> String {
        self.replica.wait_for_sync(&self.server);
        let here = self.c.reply(line);
        assert_eq!(self.replica.client().reply(line), here, "the replica: {line}");
        assert_eq!(self.server.reborn().client().reply(line), here, "the AOF: {line}");
        here
    }
}

fn number(reply: &str, name: &str) -> i64 {
    let (_, rest) = reply.split_once(&format!("'{name}' ")).unwrap_or_else(|| panic!("{name} in {reply}"));
    rest.split([' ', ']']).next().unwrap_or_default().parse().expect("a number")
}

#[test]
fn a_job_whose_lease_expired_waits_for_its_backoff() {
    let mut world = World::new();
    world.c.run("ZQ.CONFIG q BACKOFF 1h 3h JITTER 50");
    world.c.run("ZQ.PUSH q x ID a");
    for hours in [1, 2, 3] {
        let deadline = world.c.job("ZQ.CLAIM 1 q LEASE 1m").deadline;
        world.advance(120);
        let job = world.everywhere("ZQ.GET q a");
        assert!(job.contains("'state' 'delayed'"), "{job}");
        assert_eq!(number(&job, "failed_ms"), deadline);
        let due = number(&job, "due_ms");
        let wait = due - deadline;
        assert!((hours * HOUR..=hours * HOUR * 3 / 2).contains(&wait), "{wait} ms");
        let stats = world.everywhere("ZQ.STATS q");
        assert_eq!(["ready", "delayed", "claimed"].map(|state| number(&stats, state)), [0, 1, 0]);
        world.c.script(&[("ZQ.CLAIM 1 q LEASE 1m", "[]")]);
        assert_eq!(world.everywhere("ZQ.PEEK q DELAYED"), format!("[['a' {due} 0 {hours} 'x']]"));
        // A waiting client gets the job when it is due.
        let mut waiter = world.server.waiting("ZQ.CLAIM 1 q LEASE 1m BLOCK 0");
        let left = u64::try_from(due - world.c.now()).expect("it lies ahead");
        world.clock.advance(Duration::from_millis(left));
        let reply = waiter.receive();
        assert!(reply.starts_with("[['q' 'a' "), "{reply}");
        assert!(world.c.now() >= due);
        let token = reply.split(' ').nth(2).expect("a token").to_owned();
        // Returns the job without counting this attempt.
        world.c.run(&format!("ZQ.NACK q a {token} FREE DELAY 0"));
    }
    // A late ACK still counts.
    let token = world.c.claim("ZQ.CLAIM 1 q LEASE 1m");
    world.advance(120);
    world.c.script(&[(format!("ZQ.ACK q a {token}"), "1")]);
    assert_agree(&world.server, &[&world.replica]);
}

/// OLDER counts from the time at which the job became delayed, whichever command made it delayed.
#[test]
fn clean_leaves_jobs_that_became_delayed_just_now() {
    let mut world = World::new();
    world.c.run("ZQ.PUSH q x ID free");
    let free = world.c.claim("ZQ.CLAIM 1 q LEASE 10h");
    world.c.run("ZQ.PUSH q x ID cron EVERY 12h");
    let cron = world.c.claim("ZQ.CLAIM 1 q LEASE 10h");
    world.c.run("ZQ.PUSH q x ID moved DELAY 1d");
    world.advance(7200);
    world.c.script(&[
        (format!("ZQ.NACK q free {free} DELAY 1d FREE"), "1"),
        (format!("ZQ.ACK q cron {cron}"), "1"),
        ("ZQ.RESCHEDULE q moved DELAY 2d".to_owned(), "1"),
        ("ZQ.PUSH q x ID early AT 5".to_owned(), "'early'"),
        ("ZQ.CLEAN q DELAYED OLDER 1h".to_owned(), "0"),
        ("ZQ.CLEAN q READY OLDER 1h".to_owned(), "0"),
    ]);
    world.everywhere("ZQ.PEEK q DELAYED");
    world.c.run("DEBUG RELOAD");
    world.c.script(&[("ZQ.CLEAN q DELAYED OLDER 1h", "0"), ("ZQ.CLEAN q READY OLDER 1h", "0")]);
    world.advance(3601);
    world.c.script(&[("ZQ.CLEAN q DELAYED OLDER 1h", "2"), ("ZQ.CLEAN q READY OLDER 1h", "1")]);
    world.c.script(&[("ZQ.CLEAN q DELAYED", "0"), ("ZQ.CANCEL q cron", "1")]);
    assert_agree(&world.server, &[&world.replica]);
}

#[test]
fn a_recurring_job_outlives_the_last_lease_of_an_occurrence() {
    let mut world = World::new();
    world.c.run("ZQ.CONFIG q DEADLEN 1 DEADTTL 1s");
    world.c.run("ZQ.PUSH q x ID a MAXATTEMPTS 1 EVERY 1h");
    let first = number(&world.c.reply("ZQ.GET q a"), "due_ms");
    for occurrence in 1..=3 {
        let Job { token, attempt, .. } = world.c.job("ZQ.CLAIM 1 q LEASE 1m");
        assert_eq!(attempt, 1);
        world.advance(120);
        let job = world.everywhere("ZQ.GET q a");
        assert!(job.contains("'state' 'delayed'"), "{job}");
        assert_eq!((number(&job, "due_ms"), number(&job, "attempts")), (first + occurrence * HOUR, 0));
        let stats = world.everywhere("ZQ.STATS q");
        assert_eq!((number(&stats, "missed"), number(&stats, "dead")), (occurrence, 0));
        world.c.script(&[
            ("ZQ.CLAIM 1 q LEASE 1m".to_owned(), "[]"),
            (format!("ZQ.EXTEND q 1m a {token}"), "[nil]"),
            ("ZQ.REDRIVE q".to_owned(), "0"),
        ]);
        world.advance(3600);
    }
    // The worker was only late. Its ACK counts as a run, and the occurrence that was due in the meantime is skipped.
    let token = world.c.claim("ZQ.CLAIM 1 q LEASE 1m");
    world.advance(120);
    world.c.script(&[(format!("ZQ.ACK q a {token}"), "1")]);
    let stats = world.everywhere("ZQ.STATS q");
    assert_eq!(["missed", "recurred", "late", "dropped"].map(|name| number(&stats, name)), [4, 1, 1, 0]);
    assert_agree(&world.server, &[&world.replica]);
}
