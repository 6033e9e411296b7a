//! Plain commands on an expiring set. The module restores the set's TTL, and each member lives exactly until its score.
//! Only EXPIRE and PERSIST make the set ordinary.

use std::time::Duration;
use testkit::{
    Client, FAR, GRACE_MS, NEVER, PATIENCE, Server, after_scan, assert_drained, assert_marked, assert_restored,
    at_full_speed, backlog, begin_draining, eventually, plant, start_with_clock,
};

/// Returns plain commands that change the set of `sample`, each with the expiry of the last member afterwards.
fn changes() -> [(String, i64); 11] {
    [
        (format!("ZADD k {} later", FAR + 9000), FAR + 9000),
        (format!("ZADD k {} a", FAR + 9000), FAR + 9000),
        (format!("ZADD k {} b", FAR - 500_000), FAR),
        (format!("ZADD k {} b", FAR + 700), FAR + 700),
        ("ZREM k b".into(), FAR),
        ("ZPOPMAX k".into(), FAR),
        ("ZREMRANGEBYRANK k -1 -1".into(), FAR),
        (format!("ZREMRANGEBYSCORE k {} +inf", FAR + 1), FAR),
        ("ZINCRBY k 1 b".into(), FAR + 1001),
        (format!("ZADD k {NEVER} never"), NEVER),
        ("ZADD k GT INCR 7 b".into(), FAR + 1007),
    ]
}

/// Starts a server that has completed a keyspace scan, so that the module is subscribed to events.
fn start() -> (Server, Client) {
    let (server, mut client) = testkit::start();
    after_scan(&mut client);
    (server, client)
}

fn sample(c: &mut Client) {
    c.run("DEL k");
    c.run(&format!("ZEXP.ADD k AT {FAR}ms a"));
    c.run(&format!("ZEXP.ADD k AT {}ms b", FAR + 1000));
}

#[test]
fn the_ttl_follows_whatever_plain_commands_do() {
    let (_server, mut c) = start();
    for (change, highest) in changes() {
        sample(&mut c);
        c.run(&change);
        assert_restored(&mut c, "k", highest);
        c.script(&[("ZEXP.ADD k 5m more", "1")]);
        assert_marked(&mut c, "k");
    }
}

#[test]
fn a_change_within_a_transaction_or_a_script_is_restored_too() {
    let (_server, mut c) = start();
    sample(&mut c);
    let later = FAR + 9000;
    c.script(&[("MULTI", "+OK"), (&format!("ZADD k {later} x"), "+QUEUED"), ("ZREM k a b", "+QUEUED")]);
    c.run("EXEC");
    assert_restored(&mut c, "k", later);
    let script = format!("return redis.call('ZADD', KEYS[1], {}, 'y')", later + 1);
    c.call(redis::cmd("EVAL").arg(script).arg(1).arg("k"));
    assert_restored(&mut c, "k", later + 1);
}

#[test]
fn a_plain_member_dies_at_its_score_and_not_before() {
    let (_server, mut c) = start();
    let soon = c.now() + 1500;
    c.run(&format!("ZEXP.ADD k AT {}ms first", soon - 1000));
    c.run(&format!("ZADD k {soon} second"));
    assert_restored(&mut c, "k", soon);
    c.wait_until(soon - 400);
    let members = c.reply("ZRANGE k 0 -1");
    assert!(c.now() >= soon || members.contains("'second'"), "{members}");
    assert_drained(&mut c, "k", 0);
    assert!(c.now() >= soon);
}

#[test]
fn an_earlier_plain_member_is_deleted_when_its_time_comes() {
    let (_server, mut c) = start();
    sample(&mut c);
    let soon = c.now() + 300;
    c.run(&format!("ZADD k {soon} soon 1000 dead"));
    assert_drained(&mut c, "k", 2);
    c.script(&[("ZRANGE k 0 -1", "['a' 'b']")]);
    assert!(c.now() >= soon);
    assert_marked(&mut c, "k");
}

#[test]
fn a_set_left_with_expired_members_only_is_removed() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    plant(&mut c, "k", &[("dead", 1000), ("live", FAR)]);
    c.script(&[("ZREM k live", "1")]);
    c.run("CONFIG SET zeitset.sweep yes");
    assert_drained(&mut c, "k", 0);
    c.script(&[("EXISTS k", "0")]);
}

