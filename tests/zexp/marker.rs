//! The marker: the TTL of a key identifies an expiring set. Every change of the set restores the marker.

use testkit::{Client, FAR, GRACE_MS, NEVER, after_scan, assert_drained, assert_marked, assert_restored, plant, start};

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
            // ZEXP.ADOPT makes the set an expiring set again.
            ("ZEXP.ADOPT k", "1"),
            ("ZEXP.ADD k 5m b", "1"),
        ]);
        assert_marked(&mut c, "k");
    }
}

/// Restores a copy of `k` as `new`, with a TTL that differs from the marker by `shift`.
fn restore_shifted(c: &mut Client, shift: i64) {
    let redis::Value::BulkString(dump) = c.run("DUMP k") else { panic!("no dump") };
    let until = FAR + GRACE_MS + shift;
    c.call(redis::cmd("RESTORE").arg("new").arg(until).arg(dump).arg("ABSTTL").arg("REPLACE"));
}

#[test]
fn a_slightly_shifted_ttl_is_set_right_after_restore() {
    let (_server, mut c) = start();
    c.run(&format!("ZADD k {FAR} a 1000 dead"));
    // MIGRATE sends the remaining time, so the TTL is too late, or too early if the clocks differ.
    for shift in [-5_000, -1, 0, 1, 700, 5_000] {
        restore_shifted(&mut c, shift);
        c.script(&[("ZEXP.CARD new", "1")]);
        assert_restored(&mut c, "new", FAR);
        assert_drained(&mut c, "new", 1);
    }
    for shift in [-5_001, 5_001] {
        restore_shifted(&mut c, shift);
        after_scan(&mut c);
        c.script(&[
            ("ZEXP.ADD new 5m b", "!NOTEXPIRING ".into()),
            ("ZCARD new", "2".into()),
            ("PEXPIRETIME new", (FAR + GRACE_MS + shift).to_string()),
        ]);
    }
}

/// If a client has set the TTL of a set, the set is ordinary, even if the TTL is close to the marker. No read changes
/// that.
#[test]
fn a_read_or_a_refused_command_never_moves_a_ttl() {
    let (_server, mut c) = start();
    // Until the first scan is complete, a TTL just below the marker may be an outdated marker from before a crash.
    after_scan(&mut c);
    for shift in [-15_000, -10_000, -9_000, -1, 1, 9_000] {
        let until = FAR + GRACE_MS + shift;
        plant(&mut c, "k", &[("dead", 1000), ("a", FAR)]);
        c.run(&format!("PEXPIREAT k {until}"));
        let before = c.trace("k");
        c.script(&[("ZEXP.CARD k", "!NOTEXPIRING "), ("ZEXP.MEMBERS k", "!NOTEXPIRING ")]);
        c.script(&[("ZEXP.PTTL k a", "!NOTEXPIRING "), ("ZEXP.ADD k 5m b", "!NOTEXPIRING ")]);
        c.wait_for_cron();
        assert_eq!(c.trace("k"), before, "{shift}");
        after_scan(&mut c);
        c.script(&[("ZCARD k", "2".to_string()), ("PEXPIRETIME k", until.to_string())]);
    }
}

/// A score above the latest time never expires, whichever command has set it.
#[test]
fn a_score_beyond_all_time_is_that_of_a_member_that_never_expires() {
    let (_server, mut c) = start();
    for score in ["inf", "+inf", "9007199254740992", "1e300", "9007199254740991"] {
        c.run("DEL k");
        c.run(&format!("ZEXP.ADD k AT {FAR}ms a"));
        c.run(&format!("ZADD k {score} m 1000 dead"));
        assert_restored(&mut c, "k", NEVER);
        assert_drained(&mut c, "k", 2);
        c.script(&[
            ("ZEXP.MEMBERS k", "['a' 'm']"),
            ("ZEXP.PTTL k m", "[-1]"),
            ("ZEXP.TTL k m", "[-1]"),
            ("ZEXP.PERSIST k m", "[-1]"),
            ("ZEXP.CARD k", "2"),
            ("ZEXP.ADD k GT 5m m", "0"),
            ("ZEXP.ADD k 5m b", "1"),
            ("ZEXP.REM k m", "1"),
        ]);
        assert_marked(&mut c, "k");
    }
}

/// All scores are before 1970, so all members have expired. A member that is added later lives.
#[test]
fn a_set_left_with_negative_scores_only_is_dead_and_its_next_member_lives() {
    let (_server, mut c) = start();
    for sweep in ["no", "yes"] {
        c.run("DEL k");
        c.run("CONFIG SET zeitset.sweep no");
        c.run(&format!("ZEXP.ADD k AT {FAR}ms a"));
        c.script(&[("MULTI", "+OK"), ("ZADD k -7 old -inf oldest", "+QUEUED"), ("ZREM k a", "+QUEUED")]);
        c.run("EXEC");
        c.wait_for_cron();
        c.run(&format!("ZADD k {} later", FAR + 9000));
        c.run(&format!("CONFIG SET zeitset.sweep {sweep}"));
        assert_restored(&mut c, "k", FAR + 9000);
        c.script(&[("ZEXP.MEMBERS k", "['later']")]);
    }
}

/// A TTL that differs only slightly from the marker may come from a RESTORE before the module subscribed to events.
#[test]
fn a_set_whose_last_member_is_dead_needs_the_marker_within_a_second() {
    let (_server, mut c) = start();
    // Without the sweeper, the set stays an expiring set with an expired member until PEXPIREAT.
    c.run("CONFIG SET zeitset.sweep no");
    let ago = c.now() - 2000;
    for off in [-101, 801] {
        plant(&mut c, "k", &[("a", ago)]);
        c.run(&format!("PEXPIREAT k {}", ago + GRACE_MS + off));
        let before = c.trace("k");
        c.script(&[("ZEXP.ADD k 5m b", "!NOTEXPIRING ")]);
        assert_eq!(c.trace("k"), before);
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
