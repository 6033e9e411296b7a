//! Tokens grow even if the queue returns to an earlier state: after a crash that loses claims, a failover, a RESTORE,
//! or a step back of the clock. A worker whose claim was lost can neither extend nor finish the later claim of another
//! worker.

use testkit::{Client, Clock, Server, assert_agree, start_keeping_aof};

const CLAIM: &str = "ZQ.CLAIM 1 q LEASE 1h";

/// Creates a queue that has issued tokens, with one ready job: `a`.
fn used_queue(c: &mut Client) {
    c.run("ZQ.PUSH q x ID before");
    let token = c.claim(CLAIM);
    c.script(&[(format!("ZQ.ACK q before {token}"), "1")]);
    c.run("ZQ.PUSH q x ID a");
}

/// Job `a` was claimed with the token `first`, and again with `second`. The server has lost the first claim. Checks
/// that only the second token is valid.
#[track_caller]
fn assert_only_the_later_claim_counts(c: &mut Client, first: i64, second: i64) {
    assert!(second > first, "{second} after {first}");
    c.script(&[
        (format!("ZQ.EXTEND q 1m a {first}"), "[nil]"),
        (format!("ZQ.NACK q a {first}"), "0"),
        (format!("ZQ.ACK q a {first}"), "0"),
        (format!("ZQ.ACK q a {second}"), "1"),
    ]);
}

#[test]
fn a_crash_that_loses_claims_brings_no_token_back() {
    let mut server = Server::builder().without_aof().start();
    let mut c = server.client();
    used_queue(&mut c);
    c.run("SAVE");
    let first = c.claim(CLAIM);
    server.crash_and_restart();
    let mut c = server.client();
    let second = c.claim(CLAIM);
    assert_only_the_later_claim_counts(&mut c, first, second);
}

#[test]
fn a_failover_that_loses_claims_brings_no_token_back() {
    let (server, mut c) = start_keeping_aof();
    let replica = Server::builder().keeping_aof().replica_of(&server);
    used_queue(&mut c);
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    r.run("REPLICAOF NO ONE");
    let first = c.claim(CLAIM);
    let second = r.claim(CLAIM);
    assert_only_the_later_claim_counts(&mut r, first, second);
    server.follow(&replica);
    assert_agree(&replica, &[&server]);
}

#[test]
fn an_older_value_restored_brings_no_token_back() {
    let (server, mut c) = start_keeping_aof();
    used_queue(&mut c);
    let dump = c.dump("q");
    for _ in 0..50 {
        let first = c.claim(CLAIM);
        c.restore("q", 0, &dump);
        let second = c.claim(CLAIM);
        assert_only_the_later_claim_counts(&mut c, first, second);
        c.restore("q", 0, &dump);
    }
    assert_agree(&server, &[]);
}

#[test]
fn a_token_is_the_time_in_microseconds_or_more() {
    let clock = Clock::new();
    let server = Server::builder().clock(&clock).start();
    let mut c = server.client();
    let mut last = 0;
    for step in [0, 0, 3_600_000, -7_200_000, 0, 60_000, 8_000_000] {
        clock.step_wall(step);
        let now = c.now();
        c.run("ZQ.PUSH q x");
        let token = c.claim(CLAIM);
        assert!(token > last && token >= now * 1000, "{token} after {last}, {now} ms");
        last = token;
    }
    assert!(last < (c.now() + 1) * 1000, "as far ahead as it must be: {last}");
}
