//! The marker: the key's own TTL says that a sorted set is an expiring set, and every change re-establishes it.

use crate::support::{FAR, GRACE_MS, PATIENCE, assert_marked, eventually, plant, start};

#[test]
fn every_change_leaves_the_marker() {
    let (_server, mut c) = start();
    for line in [
        "ZEXP.ADD k 5m a",
        "ZEXP.ADD k 1m b",
        "ZEXP.ADD k 1h c 1h d 1h e 1h f",
        "ZEXP.ADD k XX 2h a",
        "ZEXP.ADD k LT 1m a",
        "ZEXP.EXPIRE k 3h d",
        "ZEXP.EXPIRE k 1m d",
        "ZEXP.EXPIRE k AT 1 c",
        "ZEXP.PERSIST k e",
        "ZEXP.EXPIRE k 2h e",
        "ZEXP.REM k e",
        "ZEXP.POP k",
        "ZEXP.ADD k AT 1 f",
        "ZEXP.ADOPT k",
    ] {
        c.run(line);
        assert_marked(&mut c, "k");
    }
}

#[test]
fn the_marker_survives_what_moves_keys() {
    let (_server, mut c) = start();
    c.script(&[
        (format!("ZEXP.ADD k AT {FAR}ms a {FAR}ms b"), "2"),
        ("RENAME k renamed".into(), "+OK"),
        ("ZEXP.ADD renamed 5m c".into(), "1"),
        ("COPY renamed copied".into(), "1"),
        ("ZEXP.ADD copied 5m d".into(), "1"),
        ("MOVE copied 1".into(), "1"),
        ("SELECT 1".into(), "+OK"),
        ("ZEXP.ADD copied 5m e".into(), "1"),
        ("ZEXP.CARD copied".into(), "5"),
    ]);
    assert_marked(&mut c, "copied");
    let dump = c.run("DUMP copied");
    let until = c.int("PEXPIRETIME copied");
    let redis::Value::BulkString(dump) = dump else { panic!("no dump") };
    c.call(redis::cmd("RESTORE").arg("restored").arg(until).arg(dump).arg("ABSTTL"));
    c.script(&[("ZEXP.ADD restored 5m f", "1"), ("ZEXP.CARD restored", "6")]);
}

#[test]
fn expire_and_persist_on_the_key_are_the_way_out() {
    let (_server, mut c) = start();
    for way_out in ["PERSIST k", "EXPIRE k 100", "PEXPIREAT k 9999999999999"] {
        c.run("DEL k");
        c.run("ZEXP.ADD k 5m a");
        c.script(&[
            (way_out, "1"),
            ("ZEXP.ADD k 5m b", "!NOTEXPIRING "),
            ("ZEXP.CARD k", "!NOTEXPIRING "),
            ("ZCARD k", "1"),
            // And the way back.
            ("ZEXP.ADOPT k", "1"),
            ("ZEXP.ADD k 5m b", "1"),
        ]);
        assert_marked(&mut c, "k");
    }
}

#[test]
fn a_slightly_shifted_ttl_is_set_right_by_the_next_command() {
    let (_server, mut c) = start();
    // MIGRATE sends remaining milliseconds: the TTL arrives late, or early where clocks differ.
    for shift in [-9_000, -1, 1, 700, 9_000] {
        plant(&mut c, "k", &[("a", FAR)]);
        c.run(&format!("PEXPIREAT k {}", FAR + GRACE_MS + shift));
        c.script(&[("ZEXP.ADD k 5m b", "1")]);
        assert_marked(&mut c, "k");
    }
    for shift in [-15_000, 15_000] {
        plant(&mut c, "k", &[("a", FAR)]);
        c.run(&format!("PEXPIREAT k {}", FAR + GRACE_MS + shift));
        c.script(&[("ZEXP.ADD k 5m b", "!NOTEXPIRING ")]);
    }
}

#[test]
fn a_set_whose_last_member_is_dead_needs_the_exact_marker() {
    let (_server, mut c) = start();
    let ago = c.now() - 2000;
    plant(&mut c, "k", &[("a", ago)]);
    c.run(&format!("PEXPIREAT k {}", ago + GRACE_MS + 700));
    let before = c.trace("k");
    c.script(&[("ZEXP.ADD k 5m b", "!NOTEXPIRING ")]);
    assert_eq!(c.trace("k"), before);
}

#[test]
fn plain_commands_that_change_the_last_member_are_healed() {
    let (_server, mut c) = start();
    for (change, highest) in [
        (format!("ZADD k {} later", FAR + 500_000), FAR + 500_000),
        ("ZREM k top".into(), FAR),
        ("ZPOPMAX k".into(), FAR),
        ("ZREMRANGEBYRANK k -1 -1".into(), FAR),
        (format!("ZADD k {} top", FAR + 70_000), FAR + 70_000),
    ] {
        c.run("DEL k");
        c.run(&format!("ZEXP.ADD k AT {FAR}ms a"));
        c.run(&format!("ZEXP.ADD k AT {}ms top", FAR + 100_000));
        c.run(&change);
        eventually(PATIENCE, &change, || c.int("PEXPIRETIME k") == highest + GRACE_MS);
        c.script(&[("ZEXP.ADD k 5m b", "1")]);
    }
}

#[test]
fn plain_commands_may_read_an_expiring_set() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &[("a", FAR), ("b", FAR + 1)]);
    c.run("ZADD other 1 b");
    c.script(&[
        ("ZSCORE k a", format!("'{FAR}'")),
        ("ZRANGE k 0 -1", "['a' 'b']".into()),
        ("ZRANK k b", "1".into()),
        ("ZCARD k", "2".into()),
        ("ZINTERCARD 2 k other", "1".into()),
        ("ZINTER 2 k other", "['b']".into()),
        ("TYPE k", "+zset".into()),
    ]);
    assert_marked(&mut c, "k");
}
