//! A panic is a defect of the module. If a command panics before it has changed anything, the client gets an error, and
//! the server logs a line. If it panics between a change and its replication, the server exits. Then neither the AOF
//! nor a replica contains an effect of the call.
//!
//! Debug builds panic when they open a key with a special name, or when they replicate a change of a key with another
//! special name. Release builds do not.
#![cfg(debug_assertions)]

use std::time::Duration;
use testkit::{Client, Clock, Dataset, FAR, PATIENCE, Server, assert_same_data, card, eventually, plant};

const BEFORE: &str = "zeitset:panic:before";
const DURING: &str = "zeitset:panic:during";
const ERROR: &str = "!ERR internal error in zeitset; see the server log";

/// For every family, a call that creates a key, and a call that changes the key.
const WRITES: [(&str, &str); 4] = [
    ("ZEXP.ADD KEY 1w a", "ZEXP.ADD KEY 2w b"),
    ("ZRL.CHECK KEY 10 1w", "ZRL.CHECK KEY 10 1w COST 3"),
    ("ZQ.PUSH KEY x ID a", "ZQ.CLAIM 1 KEY LEASE 1w"),
    ("ZLB.CREATE KEY DIM x", "ZLB.SET KEY a 1"),
];

fn pair() -> (Server, Server, Client) {
    let master = Server::builder().panicking().config("appendonly yes\ncrash-memcheck-enabled no\nhz 100").start();
    // The replica opens the keys, too, so it panics, too.
    let replica = Server::builder().panicking().replica_of(&master);
    let client = master.client();
    (master, replica, client)
}

/// Returns the number of panics in the log. Their message contains `%s%n`, which must not be interpreted as a format.
fn panics(server: &Server) -> usize {
    server.log().matches("as ordered: %s%n").count()
}

#[test]
fn before_anything_is_done_it_is_an_error_and_nothing_else() {
    let (server, replica, mut c) = pair();
    for (number, (make, change)) in WRITES.into_iter().enumerate() {
        assert_eq!(c.reply(&make.replace("KEY", BEFORE)), ERROR);
        c.run(&make.replace("KEY", "key"));
        c.run(&format!("RENAME key {BEFORE}"));
        let before = Dataset::of(&mut c);
        assert_eq!(c.reply(&change.replace("KEY", BEFORE)), ERROR);
        c.script(&[("MULTI", "+OK"), (&change.replace("KEY", BEFORE), "+QUEUED"), ("ECHO after", "+QUEUED")]);
        assert_eq!(c.reply("EXEC"), format!("[{ERROR} 'after']"));
        assert!(panics(&server) >= 3 * (number + 1), "{change}");
        assert_eq!(Dataset::of(&mut c), before);
    }
    assert_same_data(&mut c, &mut replica.client());
}

/// If the server went on, the key would differ permanently between master, replicas and AOF.
#[test]
fn a_panic_during_a_change_ends_the_server_and_the_change_is_nowhere() {
    let (mut server, replica, mut c) = pair();
    for (number, (make, change)) in WRITES.into_iter().enumerate() {
        c.run(&make.replace("KEY", "key"));
        c.run(&format!("RENAME key {DURING}"));
        let before = Dataset::of(&mut c);
        let reply = c.reply(&change.replace("KEY", DURING));
        assert!(reply.contains("connection lost"), "{reply}");
        let count = |line: &str| server.log().matches(line).count();
        let found = (
            panics(&server),
            count("crashed by signal"),
            count("zeitset_in_call:1"),
            count("zeitset_call_has_begun:1"),
        );
        assert_eq!(found, (number + 1, number + 1, number + 1, number + 1));
        server.crash_and_restart();
        c = server.client();
        assert_eq!(Dataset::of(&mut c), before, "{change}");
        replica.follow(&server);
        assert_same_data(&mut c, &mut replica.client());
    }
}

#[test]
fn a_set_that_cannot_be_drained_keeps_no_other_from_it() {
    let (server, replica, mut c) = pair();
    let at = c.now() + 100;
    plant(&mut c, BEFORE, &[("a", at), ("b", FAR)]);
    plant(&mut c, "other", &[("a", at + 1), ("b", FAR)]);
    c.run("ZEXP.CARD other");
    eventually(PATIENCE, "the other is drained", || card(&mut c, "other") == 1);
    eventually(PATIENCE, "the one was tried", || panics(&server) > 0);
    assert_eq!(card(&mut c, BEFORE), 2);
    assert_same_data(&mut c, &mut replica.client());
}

#[test]
fn a_queue_that_cannot_be_looked_at_keeps_no_other_waiting() {
    let clock = Clock::new();
    let server = Server::builder().panicking().clock(&clock).start();
    let mut c = server.client();
    c.run_all(["ZQ.PUSH one x ID a DELAY 1h", "ZQ.PUSH other x ID a DELAY 1h"]);
    let mut clients = ["one", "other"].map(|key| server.waiting(&format!("ZQ.CLAIM 1 {key} LEASE 1w BLOCK 0")));
    c.run(&format!("RENAME one {BEFORE}"));
    clock.advance(Duration::from_secs(3601));
    assert!(clients[1].receive().starts_with("[['other' 'a'"));
    eventually(PATIENCE, "the upkeep has come by", || panics(&server) > 0);
    c.script(&[("ZQ.PUSH one x ID b", "'b'")]);
    assert!(clients[0].receive().starts_with("[['one' 'b'"));
}

/// The report says whether the module was running during the crash, because the operator asks that first.
#[test]
fn the_report_of_a_crash_names_the_version_and_whether_the_module_was_called() {
    let server = Server::builder().panicking().config("enable-debug-command local\ncrash-memcheck-enabled no").start();
    let mut c = server.client();
    c.script(&[("ZEXP.ADD set 1h a", "1")]);
    let _ = c.try_run("DEBUG SEGFAULT");
    let version = format!("zeitset_version:{}", env!("CARGO_PKG_VERSION"));
    eventually(PATIENCE, "the report is written", || {
        let log = server.log();
        log.contains(&version) && log.contains("zeitset_in_call:0") && log.contains("zeitset_call_has_begun:0")
    });
}
