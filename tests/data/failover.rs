//! Masters become replicas, and replicas become masters. Only the current master deletes expired members, and no data
//! are lost.

use testkit::{
    Client, Dataset, FAR, PATIENCE, Server, after_scan, assert_agree, assert_drained, assert_tagged, at_full_speed,
    backlog, begin_draining, drained, draining, eventually, plant, start, start_keeping_aof, start_pair,
};

const MANY: usize = 60_000;

fn role(c: &mut Client) -> String {
    c.info("replication")["role"].clone()
}

/// Changes the master as an operator does: writes pause, the replica catches up, and the roles change.
#[track_caller]
pub fn fail_over(from: &mut Client, to: &Server) {
    let mut target = to.client();
    let command = format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 10000", to.address().1);
    // FAILOVER fails until the master sees the replica as online. After a timeout, the roles stay.
    eventually(4 * PATIENCE, "the roles have changed", || {
        if role(&mut target) == "slave" && from.info("replication")["master_failover_state"] == "no-failover" {
            let _ = from.try_run(&command);
        }
        role(&mut target) == "master" && role(from) == "slave"
    });
}

#[test]
fn a_promoted_replica_takes_over() {
    let (server, mut c) = start();
    let before = c.now() + 1000;
    c.run(&format!("ZEXP.ADD before AT {before}ms dead {FAR}ms live"));
    // The replica gets the first set in a snapshot, the other sets command by command.
    let replica = Server::builder().keeping_aof().replica_of(&server);
    let after = c.now() + 1000;
    c.run(&format!("ZEXP.ADD after AT {after}ms dead {FAR}ms live"));
    c.run("SELECT 8");
    c.run(&format!("ZEXP.ADD after AT {after}ms a {after}ms b"));
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    r.run("REPLICAOF NO ONE");
    for key in ["before", "after"] {
        assert_drained(&mut r, key, 1);
        r.script(&[(format!("ZEXP.MEMBERS {key}"), "['live']")]);
        assert_tagged(&mut r, key);
    }
    r.run("SELECT 8");
    assert_drained(&mut r, "after", 0);
    assert_agree(&replica, &[]);
}

#[test]
fn a_replica_promoted_during_a_backlog_drains_the_rest() {
    let (server, mut c) = start();
    let replica = Server::builder().keeping_aof().replica_of(&server);
    draining(&mut c, "k", MANY);
    let mut r = replica.client();
    eventually(PATIENCE, "the replica has the set", || r.int("EXISTS k") == 1);
    r.run("REPLICAOF NO ONE");
    drop(server);
    at_full_speed(&mut r);
    drained(&mut r, "k");
    assert_agree(&replica, &[]);
}

#[test]
fn roles_change_during_a_backlog() {
    let (one, mut c) = start_keeping_aof();
    let two = Server::builder().keeping_aof().replica_of(&one);
    let mut d = two.client();
    backlog(&mut c, "k", MANY);
    two.wait_for_sync(&one);
    begin_draining(&mut c, "k", MANY);
    fail_over(&mut c, &two);
    at_full_speed(&mut d);
    drained(&mut d, "k");
    one.wait_for_sync(&two);
    drained(&mut c, "k");
    // The former master has stopped its timers. It deletes only what the new master deletes.
    d.run("CONFIG SET zeitset.sweep no");
    let at = d.now() + 100;
    plant(&mut d, "later", &[("dead", at), ("live", FAR)]);
    d.wait_until(at + 500);
    one.wait_for_sync(&two);
    c.script(&[("ZCARD later", "3"), ("ZEXP.CARD later", "1")]);
    eventually(PATIENCE, "no timer is armed", || c.info_number("zeitset", "zeitset_sweep_timer_armed") == 0);
    // The roles change back.
    fail_over(&mut d, &one);
    assert_drained(&mut c, "later", 1);
    assert_agree(&one, &[&two]);
}

