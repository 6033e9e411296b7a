//! Waiting clients, leases and windows while the clocks advance by months, and after steps of the wall clock.

use std::time::Duration;
use testkit::{Client, Clock, Server, start_with_clock};

const HOUR_MS: i64 = 3_600_000;
const DAY: Duration = Duration::from_secs(86_400);

struct World {
    clock: Clock,
    server: Server,
    client: Client,
}

fn start() -> World {
    let (clock, server, client) = start_with_clock("");
    World { clock, server, client }
}

impl World {
    fn blocked(&mut self) -> i64 {
        self.client.info_number("clients", "blocked_clients")
    }

    fn advance(&mut self, time: Duration) {
        self.clock.advance(time);
        self.client.wait_for_cron();
    }
}

#[track_caller]
fn assert_gets(client: &mut Client, id: &str) {
    let reply = client.receive();
    assert!(reply.starts_with(&format!("[['q' '{id}' ")), "{reply}");
}

const WAIT: &str = "ZQ.CLAIM 1 q LEASE 1m BLOCK 0";

/// A timer counts by the monotonic clock. No event tells the module that the wall clock was set.
#[test]
fn clients_that_wait_learn_that_the_wall_clock_was_set_forward() {
    let mut world = start();
    // A near due time, for which a timer is armed, and far ones. The last job is due when its lease expires.
    for (delay, step) in [("1h", HOUR_MS), ("60d", 60 * 24 * HOUR_MS), ("20s", 30_000), ("lease", HOUR_MS + 1)] {
        match delay {
            "lease" => world.client.run_all(["ZQ.PUSH q x ID a", "ZQ.CLAIM 1 q LEASE 1h"]),
            delay => drop(world.client.run(&format!("ZQ.PUSH q x ID a DELAY {delay}"))),
        }
        let mut waiter = world.server.waiting(WAIT);
        world.clock.step_wall(step);
        assert_gets(&mut waiter, "a");
        world.client.run("DEL q");
    }
}

/// Before the step of the wall clock, the server's timer was armed for a time on that clock.
#[test]
fn a_job_due_soon_is_served_on_time_after_the_wall_clock_was_set_back_and_forward() {
    let mut world = start();
    world.client.run("ZQ.PUSH q x ID a DELAY 1400ms");
    let mut waiter = world.server.waiting(WAIT);
    world.clock.step_wall(-HOUR_MS);
    world.client.wait_for_cron();
    // Due times are times of the wall clock, so job `a` now has to wait an hour longer. Job `b` was pushed after the
    // step.
    world.client.run("ZQ.PUSH q x ID b DELAY 300ms");
    assert_gets(&mut waiter, "b");
    world.client.run("ZQ.CANCEL q b");
    let mut waiter = world.server.waiting(WAIT);
    world.clock.step_wall(HOUR_MS);
    assert_gets(&mut waiter, "a");
}

#[test]
fn rate_opens_for_a_client_that_waits_although_the_wall_clock_was_set_back() {
    let mut world = start();
    world.client.run("ZQ.CONFIG q RATE 1 10s");
    world.client.run("ZQ.PUSH q x ID a");
    world.client.run("ZQ.PUSH q x ID b");
    world.client.run("ZQ.CLAIM 1 q LEASE 1h");
    let mut waiter = world.server.waiting(WAIT);
    world.clock.step_wall(-HOUR_MS);
    world.client.wait_for_cron();
    // The cron checks the queue after the step and shortens the wait. One window later, RATE allows a claim.
    for _ in 0..3 {
        world.advance(Duration::from_secs(10));
    }
    assert_gets(&mut waiter, "b");
}

#[test]
fn a_client_waits_for_a_year_if_it_wants_to() {
    let mut world = start();
    let mut year = world.server.waiting("ZQ.CLAIM 1 q LEASE 1m BLOCK 365d");
    let mut longest = world.server.waiting("ZQ.CLAIM 1 q LEASE 1m BLOCK 9000000000000000ms");
    world.advance(DAY * 364);
    assert_eq!(world.blocked(), 2);
    world.advance(DAY);
    assert_eq!(year.receive(), "[]");
    assert_eq!(world.blocked(), 1);
    world.client.run("ZQ.PUSH q x ID a");
    assert_gets(&mut longest, "a");
}

#[test]
fn a_token_is_the_time_in_microseconds_or_more() {
    let World { clock, server: _server, client: mut c } = start();
    let mut last = 0;
    for step in [0, 0, 3_600_000, -7_200_000, 0, 60_000, 8_000_000] {
        clock.step_wall(step);
        let now = c.now();
        c.run("ZQ.PUSH q x");
        let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
        assert!(token > last && token >= now * 1000, "{token} after {last}, {now} ms");
        last = token;
    }
    assert!(last < (c.now() + 1) * 1000, "as far ahead as it must be: {last}");
}

/// The clock of the replica is ahead, so the key seems to be missing there.
#[test]
fn a_replica_lists_a_queue_again_whose_ttl_the_master_has_removed() {
    let World { mut client, server, .. } = start();
    let clock = Clock::new();
    clock.step_wall(HOUR_MS);
    let replica = Server::builder().clock(&clock).replica_of(&server);
    let mut r = replica.client();
    client.run_all(["ZQ.PUSH q x ID a", "EXPIRE q 600"]);
    replica.wait_for_sync(&server);
    assert_eq!(r.reply("ZQ.LIST"), "[]");
    client.run("PERSIST q");
    replica.wait_for_sync(&server);
    assert_eq!(r.reply("ZQ.LIST"), "['q']");
}

#[test]
fn info_counts_dead_letters_after_the_wall_clock_was_set_back() {
    let mut world = start();
    // A new master counts only the jobs that become dead letters after its promotion.
    world.client.run_all(["REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"]);
    world.clock.step_wall(-24 * HOUR_MS);
    // The module notices the step when the server's cron runs. It does not count the dead letters until then.
    testkit::eventually(testkit::PATIENCE, "a dead letter is counted", || {
        world.client.run_all(["ZQ.PUSH q x MAXATTEMPTS 1", "ZQ.CLAIM 1 q LEASE 100ms"]);
        world.client.info_number("zeitset", "zeitset_dead_letters") > 0
    });
}
