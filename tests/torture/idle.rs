//! An idle server uses no time, and wakes up on time for work that is due in a second, half an hour, an hour, 25 days
//! or a year. The maximum delay of an event loop is 35.8 minutes on Redis 7.0, and 24.8 days on later servers.

use std::time::{Duration, Instant};
use testkit::{Client, Clock, PATIENCE, Server, eventually, start_with_clock};

/// Delays in seconds, and as arguments of commands.
const FAR: [(u64, &str); 6] =
    [(30 * 60, "30m"), (36 * 60, "36m"), (3600, "1h"), (25 * DAY, "25d"), (60 * DAY, "60d"), (365 * DAY, "365d")];
const DAY: u64 = 86_400;

struct Idle {
    clock: Clock,
    server: Server,
    client: Client,
}

fn start() -> Idle {
    let (clock, server, client) = start_with_clock("");
    Idle { clock, server, client }
}

impl Idle {
    /// Starts a client that waits for a job of queue `q` and claims it with a lease.
    fn waiting(&mut self, lease: &str) -> Client {
        self.server.waiting(&format!("ZQ.CLAIM 1 q LEASE {lease} BLOCK 0"))
    }

    /// Lets time pass, and waits until the server's cron has run.
    fn pass(&mut self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.client.wait_for_cron();
    }

    /// Fails if the event loop runs more often than the server's cron requires.
    #[track_caller]
    fn assert_idle(&mut self, what: &str) {
        // The cron runs ten times per second. The module adds a few iterations once a second.
        const TURNS_A_SECOND: f64 = 60.0;
        const LONG: Duration = Duration::from_millis(400);
        // A keyspace scan may still run, so the measurement is repeated.
        let quiet = || {
            let (before, start) = (self.clock.turns(), Instant::now());
            std::thread::sleep(LONG);
            (self.clock.turns() - before) as f64 / start.elapsed().as_secs_f64()
        };
        let mut turns = quiet();
        for _ in 0..3 {
            if turns <= TURNS_A_SECOND {
                return;
            }
            turns = quiet();
        }
        panic!("{what}: {turns:.0} turns of the event loop a second");
    }

    fn is_due(&mut self, what: &str) {
        eventually(PATIENCE, what, || self.client.int("EXISTS near") == 0);
    }
}

#[test]
fn an_idle_server_with_expiring_sets_is_idle_and_wakes_up_on_time() {
    let mut idle = start();
    idle.assert_idle("an empty server");
    for (seconds, far) in FAR {
        idle.client.run(&format!("ZEXP.ADD far {far} a"));
        idle.client.run("ZEXP.ADD near 1s a");
        idle.assert_idle("before anything is due");
        idle.pass(1);
        idle.is_due("the near member is drained");
        idle.assert_idle(&format!("the next member is due in {far}"));
        idle.pass(seconds - 6);
        assert_eq!(idle.client.int("ZCARD far"), 2);
        idle.assert_idle("a few seconds before the member is due");
        idle.pass(6);
        eventually(PATIENCE, &format!("the member due in {far} is drained"), || idle.client.int("EXISTS far") == 0);
    }
}

#[test]
fn an_idle_server_with_a_queue_is_idle_and_wakes_its_clients_on_time() {
    let mut idle = start();
    for (seconds, far) in FAR {
        idle.client.run(&format!("ZQ.PUSH q x ID far DELAY {far}"));
        idle.client.run("ZQ.PUSH q x ID near DELAY 1s");
        let mut worker = idle.waiting("1s");
        let mut other = idle.waiting("365d");
        idle.pass(1);
        assert!(worker.receive().starts_with("[['q' 'near' "));
        // The lease expires, and the other worker gets the job.
        idle.pass(1);
        let reply = other.receive();
        assert!(reply.starts_with("[['q' 'near' "), "{reply}");
        idle.client.run("ZQ.CANCEL q near");
        let mut worker = idle.waiting("1s");
        idle.assert_idle(&format!("a client waits for a job due in {far}"));
        idle.pass(seconds - 8);
        assert_eq!(idle.client.info_number("clients", "blocked_clients"), 1);
        idle.assert_idle("a few seconds before the job is due");
        idle.pass(8);
        assert!(worker.receive().starts_with("[['q' 'far' "), "{far}");
        idle.client.run("DEL q");
    }
}