#[test]
fn reads_of_a_set_not_yet_restored_say_what_is_live() {
    let (_server, mut c) = start();
    sample(&mut c);
    c.script(&[
        ("MULTI".into(), "+OK"),
        (format!("ZADD k {} later 1000 dead", FAR + 9000), "+QUEUED"),
        ("ZEXP.CARD k".into(), "+QUEUED"),
        ("ZEXP.MEMBERS k".into(), "+QUEUED"),
        ("EXEC".into(), "[2 3 ['a' 'b' 'later']]"),
    ]);
    assert_restored(&mut c, "k", FAR + 9000);
}

/// The module restores an outdated TTL even while the sweeper needs several slices for the expired members.
#[test]
fn a_change_before_or_during_a_backlog_is_restored() {
    const DEAD: usize = 20_000;
    for before in [true, false] {
        let (_server, mut c) = start();
        let change = format!("ZADD k {} later", FAR + 9000);
        backlog(&mut c, "k", DEAD);
        if before {
            c.run(&change);
            begin_draining(&mut c, "k", DEAD);
        } else {
            begin_draining(&mut c, "k", DEAD);
            c.run(&change);
            let left = c.int("ZCARD k");
            eventually(PATIENCE, "sweeping goes on", || c.int("ZCARD k") < left);
        }
        at_full_speed(&mut c);
        assert_restored(&mut c, "k", FAR + 9000);
        assert_drained(&mut c, "k", 2);
    }
}

/// Without the sweeper, expired members stay. The TTL must still be corrected: with the old TTL, the server would
/// delete the live member.
#[test]
fn the_ttl_is_set_right_with_the_sweeper_switched_off_too() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    sample(&mut c);
    c.run(&format!("ZADD k {} later 1000 dead", FAR + 9000));
    assert_restored(&mut c, "k", FAR + 9000);
    c.script(&[("ZCARD k", "4")]);
}

/// All remaining members have expired, and their marker would be in the past. A later member makes a marker possible.
#[test]
fn a_later_member_of_a_set_of_expired_members_lives() {
    for (expired, sweep) in
        [("1000 dead", "no"), ("1000 dead", "yes"), ("-7 old -inf oldest", "no"), ("-7 old -inf oldest", "yes")]
    {
        let (_server, mut c) = start();
        c.run("CONFIG SET zeitset.sweep no");
        c.run(&format!("ZEXP.ADD k AT {FAR}ms top"));
        c.script(&[("MULTI", "+OK"), (&*format!("ZADD k {expired}"), "+QUEUED"), ("ZREM k top", "+QUEUED")]);
        c.run("EXEC");
        c.wait_for_cron();
        c.run(&format!("ZADD k {} later", FAR + 9000));
        c.run(&format!("CONFIG SET zeitset.sweep {sweep}"));
        assert_restored(&mut c, "k", FAR + 9000);
        c.script(&[("ZEXP.MEMBERS k", "['later']")]);
    }
}

/// A client moves or copies the set before the module has restored its marker.
#[test]
fn a_set_that_is_moved_or_copied_at_once_is_restored_where_it_is_now() {
    for (way, places) in [
        ("RENAME k new", &[(0, "new")][..]),
        ("RENAMENX k new", &[(0, "new")]),
        ("MOVE k 5", &[(5, "k")]),
        ("COPY k new", &[(0, "k"), (0, "new")]),
        ("SWAPDB 0 7", &[(7, "k")]),
    ] {
        let (_server, mut c) = start();
        sample(&mut c);
        c.run("MULTI");
        c.run(&format!("ZADD k {} later", FAR + 9000));
        c.run(way);
        c.run("EXEC");
        for (database, key) in places {
            c.run(&format!("SELECT {database}"));
            assert_restored(&mut c, key, FAR + 9000);
        }
    }
}

/// If a transaction changes keys in several databases, Valkey 9.1 does not tell modules the database of a key.
#[test]
fn a_set_changed_in_another_database_of_a_transaction_is_restored_there() {
    let (_server, mut c) = start();
    c.run("MULTI");
    for (database, key) in [(0, "a"), (3, "b"), (7, "c")] {
        c.run(&format!("SELECT {database}"));
        c.run(&format!("ZEXP.ADD {key} AT {FAR}ms x"));
        c.run(&format!("ZADD {key} {} later", FAR + 9000));
    }
    c.run("MOVE c 9");
    c.run("SELECT 0");
    c.run("EXEC");
    for (database, key) in [(0, "a"), (3, "b"), (9, "c")] {
        c.run(&format!("SELECT {database}"));
        assert_restored(&mut c, key, FAR + 9000);
    }
}

