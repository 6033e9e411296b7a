//! Situations that the sweeper does not expect: another module changes the set, the clock steps, the server becomes a
//! master. The sweeper deletes no live member.

use testkit::{Client, FAR, PATIENCE, Server, TAG, after_scan, assert_drained, card, eventually, start_with_clock};

fn field(c: &mut Client, name: &str) -> i64 {
    c.info_number("zeitset", &format!("zeitset_{name}"))
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
    assert_eq!(card(&mut c, "k"), 2);
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
fn what_a_neighbour_changes_while_we_announce_is_noticed() {
    let server = Server::builder().neighbour().start();
    let mut c = server.client();
    c.run(&format!("ZEXP.ADD k AT {FAR}ms a"));
    let soon = c.now() + 500;
    c.run(&format!("EVIL.ONCE zadd ZADD {{key}} {soon} soon"));
    c.run(&format!("ZEXP.ADD k AT {}ms b", FAR + 1));
    assert_eq!(c.int("EVIL.OFF"), 1);
    assert_drained(&mut c, "k", 2);
    // If the other module removes the tag, the set is ordinary.
    c.run(&format!("EVIL.ONCE zadd ZREM {{key}} {TAG}"));
    c.run("ZEXP.ADD k 50ms c");
    assert_eq!(c.int("EVIL.OFF"), 1);
    c.script(&[("ZEXP.CARD k", "!NOTEXPIRING ")]);
    after_scan(&mut c);
    c.script(&[("ZRANGE k 0 -1", "['c' 'a' 'b']")]);
}
