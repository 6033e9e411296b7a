//! The sweeper deletes members soon after they expire, without any command. INFO reports correct numbers.

use std::time::Duration;
use testkit::{
    Client, FAR, NEVER, PATIENCE, Server, Stream, after_scan, assert_drained, assert_tagged, card, draining,
    eventually, plant, start, start_with_clock,
};

/// Returns a field of the INFO section `zeitset`.
fn field(c: &mut Client, name: &str) -> i64 {
    c.info_number("zeitset", &format!("zeitset_{name}"))
}

/// Waits until a field has this value.
#[track_caller]
fn becomes(c: &mut Client, name: &str, value: i64) {
    eventually(PATIENCE, &format!("{name} is {value}"), || field(c, name) == value);
}

#[test]
fn no_member_goes_before_its_time() {
    let (_server, mut c) = start();
    let base = c.now() + 300;
    c.run_all((0..100).map(|n| format!("ZEXP.ADD k AT {}ms m{n}", base + n * 20)));
    loop {
        // If a member expires between the two readings of the clock, it may or may not be counted.
        let before = c.now();
        let members = c.strings("ZRANGEBYSCORE k (-inf +inf");
        let expected = (0..100).filter(|n| base + n * 20 > c.now()).count();
        assert!(members.len() >= expected, "{members:?} at {before}");
        if expected == 0 {
            break;
        }
    }
    assert_drained(&mut c, "k", 0);
}

#[test]
fn expired_members_are_deleted_and_live_ones_stay() {
    let (_server, mut c) = start();
    c.run_all(["ZEXP.ADD k 30ms a 60ms b 90ms c 5m d", "ZEXP.ADD other 50ms x 5m y", "ZEXP.ADD all 30ms a 60ms b"]);
    // A member that is due sooner than all others does not wait for them.
    c.run_all(["ZEXP.ADD far 1h x", "ZEXP.ADD far LT 50ms x", "ZEXP.ADD sooner 1h x", "ZEXP.ADD sooner 50ms y"]);
    for (key, left) in [("k", "['d']"), ("other", "['y']"), ("all", "[]"), ("far", "[]"), ("sooner", "['x']")] {
        assert_drained(&mut c, key, i64::from(left != "[]"));
        c.script(&[(format!("ZEXP.MEMBERS {key}"), left)]);
    }
    c.script(&[("EXISTS all far", "0")]);
    assert_tagged(&mut c, "k");
}

#[test]
fn a_heartbeat_keeps_a_member_and_the_sweeper_away() {
    let (_server, mut c) = start();
    c.run("ZEXP.ADD k 1h other");
    let until = c.now() + 1500;
    let mut last = 0;
    while c.now() < until {
        last = c.now() + 30_000;
        c.run(&format!("ZEXP.ADD k AT {last}ms beating"));
    }
    after_scan(&mut c);
    if c.now() < last {
        c.script(&[("ZEXP.ISMEMBER k beating", "1")]);
    }
}

#[test]
fn members_and_keys_of_any_bytes_are_deleted() {
    let (_server, mut c) = start();
    let names: [&[u8]; 5] = [b"", b"\0", b"%s%n", b"\xff\xfe", b"a b\r\n"];
    let at = c.now() + 100;
    for key in names {
        for member in names {
            testkit::cmd!(c, "ZEXP.ADD", key, "AT", format!("{at}ms"), member, format!("{FAR}ms"), "live");
        }
    }
    for key in names {
        eventually(PATIENCE, "it is drained", || testkit::cmd!(c, "ZCARD", key) == redis::Value::Int(2));
    }
}

#[test]
fn many_sets_due_at_one_moment_are_all_drained() {
    const SETS: i64 = 3000;
    let (clock, _server, mut c) = start_with_clock("");
    let at = c.now() + 3_600_000;
    c.run_all((0..SETS).map(|n| format!("ZEXP.ADD k{n} AT {at}ms a {at}ms b")));
    clock.advance(Duration::from_secs(3600));
    eventually(PATIENCE, "all are gone", || c.int("DBSIZE") == 0);
    assert_eq!((field(&mut c, "members_expired"), field(&mut c, "sets_expired")), (2 * SETS, SETS));
    assert_eq!(field(&mut c, "sets_tracked"), 0);
}

