//! ZQ.EXTEND and ZQ.NACK. The unit tests of the model test which calls make a token invalid.

use redis::Value;
use testkit::{Stream, start};

/// One EXTEND is the heartbeat for all jobs of a worker.
#[test]
fn extend_takes_many_jobs_and_tells_of_each() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    for id in ["a", "b", "c"] {
        c.run(&format!("ZQ.PUSH q x ID {id}"));
    }
    let [a, b, gone] = [(); 3].map(|()| c.claim("ZQ.CLAIM 1 q LEASE 1m"));
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
fn a_job_can_be_given_back_for_the_backoff_for_a_duration_or_until_a_time() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG q BACKOFF 1h 1h");
    c.run("ZQ.PUSH q x ID a");
    for (options, hours) in [("", 1), ("DELAY 3h", 3)] {
        let token = c.claim("ZQ.CLAIM 1 q LEASE 1m");
        let before = c.now();
        c.script(&[(format!("ZQ.NACK q a {token} {options}"), "1")]);
        let due = c.field("ZQ.GET q a", "due_ms") - hours * 3_600_000;
        assert!((before..=c.now()).contains(&due), "{options}");
        c.run("ZQ.RESCHEDULE q a DELAY 0");
    }
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1m");
    c.script(&[(format!("ZQ.NACK q a {token} AT 2100-01-01T00:00:00Z"), "1")]);
    assert_eq!(c.field("ZQ.GET q a", "due_ms"), 4_102_444_800_000);
    c.run("ZQ.RESCHEDULE q a DELAY 0");
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1m");
    // The time is in the past, so the job is due immediately, despite the BACKOFF.
    c.script(&[(format!("ZQ.NACK q a {token} AT 5 FREE ERROR early"), "1")]);
    assert_eq!(c.field("ZQ.GET q a", "due_ms"), 5000, "seconds");
    c.claim("ZQ.CLAIM 1 q LEASE 1m");
}
