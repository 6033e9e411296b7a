//! Keys of other programs. Whatever they look like, rate limit commands refuse them and leave them unchanged.

use testkit::{Client, FAR, Stream, plant, start};

/// Checks that every command refuses the key and leaves it unchanged.
#[track_caller]
fn assert_left_alone(c: &mut Client, key: &str, error: &str) {
    let before = c.trace(key);
    for call in [
        "ZRL.CHECK {} 10 1m",
        "ZRL.CHECK {} 10 1m COST 0",
        "ZRL.CHECK {} 10 1m COST 11",
        "ZRL.CHECK {} 10 1m COST 2 FORCE",
        "ZRL.CHECK {} 10 1m FIXED",
        "ZRL.CHECK {} 10 1m LEAKY",
        "ZRL.PEEK {} 10 1m",
        "ZRL.PEEK {} 10 1m COST 0",
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

/// Which strings are limits is defined by the unit tests of the model.
#[test]
fn keys_of_other_kinds_are_refused_and_left_alone() {
    let (server, mut c) = start();
    let now = c.now();
    let longest = "x".repeat(5000);
    for (key, value) in
        [("text", "x"), ("counter", "42 EX 60"), ("tagged", "sliding:0123456789abcdef"), ("long", &longest)]
    {
        c.run(&format!("SET {key} {value}"));
    }
    // A time in nanoseconds, as redis-cell stores it, but with a TTL that ends at another time.
    c.run(&format!("SET nanos {}000000 PXAT {}", now + 60_000, now + 90_000));
    c.run("HSET hash f v");
    c.run("RPUSH list x");
    // A hand-written limiter, and limits in the form of version 0.2.
    c.run(&format!("ZADD log {now} {now} {} {}", now + 1, now + 1));
    c.run("PEXPIRE log 60000");
    c.run(&format!("ZADD old {FAR} 0 {} 1:3", FAR + 1));
    c.run(&format!("PEXPIREAT old {}", FAR / 1000 * 1000 + 2001));
    plant(&mut c, "expiring", &[("a", FAR), ("b", FAR + 1)]);
    let mut stream = Stream::attach(&server);
    for key in ["text", "counter", "tagged", "long", "nanos"] {
        assert_left_alone(&mut c, key, "!NOTLIMIT ");
    }
    for key in ["hash", "list", "log", "old", "expiring"] {
        assert_left_alone(&mut c, key, "!WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    assert_eq!(stream.take(), [""; 0]);
}
