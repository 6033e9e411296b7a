//! All queues of a server: their names, and their totals in INFO.

use testkit::{Client, PATIENCE, Server, eventually, start, start_keeping_aof};

fn places(c: &mut Client) -> [String; 5] {
    let info = c.info("zeitset");
    let fields = ["queues", "jobs_ready", "jobs_delayed", "jobs_claimed", "jobs_dead"];
    fields.map(|field| info[&format!("zeitset_{field}")].clone())
}

/// Waits until INFO has these numbers. The server may still be freeing values in a background thread.
#[track_caller]
fn expect(c: &mut Client, expected: [&str; 5]) {
    eventually(PATIENCE, "INFO counts the queues and jobs that there are", || places(c) == expected);
}

/// Creates a queue with jobs in every state.
fn fill(c: &mut Client, key: &str) {
    c.run(&format!(
        "ZQ.APPLY {key} 1000 PUSH leased x 1000 0 0 0 PUSH dead x 1000 0 0 0 PUSH ready x 1000 0 0 0 \
         PUSH ready2 x 1000 0 0 0 PUSH later x 4102444800000 0 0 0 CLAIM leased 5 4102444800000 CLAIM dead 6 2000 DEAD dead"
    ));
}

#[test]
fn info_counts_claims_of_the_last_attempt_too() {
    let (_server, mut c) = start();
    c.run_all(["ZQ.PUSH q x MAXATTEMPTS 1", "ZQ.PUSH q y", "ZQ.CLAIM 1 q LEASE 1h COUNT 2"]);
    expect(&mut c, ["1", "0", "0", "2", "0"]);
}

#[test]
fn info_counts_queues_and_jobs_whatever_becomes_of_their_keys() {
    let (_server, mut c) = start();
    let none = ["0"; 5];
    expect(&mut c, none);
    fill(&mut c, "a");
    expect(&mut c, ["1", "2", "1", "1", "1"]);
    c.run("COPY a b");
    expect(&mut c, ["2", "4", "2", "2", "2"]);
    c.run("RENAME a c");
    c.run("MOVE c 1");
    c.run("SWAPDB 0 1");
    c.run("ZQ.CANCEL c ready dead");
    expect(&mut c, ["2", "3", "2", "2", "1"]);
    c.run("DEBUG RELOAD");
    expect(&mut c, ["2", "3", "2", "2", "1"]);
    c.run("UNLINK c");
    expect(&mut c, ["1", "2", "1", "1", "1"]);
    c.run("FLUSHALL ASYNC");
    expect(&mut c, none);
}

#[test]
fn info_tells_the_longest_wait_of_all_queues() {
    let (_server, mut c) = start();
    let wait = |c: &mut Client| c.info("zeitset")["zeitset_jobs_longest_wait_ms"].parse::<i64>().expect("a number");
    c.run("ZQ.PUSH a x ID later AT 4102444800");
    assert_eq!(wait(&mut c), 0);
    let now = c.now();
    for (queue, ago) in [("a", 100_000), ("b", 300_000), ("c", 200_000)] {
        c.run(&format!("ZQ.PUSH {queue} x ID old AT {}ms", now - ago));
    }
    // Removes the job that has waited the longest. Then the next job has waited the longest.
    for (queue, ago) in [("b", 300_000), ("c", 200_000), ("a", 100_000)] {
        let seen = wait(&mut c);
        assert!((ago..ago + 60_000).contains(&seen), "{seen}");
        c.run(&format!("ZQ.CANCEL {queue} old"));
    }
    assert_eq!(wait(&mut c), 0);
    c.run(&format!("ZQ.PUSH c x AT {}ms", now - 500_000));
    assert!(wait(&mut c) >= 500_000);
    c.run("DEL c");
    assert_eq!(wait(&mut c), 0);
    // No worker may claim these jobs, so none is late.
    c.run(&format!("ZQ.PUSH held x GROUP acme AT {}ms", now - 500_000));
    c.run(&format!("ZQ.PUSH paused x AT {}ms", now - 500_000));
    c.run_all(["ZQ.HOLD held acme 1h", "ZQ.CONFIG paused PAUSED yes"]);
    assert_eq!(wait(&mut c), 0);
    c.run(&format!("ZQ.PUSH held x GROUP other AT {}ms", now - 100_000));
    let seen = wait(&mut c);
    assert!((100_000..160_000).contains(&seen), "{seen}");
    c.run("ZQ.CONFIG paused PAUSED no");
    assert!(wait(&mut c) >= 500_000);
}

