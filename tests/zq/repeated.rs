//! What docs/commands promises about queues in production: commands that are repeated after a lost reply, commands
//! after a waiting claim, jobs that kill their worker, and the replies of a replica.

use testkit::{Client, PATIENCE, Server, eventually, start};

fn claim(c: &mut Client) -> i64 {
    c.claim("ZQ.CLAIM 1 q LEASE 1h")
}

/// docs/commands/README.md has the table.
#[test]
fn a_command_that_is_sent_again_does_what_the_table_says() {
    let (_server, mut c) = start();
    c.script(&[("ZQ.PUSH q x ID a", "'a'"), ("ZQ.PUSH q x ID a", "nil")]);
    c.run("ZQ.PUSH q x");
    c.run("ZQ.PUSH q x");
    c.script(&[("ZQ.CLEAN q READY", "3"), ("ZQ.CLEAN q READY", "0")]);

    // Each command gets a new job and claim. The first call ends the claim.
    for (command, first, second) in [
        ("ZQ.ACK q a TOKEN", "1", "0"),
        ("ZQ.NACK q a TOKEN DELAY 1h", "1", "0"),
        ("ZQ.CANCEL q a", "1", "0"),
        ("ZQ.PUSH q x ID a REPLACE", "'a'", "'a'"),
    ] {
        c.run("ZQ.CANCEL q a");
        c.run("ZQ.PUSH q x ID a");
        let token = claim(&mut c);
        let command = command.replace("TOKEN", &token.to_string());
        c.script(&[(command.as_str(), first), (&command, second), (&format!("ZQ.ACK q a {token}"), "0")]);
    }
    // An ACK removes the job, so its ID is free.
    c.run("ZQ.PUSH q x ID b PRIORITY -1");
    let token = claim(&mut c);
    c.script(&[(format!("ZQ.ACK q b {token}"), "1"), ("ZQ.PUSH q x ID b PRIORITY -1".into(), "'b'")]);
    // A repeated REPLACE takes the job from the worker that has claimed it.
    c.run("ZQ.PUSH q x ID b PRIORITY -1 REPLACE");
    let token = claim(&mut c);
    c.script(&[("ZQ.PUSH q x ID b REPLACE".into(), "'b'"), (format!("ZQ.ACK q b {token}"), "0")]);

    c.run("DEL q");
    c.run("ZQ.PUSH q x ID a");
    c.run("ZQ.PUSH q x ID b");
    let (a, b) = (claim(&mut c), claim(&mut c));
    assert!(a < b, "a claim takes other jobs");
    let extend = format!("ZQ.EXTEND q 1h b {b}");
    let first = c.ints(&extend)[0];
    c.wait_until(first - 3_600_000 + 2);
    assert!(c.ints(&extend)[0] > first, "from the second call on");
    c.script(&[(format!("ZQ.NACK q a {a} DEAD"), "1"), (format!("ZQ.NACK q b {b} DEAD"), "1")]);
    c.script(&[("ZQ.REDRIVE q ID a", "1"), ("ZQ.REDRIVE q ID a", "0"), ("ZQ.REDRIVE q", "1"), ("ZQ.REDRIVE q", "0")]);
    c.script(&[("ZQ.RESCHEDULE q a AT 4102444800", "1"), ("ZQ.RESCHEDULE q a AT 4102444800", "1")]);
}

#[test]
fn get_tells_which_tokens_of_an_ack_were_stale() {
    let (_server, mut c) = start();
    for id in ["done", "back", "taken"] {
        c.run(&format!("ZQ.PUSH q x ID {id}"));
    }
    let [done, back, taken] = [claim(&mut c), claim(&mut c), claim(&mut c)];
    c.script(&[(format!("ZQ.NACK q taken {taken}"), "1")]);
    let other = claim(&mut c);
    c.script(&[(format!("ZQ.NACK q back {back} DELAY 1h"), "1")]);
    c.script(&[(format!("ZQ.ACK q done {done} back {back} taken {taken}"), "1"), ("ZQ.GET q done".into(), "nil")]);
    assert!(c.reply("ZQ.GET q back").contains("'token' nil "));
    assert!(c.reply("ZQ.GET q taken").contains(&format!("'token' {other} ")));
}

/// An ACK that is sent before a waiting claim gets its reply immediately. Commands after the claim wait with it.
#[test]
fn an_ack_may_share_a_pipeline_with_a_claim_that_waits() {
    let (server, mut c) = start();
    c.run("ZQ.PUSH q x ID a");
    let token = claim(&mut c);
    let mut worker = server.client();
    worker.send(&format!("ZQ.ACK q a {token}"));
    worker.send("ZQ.CLAIM 1 q LEASE 1h BLOCK 0");
    worker.send("PING");
    assert_eq!(worker.receive(), "1");
    c.wait_for_blocked(1);
    c.run("ZQ.PUSH q x ID b");
    assert!(worker.receive().contains("'b'"));
    assert_eq!(worker.receive(), "+PONG");
}

#[test]
fn a_job_that_kills_its_worker_dies_of_its_attempts() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x ID mortal MAXATTEMPTS 2");
    for attempt in 1..=2 {
        let jobs = c.reply("ZQ.CLAIM 1 q LEASE 20ms BLOCK 0 AS w1");
        assert!(jobs.starts_with("[['q' 'mortal' ") && jobs.contains(&format!(" {attempt} ")), "{jobs}");
    }
    eventually(PATIENCE, "it is dead", || c.reply("ZQ.GET q mortal").contains("'state' 'dead'"));
    let job = c.reply("ZQ.GET q mortal");
    assert!(job.contains("'attempts' 2 ") && job.contains("'worker' 'w1' 'error' nil"), "{job}");
    // If MAXATTEMPTS sets no bound, the job is served forever.
    c.run("ZQ.PUSH q x ID immortal");
    for attempt in 1..=5 {
        let jobs = c.reply("ZQ.CLAIM 1 q LEASE 20ms BLOCK 0");
        assert!(jobs.starts_with("[['q' 'immortal' ") && jobs.contains(&format!(" {attempt} ")), "{jobs}");
    }
}

#[test]
fn a_replica_tells_by_its_own_clock_and_changes_nothing() {
    let (server, mut c) = start();
    let replica = Server::builder().replica_of(&server);
    c.run("ZQ.CONFIG q MAXATTEMPTS 7");
    c.run("ZQ.PUSH q x ID a");
    c.run("ZQ.PUSH q x ID b DELAY 100ms");
    c.run("ZQ.CLAIM 1 q LEASE 100ms");
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    r.script(&[("ZQ.LIST", "['q']"), ("ZQ.CONFIG q", "!READONLY "), ("ZQ.PUSH q x", "!READONLY ")]);
    assert!(r.reply("ZQ.STATS q").contains("'max_attempts' 7 "), "the settings");
    // The master does not replicate that the lease has expired or that the job is due.
    eventually(PATIENCE, "both are ready", || r.reply("ZQ.GROUPS q") == "[['' 2 0 0 nil]]");
    assert!(r.reply("ZQ.PEEK q READY").contains("'b'") && r.reply("ZQ.GET q a").contains("'state' 'ready'"));
}
