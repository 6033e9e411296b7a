//! Leases, tokens, attempts, dead letters: at-least-once delivery, up to MAXATTEMPTS.

use super::commands::claim_one;
use redis::Value;
use testkit::{Client, Stream, start};

/// Claims the only ready job for `lease`. Returns ID, token and deadline.
fn claim(c: &mut Client, lease: &str) -> (String, i64, i64) {
    let Value::Array(jobs) = c.run(&format!("ZQ.CLAIM 1 q LEASE {lease}")) else { panic!() };
    let Value::Array(job) = &jobs[0] else { panic!() };
    match job.as_slice() {
        [_, Value::BulkString(id), Value::Int(token), _, Value::Int(deadline), _] => {
            (String::from_utf8_lossy(id).into_owned(), *token, *deadline)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_whose_lease_expired_is_due_again_and_the_late_token_is_good_until_the_next_claim() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x ID a");
    let (_, first, deadline) = claim(&mut c, "30ms");
    c.wait_until(deadline);
    assert!(c.reply("ZQ.GET q a").contains("'state' 'ready'"));
    assert!(c.reply("ZQ.STATS q").contains("'expired_leases' 1"));
    c.script(&[(format!("ZQ.EXTEND q 1m a {first}"), "[nil]")]);
    let (_, second, _) = claim(&mut c, "1m");
    assert!(second > first);
    c.script(&[
        (format!("ZQ.ACK q a {first}"), "0"),
        (format!("ZQ.NACK q a {first}"), "0"),
        (format!("ZQ.EXTEND q 1m a {first}"), "[nil]"),
        (format!("ZQ.ACK q a {second}"), "1"),
    ]);
    c.run("ZQ.PUSH q x ID b");
    let (_, third, deadline) = claim(&mut c, "20ms");
    c.wait_until(deadline);
    // The ACK is late, but counts, because no other worker has claimed the job.
    c.script(&[(format!("ZQ.ACK q b {third}"), "1")]);
}

#[test]
fn extend_moves_the_deadline_both_ways() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x ID a");
    let (_, token, _) = claim(&mut c, "1m");
    let now = c.now();
    let deadline = c.ints(&format!("ZQ.EXTEND q 1h a {token}"))[0];
    assert!((now + 3_600_000..=c.now() + 3_600_000).contains(&deadline));
    let deadline = c.ints(&format!("ZQ.EXTEND q 20ms a {token}"))[0];
    c.wait_until(deadline);
    assert_eq!(claim_one(&mut c, "ZQ.CLAIM 1 q LEASE 1m").0, "a");
}

/// One EXTEND is the heartbeat for all jobs of a worker.
#[test]
fn extend_takes_many_jobs_and_tells_of_each() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    for id in ["a", "b", "c"] {
        c.run(&format!("ZQ.PUSH q x ID {id}"));
    }
    let [(_, a, _), (_, b, _), (_, gone, _)] = [(); 3].map(|()| claim(&mut c, "1m"));
    c.run(&format!("ZQ.ACK q c {gone}"));
    stream.take();
    let before = c.now();
    let Value::Array(deadlines) = c.run(&format!("ZQ.EXTEND q 1h a {a} c {gone} b {a} b {b}")) else {
        panic!("no array")
    };
    let [Value::Int(of_a), Value::Nil, Value::Nil, Value::Int(of_b)] = deadlines[..] else { panic!("{deadlines:?}") };
    assert_eq!(of_a, of_b, "one clock for all");
    assert!((before + 3_600_000..=c.now() + 3_600_000).contains(&of_a));
    let effects = format!("ZQ.APPLY q {} EXTEND a {of_a} EXTEND b {of_b}", of_a - 3_600_000);
    assert_eq!(stream.take(), [effects], "in one piece");
    for id in ["a", "b"] {
        assert_eq!(c.field(&format!("ZQ.GET q {id}"), "due_ms"), of_a);
    }
}

#[test]
fn a_job_can_be_given_back_until_an_instant() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG q BACKOFF 1h 1h");
    c.run("ZQ.PUSH q x ID a");
    let (_, token, _) = claim(&mut c, "1m");
    c.script(&[(format!("ZQ.NACK q a {token} AT 2100-01-01T00:00:00Z"), "1")]);
    assert_eq!(c.field("ZQ.GET q a", "due_ms"), 4_102_444_800_000);
    c.run("ZQ.RESCHEDULE q a DELAY 0");
    let (_, token, _) = claim(&mut c, "1m");
    // The time is in the past, so the job is due immediately, despite the BACKOFF.
    c.script(&[(format!("ZQ.NACK q a {token} AT 5 FREE ERROR early"), "1")]);
    assert_eq!(c.field("ZQ.GET q a", "due_ms"), 5000, "seconds");
    claim(&mut c, "1m");
}