#[test]
fn info_counts_more_changed_queues_than_it_notes_and_none_that_was_deleted_since() {
    let (_server, mut c) = start();
    let all = |command: &str| (0..1500).map(|i| command.replace('#', &i.to_string())).collect::<Vec<_>>();
    c.run_all(all("ZQ.PUSH q# x"));
    // The server's cron updates the totals, too, but not within a transaction.
    c.run("MULTI");
    c.run_all(all("ZQ.PUSH q# x DELAY 1h"));
    c.run_all(["UNLINK q0", "DEL q1", "SET q2 x", "RENAME q3 q4"]);
    c.run("INFO zeitset");
    let info = c.reply("EXEC");
    for field in ["queues:1496", "jobs_ready:1496", "jobs_delayed:1496"] {
        assert!(info.contains(&format!("zeitset_{field}")), "{field}: {info}");
    }
    // By default, Valkey frees the values in a background thread.
    c.run("FLUSHALL SYNC");
    assert_eq!(c.info("zeitset")["zeitset_jobs_delayed"], "0");
}

#[test]
fn queues_are_listed_by_name_page_by_page() {
    let (_server, mut c) = start();
    c.script(&[("ZQ.LIST", "[]"), ("SET b string", "+OK")]);
    for key in ["d", "a", "c", "e"] {
        c.run(&format!("ZQ.PUSH {key} x"));
    }
    c.script(&[
        ("ZQ.LIST", "['a' 'c' 'd' 'e']"),
        ("ZQ.LIST COUNT 2", "['a' 'c']"),
        ("ZQ.LIST AFTER c COUNT 2", "['d' 'e']"),
        ("ZQ.LIST AFTER b COUNT 1", "['c']"),
        ("ZQ.LIST AFTER e", "[]"),
    ]);
}

#[test]
fn the_list_follows_the_keys_whatever_becomes_of_them() {
    let (_server, mut c) = start();
    for key in ["a", "b", "c", "d"] {
        c.run(&format!("ZQ.PUSH {key} x"));
    }
    c.script(&[
        ("RENAME a a2", "+OK"),
        ("COPY b b2", "1"),
        ("COPY b elsewhere DB 1", "1"),
        // On servers with the bug of `copy_loses_the_database`, the client is in another database now.
        ("SELECT 0", "+OK"),
        ("MOVE c 1", "1"),
        ("SET d string", "+OK"),
        ("ZQ.LIST", "['a2' 'b' 'b2']"),
        ("SELECT 1", "+OK"),
        ("ZQ.LIST", "['c' 'elsewhere']"),
        ("SWAPDB 0 1", "+OK"),
        ("ZQ.LIST", "['a2' 'b' 'b2']"),
        ("DEBUG RELOAD", "+OK"),
        ("ZQ.LIST", "['a2' 'b' 'b2']"),
        ("UNLINK b", "1"),
        ("PEXPIREAT b2 1", "1"),
        ("ZQ.LIST", "['a2']"),
        ("SELECT 0", "+OK"),
        ("ZQ.LIST", "['c' 'elsewhere']"),
        ("FLUSHDB ASYNC", "+OK"),
        ("ZQ.LIST", "[]"),
        ("SELECT 1", "+OK"),
        ("ZQ.LIST", "['a2']"),
    ]);
}

