//! Situations in which the sweeper gets no valid result: another module changes the set, the clock
//! steps, a snapshot has an outdated marker. The sweeper deletes no live member, and master, replica and AOF agree.

use testkit::{
    Client, FAR, GRACE_MS, PATIENCE, Server, after_scan, assert_drained, assert_marked, assert_restored, eventually,
    plant, start, start_with_clock,
};

fn field(c: &mut Client, name: &str) -> i64 {
    c.info_number("zeitset", &format!("zeitset_{name}"))
}

/// The snapshot was saved after plain commands had changed the set and before the module restored the marker.
#[test]
fn a_set_saved_before_its_marker_was_set_again_lives_on() {
    let mut server = Server::builder().start();
    let mut c = server.client();
    let marker = FAR + GRACE_MS;
    // Writes sets as such a snapshot has them. The module does not recognize these sets.
    for (key, off) in
        [("two", 2000), ("most", 10_000), ("beyond", 10_001), ("above", -1), ("restored", -5000), ("later", -5001)]
    {
        c.run(&format!("ZADD {key} 1000 dead {FAR} live"));
        c.run(&format!("PEXPIREAT {key} {}", marker - off));
    }
    let long = c.now() + 400_000;
    c.run(&format!("ZADD dead 1000 a {long} b"));
    c.run(&format!("PEXPIREAT dead {}", long + 400_000));
    c.run("SAVE");
    server.crash_and_restart();
    let mut c = server.client();
    for key in ["two", "most", "above", "restored"] {
        assert_restored(&mut c, key, FAR);
        assert_drained(&mut c, key, 1);
        c.script(&[(format!("ZEXP.ADD {key} 5m more"), "1")]);
    }
    after_scan(&mut c);
    for (key, until) in [("beyond", marker - 10_001), ("later", marker + 5001), ("dead", long + 400_000)] {
        c.script(&[
            (format!("PEXPIRETIME {key}"), until.to_string()),
            (format!("ZCARD {key}"), "2".into()),
            (format!("ZEXP.CARD {key}"), "!NOTEXPIRING ".into()),
        ]);
    }
    // After the first scan, a client's TTL is final, even if it is close to the marker.
    c.run(&format!("PEXPIREAT two {}", marker - 2000));
    after_scan(&mut c);
    c.script(&[("PEXPIRETIME two", (marker - 2000).to_string())]);
}

#[test]
fn a_replica_that_takes_over_sets_markers_that_waited() {
    // A master without the module restores no marker.
    let master = Server::builder().plain().start();
    let replica = Server::builder().replica_of(&master);
    let mut c = master.client();
    c.run(&format!("ZADD k 1000 dead {FAR} live"));
    c.run(&format!("PEXPIREAT k {}", FAR + GRACE_MS - 9000));
    replica.wait_for_sync(&master);
    let mut r = replica.client();
    r.run("REPLICAOF NO ONE");
    assert_restored(&mut r, "k", FAR);
    assert_drained(&mut r, "k", 1);
}

#[test]
fn a_step_of_the_wall_clock_is_noticed() {
    let (clock, _server, mut c) = start_with_clock("");
    c.run("ZEXP.ADD far 1h a 1w b");
    c.run("ZEXP.ADD near 1400ms a 1w b");
    clock.step_wall(3_601_000);
    assert_drained(&mut c, "near", 1);
    assert_drained(&mut c, "far", 1);
    // The clock steps back, so the member is no longer due, and no timer is armed for it.
    c.run("ZEXP.ADD k 1400ms a 1w b");
    clock.step_wall(-7_200_000);
    eventually(PATIENCE, "no timer is armed", || field(&mut c, "sweep_timer_armed") == 0);
    c.script(&[("ZEXP.CARD k", "2")]);
    c.run("ZEXP.ADD soon 100ms a 1w b");
    assert_drained(&mut c, "soon", 1);
    c.script(&[("ZCARD k", "2")]);
    clock.step_wall(7_202_000);
    assert_drained(&mut c, "k", 1);
}

#[test]
fn a_replica_has_no_backlog_and_no_lag_of_its_own() {
    let master = Server::start();
    let replica = Server::builder().replica_of(&master);
    let (mut c, mut r) = (master.client(), replica.client());
    c.run("CONFIG SET zeitset.sweep no");
    c.run("ZEXP.ADD k 100ms a 1w b");
    eventually(PATIENCE, "the master has a lag", || field(&mut c, "sweep_lag_ms") > 0);
    replica.wait_for_sync(&master);
    eventually(PATIENCE, "the replica knows the set", || field(&mut r, "sets_tracked") == 1);
    for name in ["sweep_backlog_sets", "sweep_backlog_members", "sweep_lag_ms"] {
        assert_eq!(field(&mut r, name), 0, "{name}");
    }
    assert_eq!(field(&mut c, "sweep_backlog_sets"), 1);
    r.run("REPLICAOF NO ONE");
    assert_drained(&mut r, "k", 1);
}

/// A module changes the set while it handles an event of a ZEXP command. This is treated like a change by a client.
#[test]
fn what_a_neighbour_changes_while_we_announce_is_restored() {
    let server = Server::builder().neighbour().start();
    let mut c = server.client();
    for event in ["zadd", "expire"] {
        c.run("DEL k");
        c.run(&format!("ZEXP.ADD k AT {FAR}ms a"));
        c.run(&format!("EVIL.ONCE {event} ZADD {{key}} {} later", FAR + 90_000));
        c.run(&format!("ZEXP.ADD k AT {}ms b", FAR + 1));
        assert!(c.int("EVIL.OFF") == 1);
        assert_restored(&mut c, "k", FAR + 90_000);
    }
    // If the other module removes the TTL, the set is ordinary.
    c.run("EVIL.ONCE zadd PERSIST {key}");
    c.run(&format!("ZEXP.ADD k AT {}ms c", FAR + 100));
    c.run("EVIL.OFF");
    after_scan(&mut c);
    c.script(&[("PEXPIRETIME k", "-1"), ("ZEXP.CARD k", "!NOTEXPIRING ")]);
}

/// A ZEXP command restores the marker of a set to which a plain command has added a member that expires sooner. The
/// module must not forget this member. (The simulation found such a bug.)
#[test]
fn a_sooner_plain_member_is_deleted_in_time_whatever_command_comes_next() {
    let (_server, mut c) = start();
    c.run("ZEXP.ADD k 1h a");
    let soon = c.now() + 300;
    c.script(&[
        ("MULTI".into(), "+OK"),
        (format!("ZADD k {soon} soon"), "+QUEUED"),
        ("ZEXP.ADD k 2h b".into(), "+QUEUED"),
    ]);
    c.run("EXEC");
    assert_drained(&mut c, "k", 2);
    assert_marked(&mut c, "k");
}

#[test]
fn an_ordinary_set_with_the_ttl_of_a_touched_one_is_copied_as_it_is() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &[("a", FAR)]);
    let marker = FAR + GRACE_MS;
    c.run("ZADD plain 1000 x 2000 y");
    c.run(&format!("PEXPIREAT plain {marker}"));
    c.script(&[
        ("MULTI".into(), "+OK"),
        (format!("ZADD k {} later", FAR + 9000), "+QUEUED"),
        ("COPY plain copy".into(), "+QUEUED"),
        ("RENAME plain renamed".into(), "+QUEUED"),
    ]);
    c.run("EXEC");
    after_scan(&mut c);
    for key in ["copy", "renamed"] {
        c.script(&[(format!("ZCARD {key}"), "2".to_string()), (format!("PEXPIRETIME {key}"), marker.to_string())]);
    }
}
