//! DECLARE: a program declares its recurring jobs at each start. Replicas and files have the same jobs.

use redis::Value;
use testkit::{Client, PATIENCE, Server, assert_agree, eventually, show, start, start_pair};

fn field(c: &mut Client, name: &str) -> String {
    let Value::Array(fields) = c.run("ZQ.GET q cron") else { panic!("a job") };
    let name = format!("'{name}'");
    show(&fields.chunks(2).find(|pair| show(&pair[0]) == name).expect("a field")[1])
}

#[test]
fn a_declaration_replies_the_id_and_is_replicated_only_if_it_changes_something() {
    let (server, replica, mut c) = start_pair();
    let declare = "ZQ.PUSH q one ID cron AT 4102444800 EVERY 1d DECLARE";
    let offset = |c: &mut Client| {
        let info = c.string("INFO replication");
        info.lines().find(|line| line.starts_with("master_repl_offset:")).expect("an offset").to_owned()
    };
    c.script(&[(declare, "'cron'")]);
    let before = offset(&mut c);
    c.script(&[(declare, "'cron'"), ("ZQ.PUSH q one ID cron AT 4133980800 EVERY 24h DECLARE", "'cron'")]);
    assert_eq!(offset(&mut c), before);
    c.script(&[("ZQ.PUSH q two ID cron EVERY 1d PRIORITY -2 GROUP g MAXATTEMPTS 4 TTL 1h DECLARE", "'cron'")]);
    assert_ne!(offset(&mut c), before);
    let fields = ["payload", "priority", "group", "max_attempts", "ttl_ms", "due_ms", "every_ms"];
    let found = fields.map(|name| field(&mut c, name));
    assert_eq!(found, ["'two'", "-2", "'g'", "4", "3600000", "4102444800000", "86400000"]);
    c.script(&[("ZQ.PUSH q two ID cron AT 4102488000 EVERY 12h DECLARE", "'cron'")]);
    assert_eq!(field(&mut c, "due_ms"), "4102488000000");
    assert_agree(&server, &[&replica]);
}

#[test]
fn a_claimed_job_is_what_its_declaration_says_from_the_end_of_the_claim_on() {
    let (server, replica, mut c) = start_pair();
    for end in ["ACK q cron {}", "NACK q cron {}", "NACK q cron {} DEAD", "lease", "cancel"] {
        c.run("DEL q");
        c.script(&[("ZQ.PUSH q old ID cron EVERY 1d GROUP a DECLARE", "'cron'")]);
        let lease = if end == "lease" { "300ms" } else { "1h" };
        let token = c.claim(&format!("ZQ.CLAIM 1 q LEASE {lease}"));
        c.script(&[("ZQ.PUSH q new ID cron EVERY 1d GROUP b DECLARE", "'cron'")]);
        if end == "cancel" {
            assert_agree(&server, &[&replica]);
            continue;
        }
        if end != "lease" {
            assert_eq!(
                ["payload", "again_payload", "state"].map(|name| field(&mut c, name)),
                ["'old'", "'new'", "'claimed'"]
            );
            c.script(&[(format!("ZQ.{}", end.replace("{}", &token.to_string())), "1")]);
        } else {
            // The upkeep carries out the declaration, without a command.
            eventually(PATIENCE, "the lease expires", || field(&mut c, "group") == "'b'");
        }
        assert_eq!(
            ["payload", "again_payload", "group"].map(|name| field(&mut c, name)),
            ["'new'", "nil", "'b'"],
            "{end}"
        );
        c.script(&[("ZQ.PUSH q new ID cron EVERY 1d GROUP b DECLARE", "'cron'")]);
        assert_agree(&server, &[&replica]);
    }
    c.script(&[("ZQ.CANCEL q cron", "1"), ("ZQ.GET q cron", "nil")]);
    assert_agree(&server, &[&replica]);
}

#[test]
fn a_waiting_declaration_survives_files_and_copies() {
    let mut server = Server::builder().config("appendonly yes").start();
    let mut c = server.client();
    c.script(&[("ZQ.PUSH q old ID cron EVERY 1d DECLARE", "'cron'")]);
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
    c.script(&[
        ("ZQ.PUSH q new ID cron AT 4102444800 EVERY 2d DECLARE", "'cron'"),
        (&*format!("ZQ.PROGRESS q cron {token} half"), "1"),
        ("COPY q copy", "1"),
    ]);
    server.restart();
    let mut c = server.client();
    let dump = |c: &mut Client, key: &str| show(&c.run(&format!("DUMP {key}")));
    let (before, copy) = (dump(&mut c, "q"), dump(&mut c, "copy"));
    assert_eq!(before, copy);
    c.run("BGREWRITEAOF");
    eventually(PATIENCE, "the AOF is rewritten", || c.string("INFO persistence").contains("aof_rewrite_in_progress:0"));
    server.restart();
    let mut c = server.client();
    assert_eq!(dump(&mut c, "q"), before);
    assert_eq!(["progress", "again_payload"].map(|name| field(&mut c, name)), ["'half'", "'new'"]);
    c.script(&[(format!("ZQ.ACK q cron {token}"), "1")]);
    let found = ["payload", "due_ms", "progress", "progress_ms"].map(|name| field(&mut c, name));
    assert_eq!(found, ["'new'", "4102444800000", "nil", "nil"]);
}

#[test]
fn declare_needs_an_id_and_every_and_stands_alone() {
    let (_server, mut c) = start();
    let requires = "!ERR DECLARE requires a job ID and EVERY";
    c.script(&[
        ("ZQ.PUSH q x DECLARE", requires),
        ("ZQ.PUSH q x ID a DECLARE", requires),
        ("ZQ.PUSH q x EVERY 1d DECLARE", requires),
        ("ZQ.PUSH q x ID a EVERY 1d DECLARE REPLACE", "!ERR syntax error"),
        ("ZQ.PUSH q x ID a EVERY 1d AGAIN DECLARE", "!ERR syntax error"),
        ("ZQ.PUSH q x ID a EVERY 1d DECLARE DECLARE", "!ERR syntax error"),
        ("EXISTS q", "0"),
        ("ZQ.CONFIG q MAXLEN 1", "+OK"),
        ("ZQ.PUSH q x ID a EVERY 1d declare", "'a'"),
        ("ZQ.PUSH q y ID a EVERY 1d DECLARE", "'a'"),
        ("ZQ.PUSH q x ID b EVERY 1d DECLARE", "!QUEUEFULL queue already holds MAXLEN jobs"),
    ]);
}

/// The declaration moves the job to a group that is held, when the lease expires. So the claim would get no job.
#[test]
fn a_client_waits_on_if_a_declaration_makes_the_job_unclaimable() {
    let (server, mut c) = start();
    c.run_all(["ZQ.PUSH q x ID other GROUP b DELAY 1d", "ZQ.HOLD q b 1h"]);
    c.script(&[("ZQ.PUSH q old ID cron EVERY 1d GROUP a DECLARE", "'cron'")]);
    c.claim("ZQ.CLAIM 1 q LEASE 200ms");
    c.script(&[("ZQ.PUSH q new ID cron EVERY 1d GROUP b DECLARE", "'cron'")]);
    let mut waiter = server.waiting("ZQ.CLAIM 1 q LEASE 10s BLOCK 0");
    eventually(PATIENCE, "the lease expires", || field(&mut c, "group") == "'b'");
    assert_eq!(c.info_number("clients", "blocked_clients"), 1);
    c.run("ZQ.HOLD q b 0");
    let reply = waiter.receive();
    assert!(reply.starts_with("[['q' 'cron' "), "{reply}");
}
