//! The names of the queues after loading: an AOF with commands after its base file, RESTORE.

use std::time::Duration;
use testkit::{Client, PATIENCE, eventually, start, start_keeping_aof, start_with_clock};

#[test]
fn an_aof_whose_tail_moves_other_keys_loses_no_queue() {
    let (mut server, mut c) = start_keeping_aof();
    c.run("ZQ.PUSH other x");
    let payload = c.dump("other");
    c.run("DEL other");
    for (key, moves) in
        [("a", "RENAME a b"), ("a", "COPY a b"), ("a", "MOVE a 1"), ("a", "RESTORE"), ("a", "SWAPDB 2 3")]
    {
        c.run("FLUSHALL");
        c.run("ZQ.PUSH kept x ID 1");
        c.run("ZQ.PUSH gone x");
        c.run("ZQ.PUSH before x");
        c.rewrite_aof();
        c.run(&format!("SET {key} 1"));
        if moves == "RESTORE" {
            c.call(redis::cmd("RESTORE").arg("restored").arg(0).arg(&payload));
        } else {
            c.run(moves);
        }
        // On servers with the bug of `copy_loses_the_database`, the client is in another database now.
        c.run("SELECT 0");
        c.script(&[("DEL gone", "1"), ("RENAME before now", "+OK")]);
        server.restart();
        c = server.client();
        let names = if moves == "RESTORE" { "['kept' 'now' 'restored']" } else { "['kept' 'now']" };
        c.script(&[("ZQ.LIST", names), ("ZQ.GET now x", "nil")]);
    }
}

#[test]
fn a_flush_in_the_tail_of_an_aof_forgets_the_queues_before_it() {
    let (mut server, mut c) = start_keeping_aof();
    for (flush, left) in [("FLUSHALL", "['new']"), ("FLUSHDB", "['new']"), ("SWAPDB 0 1", "['new']")] {
        c.run("FLUSHALL");
        c.run("ZQ.PUSH old x");
        c.rewrite_aof();
        c.run(flush);
        c.run("ZQ.PUSH new x");
        server.restart();
        c = server.client();
        c.script(&[("ZQ.LIST", left)]);
    }
}

#[test]
fn an_aof_whose_tail_moves_other_keys_leaves_queues_to_the_upkeep() {
    let (clock, mut server, mut c) = start_with_clock("appendonly yes");
    c.run("ZQ.PUSH q x MAXATTEMPTS 1");
    c.run("ZQ.CLAIM 1 q LEASE 1h");
    c.rewrite_aof();
    c.script(&[("SET a 1", "+OK"), ("RENAME a b", "+OK"), ("CONFIG SET notify-keyspace-events KEd", "+OK")]);
    server.restart();
    let mut c = server.client();
    c.run("CONFIG SET notify-keyspace-events KEd");
    let mut listener = server.resp3();
    listener.psubscribe("__keyevent@0__:zq.dead");
    clock.advance(Duration::from_secs(3601));
    eventually(PATIENCE, "the death is announced", || !listener.pushes().is_empty());
}

#[test]
fn a_restore_whose_ttl_has_passed_leaves_nothing_behind() {
    const CALLS: usize = 2000;
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x");
    let payload = c.dump("q");
    let long = "x".repeat(1000);
    let restore = |c: &mut Client, from: usize| {
        for n in from..from + CALLS {
            c.call(redis::cmd("RESTORE").arg(format!("{long}{n}")).arg(1).arg(&payload).arg("ABSTTL"));
        }
        c.info_number("memory", "used_memory")
    };
    let before = restore(&mut c, 0);
    let after = restore(&mut c, CALLS);
    assert!(after - before < 500_000, "{} bytes more after {CALLS} calls", after - before);
    c.script(&[("ZQ.LIST", "['q']"), ("DBSIZE", "1")]);
}
