//! Other people's keys: whatever they look like, they are no limits, and stay as they are.

use testkit::{Client, Stream, start};

/// Asks a key for units in every way there is; it must be refused, and stay as it was.
#[track_caller]
fn assert_left_alone(c: &mut Client, key: &str, error: &str) {
    let before = c.trace(key);
    for call in [
        "ZRL.CHECK {} 10 1m",
        "ZRL.CHECK {} 10 1m COST 2 FORCE",
        "ZRL.CHECK {} 10 1m FIXED",
        "ZRL.CHECK {} 10 1m LEAKY",
        "ZRL.PEEK {} 10 1m",
        "ZRL.MCHECK 1 {} 10 1m",
        "ZRL.REFUND {} 1 AT 4102444800000",
        "ZRL.THROTTLE {} 10 10 60",
        "ZRL.INFO {}",
    ] {
        let line = call.replace("{}", key);
        c.script(&[(&line, error)]);
        assert_eq!(c.trace(key), before, "{line}");
    }
}

#[test]
fn other_peoples_sorted_sets_are_no_limits() {
    let (server, mut c) = start();
    let now = c.now();
    // A limiter by hand, and a limit as version 0.2 stored it.
    c.run(&format!("ZADD log {now} {now} {} {}", now + 1, now + 1));
    c.run("PEXPIRE log 60000");
    c.run(&format!("ZADD old {} 0 {} 1:3", now + 60_000, now + 60_001));
    c.run(&format!("PEXPIREAT old {}", (now + 62_000) / 1000 * 1000 + 1));
    let mut stream = Stream::attach(&server);
    for key in ["log", "old"] {
        assert_left_alone(&mut c, key, "!WRONGTYPE ");
    }
    assert_eq!(stream.take(), [""; 0]);
}

#[test]
fn other_peoples_strings_are_no_limits() {
    let (_server, mut c) = start();
    let now = c.now();
    for value in [
        "x".to_owned(),
        "42".into(),
        "0".into(),
        "-1".into(),
        "sliding".into(),
        "sliding:".into(),
        format!("sliding:{}", "x".repeat(31)),
        format!("sliding:{}", "x".repeat(32)),
        "fixed".into(),
        "fixed:5".into(),
        "leaky:".into(),
        "leaky:1:1".into(),
        now.to_string(),
        format!("{now}.5"),
        (now / 1000).to_string(),
        format!("{now}000"),
        "x".repeat(5000),
    ] {
        for ttl in ["", "PX 60000", "PX 86400000"] {
            c.run(&format!("SET k {value} {ttl}"));
            assert_left_alone(&mut c, "k", "!NOTLIMIT ");
        }
        // Nanoseconds, but of another moment than the one at which the key ends.
        c.run(&format!("SET k {}000000 PXAT {}", now + 60_000, now + 90_000));
        assert_left_alone(&mut c, "k", "!NOTLIMIT ");
    }
}
