//! Dead members give their memory back without anybody asking; and nothing else is ever deleted.

use crate::support::{Client, FAR, GRACE_MS, PATIENCE, Server, assert_marked, eventually, plant, start};

/// Waits until plain commands, too, see no more than `members` in `key`.
#[track_caller]
fn swept(c: &mut Client, key: &str, members: i64) {
    eventually(PATIENCE, &format!("{key} is swept to {members} members"), || c.int(&format!("ZCARD {key}")) == members);
}

#[test]
fn the_dead_leave_and_the_living_stay() {
    let (_server, mut c) = start();
    c.run("ZEXP.ADD k 30ms a 60ms b 90ms c 5m d");
    c.run("ZEXP.ADD other 50ms x 5m y");
    swept(&mut c, "k", 1);
    swept(&mut c, "other", 1);
    c.script(&[("ZEXP.MEMBERS k", "['d']"), ("ZEXP.MEMBERS other", "['y']")]);
    assert_marked(&mut c, "k");
}

#[test]
fn a_set_goes_with_its_last_member_and_not_a_grace_later() {
    let (_server, mut c) = start();
    c.run("ZEXP.ADD k 30ms a 60ms b");
    eventually(PATIENCE, "the key is gone", || c.int("EXISTS k") == 0);
}

#[test]
fn a_large_set_drains_whole() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    let names: Vec<_> = (0..30_000).map(|n| format!("m{n}")).collect();
    let members: Vec<_> = names.iter().map(|name| (name.as_str(), 1000)).chain([("live", FAR)]).collect();
    plant(&mut c, "k", &members);
    c.run("ZEXP.ADD k 5m x");
    c.script(&[("ZEXP.CARD k", "2"), ("ZCARD k", "30002")]);
    c.run("CONFIG SET zeitset.sweep yes");
    swept(&mut c, "k", 2);
    c.script(&[("ZEXP.MEMBERS k", "['x' 'live']")]);
    assert_marked(&mut c, "k");
}

#[test]
fn sets_that_came_another_way_are_found() {
    let (mut server, mut c) = {
        let server = Server::builder().config("save 3600 1").start();
        let client = server.client();
        (server, client)
    };
    let soon = c.now() + 200;
    let (names, members) = (["planted", "moved", "copied", "swapped", "restored"], [("dead", soon), ("live", FAR)]);
    plant(&mut c, "planted", &members);
    plant(&mut c, "temporary", &members);
    c.run("RENAME temporary moved");
    c.run("COPY moved copied");
    c.run("SELECT 1");
    plant(&mut c, "swapped", &members);
    c.run("SWAPDB 0 1");
    // What database 0 held is in 1 now: bring the other keys back.
    c.run("SELECT 1");
    for key in &names[..3] {
        c.run(&format!("MOVE {key} 0"));
    }
    c.run("SELECT 0");
    let redis::Value::BulkString(dump) = c.run("DUMP planted") else { panic!("no dump") };
    c.call(redis::cmd("RESTORE").arg("restored").arg(FAR + GRACE_MS).arg(dump).arg("ABSTTL"));
    for key in names {
        swept(&mut c, key, 1);
        assert_marked(&mut c, key);
    }
    // And after a restart, in which the module sees no write at all.
    let soon = c.now() + 300;
    c.run(&format!("ZEXP.ADD kept AT {soon}ms dead {FAR}ms live"));
    server.restart();
    let mut c = server.client();
    swept(&mut c, "kept", 1);
}

#[test]
fn ordinary_sorted_sets_are_never_swept() {
    let (_server, mut c) = start();
    let now = c.now();
    c.run("ZADD plain 1 a 2 b");
    c.run(&format!("ZADD past {} a {} b", now - 5000, now - 1));
    for (key, shift) in [("early", -1), ("late", 1), ("round", 100_000)] {
        c.run(&format!("ZADD {key} {} a {} b", now - 5000, now - 1));
        c.run(&format!("PEXPIREAT {key} {}", now - 1 + GRACE_MS + shift));
    }
    // Until the sweeper has demonstrably been at work.
    for n in 0..3 {
        c.run(&format!("ZEXP.ADD witness{n} 30ms x 5m y"));
        swept(&mut c, &format!("witness{n}"), 1);
        c.run(&format!("DEL witness{n}"));
    }
    for key in ["plain", "past", "early", "late", "round"] {
        c.script(&[(format!("ZCARD {key}"), "2")]);
    }
}

#[test]
fn replicas_get_deletions_and_make_none() {
    let (server, mut c) = start();
    let (replica, plain) = (Server::builder().replica_of(&server), Server::builder().plain().replica_of(&server));
    c.run("CONFIG SET zeitset.sweep no");
    let at = c.now() + 50;
    plant(&mut c, "k", &[("dead", at), ("live", FAR)]);
    plant(&mut c, "all", &[("x", at), ("y", at)]);
    c.wait_until(at + 1000);
    replica.wait_for_sync(&server);
    // The master keeps its dead for now: so does a replica, whatever its own sweeper thinks.
    let (mut r, mut p) = (replica.client(), plain.client());
    r.script(&[("ZCARD k", "2"), ("ZEXP.CARD k", "1"), ("ZCARD all", "2")]);
    c.run("CONFIG SET zeitset.sweep yes");
    swept(&mut c, "k", 1);
    eventually(PATIENCE, "the key is gone", || c.int("EXISTS all") == 0);
    for (client, server_of) in [(&mut r, &replica), (&mut p, &plain)] {
        server_of.wait_for_sync(&server);
        client.script(&[("ZRANGE k 0 -1", "['live']"), ("EXISTS all", "0")]);
        assert_marked(client, "k");
    }
}

#[test]
fn a_promoted_replica_takes_over() {
    let (server, mut c) = start();
    let replica = Server::builder().replica_of(&server);
    let at = c.now() + 800;
    c.run(&format!("ZEXP.ADD k AT {at}ms dead {FAR}ms live"));
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    r.run("REPLICAOF NO ONE");
    swept(&mut r, "k", 1);
}

#[test]
fn a_pause_of_writes_is_respected() {
    let (_server, mut c) = start();
    c.run("ZEXP.ADD k 100ms dead 5m live");
    c.run("CLIENT PAUSE 1000 WRITE");
    let end = c.now() + 600;
    c.wait_until(end);
    c.script(&[("ZEXP.CARD k", "1")]);
    swept(&mut c, "k", 1);
}