#[test]
fn events_tell_what_was_deleted_and_that_a_key_is_gone() {
    let server = Server::builder().config("notify-keyspace-events KEA").start();
    let mut c = server.client();
    let mut listener = server.resp3();
    listener.psubscribe("__keyevent@0__:*");
    let mut heard = Vec::new();
    let mut wait_for = |event: &str, key: &str| {
        let push = format!("'__keyevent@0__:{event}' '{key}'");
        eventually(PATIENCE, &push, || {
            heard.extend(listener.pushes());
            heard.iter().any(|heard| heard.contains(&push))
        });
        std::mem::take(&mut heard)
    };
    c.run("ZEXP.ADD some 50ms dead 5m live");
    let told = wait_for("zexp.expired", "some");
    assert!(!told.iter().any(|push| push.contains("'__keyevent@0__:del'")), "{told:?}");
    c.run("ZEXP.ADD all 50ms x 50ms y");
    wait_for("zexp.expired", "all");
    c.run("ZEXP.ADD again 50ms x");
    wait_for("del", "again");
    // `zexp.expired` has class `d`.
    c.run_all(["SELECT 5", "CONFIG SET notify-keyspace-events Kd"]);
    listener.psubscribe("__keyspace@*__:*");
    c.run("ZEXP.ADD k 50ms dead 5m live");
    assert_drained(&mut c, "k", 1);
    let heard = listener.pushes();
    assert!(heard.len() == 1 && heard[0].contains("'__keyspace@5__:k' 'zexp.expired'"), "{heard:?}");
}

#[test]
fn sweeping_is_a_change_to_watch_and_to_client_side_caches() {
    let (server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    plant(&mut c, "k", &[("dead", 1000), ("live", FAR)]);
    let (mut watcher, mut cache) = (server.client(), server.resp3());
    watcher.run("WATCH k");
    cache.run("CLIENT TRACKING ON");
    cache.run("ZRANGE k 0 -1");
    c.run("CONFIG SET zeitset.sweep yes");
    assert_drained(&mut c, "k", 1);
    watcher.script(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "nil")]);
    assert_eq!(cache.pushes(), [">[Invalidate ['k']]"]);
}

#[test]
fn the_sweeper_can_be_switched_off_and_on() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    let at = c.now() + 50;
    c.run(&format!("ZEXP.ADD k AT {at}ms dead {FAR}ms live"));
    c.run(&format!("ZEXP.ADD all AT {at}ms x"));
    c.wait_until(at + 500);
    c.script(&[
        ("ZCARD k", "3"),
        ("ZEXP.MEMBERS k", "['live']"),
        ("EXISTS all", "1"),
        ("ZEXP.CARD all", "0"),
        ("CONFIG SET zeitset.sweep yes", "+OK"),
    ]);
    assert_drained(&mut c, "k", 1);
    assert_drained(&mut c, "all", 0);
}

#[test]
fn idle_nothing_is_armed_and_nothing_is_replicated() {
    let (server, mut c) = start();
    becomes(&mut c, "sweep_timer_armed", 0);
    // Neither sets that never expire nor ordinary sets arm the timer.
    plant(&mut c, "never", &[("a", NEVER)]);
    c.run("ZADD plain 1000 x");
    c.run("ZRL.CHECK limit 10 1h");
    becomes(&mut c, "sets_tracked", 1);
    let mut stream = Stream::attach(&server);
    let changes = c.info_number("persistence", "rdb_changes_since_last_save");
    let (slices, scans) = (field(&mut c, "sweep_slices"), field(&mut c, "scans_completed"));
    eventually(PATIENCE, "scans", || field(&mut c, "scans_completed") >= scans + 2);
    assert_eq!(c.info_number("persistence", "rdb_changes_since_last_save"), changes);
    assert_eq!(stream.take(), [""; 0]);
    assert_eq!((field(&mut c, "sweep_timer_armed"), field(&mut c, "sweep_slices")), (0, slices));
}

#[test]
fn the_timer_is_armed_only_for_what_is_due_soon() {
    let (_server, mut c) = start();
    becomes(&mut c, "sweep_timer_armed", 0);
    // The cron handles members that are due later.
    c.run("ZEXP.ADD k 1h m 60d n 365d o");
    // The first set starts a keyspace scan, which ends before the check.
    becomes(&mut c, "sweep_timer_armed", 0);
    c.wait_for_cron();
    assert_eq!(field(&mut c, "sweep_timer_armed"), 0);
    c.run("CONFIG SET zeitset.sweep no");
    let at = c.now() + 1000;
    c.run(&format!("ZEXP.ADD k AT {at}ms p"));
    assert_eq!(field(&mut c, "sweep_timer_armed"), 0);
    c.run("CONFIG SET zeitset.sweep yes");
    let armed = field(&mut c, "sweep_timer_armed");
    assert!(armed == 1 || c.now() >= at || card(&mut c, "k") == 4);
    assert_drained(&mut c, "k", 3);
    becomes(&mut c, "sweep_timer_armed", 0);
}

#[test]
fn the_timer_goes_with_what_it_was_armed_for() {
    let (_server, mut c) = start();
    for gone in [
        "DEL k",
        "FLUSHALL",
        "ZREM k zeitset:expiring",
        "ZEXP.REM k m",
        "ZREM k m",
        "ZEXP.PERSIST k m",
        "RENAME plain k",
    ] {
        c.run("DEL k");
        c.run("ZADD plain 1000 x");
        c.run("ZEXP.ADD k 1400ms m");
        c.run(gone);
        eventually(PATIENCE, &format!("no timer is armed after {gone}"), || field(&mut c, "sweep_timer_armed") == 0);
    }
}