#[test]
fn a_queue_is_listed_that_moves_while_a_neighbour_deletes_another_or_moves_a_key() {
    for (before, meanwhile) in [("ZQ.PUSH other x", "DEL other"), ("SET plain x", "RENAME plain other")] {
        let server = Server::builder().neighbour().start();
        let mut c = server.client();
        c.run(before);
        c.run("ZQ.PUSH q x");
        c.run(&format!("EVIL.ONCE rename_from {meanwhile}"));
        c.script(&[("RENAME q r", "+OK"), ("EVIL.OFF", "1"), ("ZQ.LIST", "['r']")]);
    }
}

#[test]
fn the_list_shows_only_what_the_caller_may_read() {
    let (server, mut c) = start();
    for key in ["mine:1", "theirs:1", "mine:2"] {
        c.run(&format!("ZQ.PUSH {key} x"));
    }
    c.run("ACL SETUSER bob on >pw ~mine:* +@all");
    let mut bob = server.client();
    bob.run("AUTH bob pw");
    bob.script(&[("ZQ.LIST", "['mine:1' 'mine:2']"), ("ZQ.LIST AFTER mine:1", "['mine:2']")]);
}

#[test]
fn info_counts_only_claims_made_here() {
    let (mut server, mut c) = start_keeping_aof();
    let replica = Server::builder().replica_of(&server);
    let figures = |server: &Server| {
        let mut c = server.client();
        ["zeitset_claims", "zeitset_expired_leases"].map(|field| c.info_number("zeitset", field))
    };
    c.run("ZQ.PUSH q x");
    c.run("ZQ.CLAIM 1 q LEASE 1ms");
    let due = c.now() + 2;
    c.wait_until(due);
    c.run("ZQ.CLAIM 1 q LEASE 1h COUNT 5");
    c.run("COPY q copy");
    assert_eq!(figures(&server), [2, 1], "a copy has not expired once more");
    replica.wait_for_sync(&server);
    assert_eq!(figures(&replica), [0, 0], "on a replica");
    server.restart();
    assert_eq!(figures(&server), [0, 0], "after a restart");
}

#[test]
fn info_counts_the_jobs_that_became_dead_letters_here() {
    let (mut server, mut c) = start_keeping_aof();
    let replica = Server::builder().replica_of(&server);
    let dead_letters = |server: &Server| server.client().info_number("zeitset", "zeitset_dead_letters");
    for id in ["a", "b"] {
        c.run(&format!("ZQ.PUSH q x ID {id}"));
    }
    c.run("ZQ.PUSH q x ID last MAXATTEMPTS 1");
    // A ZQ.NACK creates a dead letter.
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
    c.run(&format!("ZQ.NACK q a {token} DEAD"));
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
    c.run(&format!("ZQ.NACK q b {token}"));
    assert_eq!(dead_letters(&server), 1);
    // The expiry of the last lease creates a dead letter.
    c.run("ZQ.CLAIM 1 q LEASE 1ms COUNT 2");
    eventually(PATIENCE, "the expired lease is counted", || dead_letters(&server) == 2);
    // A REDRIVE creates no dead letter.
    assert_eq!(c.int("ZQ.REDRIVE q"), 2);
    assert_eq!(dead_letters(&server), 2);
    c.run("ZQ.PUSH q x ID other MAXATTEMPTS 1 PRIORITY -1");
    c.run("ZQ.CLAIM 1 q LEASE 1ms");
    eventually(PATIENCE, "the next one is counted", || dead_letters(&server) == 3);
    replica.wait_for_sync(&server);
    assert_eq!(dead_letters(&replica), 0, "on a replica");
    // Neither a restart nor a promotion counts the old dead letters again.
    replica.client().run("REPLICAOF NO ONE");
    server.restart();
    for server in [&server, &replica] {
        let mut c = server.client();
        c.run("ZQ.PUSH q x ID new MAXATTEMPTS 1 PRIORITY -2");
        c.run("ZQ.CLAIM 1 q LEASE 1ms");
        eventually(PATIENCE, "the new one is counted", || dead_letters(server) > 0);
        assert_eq!(dead_letters(server), 1);
    }
}
