//! A server above its maxmemory, and a replica above its own maxmemory.

use testkit::{Client, Job, Server, assert_agree, assert_same_data, start_keeping_aof};

fn fill_up(c: &mut Client) {
    c.run("CONFIG SET maxmemory 1");
    c.script(&[("SET plain x", "!OOM ")]);
}

/// The server refuses exactly the commands that the documentation lists.
#[test]
fn workers_go_on_and_an_operator_can_pause_over_maxmemory() {
    let (server, mut c) = start_keeping_aof();
    c.run("ZEXP.ADD slots 1h w");
    let charged = c.ints("ZRL.CHECK limit 5 1h COST 3")[5];
    for id in ["a", "b", "c"] {
        c.run(&format!("ZQ.PUSH q x ID {id}"));
    }
    fill_up(&mut c);
    let a = c.claim("ZQ.CLAIM 1 q LEASE 1m");
    let b = c.claim("ZQ.CLAIM 1 q LEASE 1m");
    assert!(c.ints(&format!("ZQ.EXTEND q 2m a {a}"))[0] > 0);
    c.script(&[
        (&*format!("ZQ.ACK q a {a}"), "1"),
        (&*format!("ZQ.NACK q b {b} DEAD"), "1"),
        ("ZQ.REDRIVE q", "1"),
        ("ZQ.RESCHEDULE q c DELAY 1h", "1"),
        ("ZQ.CONFIG q PAUSED yes", "+OK"),
        ("ZQ.CLAIM 1 q LEASE 1m", "[]"),
        ("ZQ.CONFIG q PAUSED no CONCURRENCY 3 AGING 1s", "+OK"),
        ("ZQ.CONFIG absent PAUSED yes", "!OOM command not allowed when used memory > 'maxmemory'."),
        ("EXISTS absent", "0"),
        ("ZQ.PUSH q x", "!OOM "),
        ("ZQ.CANCEL q c", "1"),
        ("ZEXP.EXPIRE slots 2h w", "[1]"),
        // The server refuses a heartbeat by ZEXP.ADD, because it checks only the command and not its options.
        ("ZEXP.ADD slots XX 2h w", "!OOM "),
        ("ZEXP.REM slots w", "1"),
        ("ZRL.CHECK limit 5 1h", "!OOM "),
        (&*format!("ZRL.REFUND limit 1 AT {charged}"), "1"),
    ]);
    assert!(c.reply("ZQ.CONFIG q").contains("'concurrency' 3"));
    c.run("CONFIG SET maxmemory 0");
    assert_agree(&server, &[]);
}

#[test]
fn a_client_that_waits_is_served_over_maxmemory() {
    let (server, mut c) = start_keeping_aof();
    c.run("ZQ.PUSH q x ID a DELAY 1h");
    let mut waiter = server.waiting("ZQ.CLAIM 1 q LEASE 1m BLOCK 0");
    fill_up(&mut c);
    c.run("ZQ.RESCHEDULE q a DELAY 0");
    assert!(waiter.receive().starts_with("[['q' 'a' "));
    c.run("CONFIG SET maxmemory 0");
    assert_agree(&server, &[]);
}

/// A replica above its own maxmemory refuses commands with the flag `deny-oom`, even from its master. So effects do not
/// have that flag.
#[test]
fn a_full_replica_takes_every_effect() {
    let (server, mut c) = start_keeping_aof();
    let replica = Server::builder().keeping_aof().config("replica-ignore-maxmemory no").replica_of(&server);
    c.run_all(["ZQ.PUSH q x ID a", "ZLB.CREATE old DIM x"]);
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    r.run("CONFIG SET maxmemory 1");
    c.run_all(["ZLB.CREATE b DIM x", "ZLB.SET b m 5 n 6 o 7", "ZLB.INCR b m x 3", "ZLB.REM b n"]);
    c.run_all(["ZLB.MERGE s 2 b old", "ZLB.REMRANGE s 0 0", "ZLB.SET old p 1", "ZLB.CLEAR old"]);
    c.run("ZQ.CONFIG q MAXATTEMPTS 5");
    c.run("ZQ.PUSH q x ID b");
    let Job { id, token, .. } = c.job("ZQ.CLAIM 1 q LEASE 1h");
    c.script(&[(format!("ZQ.ACK q {id} {token}"), "1")]);
    c.claim("ZQ.CLAIM 1 q LEASE 1h");
    replica.wait_for_sync(&server);
    assert_same_data(&mut c, &mut r);
    assert_eq!(r.info_number("zeitset", "zeitset_queue_effects_rejected"), 0);
    assert_agree(&server, &[&replica]);
}