#[test]
fn a_failover_that_does_not_happen_leaves_the_master_sweeping() {
    let (one, mut c) = start_keeping_aof();
    let two = Server::builder().keeping_aof().replica_of(&one);
    backlog(&mut c, "k", MANY);
    two.wait_for_sync(&one);
    begin_draining(&mut c, "k", MANY);
    // Without its connection to the master, the replica cannot catch up.
    two.client().run("CLIENT KILL TYPE master");
    if c.try_run(&format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 60000", two.address().1)).is_ok() {
        // If the failover was quick, it cannot be aborted any more. Then the other server is the master.
        let _ = c.try_run("FAILOVER ABORT");
    }
    eventually(PATIENCE, "the failover is over", || c.info("replication")["master_failover_state"] == "no-failover");
    let mut master = if role(&mut c) == "master" { one.client() } else { two.client() };
    at_full_speed(&mut master);
    drained(&mut master, "k");
    let (master, replica) = if role(&mut c) == "master" { (&one, &two) } else { (&two, &one) };
    assert_agree(master, &[replica]);
}

#[test]
fn a_master_that_becomes_a_replica_takes_its_masters_data_and_stops_sweeping() {
    let (one, mut c) = start_keeping_aof();
    let (two, mut d) = start_keeping_aof();
    let at = c.now() + 2000;
    c.run(&format!("ZEXP.ADD k AT {at}ms dead {FAR}ms live"));
    c.run(&format!("ZEXP.ADD gone AT {at}ms dead {FAR}ms live"));
    d.run("CONFIG SET zeitset.sweep no");
    plant(&mut d, "k", &[("a", 1000), ("b", at), ("live", FAR)]);
    d.run("ZADD gone 1000 x");
    one.follow(&two);
    eventually(PATIENCE, "no timer is armed", || c.info_number("zeitset", "zeitset_sweep_timer_armed") == 0);
    c.wait_until(at + 300);
    c.script(&[("ZRANGE k 1 -1", "['a' 'b' 'live']"), ("ZRANGE gone 0 -1", "['x']")]);
    // As a master again, the server has recognized the sets that it got as a replica.
    c.run("REPLICAOF NO ONE");
    assert_drained(&mut c, "k", 1);
    after_scan(&mut c);
    c.script(&[("ZRANGE gone 0 -1", "['x']")]);
    d.script(&[("ZCARD k", "4")]);
    // Both servers are masters now, with different data.
    assert_agree(&one, &[]);
    assert_agree(&two, &[]);
}

#[test]
fn a_replica_resynchronised_as_a_whole_is_the_same() {
    let (server, replica, mut c) = start_pair();
    let mut r = replica.client();
    for round in 0..5 {
        r.run("REPLICAOF NO ONE");
        // As a master, the server has other data for a while.
        plant(&mut r, "k", &[("dead", 1000), ("own", FAR)]);
        assert_drained(&mut r, "k", 1);
        c.run(&format!("ZEXP.ADD k AT {FAR}ms m{round}"));
        let soon = c.now() + 200;
        c.run(&format!("ZEXP.ADD brief{round} AT {soon}ms a {FAR}ms b"));
        replica.follow(&server);
        assert_drained(&mut c, &format!("brief{round}"), 1);
        assert_agree(&server, &[&replica]);
    }
}

#[test]
fn writes_paused_before_anything_was_due_are_no_trap() {
    let (server, replica, mut c) = start_pair();
    let soon = c.now() + 400;
    for n in 0..50 {
        c.run(&format!("ZEXP.ADD k{n} AT {soon}ms dead {FAR}ms live"));
        c.run(&format!("ZADD k{n} {} later", FAR + 1));
    }
    c.run("CLIENT PAUSE 600000 WRITE");
    let before = Dataset::of(&mut c);
    c.wait_until(soon + 600);
    assert_eq!(Dataset::of(&mut c), before);
    c.script(&[("ZEXP.CARD k0", "2"), ("CLIENT UNPAUSE", "+OK")]);
    for n in 0..50 {
        assert_drained(&mut c, &format!("k{n}"), 2);
    }
    assert_agree(&server, &[&replica]);
}
