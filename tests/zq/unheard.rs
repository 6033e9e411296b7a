//! While a server has no queue, the module gets no events and so costs nothing. From the first queue on, the module
//! gets events, in whatever way that queue was created.

use testkit::{Client, PATIENCE, Server, assert_agree, cmd, eventually, start};

fn dump() -> Vec<u8> {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q job ID j");
    c.dump("q")
}

/// Checks that the module soon lists the queue, and updates the list after plain commands.
fn is_followed(c: &mut Client) {
    eventually(PATIENCE, "the queue is known", || c.reply("ZQ.LIST") == "['q']");
    c.script(&[("RENAME q r", "+OK"), ("ZQ.LIST", "['r']"), ("COPY r s", "1"), ("ZQ.LIST", "['r' 's']")]);
    c.script(&[("DEL r", "1"), ("ZQ.LIST", "['s']"), ("MOVE s 1", "1"), ("ZQ.LIST", "[]"), ("SELECT 1", "+OK")]);
    c.script(&[("ZQ.LIST", "['s']"), ("PEXPIRE s 1", "1")]);
    eventually(PATIENCE, "it is gone", || c.reply("ZQ.LIST") == "[]");
}

#[test]
fn the_first_queue_is_followed_if_it_was_pushed_to() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q job");
    is_followed(&mut c);
}

#[test]
fn the_first_queue_is_followed_if_it_was_restored() {
    let dump = dump();
    let (_server, mut c) = start();
    cmd!(c, "RESTORE", "q", 0, &dump);
    is_followed(&mut c);
    // Also restores the queue in a script and in a transaction.
    for script in [false, true] {
        let server = Server::builder().keeping_aof().start();
        let replica = Server::builder().replica_of(&server);
        let mut c = server.client();
        if script {
            cmd!(c, "EVAL", "return redis.call('RESTORE', KEYS[1], 0, ARGV[1])", 1, "q", &dump);
        } else {
            c.run("MULTI");
            c.run("SET before 1");
            cmd!(c, "RESTORE", "q", 0, &dump);
            c.run("SET after 1");
            c.run("EXEC");
        }
        assert_agree(&server, &[&replica]);
        is_followed(&mut c);
    }
}

#[test]
fn the_first_queue_is_followed_if_it_was_loaded_or_replicated() {
    for config in ["save 3600 1", "appendonly yes"] {
        let mut server = Server::builder().config(config).start();
        server.client().run("ZQ.PUSH q job");
        server.restart();
        is_followed(&mut server.client());
    }
    let master = Server::start();
    let replica = Server::builder().replica_of(&master);
    master.client().run("ZQ.PUSH q job");
    replica.wait_for_sync(&master);
    let synchronized = Server::builder().replica_of(&master);
    for replica in [replica, synchronized] {
        let mut r = replica.client();
        r.run("REPLICAOF NO ONE");
        is_followed(&mut r);
    }
}

#[test]
fn a_client_that_waits_gets_a_job_of_the_first_queue_that_is_restored() {
    let dump = dump();
    let (server, mut c) = start();
    let mut waiter = server.waiting("ZQ.CLAIM 1 q LEASE 1h BLOCK 0");
    cmd!(c, "RESTORE", "q", 0, &dump);
    assert!(waiter.receive().contains("'job'"));
}