#[test]
fn an_idle_server_with_leases_is_idle_and_gives_jobs_back_on_time() {
    let mut idle = start();
    for (seconds, far) in FAR {
        idle.client.run("ZQ.PUSH q x ID a");
        idle.client.run(&format!("ZQ.CLAIM 1 q LEASE {far}"));
        idle.client.run("ZEXP.ADD near 1s a");
        let mut worker = idle.waiting("1s");
        idle.pass(1);
        idle.is_due("the near member is drained");
        idle.assert_idle(&format!("a lease expires in {far}"));
        idle.pass(seconds - 6);
        assert_eq!(idle.client.info_number("clients", "blocked_clients"), 1);
        idle.pass(7);
        assert!(worker.receive().starts_with("[['q' 'a' "), "{far}");
        idle.client.run("DEL q");
    }
}

/// The server has sets, queues, leases and waiting clients at the same time, with all due times.
#[test]
fn an_idle_server_with_everything_is_idle() {
    let mut idle = start();
    for (_, far) in FAR {
        idle.client.run(&format!("ZEXP.ADD set {far} {far}"));
        idle.client.run(&format!("ZEXP.ADD set:{far} {far} a"));
        idle.client.run(&format!("ZQ.PUSH q x ID {far} DELAY {far}"));
        idle.client.run(&format!("ZQ.PUSH leased:{far} x"));
        idle.client.run(&format!("ZQ.CLAIM 1 leased:{far} LEASE {far}"));
        idle.client.run(&format!("ZRL.CHECK limit:{far} 5 {far}"));
    }
    let mut workers: Vec<_> = FAR.iter().map(|_| idle.waiting("365d")).collect();
    let mut passed = 0;
    for ((seconds, far), worker) in FAR.iter().zip(&mut workers) {
        idle.pass(seconds - passed);
        passed = *seconds;
        let reply = worker.receive();
        assert!(reply.starts_with(&format!("[['q' '{far}' ")), "{reply}");
        eventually(PATIENCE, &format!("{far} is drained"), || idle.client.int(&format!("EXISTS set:{far}")) == 0);
        idle.assert_idle(&format!("{far} have passed"));
    }
}

#[test]
fn a_server_that_may_not_write_rests_from_dropping_dead_letters() {
    const JOBS: i64 = 20_000;
    let mut idle = start();
    idle.client.run("ZQ.CONFIG q DEADLEN 1");
    let push = format!("for i = 1, {JOBS} do redis.call('ZQ.PUSH', 'q', 'x', 'ID', i, 'MAXATTEMPTS', 1) end");
    idle.client.call(redis::cmd("EVAL").arg(push).arg(0));
    idle.client.run(&format!("ZQ.CLAIM 1 q LEASE 1m COUNT {JOBS}"));
    idle.clock.advance(Duration::from_secs(60));
    let left = |client: &mut Client| match client.run("ZQ.PEEK q DEAD COUNT 30000 NOPAYLOAD") {
        redis::Value::Array(jobs) => jobs.len() as i64,
        other => panic!("{other:?}"),
    };
    eventually(PATIENCE, "some have gone", || left(&mut idle.client) < JOBS);
    idle.client.run("CLIENT PAUSE 100000000 WRITE");
    assert!(left(&mut idle.client) > 1, "not all have gone yet");
    idle.assert_idle("writes are paused while dead letters are dropped");
    idle.client.run("CLIENT UNPAUSE");
    eventually(PATIENCE, "the others go", || left(&mut idle.client) == 1);
}
