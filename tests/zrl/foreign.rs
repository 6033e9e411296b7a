//! Other people's keys: whatever they look like, they are no limits, and stay as they are.

use testkit::{Client, Stream, start};

/// Asks a key for units in every way there is; it must be refused, and stay as it was.
#[track_caller]
fn assert_left_alone(c: &mut Client, key: &str) {
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
        c.script(&[(&line, "!NOTLIMIT ")]);
        assert_eq!(c.trace(key), before, "{line}");
    }
}

/// The limiter that everybody has written once: score and member are the moment of the request, the key lives a window longer.
#[test]
fn the_log_of_a_limiter_by_hand_is_no_limit() {
    let (_server, mut c) = start();
    for window in [100_000_i64, 60_000, 30_000, 20_000] {
        for divisor in [1, 1000] {
            for requests in [1, 2, 5] {
                c.run("DEL k");
                let now = c.now();
                for n in 0..requests {
                    let at = (now + n) / divisor;
                    c.run(&format!("ZADD k {at} {at}"));
                }
                c.run(&format!("PEXPIRE k {window}"));
                assert_left_alone(&mut c, "k");
                // Even where it happens to end at the one ms of a second.
                c.run(&format!("PEXPIREAT k {}", (now + window) / 1000 * 1000 + 1));
                assert_left_alone(&mut c, "k");
            }
        }
    }
}

#[test]
fn the_sessions_of_numbered_users_are_no_limit() {
    let (_server, mut c) = start();
    for users in [&[4711][..], &[1], &[4711, 4713], &[9, 8, 7], &[1, 3, 2]] {
        c.run("DEL k");
        let expiry = c.now() + 1_800_000;
        for (n, user) in users.iter().enumerate() {
            c.run(&format!("ZADD k {} {user}", expiry + n as i64));
        }
        for ttl in [expiry + 10, expiry + 5_000, expiry / 1000 * 1000 + 1001] {
            c.run(&format!("PEXPIREAT k {ttl}"));
            assert_left_alone(&mut c, "k");
        }
    }
}

/// Only what a command names as a limit is looked at after a RESTORE, and nothing is written on suspicion.
#[test]
fn a_restored_set_of_somebody_elses_is_left_alone() {
    let (server, mut c) = start();
    for (members, is_near) in [("1 4711", true), ("1 a", true), ("1 0 2 1 3 9", true), ("1 0", false)] {
        c.run("DEL k copy");
        let expiry = c.now() + 1_800_000;
        let words: Vec<_> = members.split(' ').collect();
        for pair in words.chunks(2) {
            c.run(&format!("ZADD k {} {}", expiry + pair[0].parse::<i64>().unwrap(), pair[1]));
        }
        let redis::Value::BulkString(dump) = c.run("DUMP k") else { panic!("no dump") };
        let ttl = if is_near { expiry + 10 } else { expiry + 90_000 };
        c.call(redis::cmd("RESTORE").arg("copy").arg(ttl).arg(dump).arg("ABSTTL"));
        let mut stream = Stream::attach(&server);
        assert_left_alone(&mut c, "copy");
        assert_eq!(stream.take(), [""; 0]);
    }
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
            assert_left_alone(&mut c, "k");
        }
        // Nanoseconds, but of another moment than the one at which the key ends.
        c.run(&format!("SET k {}000000 PXAT {}", now + 60_000, now + 90_000));
        assert_left_alone(&mut c, "k");
    }
}

/// A limit of two entries under `k`, asked often enough to be believed: the moment at which its key ends.
fn believed(c: &mut Client) -> i64 {
    while c.int("ZCARD k") < 2 {
        c.verdict("ZRL.CHECK k 1000000 30m EXACT");
    }
    c.verdict("ZRL.CHECK k 1000000 30m EXACT COST 0");
    c.int("PEXPIRETIME k")
}

/// Sessions of numbered users under `key` that end at the very ms at which the limit does.
fn sessions(c: &mut Client, key: &str, end: i64) {
    c.run(&format!("ZADD {key} {} 4711 {} 4713", end - 2_000, end - 1_000));
    c.run(&format!("PEXPIREAT {key} {end}"));
}

/// That a name was a limit says nothing about the key that has it now, even if that one ends at the same ms.
#[test]
fn a_foreign_set_in_a_believed_limits_place_is_left_alone() {
    let (_server, mut c) = start();
    let end = believed(&mut c);
    c.run("SELECT 1");
    sessions(&mut c, "k", end);
    assert_left_alone(&mut c, "k");
    c.run("SELECT 0");
    c.verdict("ZRL.CHECK k 1000000 30m EXACT");

    let end = c.int("PEXPIRETIME k");
    c.run("SWAPDB 0 1");
    c.run(&format!("PEXPIREAT k {end}"));
    assert_left_alone(&mut c, "k");

    type Taking = fn(&mut Client, i64);
    let take_its_place: [(&str, Taking); 6] = [
        ("DEL", |c, end| {
            c.run("DEL k");
            sessions(c, "k", end);
        }),
        ("RENAME", |c, end| {
            sessions(c, "other", end);
            c.run("RENAME other k");
        }),
        ("COPY", |c, end| {
            sessions(c, "other", end);
            c.run("COPY other k REPLACE");
        }),
        ("ZUNIONSTORE", |c, end| {
            sessions(c, "other", end);
            c.run("ZUNIONSTORE k 1 other");
            c.run(&format!("PEXPIREAT k {end}"));
        }),
        ("MOVE", |c, end| {
            c.run("DEL k");
            c.run("SELECT 2");
            sessions(c, "k", end);
            c.run("MOVE k 0");
            c.run("SELECT 0");
        }),
        ("FLUSHDB", |c, end| {
            c.run("FLUSHDB");
            sessions(c, "k", end);
        }),
    ];
    for (how, take) in take_its_place {
        c.run("DEL k other");
        let end = believed(&mut c);
        take(&mut c, end);
        println!("{how}");
        assert_left_alone(&mut c, "k");
    }
}
