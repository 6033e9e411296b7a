//! Held groups: ZQ.HOLD, NACK with HOLD. Also PEEK, CLEAN and REDRIVE with GROUP.

use redis::Value;
use testkit::{Client, show, start};

/// Returns the IDs of claimed jobs.
fn claimed(c: &mut Client, line: &str) -> Vec<String> {
    c.jobs(line).into_iter().map(|job| job.id).collect()
}

/// Returns the end of the hold of a group, or `None` if the group is not held.
fn held_until(c: &mut Client, queue: &str, group: &str) -> Option<i64> {
    let Value::Array(groups) = c.run(&format!("ZQ.GROUPS {queue} COUNT 100")) else { panic!("no array") };
    let row = groups.iter().find_map(|row| match row {
        Value::Array(row) if row[0] == Value::BulkString(group.as_bytes().to_vec()) => Some(row),
        _ => None,
    });
    match row.expect("the group is listed")[4] {
        Value::Nil => None,
        Value::Int(until) => Some(until),
        ref other => panic!("{}", show(other)),
    }
}

fn plant(c: &mut Client) {
    for (id, group) in [("a1", "GROUP a"), ("a2", "GROUP a"), ("n1", ""), ("b1", "GROUP b")] {
        c.run(&format!("ZQ.PUSH q x ID {id} {group}"));
    }
}

#[test]
fn a_held_group_rests_while_the_others_go_on() {
    let (_server, mut c) = start();
    plant(&mut c);
    let duration = "!ERR invalid duration; expected 0 or a positive number and an optional unit (ms, s, m, h, d, w)";
    c.script(&[
        ("ZQ.HOLD q a 1h", "1"),
        ("ZQ.HOLD q none 1h", "0"),
        ("ZQ.HOLD none a 1h", "0"),
        ("EXISTS none", "0"),
        ("ZQ.HOLD q a", "!ERR wrong number of arguments"),
        ("ZQ.HOLD q a 1h x", "!ERR wrong number of arguments"),
        ("ZQ.HOLD q a soon", duration),
        ("ZQ.HOLD q a -1", duration),
        ("ZQ.HOLD q a 9007199254740", "!ERR time is out of range, must be at most 2^53-1 ms"),
    ]);
    let until = held_until(&mut c, "q", "a").expect("it is held");
    assert!((until - c.now() - 3_600_000).abs() < 60_000, "{until}");
    assert_eq!(claimed(&mut c, "ZQ.CLAIM 1 q LEASE 1h COUNT 9"), ["n1", "b1"]);
    assert_eq!(c.field("ZQ.STATS q", "ready"), 2, "they are ready, and rest");
    c.script(&[("ZQ.HOLD q a 0", "1"), ("ZQ.HOLD q a 0", "1")]);
    assert_eq!(held_until(&mut c, "q", "a"), None);
    assert_eq!(claimed(&mut c, "ZQ.CLAIM 1 q LEASE 1h COUNT 9"), ["a1", "a2"]);
}

/// If an API replies 429, the worker returns the job with HOLD. The attempt does not count, and no other job of this
/// customer is claimed for a while.
#[test]
fn a_job_given_back_holds_its_group() {
    let (_server, mut c) = start();
    plant(&mut c);
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
    c.script(&[
        ("ZQ.NACK q a1 99 HOLD 1h", "0"),
        (
            &format!("ZQ.NACK q a1 {token} HOLD 0"),
            "!ERR invalid duration; expected a positive number and an optional unit (ms, s, m, h, d, w)",
        ),
        (&format!("ZQ.NACK q a1 {token} HOLD 1h HOLD 1h"), "!ERR syntax error"),
        (&format!("ZQ.NACK q a1 {token} HOLD"), "!ERR syntax error"),
    ]);
    assert_eq!(held_until(&mut c, "q", "a"), None, "an error changes nothing");
    c.script(&[(format!("ZQ.NACK q a1 {token} DELAY 30s FREE HOLD 1h ERROR 429"), "1")]);
    assert_eq!(claimed(&mut c, "ZQ.CLAIM 1 q LEASE 1h COUNT 9"), ["n1", "b1"]);
    assert_eq!((c.field("ZQ.GET q a1", "attempts"), c.text_field("ZQ.GET q a1", "error")), (0, "429".into()));
    // If another worker reports a shorter wait, the hold does not get shorter.
    let until = held_until(&mut c, "q", "a");
    c.script(&[("ZQ.HOLD q a 0", "1")]);
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
    c.run("ZQ.HOLD q a 2h");
    c.script(&[(format!("ZQ.NACK q a2 {token} DEAD HOLD 1s"), "1")]);
    assert!(held_until(&mut c, "q", "a") > until);
}

