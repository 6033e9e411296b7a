//! Commands that move, copy, replace or remove keys. An expiring set stays one under its new name, and the sweeper
//! finds it there.

use std::time::Duration;
use testkit::{
    Client, FAR, PATIENCE, Server, after_scan, assert_drained, assert_tagged, cmd, eventually, plant, start,
    start_with_clock,
};

/// The lifetime of members that expire during a test. The test's first commands run within this time.
const SOON_MS: i64 = 500;

/// Creates a set with a member that expires soon and one that stays.
fn soon(c: &mut Client, key: &str) {
    let at = c.now() + SOON_MS;
    c.run(&format!("ZEXP.ADD {key} AT {at}ms dead {FAR}ms live"));
}

#[track_caller]
fn dies_and_lives(c: &mut Client, key: &str) {
    assert_drained(c, key, 1);
    c.script(&[(format!("ZEXP.MEMBERS {key}"), "['live']")]);
    assert_tagged(c, key);
}

#[test]
fn sets_are_drained_in_every_database() {
    let (_server, mut c) = start();
    for database in 0..16 {
        c.run(&format!("SELECT {database}"));
        soon(&mut c, "k");
        soon(&mut c, &format!("only{database}"));
    }
    for database in 0..16 {
        c.run(&format!("SELECT {database}"));
        dies_and_lives(&mut c, "k");
        dies_and_lives(&mut c, &format!("only{database}"));
    }
}

#[test]
fn swapped_databases_are_drained() {
    let (_server, mut c) = start();
    soon(&mut c, "k");
    soon(&mut c, "zero");
    c.run("SELECT 3");
    soon(&mut c, "k");
    soon(&mut c, "three");
    // An ordinary set replaces an expiring one of the same name.
    c.run("ZADD zero 1000 dead 2000 x");
    c.script(&[("SWAPDB 0 3", "+OK")]);
    dies_and_lives(&mut c, "k");
    dies_and_lives(&mut c, "zero");
    c.run("SELECT 0");
    dies_and_lives(&mut c, "k");
    dies_and_lives(&mut c, "three");
    after_scan(&mut c);
    c.script(&[("ZRANGE zero 0 -1", "['dead' 'x']")]);
}

#[test]
fn a_set_is_drained_wherever_it_is_renamed_copied_moved_or_restored() {
    let (_server, mut c) = start();
    for key in ["a", "over", "k", "moved"] {
        soon(&mut c, key);
    }
    c.run_all(["ZEXP.ADD below 1h x", "ZEXP.ADD copied 1h x", "ZADD replaced 1 x"]);
    c.script(&[("RENAME a b", "+OK"), ("RENAMENX b c", "1"), ("RENAME over below", "+OK"), ("MOVE moved 15", "1")]);
    let dumped = c.dump("k");
    c.restore("restored", 0, &dumped);
    c.restore("replaced", 0, &dumped);
    // On servers with the bug of `copy_loses_the_database`, the client is in another database after the last COPY.
    c.script(&[("COPY k copy", "1"), ("COPY k copied REPLACE", "1"), ("COPY k k DB 9", "1"), ("SELECT 0", "+OK")]);
    for key in ["c", "below", "k", "copy", "copied", "restored", "replaced"] {
        dies_and_lives(&mut c, key);
    }
    for (database, key) in [(9, "k"), (15, "moved")] {
        c.run(&format!("SELECT {database}"));
        dies_and_lives(&mut c, key);
    }
}

/// The module has not seen the set at its first name, or at its second.
#[test]
fn a_set_that_is_restored_and_moves_on_at_once_is_drained() {
    let (_server, mut c) = start();
    after_scan(&mut c);
    soon(&mut c, "k");
    let dumped = c.dump("k");
    c.run("MULTI");
    for key in ["a", "b", "c"] {
        cmd!(c, "RESTORE", key, 0, dumped.as_slice());
    }
    c.run_all(["RENAME a renamed", "COPY b copied", "MOVE c 9"]);
    c.run("EXEC");
    for key in ["renamed", "b", "copied"] {
        dies_and_lives(&mut c, key);
    }
    c.run("SELECT 9");
    dies_and_lives(&mut c, "c");
}

/// The key's TTL is the client's own.
#[test]
fn a_set_with_a_ttl_is_drained_and_keeps_its_ttl() {
    let (_server, mut c) = start();
    soon(&mut c, "k");
    let dumped = c.dump("k");
    c.restore("restored", FAR, &dumped);
    c.run("PEXPIREAT k 4102444800000");
    c.run("ZEXP.ADD k 5m more");
    for (key, left) in [("k", 2), ("restored", 1)] {
        assert_drained(&mut c, key, left);
        c.script(&[(format!("PEXPIRETIME {key}"), FAR.to_string())]);
    }
}