#[test]
fn no_path_goes_round_the_bound_on_attempts() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x ID a MAXATTEMPTS 3");
    let (_, token, _) = claim(&mut c, "1m");
    c.script(&[(format!("ZQ.NACK q a {token}"), "1")]);
    let (_, _, deadline) = claim(&mut c, "10ms");
    c.wait_until(deadline);
    let (_, token, deadline) = claim(&mut c, "10ms");
    // The last lease expires, so the job is dead and not due.
    c.wait_until(deadline);
    c.script(&[("ZQ.CLAIM 1 q LEASE 1m", "[]")]);
    assert!(c.reply("ZQ.GET q a").contains("'state' 'dead'"));
    c.script(&[
        ("ZQ.RESCHEDULE q a DELAY 0".into(), "0"),
        ("ZQ.PUSH q y ID a".into(), "nil"),
        // The job became a dead letter when its lease expired. The ACK counts, because no other worker has claimed the
        // job.
        (format!("ZQ.ACK q a {token}"), "1"),
        ("ZQ.GET q a".into(), "nil"),
    ]);
}

#[test]
fn the_last_attempt_given_back_is_dead_and_redrive_begins_again() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG q MAXATTEMPTS 1");
    for id in ["a", "b", "c"] {
        c.run(&format!("ZQ.PUSH q x ID {id}"));
        let (_, token, _) = claim(&mut c, "1m");
        c.script(&[(format!("ZQ.NACK q {id} {token} DELAY 1m"), "1"), (format!("ZQ.NACK q {id} {token}"), "0")]);
    }
    assert!(c.reply("ZQ.STATS q").contains("'dead' 3"));
    c.script(&[("ZQ.REDRIVE q COUNT 1", "1")]);
    assert_eq!(claim_one(&mut c, "ZQ.CLAIM 1 q LEASE 1m").0, "a");
    c.script(&[("ZQ.REDRIVE q", "2"), ("ZQ.REDRIVE q", "0")]);
    let (id, token, _) = claim(&mut c, "1m");
    assert_eq!(id, "b");
    c.script(&[(format!("ZQ.NACK q b {token} DEAD"), "1"), ("ZQ.CANCEL q b".into(), "1")]);
}

#[test]
fn nack_waits_for_its_delay_or_the_backoff() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG q BACKOFF 1h 3h");
    c.run("ZQ.PUSH q x ID a");
    for hours in [1, 2, 3, 3] {
        let (_, token, _) = claim(&mut c, "1m");
        let now = c.now();
        c.script(&[(format!("ZQ.NACK q a {token}"), "1")]);
        let job = c.reply("ZQ.PEEK q DELAYED");
        let due: i64 = job.split(' ').nth(1).unwrap().parse().unwrap();
        let wait = hours * 3_600_000;
        assert!((now + wait..=c.now() + wait).contains(&due), "{job}");
        c.script(&[("ZQ.RESCHEDULE q a DELAY 0", "1")]);
    }
    let (_, token, _) = claim(&mut c, "1m");
    c.script(&[(format!("ZQ.NACK q a {token} DELAY 0"), "1")]);
    claim(&mut c, "1m");
}

#[test]
fn replace_and_cancel_end_a_claim() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x ID a");
    let (_, token, _) = claim(&mut c, "1m");
    c.run("ZQ.PUSH q y ID a REPLACE");
    c.script(&[(format!("ZQ.ACK q a {token}"), "0")]);
    let (_, token, _) = claim(&mut c, "1m");
    c.script(&[("ZQ.CANCEL q a".into(), "1"), (format!("ZQ.ACK q a {token}"), "0")]);
}

#[test]
fn tokens_go_on_growing_when_a_queue_is_made_again() {
    let (_server, mut c) = start();
    let mut last = 0;
    for _ in 0..3 {
        c.run("ZQ.PUSH q x ID a");
        let (_, token, _) = claim(&mut c, "1m");
        assert!(token > last);
        last = token;
        c.run("DEL q");
        let now = c.now();
        c.wait_until(now + 1);
    }
}

#[test]
fn acks_of_several_jobs_count_the_good_ones() {
    let (_server, mut c) = start();
    for id in ["a", "b", "c"] {
        c.run(&format!("ZQ.PUSH q x ID {id}"));
    }
    let (_, a, _) = claim(&mut c, "1m");
    let (_, b, _) = claim(&mut c, "1m");
    c.script(&[(format!("ZQ.ACK q a {a} b {a} b {b} c 0 c -1 nobody {b}"), "2")]);
}
