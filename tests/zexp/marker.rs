//! The marker: the TTL of a key identifies an expiring set. Every change of the set restores the marker.

use testkit::{FAR, GRACE_MS, NEVER, after_scan, assert_drained, assert_marked, assert_restored, plant, start};

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

/// If a client has set the TTL of a set, the set is ordinary, even if the TTL is close to the marker. No read changes
/// that.
#[test]
fn a_read_or_a_refused_command_never_moves_a_ttl() {
    let (_server, mut c) = start();
    // Until the first scan is complete, a TTL just below the marker may be an outdated marker from before a crash.
    after_scan(&mut c);
    for shift in [-15_000, -10_000, -9_000, -1, 1, 9_000] {
        let until = FAR + GRACE_MS + shift;
        // The sweeper must not find the set before it has another TTL.
        c.run("CONFIG SET zeitset.sweep no");
        plant(&mut c, "k", &[("dead", 1000), ("a", FAR)]);
        c.run_all([&format!("PEXPIREAT k {until}"), "CONFIG SET zeitset.sweep yes"]);
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
