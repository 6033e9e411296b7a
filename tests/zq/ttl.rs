//! TTL of jobs: no server serves an expired job.

use redis::Value;
use std::time::Duration;
use testkit::{Client, Clock, PATIENCE, Server, assert_agree, eventually, start_with_clock};

/// Pushes jobs with a TTL of an hour to `q`.
fn push_jobs(c: &mut Client, jobs: usize) {
    let mut pushes = redis::pipe();
    for n in 0..jobs {
        pushes.cmd("ZQ.PUSH").arg("q").arg("x").arg("ID").arg(n).arg(&["TTL", "1h"]).ignore();
    }
    c.pipe(&pushes);
}

fn expired(c: &mut Client) -> i64 {
    c.field("ZQ.STATS q", "expired")
}

#[test]
fn an_expired_job_is_dropped_announced_and_counted_everywhere() {
    let clock = Clock::new();
    let server = Server::builder().keeping_aof().config("notify-keyspace-events Ed").clock(&clock).start();
    let replica = Server::builder().clock(&clock).replica_of(&server);
    let mut c = server.client();
    let mut listener = server.resp3();
    listener.psubscribe("__keyevent@*__:zq.expired");
    push_jobs(&mut c, 3);
    c.run("ZQ.PUSH q y ID stays");
    let now = c.now();
    assert_eq!(c.field("ZQ.GET q 0", "ttl_ms"), 3_600_000);
    assert!((c.field("ZQ.GET q 0", "expires_ms") - 3_600_000 - now).abs() < 60_000);
    assert!(c.reply("ZQ.GET q stays").contains("'ttl_ms' nil 'expires_ms' nil"));
    let token = c.claim("ZQ.CLAIM 1 q LEASE 5h");
    clock.advance(Duration::from_secs(3700));
    eventually(PATIENCE, "nobody has touched the queue", || expired(&mut c) == 2);
    eventually(PATIENCE, "zq.expired", || listener.pushes().iter().any(|message| message.contains("'q'")));
    assert_eq!(c.info_number("zeitset", "zeitset_expired_jobs"), 2);
    c.script(&[(format!("ZQ.ACK q 0 {token}"), "1"), ("ZQ.GET q 1".into(), "nil")]);
    replica.wait_for_sync(&server);
    assert_eq!(expired(&mut replica.client()), 2);
    assert_eq!(replica.client().info_number("zeitset", "zeitset_expired_jobs"), 0, "the master has counted them");
    assert_agree(&server, &[&replica]);
}

/// A thousand expired jobs precede a live one. Clients that wait and clients that repeat the claim get the live job.
/// The claims or the background work may drop the expired jobs.
#[test]
fn no_claim_gets_an_expired_job_and_no_waiting_client_gets_nothing() {
    const EXPIRED: usize = 1000;
    let (clock, server, mut c) = start_with_clock("appendonly yes");
    for waits in [true, false] {
        c.run("DEL q");
        push_jobs(&mut c, EXPIRED);
        c.run("ZQ.PUSH q y ID last PRIORITY 1");
        let mut waiting = server.client();
        if waits {
            c.run("ZQ.CONFIG q PAUSED yes");
            waiting.send("ZQ.CLAIM 1 q LEASE 1h BLOCK 0");
            c.wait_for_blocked(1);
            clock.advance(Duration::from_secs(7200));
            c.run("ZQ.CONFIG q PAUSED no");
            let reply = waiting.receive();
            assert!(reply.contains("'last'"), "{reply}");
        } else {
            clock.advance(Duration::from_secs(7200));
            eventually(PATIENCE, "the last job", || match c.run("ZQ.CLAIM 1 q LEASE 1h COUNT 5") {
                Value::Array(jobs) if jobs.is_empty() => false,
                jobs => {
                    let jobs = testkit::show(&jobs);
                    assert!(jobs.contains("'last'") && !jobs.contains("] ["), "{jobs}");
                    true
                }
            });
        }
        eventually(PATIENCE, "all are dropped", || expired(&mut c) == EXPIRED as i64);
    }
    assert_agree(&server, &[]);
}

#[test]
fn a_push_drops_the_expired_job_of_its_id() {
    let (clock, server, mut c) = start_with_clock("appendonly yes");
    push_jobs(&mut c, 1);
    c.script(&[("ZQ.PUSH q y ID 0", "nil")]);
    clock.advance(Duration::from_secs(3700));
    c.script(&[("ZQ.PUSH q y ID 0", "'0'"), ("ZQ.PUSH q z ID 0", "nil")]);
    assert_eq!((expired(&mut c), c.text_field("ZQ.GET q 0", "payload")), (1, "y".into()));
    assert_agree(&server, &[]);
}

/// Jobs expire while no server runs, and on a replica, which must not drop them itself.
#[test]
fn jobs_that_expired_during_a_restart_or_a_failover_are_dropped_after_it() {
    let clock = Clock::new();
    let mut server = Server::builder().keeping_aof().clock(&clock).start();
    let replica = Server::builder().config("repl-timeout 1000000000").clock(&clock).replica_of(&server);
    let mut c = server.client();
    push_jobs(&mut c, 3);
    c.run("ZQ.PUSH q y ID every EVERY 1d TTL 1h");
    replica.wait_for_sync(&server);
    c.run("CLIENT PAUSE 100000000 WRITE");
    clock.advance(Duration::from_secs(3700));
    let mut there = replica.client();
    there.wait_for_cron();
    assert_eq!(expired(&mut there), 0, "a replica drops nothing by itself");
    there.run("REPLICAOF NO ONE");
    eventually(PATIENCE, "the promoted one does", || expired(&mut there) == 4);
    server.restart();
    let mut c = server.client();
    eventually(PATIENCE, "and the restarted one", || expired(&mut c) == 4);
    for c in [&mut c, &mut there] {
        c.script(&[("ZQ.PEEK q READY", "[]")]);
        assert_eq!(c.text_field("ZQ.GET q every", "state"), "delayed", "it has a next occurrence");
    }
    assert_agree(&server, &[]);
}

/// The jobs are already expired when they are pushed. In a transaction, no background work drops them.
#[test]
fn a_call_that_returns_an_error_drops_no_expired_job() {
    let server = Server::builder().keeping_aof().start();
    let mut c = server.client();
    c.run("SET text x");
    for (more, call, error) in [
        ("ZQ.CONFIG q PAUSED no", "ZQ.CLAIM 2 q text LEASE 1h", "!WRONGTYPE"),
        ("ZQ.CONFIG q PAUSED no", "ZQ.CLAIM 3 empty q text LEASE 1h", "!WRONGTYPE"),
        ("ZQ.CONFIG q MAXLEN 1", "ZQ.PUSH q y ID a", "!QUEUEFULL"),
    ] {
        c.run("DEL q");
        let past = c.now() - 3_600_000;
        c.run("MULTI");
        c.run_all([
            format!("ZQ.PUSH q x ID a AT {past}ms TTL 1s"),
            "ZQ.PUSH q x ID b DELAY 1h".into(),
            "ZQ.PUSH q x ID c DELAY 1h".into(),
            more.into(),
            "DUMP q".into(),
            call.into(),
            "DUMP q".into(),
        ]);
        let redis::Value::Array(replies) = c.run("EXEC") else { panic!("{call}") };
        let [.., before, reply, after] = &replies[..] else { panic!("{call}: {replies:?}") };
        assert!(testkit::show(reply).starts_with(error), "{call}: {reply:?}");
        assert_eq!(before, after, "{call}");
    }
    assert_eq!(c.info_number("zeitset", "zeitset_expired_jobs"), 0);
    assert_agree(&server, &[]);
}
