//! AGAIN: a job that was pushed again while it was claimed is served once more. The tests try everything that can
//! happen to the claimed job.

use redis::Value;
use std::time::Duration;
use testkit::{Client, PATIENCE, Server, assert_agree, eventually, show, start, start_pair, start_with_clock};

/// Returns the state and the payload of job `a`, and the payload of a push that waits for the end of its claim.
fn job(c: &mut Client, key: &str) -> (String, String, Option<String>) {
    let Value::Array(fields) = c.run(&format!("ZQ.GET {key} a")) else { panic!("a job") };
    let field = |name: &str| {
        let pair = fields.chunks(2).find(|pair| show(&pair[0]) == format!("'{name}'")).expect("a field");
        redis::from_redis_value_ref::<Option<String>>(&pair[1]).expect("a text")
    };
    (field("state").expect("a state"), field("payload").expect("a payload"), field("again_payload"))
}

fn waits_behind(payload: &str) -> (String, String, Option<String>) {
    ("claimed".into(), "one".into(), Some(payload.into()))
}

fn is_ready(payload: &str) -> (String, String, Option<String>) {
    ("ready".into(), payload.into(), None)
}

/// Creates a claimed job `a` in `q`, and pushes `a` again with AGAIN. Returns the token of the claim.
fn claimed(c: &mut Client, options: &str, lease: &str) -> i64 {
    c.run(&format!("ZQ.PUSH q one ID a {options}"));
    let token = c.claim(&format!("ZQ.CLAIM 1 q LEASE {lease}"));
    c.script(&[("ZQ.PUSH q two ID a AGAIN", "'a'")]);
    token
}

#[test]
fn a_push_behind_a_claim_becomes_a_job_when_the_claim_ends() {
    let (server, replica, mut c) = start_pair();
    for end in ["ACK q a {}", "NACK q a {} DEAD", "CANCEL q a"] {
        c.run("DEL q");
        let token = claimed(&mut c, "", "1h").to_string();
        assert_eq!(job(&mut c, "q"), waits_behind("two"));
        c.script(&[
            ("ZQ.PUSH q three ID a AGAIN", "'a'"),
            ("ZQ.CLAIM 1 q LEASE 1h", "[]"),
            (&format!("ZQ.{}", end.replace("{}", &token)), "1"),
        ]);
        assert_eq!(job(&mut c, "q"), is_ready("three"), "{end}");
        assert_agree(&server, &[&replica]);
    }
}

/// The lease of the last attempt expires, and no command runs.
#[test]
fn a_push_behind_a_job_that_dies_with_its_lease_becomes_a_job() {
    let (clock, mut server, mut c) = start_with_clock("appendonly yes\nnotify-keyspace-events Ed");
    let replica = Server::builder().clock(&clock).replica_of(&server);
    let mut listener = server.resp3();
    listener.psubscribe("__keyevent@*__:zq.dead");
    for restarts in [false, true] {
        c.run("DEL q");
        claimed(&mut c, "MAXATTEMPTS 1", "1h");
        replica.wait_for_sync(&server);
        if restarts {
            server.restart();
            c = server.client();
        }
        assert_eq!(job(&mut c, "q"), waits_behind("two"));
        clock.advance(Duration::from_secs(3700));
        eventually(PATIENCE, "the lease has expired", || job(&mut c, "q") == is_ready("two"));
        if !restarts {
            eventually(PATIENCE, "zq.dead", || listener.pushes().iter().any(|message| message.contains("'q'")));
            assert_agree(&server, &[&replica]);
        }
    }
    assert_agree(&server, &[]);
}

#[test]
fn it_counts_for_maxlen_and_needs_an_id() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG q MAXLEN 2");
    let token = claimed(&mut c, "", "1h");
    let full = "!QUEUEFULL queue already holds MAXLEN jobs";
    c.script(&[
        ("ZQ.PUSH q x ID b", full),
        ("ZQ.PUSH q x ID b AGAIN", full),
        ("ZQ.PUSH q three ID a AGAIN", "'a'"),
        ("ZQ.PUSH q x AGAIN", "!ERR AGAIN requires a job ID"),
        ("ZQ.PUSH q x ID a AGAIN REPLACE", "!ERR syntax error"),
        ("ZQ.PUSH q x ID a AGAIN AGAIN", "!ERR syntax error"),
    ]);
    assert_eq!(job(&mut c, "q"), waits_behind("three"));
    c.script(&[(format!("ZQ.ACK q a {token}"), "1"), ("ZQ.PUSH q x ID b".into(), "'b'")]);
}