#[test]
fn one_groups_jobs_are_shown_removed_and_made_ready_again() {
    let (_server, mut c) = start();
    for (id, group) in [("a1", "GROUP a"), ("b1", "GROUP b"), ("a2", "GROUP a"), ("n1", ""), ("b2", "GROUP b")] {
        c.run(&format!("ZQ.PUSH q x ID dead-{id} {group}"));
        let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
        c.run(&format!("ZQ.NACK q dead-{id} {token} DEAD"));
        c.run(&format!("ZQ.PUSH q x ID late-{id} DELAY 1h {group}"));
    }
    plant(&mut c);
    assert_eq!(c.ids("ZQ.PEEK q GROUP a"), ["a1", "a2"]);
    assert_eq!(c.ids("ZQ.PEEK q DELAYED GROUP b"), ["late-b1", "late-b2"]);
    assert_eq!(c.ids("ZQ.PEEK q DEAD GROUP b AFTER dead-b1 NOPAYLOAD"), ["dead-b2"]);
    assert_eq!(c.ids("ZQ.PEEK q DEAD GROUP \"\""), ["dead-n1"]);
    c.script(&[
        ("ZQ.PEEK q DEAD GROUP none", "[]"),
        ("ZQ.PEEK none DEAD GROUP a", "[]"),
        (
            "ZQ.PEEK q DEAD GROUP a AFTER dead-b1",
            "!ERR no such job in this state and group; continue after another ID or omit AFTER",
        ),
        ("ZQ.PEEK q GROUP", "!ERR syntax error"),
        ("ZQ.PEEK q GROUP a GROUP a", "!ERR syntax error"),
        ("ZQ.REDRIVE q GROUP none", "0"),
        ("ZQ.REDRIVE q GROUP a ID dead-b1 dead-a2 dead-none", "1"),
        ("ZQ.REDRIVE q GROUP a COUNT 5", "1"),
        ("ZQ.REDRIVE q COUNT 1 GROUP \"\"", "1"),
        ("ZQ.REDRIVE q GROUP a GROUP b", "!ERR syntax error"),
        ("ZQ.REDRIVE q COUNT 5 ID a", "!ERR syntax error"),
        ("ZQ.REDRIVE q ID", "!ERR syntax error"),
        ("ZQ.CLEAN q DELAYED GROUP a", "2"),
        ("ZQ.CLEAN q DELAYED GROUP b COUNT 1", "1"),
        ("ZQ.CLEAN q DEAD OLDER 1h GROUP b", "0"),
        ("ZQ.CLEAN q DEAD GROUP b", "2"),
        ("ZQ.CLEAN q DEAD GROUP none", "0"),
        ("ZQ.CLEAN q DEAD GROUP", "!ERR syntax error"),
    ]);
    assert_eq!(c.ids("ZQ.PEEK q DELAYED"), ["late-n1", "late-b2"]);
}

/// If a worker is gone, an operator can return its jobs before their leases expire.
#[test]
fn claimed_jobs_tell_who_holds_them() {
    let (_server, mut c) = start();
    plant(&mut c);
    let first = c.claim("ZQ.CLAIM 1 q LEASE 1h AS w1");
    let second = c.claim("ZQ.CLAIM 1 q LEASE 1h");
    let deadline = [("a1", 1), ("n1", 2)].map(|(id, _)| c.field(&format!("ZQ.GET q {id}"), "due_ms"));
    let [one, two] = deadline;
    c.script(&[
        (
            "ZQ.PEEK q CLAIMED WITHLEASE",
            &*format!("[['a1' {one} 0 1 'x' 'w1' {first} {one}] ['n1' {two} 0 1 'x' nil {second} {two}]]"),
        ),
        ("ZQ.PEEK q WITHLEASE NOPAYLOAD CLAIMED GROUP \"\"", &format!("[['n1' {two} 0 1 nil nil {second} {two}]]")),
        ("ZQ.PEEK q WITHLEASE", "!ERR only claimed jobs have a lease; use WITHLEASE with CLAIMED"),
        ("ZQ.PEEK q DEAD WITHLEASE", "!ERR only claimed jobs have a lease; use WITHLEASE with CLAIMED"),
        ("ZQ.PEEK q CLAIMED WITHLEASE WITHLEASE", "!ERR syntax error"),
    ]);
    c.script(&[(format!("ZQ.NACK q a1 {first} FREE"), "1")]);
    let again = claimed(&mut c, "ZQ.CLAIM 1 q LEASE 1h COUNT 9");
    assert!(again.contains(&"a1".to_owned()), "{again:?}");
}
