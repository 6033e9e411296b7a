//! Plain commands on an expiring set. The set remains an expiring set at once, and each member lives exactly until its
//! score.

use testkit::{
    Client, FAR, NEVER, PATIENCE, after_scan, assert_drained, assert_tagged, at_full_speed, backlog, begin_draining,
    card, eventually, plant, start, start_with_clock,
};

fn sample(c: &mut Client) {
    c.run("DEL k");
    c.run(&format!("ZEXP.ADD k AT {FAR}ms a {}ms b", FAR + 1000));
}

/// Each command is followed by the remaining members, soonest to expire first.
#[test]
fn a_set_remains_one_whatever_plain_commands_do() {
    let (_server, mut c) = start();
    for (change, members) in [
        (format!("ZADD k {} later", FAR + 9000), "['a' 'b' 'later']"),
        (format!("ZADD k {} a", FAR + 9000), "['b' 'a']"),
        (format!("ZADD k {} b", FAR - 500_000), "['b' 'a']"),
        ("ZREM k b".into(), "['a']"),
        ("ZPOPMAX k".into(), "['a']"),
        ("BZPOPMAX k 1".into(), "['a']"),
        ("ZREMRANGEBYRANK k -1 -1".into(), "['a']"),
        (format!("ZREMRANGEBYSCORE k {} +inf", FAR + 1), "['a']"),
        (format!("ZREMRANGEBYSCORE k 0 {FAR}"), "['b']"),
        ("ZINCRBY k 1001 a".into(), "['b' 'a']"),
        (format!("ZADD k {NEVER} never"), "['a' 'b' 'never']"),
        ("ZADD k GT INCR 7 b".into(), "['a' 'b']"),
        (format!("PEXPIREAT k {FAR}"), "['a' 'b']"),
        ("PERSIST k".into(), "['a' 'b']"),
    ] {
        sample(&mut c);
        c.run("MULTI");
        c.run(&change);
        c.run("ZEXP.MEMBERS k");
        let replies = c.reply("EXEC");
        assert!(replies.ends_with(&format!(" {members}]")), "{change}: {replies}");
        c.script(&[("ZEXP.ADD k 5m more", "1")]);
        c.script(&[(format!("ZSCORE k {}", testkit::TAG), "'-inf'")]);
    }
}

#[test]
fn a_plain_member_dies_at_its_score_and_not_before() {
    let (_server, mut c) = start();
    let soon = c.now() + 1500;
    c.run(&format!("ZEXP.ADD k AT {}ms first", soon - 1000));
    c.run(&format!("ZADD k {soon} second"));
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
    c.run(&format!("ZADD k {soon} soon 1000 dead -7 old -inf oldest"));
    assert_drained(&mut c, "k", 2);
    c.script(&[("ZEXP.MEMBERS k", "['a' 'b']")]);
    assert!(c.now() >= soon);
    assert_tagged(&mut c, "k");
}

/// The next command puts a later member into the set. The module must not forget the earlier member.
#[test]
fn a_sooner_plain_member_is_deleted_in_time_whatever_command_comes_next() {
    let (_server, mut c) = start();
    c.run("ZEXP.ADD k 1h a");
    let soon = c.now() + 300;
    c.run_all(["MULTI".into(), format!("ZADD k {soon} soon"), "ZEXP.ADD k 2h b".into(), "EXEC".into()]);
    assert_drained(&mut c, "k", 2);
}

#[test]
fn a_set_left_with_expired_members_only_is_removed() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    plant(&mut c, "k", &[("dead", 1000), ("live", FAR)]);
    c.script(&[("ZREM k live", "1")]);
    c.run("CONFIG SET zeitset.sweep yes");
    assert_drained(&mut c, "k", 0);
}

/// The sweeper needs several slices for the expired members.
#[test]
fn a_later_plain_member_outlives_a_backlog() {
    const DEAD: usize = 20_000;
    for before in [true, false] {
        let (_server, mut c) = start();
        let change = format!("ZADD k {} later", FAR + 9000);
        backlog(&mut c, "k", DEAD);
        if before {
            c.run(&change);
            begin_draining(&mut c, "k", DEAD + 1);
        } else {
            begin_draining(&mut c, "k", DEAD);
            c.run(&change);
            let left = card(&mut c, "k");
            eventually(PATIENCE, "sweeping goes on", || card(&mut c, "k") < left);
        }
        at_full_speed(&mut c);
        assert_drained(&mut c, "k", 2);
        c.script(&[("ZEXP.MEMBERS k", "['live' 'later']")]);
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
        assert_tagged(&mut c, "k");
    }
}

/// If a transaction changes keys in several databases, Valkey 9.1 does not tell modules the database of a key.
#[test]
fn a_set_changed_in_another_database_of_a_transaction_is_drained_there() {
    let (_server, mut c) = start();
    let soon = c.now() + 500;
    c.run("MULTI");
    for (database, key) in [(0, "a"), (3, "b"), (7, "c")] {
        c.run(&format!("SELECT {database}"));
        c.run(&format!("ZEXP.ADD {key} AT {FAR}ms x"));
        c.run(&format!("ZADD {key} {soon} sooner"));
    }
    c.run("MOVE c 9");
    c.run("SELECT 0");
    c.run("EXEC");
    for (database, key) in [(0, "a"), (3, "b"), (9, "c")] {
        c.run(&format!("SELECT {database}"));
        assert_drained(&mut c, key, 1);
    }
}

#[test]
fn an_expiring_set_with_a_ttl_dies_with_it() {
    let (clock, _server, mut c) = start_with_clock("");
    c.run_all(["ZEXP.ADD k 3h a", "EXPIRE k 3600", "ZEXP.ADD k 4h b"]);
    clock.advance(std::time::Duration::from_secs(3601));
    c.script(&[("EXISTS k", "0")]);
}

#[test]
fn what_is_stored_over_an_expiring_set_is_ordinary() {
    let (_server, mut c) = start();
    c.run("ZADD plain 1000 x 2000 y");
    c.run("GEOADD geo 13.4 52.5 berlin");
    let dump = c.dump("plain");
    for store in [
        "ZUNIONSTORE k 1 plain",
        "ZINTERSTORE k 1 plain",
        "ZDIFFSTORE k 1 plain",
        "ZRANGESTORE k plain 0 -1",
        "GEOSEARCHSTORE k geo FROMMEMBER berlin BYRADIUS 1 km",
        "COPY plain k REPLACE",
        "RESTORE",
    ] {
        sample(&mut c);
        if store == "RESTORE" {
            c.restore("k", 0, &dump)
        } else {
            drop(c.run(store))
        }
        let before = c.reply("ZRANGE k 0 -1 WITHSCORES");
        after_scan(&mut c);
        c.script(&[("ZRANGE k 0 -1 WITHSCORES", before.as_str()), ("ZEXP.CARD k", "!NOTEXPIRING ")]);
    }
}