#[test]
fn migrated_sets_are_drained_at_the_target() {
    let (source, target) = (Server::start(), Server::start());
    let (mut s, mut t) = (source.client(), target.client());
    let port = target.address().1;
    soon(&mut s, "k");
    soon(&mut s, "copied");
    s.run("ZEXP.ADD never AT 4102444800000ms x");
    s.run("ZEXP.PERSIST never x");
    // Without the sweeper, the source deletes no member before the keys are moved.
    s.run("CONFIG SET zeitset.sweep no");
    s.script(&[
        (format!("MIGRATE 127.0.0.1 {port} k 0 10000"), "+OK"),
        (format!("MIGRATE 127.0.0.1 {port} copied 5 10000 COPY"), "+OK"),
        (format!("MIGRATE 127.0.0.1 {port} never 0 10000"), "+OK"),
        ("EXISTS k".into(), "0"),
        ("EXISTS copied".into(), "1"),
    ]);
    // A server without expiring sets looks for them at the first ZEXP command.
    t.run("ZEXP.CARD another");
    dies_and_lives(&mut t, "k");
    t.run("SELECT 5");
    dies_and_lives(&mut t, "copied");
    t.run("SELECT 0");
    t.script(&[("ZEXP.PTTL never x", "[-1]")]);
    s.run("CONFIG SET zeitset.sweep yes");
    dies_and_lives(&mut s, "copied");
}

#[test]
fn sets_migrated_in_one_call_are_all_drained() {
    let (source, target) = (Server::start(), Server::start());
    let (mut s, mut t) = (source.client(), target.client());
    s.run("CONFIG SET zeitset.sweep no");
    let keys: Vec<_> = (0..50).map(|n| format!("k{n}")).collect();
    for key in &keys {
        soon(&mut s, key);
    }
    s.run(&format!("MIGRATE 127.0.0.1 {} \"\" 0 10000 KEYS {}", target.address().1, keys.join(" ")));
    t.run("ZEXP.CARD another");
    for key in &keys {
        dies_and_lives(&mut t, key);
    }
}

#[test]
fn flushing_forgets_and_what_comes_after_is_new() {
    for flush in ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC", "DEL k", "UNLINK k"] {
        let (_server, mut c) = start();
        soon(&mut c, "k");
        c.run(flush);
        // `k` is an ordinary set with expired scores. `new` is an expiring set.
        c.run("ZADD k 1000 dead 2000 x");
        soon(&mut c, "new");
        dies_and_lives(&mut c, "new");
        after_scan(&mut c);
        c.script(&[("ZRANGE k 0 -1", "['dead' 'x']")]);
    }
}

#[test]
fn flushing_one_database_leaves_the_timers_of_the_others() {
    let (_server, mut c) = start();
    soon(&mut c, "k");
    c.run("SELECT 2");
    soon(&mut c, "k");
    c.run("FLUSHDB");
    c.run("SELECT 0");
    dies_and_lives(&mut c, "k");
}

/// Expiries belong to members. A new member does not get the expiry of an earlier one with the same name.
#[test]
fn what_is_created_again_does_not_inherit_the_old_deadline() {
    let (clock, _server, mut c) = start_with_clock("");
    let at = c.now() + 3_600_000;
    for key in ["member", "popped", "deleted", "renamed", "moved", "flushed", "heartbeat", "persisted"] {
        c.run(&format!("ZEXP.ADD {key} AT {at}ms m"));
    }
    c.run("ZEXP.REM member m");
    c.run("ZEXP.POP popped");
    c.run("DEL deleted");
    c.run("RENAME renamed away");
    c.run("MOVE moved 4");
    c.run("SELECT 6");
    c.run(&format!("ZEXP.ADD flushed AT {at}ms m"));
    c.run("FLUSHDB");
    c.run(&format!("ZEXP.ADD flushed AT {FAR}ms m"));
    c.run("SELECT 0");
    for key in ["member", "popped", "deleted", "renamed", "moved", "heartbeat"] {
        c.run(&format!("ZEXP.ADD {key} AT {FAR}ms m"));
    }
    c.run("ZEXP.PERSIST persisted m");
    clock.advance(Duration::from_secs(3601));
    assert_drained(&mut c, "away", 0);
    after_scan(&mut c);
    for key in ["member", "popped", "deleted", "renamed", "moved", "heartbeat", "persisted"] {
        c.script(&[(format!("ZEXP.MEMBERS {key}"), "['m']")]);
    }
    c.script(&[("SELECT 6", "+OK"), ("ZEXP.MEMBERS flushed", "['m']")]);
}

/// No event tells the module of this set. The keyspace scan finds it.
#[test]
fn a_set_that_a_plain_command_creates_is_found() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &[("dead", 1000), ("live", FAR)]);
    dies_and_lives(&mut c, "k");
}

/// A master without the module leaves the tags that STORE commands copy. Its replica can remove none of them.
#[test]
fn a_replica_goes_on_scanning_whatever_tags_its_master_leaves() {
    let master = Server::builder().plain().start();
    let replica = Server::builder().replica_of(&master);
    let (mut m, mut r) = (master.client(), replica.client());
    m.run(&format!("ZADD set -inf zeitset:expiring {FAR} a"));
    replica.wait_for_sync(&master);
    r.script(&[("ZEXP.CARD set", "1")]);
    m.run_all((0..1100).map(|n| format!("ZUNIONSTORE stored:{n} 1 set")));
    replica.wait_for_sync(&master);
    let scans = |r: &mut Client| r.info_number("zeitset", "zeitset_scans_completed");
    let before = scans(&mut r);
    eventually(PATIENCE, "two more scans", || scans(&mut r) >= before + 2);
    assert!(r.reply("ZEXP.CARD stored:7").starts_with("!NOTEXPIRING "));
}