#[test]
fn expire_and_persist_make_it_ordinary_forever() {
    let (clock, mut server, mut c) = start_with_clock("appendonly yes");
    let at = c.now() + 3_600_000;
    let ways = ["PERSIST k", "EXPIRE k 10000", "PEXPIRE k 9999999", "EXPIREAT k 4102444801", "EXPIRE k 9999999 XX"];
    for (n, way) in ways.iter().enumerate() {
        c.run(&format!("ZEXP.ADD k AT {at}ms dead {}ms live", at + 3_600_000));
        c.script(&[(way, "1")]);
        // Neither a later change nor a new name makes the set an expiring set again.
        c.run(&format!("ZADD k {FAR} later"));
        c.run(&format!("RENAME k ordinary{n}"));
    }
    let keys: Vec<_> = (0..ways.len()).map(|n| format!("ordinary{n}")).collect();
    let expiries: Vec<_> = keys.iter().map(|key| c.int(&format!("PEXPIRETIME {key}"))).collect();
    clock.advance(Duration::from_secs(3601));
    after_scan(&mut c);
    server.restart();
    let mut c = server.client();
    after_scan(&mut c);
    for (key, expires_at) in keys.iter().zip(expiries) {
        c.script(&[
            (format!("ZRANGE {key} 0 -1"), "['dead' 'live' 'later']".into()),
            (format!("PEXPIRETIME {key}"), expires_at.to_string()),
            (format!("ZEXP.CARD {key}"), "!NOTEXPIRING ".into()),
        ]);
    }
}

#[test]
fn expire_in_the_transaction_of_a_plain_change_wins() {
    let (_server, mut c) = start();
    sample(&mut c);
    let later = FAR + 9000;
    c.script(&[
        ("MULTI".into(), "+OK"),
        (format!("ZADD k {later} later 1000 dead"), "+QUEUED"),
        (format!("PEXPIREAT k {FAR}"), "+QUEUED"),
        (format!("ZADD k {} latest", later + 1), "+QUEUED"),
    ]);
    c.run("EXEC");
    after_scan(&mut c);
    c.script(&[("ZCARD k", "5"), ("PEXPIRETIME k", &FAR.to_string())]);
}

#[test]
fn what_is_stored_over_an_expiring_set_is_ordinary() {
    let (_server, mut c) = start();
    c.run("ZADD plain 1000 x 2000 y");
    c.run("GEOADD geo 13.4 52.5 berlin");
    for store in [
        "ZUNIONSTORE k 2 k plain",
        "ZINTERSTORE k 1 plain",
        "ZDIFFSTORE k 1 plain",
        "ZRANGESTORE k plain 0 -1",
        "GEOSEARCHSTORE k geo FROMMEMBER berlin BYRADIUS 1 km",
        "COPY plain k REPLACE",
    ] {
        sample(&mut c);
        c.run(store);
        let before = c.reply("ZRANGE k 0 -1 WITHSCORES");
        after_scan(&mut c);
        c.script(&[
            ("ZRANGE k 0 -1 WITHSCORES", before.as_str()),
            ("PEXPIRETIME k", "-1"),
            ("ZEXP.CARD k", "!NOTEXPIRING "),
        ]);
    }
}

#[test]
fn what_is_stored_from_an_expiring_set_is_ordinary() {
    let (clock, _server, mut c) = start_with_clock("");
    c.run("ZEXP.ADD k 1h dead 1000w live");
    c.run("ZUNIONSTORE union 1 k");
    c.run("ZRANGESTORE range k 0 -1");
    clock.advance(Duration::from_secs(3601));
    assert_drained(&mut c, "k", 1);
    after_scan(&mut c);
    for key in ["union", "range"] {
        c.script(&[
            (format!("ZRANGE {key} 0 -1"), "['dead' 'live']"),
            (format!("PEXPIRETIME {key}"), "-1"),
            (format!("ZEXP.CARD {key}"), "!NOTEXPIRING "),
        ]);
    }
}

#[test]
fn a_ttl_of_another_type_on_the_same_key_is_left_alone() {
    let (_server, mut c) = start();
    sample(&mut c);
    let until = FAR + GRACE_MS;
    c.run(&format!("SET k text PXAT {until}"));
    after_scan(&mut c);
    c.script(&[("GET k", "'text'"), ("PEXPIRETIME k", &until.to_string())]);
    c.run("DEL k");
    c.run("ZADD k 1000 x 2000 y");
    c.run(&format!("PEXPIREAT k {until}"));
    after_scan(&mut c);
    c.script(&[("ZCARD k", "2"), ("PEXPIRETIME k", &until.to_string())]);
}