#[test]
fn info_counts_the_sets_there_are() {
    let (_server, mut c) = start();
    let mut tracked = 0;
    for (line, change) in [
        ("ZEXP.ADD a 1h m", 1),
        ("ZEXP.ADD b 1h m", 1),
        ("ZEXP.ADD b 2h n", 0),
        ("ZADD plain 1 x", 0),
        ("ZRL.CHECK limit 10 1h", 0),
        ("COPY a c", 1),
        ("RENAME a d", 0),
        ("RENAME c d", -1),
        ("MOVE d 3", 0),
        ("SWAPDB 3 4", 0),
        ("EXPIRE b 100", 0),
        ("ZREM b zeitset:expiring", -1),
        ("ZEXP.ADOPT b", 1),
        ("PERSIST b", 0),
        ("ZADD b 1 zeitset:expiring", -1),
        ("ZEXP.ADD e 1h m", 1),
        ("ZEXP.REM e m", -1),
        ("ZEXP.ADD e 1h m", 1),
        ("ZREM e m zeitset:expiring", -1),
        ("ZEXP.ADD e 1h m", 1),
        ("FLUSHDB", -1),
        ("ZEXP.ADD e 1h m", 1),
        ("FLUSHALL", -2),
    ] {
        c.run(line);
        tracked += change;
        assert_eq!(field(&mut c, "sets_tracked"), tracked, "{line}");
    }
}

#[test]
fn info_counts_what_has_expired_and_nothing_else() {
    let (_server, mut c) = start();
    let all = ["sets_tracked", "members_expired", "sets_expired", "sweep_backlog_members", "sweep_backlog_sets"];
    assert_eq!(all.map(|name| field(&mut c, name)), [0; 5]);
    assert_eq!(field(&mut c, "sweep_lag_ms"), 0);
    c.run("ZEXP.ADD k 50ms a 50ms b 5m c");
    assert_drained(&mut c, "k", 1);
    c.run("ZEXP.ADD all 50ms a 50ms b");
    assert_drained(&mut c, "all", 0);
    // Members that a client removes do not count.
    c.run("ZEXP.REM k c");
    c.run("ZEXP.ADD k 1h a");
    c.run("ZEXP.ADD k AT 1 a");
    assert_eq!((field(&mut c, "members_expired"), field(&mut c, "sets_expired")), (4, 1));
    assert!(field(&mut c, "sweep_slices") >= 2);
    assert!(field(&mut c, "sweep_longest_slice_us") > 0 && field(&mut c, "sweep_cpu_us") > 0);
}

#[test]
fn info_shows_a_backlog_and_how_old_it_is() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    let at = c.now() + 100;
    c.run_all((0..5).map(|n| format!("ZEXP.ADD k{n} AT {at}ms dead {FAR}ms live")));
    assert!(field(&mut c, "sweep_backlog_sets") == 0 || c.now() >= at);
    c.wait_until(at + 300);
    assert_eq!(field(&mut c, "sweep_backlog_sets"), 5);
    let lag = field(&mut c, "sweep_lag_ms");
    assert!((300..=c.now() - at).contains(&lag), "{lag}");
    c.run("CONFIG SET zeitset.sweep yes");
    becomes(&mut c, "sweep_backlog_sets", 0);
    assert_eq!(field(&mut c, "sweep_lag_ms"), 0);
}

#[test]
fn info_tells_the_truth_during_a_backlog() {
    const DEAD: usize = 50_000;
    let (_server, mut c) = start();
    let began = c.now();
    draining(&mut c, "k", DEAD);
    c.run("CONFIG SET zeitset.sweep no");
    becomes(&mut c, "sweep_timer_armed", 0);
    let left = card(&mut c, "k") - 1;
    assert!(left > 0, "the sweeper was too quick for this test");
    assert_eq!(field(&mut c, "sweep_backlog_members"), left);
    assert_eq!(field(&mut c, "sweep_backlog_sets"), 1);
    // The members expired a second before `backlog` created the set.
    let lag = field(&mut c, "sweep_lag_ms");
    let most = c.now() - began + 1000;
    assert!(lag <= most, "a lag of {lag} ms, while members have been expired for at most {most} ms");
}

/// While the latency monitor is off (the default), the server accepts every sample of a module, even one of 0 ms.
#[test]
fn slices_that_took_no_time_are_no_latency_samples() {
    let (_server, mut c) = start();
    c.run_all((0..20).map(|n| format!("ZEXP.ADD set{n} 1ms a 1h b")));
    for n in 0..20 {
        assert_drained(&mut c, &format!("set{n}"), 1);
    }
    let history = c.reply("LATENCY HISTORY zeitset-sweep");
    assert!(!history.contains(" 0]"), "{history}");
}
