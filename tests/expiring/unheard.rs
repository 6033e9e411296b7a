//! While a server has no expiring set, the module gets no events and so costs nothing. The first ZEXP command finds
//! sets that already exist.

use testkit::{
    Client, FAR, GRACE_MS, PATIENCE, Server, assert_drained, assert_marked, assert_restored, eventually, plant, start,
};

/// Returns the payload of a set with these members. A payload has no TTL.
fn dump(members: &[(&str, i64)]) -> Vec<u8> {
    let (_server, mut c) = start();
    c.run_all(members.iter().map(|(member, at)| format!("ZADD k {at} {member}")));
    c.dump("k")
}

#[test]
fn sets_that_were_restored_are_found_by_the_first_command_on_any_key() {
    let dump = dump(&[("dead", 1000), ("live", FAR)]);
    for command in ["ZEXP.CARD other", "ZEXP.ADD other 5m m", "ZEXP.MEMBERS restored0", "ZEXP.ADD restored-5000 5m m"] {
        let (_server, mut c) = start();
        let shifts = [-5000, -3, 0, 3, 5000];
        for shift in shifts {
            c.restore(&format!("restored{shift}"), FAR + GRACE_MS + shift, &dump);
        }
        c.run("COPY restored3 copied");
        c.run("RENAME restored-3 renamed");
        c.run("MOVE restored5000 9");
        let reply = c.reply(command);
        assert!(!reply.starts_with('!'), "{command}: {reply}");
        for key in ["restored-5000", "restored0", "restored3", "copied", "renamed", "restored5000"] {
            c.run(if key == "restored5000" { "SELECT 9" } else { "SELECT 0" });
            assert_restored(&mut c, key, FAR);
            eventually(PATIENCE, key, || !c.strings(&format!("ZRANGE {key} 0 -1")).contains(&"dead".to_owned()));
        }
    }
}

/// When the command comes, the keyspace scan may not have reached the set yet.
#[test]
fn a_set_that_was_restored_is_one_for_the_very_command_that_is_the_first() {
    let dump = dump(&[("dead", 1000), ("live", FAR)]);
    for (command, expected) in [
        ("ZEXP.CARD k", "1"),
        ("ZEXP.MEMBERS k", "['live']"),
        ("ZEXP.ISMEMBER k dead", "0"),
        ("ZEXP.ADD k 5m dead", "1"),
        ("ZEXP.ADD k CAP 1 5m new", "nil"),
        ("ZEXP.REM k live dead", "1"),
        ("ZEXP.POP k", "'live'"),
        ("ZEXP.ADOPT k", "1"),
    ] {
        for shift in [-2, 2, 700] {
            let (_server, mut c) = start();
            c.restore("k", FAR + GRACE_MS + shift, &dump);
            c.script(&[(command, expected)]);
            eventually(PATIENCE, command, || c.int("EXISTS k") == 0 || c.int("ZCARD k") == c.int("ZEXP.CARD k"));
            if c.int("EXISTS k") == 1 {
                assert_marked(&mut c, "k");
            }
        }
    }
}

#[test]
fn a_set_whose_members_died_before_the_first_command_takes_new_ones() {
    let (_server, mut c) = start();
    let at = c.now() + 300;
    let dump = dump(&[("a", at), ("b", at)]);
    for key in ["read", "written", "walked"] {
        c.restore(key, at + GRACE_MS + 2, &dump);
    }
    c.wait_until(at);
    c.script(&[("ZEXP.CARD read", "0"), ("ZEXP.MEMBERS read", "[]"), ("ZEXP.ADD written 5m a", "1")]);
    eventually(PATIENCE, "a walk", || c.info_number("zeitset", "zeitset_scans_completed") >= 2);
    c.script(&[("ZEXP.ADD walked CAP 1 5m c", "1")]);
    for key in ["written", "walked"] {
        assert_drained(&mut c, key, 1);
        assert_marked(&mut c, key);
    }
}

/// A hand-written limiter stores times as scores and sets a TTL of whole seconds.
#[test]
fn a_log_of_moments_is_no_set_whose_members_died() {
    let (_server, mut c) = start();
    for window in [46, 47, 48, 49] {
        let now = c.now();
        c.run(&format!("ZADD log {now} a"));
        c.run(&format!("PEXPIREAT log {}", now + 1000 * window));
        let before = c.trace("log");
        c.script(&[("ZEXP.CARD log", "!NOTEXPIRING "), ("ZEXP.ADD log 5m b", "!NOTEXPIRING ")]);
        assert_eq!(c.trace("log"), before);
    }
}

#[test]
fn without_any_command_the_ttl_takes_the_set() {
    let (_server, mut c) = start();
    let highest = c.now() - GRACE_MS + 2000;
    c.restore("k", highest + GRACE_MS + 2, &dump(&[("a", 1000), ("b", highest)]));
    eventually(PATIENCE, "the key is gone", || c.int("EXISTS k") == 0);
    assert_eq!(c.info_number("zeitset", "zeitset_members_expired"), 0);
}

/// In whatever way the first expiring set was created, the module notices plain commands on it.
#[test]
fn plain_commands_on_the_first_set_are_noticed_whatever_created_it() {
    let there = |how: &str| {
        let mut server = Server::builder().keeping_aof().start();
        let mut c = server.client();
        match how {
            "command" => drop(c.run(&format!("ZEXP.ADD k AT {FAR}ms a"))),
            "adopted" => {
                c.run(&format!("ZADD k {FAR} a"));
                c.run("ZEXP.ADOPT k");
            }
            "written with its marker" => plant(&mut c, "k", &[("a", FAR)]),
            "AOF" | "RDB" => {
                plant(&mut c, "k", &[("a", FAR)]);
                if how == "RDB" {
                    c.rewrite_aof();
                }
                server.restart();
            }
            _ => unreachable!("{how}"),
        }
        server
    };
    for how in ["command", "adopted", "written with its marker", "AOF", "RDB"] {
        let server = there(how);
        let mut c = server.client();
        let tracked = |c: &mut Client| c.info_number("zeitset", "zeitset_sets_tracked");
        eventually(PATIENCE, how, || tracked(&mut c) == 1);
        c.run(&format!("ZADD k {} later", FAR + 5000));
        assert_restored(&mut c, "k", FAR + 5000);
        c.run("RENAME k renamed");
        assert_eq!(tracked(&mut c), 1, "{how}");
        c.run("DEL renamed");
        assert_eq!(tracked(&mut c), 0, "{how}");
    }
}

/// The replica recognizes the set, although RESTORE has shifted its TTL. Only the master may correct the TTL.
#[test]
fn the_first_read_on_a_replica_writes_nothing() {
    let master = Server::builder().plain().start();
    let replica = Server::builder().replica_of(&master);
    let (mut c, mut r) = (master.client(), replica.client());
    c.restore("k", FAR + GRACE_MS + 300, &dump(&[("dead", 1000), ("live", FAR)]));
    replica.wait_for_sync(&master);
    let before = r.trace("k");
    r.script(&[("ZEXP.CARD k", "1"), ("ZEXP.MEMBERS k", "['live']")]);
    eventually(PATIENCE, "walks", || r.info_number("zeitset", "zeitset_scans_completed") >= 3);
    r.script(&[("ZEXP.CARD k", "1")]);
    assert_eq!(r.trace("k"), before);
}
