//! A panic is a defect of the module, not the end of the server: whoever called gets an error, the log a line, and what is kept
//! under the key is what replicas and the AOF have, too. The module under test is a build with the feature `panic-test`, which panics
//! at a place when told to; the one that is shipped has no trace of it.

use std::thread;
use testkit::{Client, Dataset, FAR, PATIENCE, Server, assert_same_data, eventually, module, plant};

/// A master that panics at command, and a replica of it that does not.
fn pair() -> (Server, Server, Client) {
    let master = Server::builder()
        .panicking()
        .config("appendonly yes\nappendfsync always\naof-use-rdb-preamble no\nhz 100")
        .start();
    let replica = Server::builder().replica_of(&master);
    let client = master.client();
    (master, replica, client)
}

const ERROR: &str = "!ERR internal error in zeitset; see the server's log";

/// The number of panics at a place that the log tells of, with the order's percent signs as they are.
fn panics(server: &Server, place: &str) -> usize {
    let log = server.log();
    assert_eq!(log.matches("as ordered").count(), log.matches("%s%n").count(), "the message is data, not a format");
    log.matches(&format!("as ordered, at {place}:")).count()
}

/// Has `line` panic at `place`; returns the reply.
fn strike(server: &Server, c: &mut Client, place: &str, line: &str) -> String {
    let before = panics(server, place);
    c.run(&format!("ZEITSET.PANIC {place}"));
    let reply = c.reply(line);
    eventually(PATIENCE, place, || panics(server, place) == before + 1);
    c.script(&[("PING", "+PONG")]);
    reply
}

#[test]
fn the_module_that_is_shipped_knows_no_panic_at_command() {
    let (_server, mut c) = testkit::start();
    c.script(&[("ZEITSET.PANIC command", "!ERR unknown command")]);
    let bytes = std::fs::read(module()).expect("the module");
    assert!(!bytes.windows(13).any(|window| window == b"ZEITSET.PANIC"));
}

/// A call of every family that changes something, and what makes it ready to.
fn writes(c: &mut Client) -> [(&'static str, &'static str); 11] {
    c.run("ZEXP.ADD set 1w a");
    c.run("ZRL.CHECK limit 10 1w");
    c.run("ZQ.PUSH queue x ID a");
    c.run("ZQ.PUSH queue x ID b");
    c.run("ZLB.CREATE board DIM x");
    c.run("ZLB.SET board a 1");
    [
        ("set-changed", "ZEXP.ADD set 1w b 2w c"),
        ("set-changed", "ZEXP.ADD new-set 1w b"),
        ("set-changed", "ZEXP.REM set a"),
        ("set-changed", "ZRL.CHECK limit 10 2w COST 3"),
        ("queue-changed", "ZQ.PUSH queue y ID c"),
        ("queue-changed", "ZQ.PUSH new-queue y ID c"),
        ("board-changed", "ZLB.SET board b 2 c 3"),
        ("board-changed", "ZLB.REM board a"),
        ("board-changed", "ZLB.MERGE merged 2 board nothing"),
        ("board-changed", "ZLB.REMRANGE merged 0 -1"),
        ("board-changed", "ZLB.CLEAR board"),
    ]
}

#[test]
fn before_anything_is_done_it_is_an_error_and_nothing_else() {
    let (server, replica, mut c) = pair();
    let calls = writes(&mut c);
    let before = Dataset::of(&mut c);
    for (_, line) in calls {
        assert_eq!(strike(&server, &mut c, "command", line), ERROR);
    }
    assert_eq!(strike(&server, &mut c, "command", "ZLB.CARD board"), ERROR);
    assert_eq!(Dataset::of(&mut c), before);
    for (_, line) in calls {
        assert_ne!(c.reply(line), ERROR);
    }
    assert_same_data(&mut c, &mut replica.client());
}

/// Between a change and its replication the key would differ on master and replicas, and in the AOF, forever.
#[test]
fn after_a_change_replicas_and_the_aof_get_the_key_as_it_is() {
    let (mut server, replica, mut c) = pair();
    for (place, line) in writes(&mut c) {
        let reply = strike(&server, &mut c, place, line);
        // A queue replies before it commits, and what it then says is true.
        assert!(reply == ERROR || place == "queue-changed", "{line}: {reply}");
        assert_same_data(&mut c, &mut replica.client());
    }
    c.run("MULTI");
    c.run("ZEITSET.PANIC queue-changed");
    c.run("ZQ.CANCEL queue a b");
    c.run("ZQ.PUSH queue z ID z");
    assert_eq!(c.reply("EXEC"), format!("[+OK {ERROR} 'z']"));
    assert_same_data(&mut c, &mut replica.client());
    let before = Dataset::of(&mut c);
    server.crash_and_restart();
    assert_eq!(Dataset::of(&mut server.client()), before);
}

#[test]
fn amid_a_reply_the_rest_of_it_is_an_error_and_nulls() {
    let (server, replica, mut c) = pair();
    writes(&mut c);
    let cut = format!("[['queue' {ERROR} nil nil nil nil] nil]");
    let claim = "ZQ.CLAIM 1 queue LEASE 1w COUNT 2";
    assert_eq!(strike(&server, &mut c, "amid-reply", claim), cut);
    assert_same_data(&mut c, &mut replica.client());
    // What the client reads next is the reply to what it sends next.
    c.script(&[("ECHO after", "'after'"), ("ZQ.REDRIVE queue", "0")]);
    c.run("DEL queue");
    c.run("ZQ.PUSH queue x ID a");
    c.run("ZEITSET.PANIC amid-reply");
    let script = "return {redis.pcall('ZQ.CLAIM','1','queue','LEASE','1w')[1][1],redis.call('ECHO','after')}";
    let reply = c.call(redis::cmd("EVAL").arg(script).arg(0));
    assert_eq!(testkit::show(&reply), "['queue' 'after']");
    assert_same_data(&mut c, &mut replica.client());
}

/// After a panic while changes were being announced the sweeper would take everybody's changes for its own, and miss them.
#[test]
fn announcements_that_panic_leave_nobody_deaf() {
    let (server, replica, mut c) = pair();
    assert_eq!(strike(&server, &mut c, "announce", "ZEXP.ADD set 1w a"), ERROR);
    c.run("ZEXP.ADD set 2w b");
    let at = c.now() + 200;
    plant(&mut c, "planted", &[("a", at), ("b", FAR)]);
    eventually(PATIENCE, "a set that plain commands made is swept", || c.int("ZCARD planted") == 1);
    assert_same_data(&mut c, &mut replica.client());
}

#[test]
fn a_set_that_cannot_be_swept_keeps_no_other_from_it() {
    let (server, replica, mut c) = pair();
    c.run("CONFIG SET zeitset.sweep no");
    c.run("ZEXP.ADD one 10ms a 1w live");
    c.run("ZEXP.ADD other 20ms a 1w live");
    let due = c.now() + 20;
    c.wait_until(due);
    c.run("ZEITSET.PANIC visit");
    c.run("CONFIG SET zeitset.sweep yes");
    eventually(PATIENCE, "the other is swept", || c.int("ZCARD other") == 1);
    assert_eq!(panics(&server, "visit"), 1);
    // The next change makes the set known again.
    c.run("ZEXP.ADD one 1w b");
    eventually(PATIENCE, "the one is swept", || c.int("ZCARD one") == 2);
    assert_same_data(&mut c, &mut replica.client());
}

#[test]
fn callbacks_of_the_clock_and_of_events_go_on() {
    let (server, replica, mut c) = pair();
    for place in ["timer", "server-event", "key-event", "heal", "scan"] {
        c.run(&format!("ZEITSET.PANIC {place}"));
        c.run("ZEXP.ADD set 10ms a 1w live");
        // Plain commands change it, so that it has to be healed.
        c.run(&format!("ZADD set {FAR} later"));
        c.run("ZREM set later");
        eventually(PATIENCE, place, || panics(&server, place) == 1);
        c.run("ZEXP.ADD set 10ms b 1w live");
        eventually(PATIENCE, &format!("swept after {place}"), || c.int("ZCARD set") == 1);
    }
    assert_same_data(&mut c, &mut replica.client());
}

#[test]
fn who_waits_for_a_job_gets_an_error_and_the_next_one_the_job() {
    let (server, replica, mut c) = pair();
    let wait = |timeout: &str| {
        let mut client = server.client();
        let line = format!("ZQ.CLAIM 1 q LEASE 1w BLOCK {timeout}");
        thread::spawn(move || client.reply(&line))
    };
    let blocked = |c: &mut Client, clients| {
        eventually(PATIENCE, "clients wait", || c.info_number("clients", "blocked_clients") == clients);
    };
    for place in ["serve", "queue-changed", "amid-reply"] {
        let first = wait("0");
        blocked(&mut c, 1);
        let second = wait("0");
        blocked(&mut c, 2);
        // Waiting clients have this one wake the queue; the panic is to come when they are served.
        c.run("MULTI");
        c.run("ZQ.PUSH q x ID a");
        c.run("ZQ.PUSH q y ID b");
        c.run(&format!("ZEITSET.PANIC {place}"));
        c.run("EXEC");
        let first = first.join().expect("a reply");
        // The reply may have been whole already; then the job is his.
        let expected = if place == "queue-changed" { "[['q' 'a'" } else { "internal error in zeitset" };
        assert!(first.contains(expected), "{place}: {first}");
        let second = second.join().expect("a reply");
        assert!(second.starts_with("[['q' '"), "{place}: {second}");
        assert_eq!(panics(&server, place), 1);
        assert_same_data(&mut c, &mut replica.client());
        c.run("DEL q");
    }
    c.run("ZEITSET.PANIC time-out");
    assert_eq!(wait("10ms").join().expect("a reply"), ERROR);
    c.run("ZEITSET.PANIC end-of-wait");
    assert_eq!(wait("10ms").join().expect("a reply"), "[]");
    // The clock finds nothing due in one queue; the other's clients are served.
    c.run("ZQ.PUSH q x DELAY 300ms");
    c.run("ZQ.PUSH r x DELAY 300ms ID r");
    let mut other = server.client();
    let other = thread::spawn(move || other.reply("ZQ.CLAIM 1 r LEASE 1w BLOCK 0"));
    let one = wait("0");
    blocked(&mut c, 2);
    c.run("ZEITSET.PANIC look");
    eventually(PATIENCE, "the clock strikes", || panics(&server, "look") == 1);
    eventually(PATIENCE, "one of them is served", || one.is_finished() || other.is_finished());
    for key in ["q", "r"] {
        c.run(&format!("ZQ.PUSH {key} x"));
    }
    assert!(other.join().expect("a reply").starts_with("[['r'"));
    assert!(one.join().expect("a reply").starts_with("[['q'"));
}

/// The module still believes that it waits, and has it asked. What the server kept of it is gone.
#[test]
fn a_waiting_client_that_was_killed_amid_a_panic_is_not_asked() {
    let (server, replica, mut c) = pair();
    let [mut waiting, mut other] = [(); 2].map(|()| server.client());
    let id = waiting.int("CLIENT ID");
    waiting.send("ZQ.CLAIM 1 q LEASE 1w BLOCK 0");
    // Redis 7.0 has somebody asked only while somebody waits.
    other.send("ZQ.CLAIM 1 r LEASE 1w BLOCK 0");
    eventually(PATIENCE, "both wait", || c.info_number("clients", "blocked_clients") == 2);
    c.run("ZEITSET.PANIC end-of-wait");
    c.run(&format!("CLIENT KILL ID {id}"));
    eventually(PATIENCE, "it has ended", || panics(&server, "end-of-wait") == 1);
    for id in ["a", "b", "c"] {
        c.script(&[(format!("ZQ.PUSH q x ID {id}"), format!("'{id}'")), ("PING".into(), "+PONG".into())]);
    }
    c.script(&[("ZQ.CANCEL q a b c", "3"), ("ZQ.PUSH r x ID r", "'r'")]);
    assert!(other.receive().starts_with("[['r' 'r'"));
    assert_same_data(&mut c, &mut replica.client());
}

#[test]
fn callbacks_of_the_data_types_answer_as_well_as_they_can() {
    let (server, _replica, mut c) = pair();
    writes(&mut c);
    for key in ["queue", "board"] {
        let dump = c.call(redis::cmd("DUMP").arg(key));
        let redis::Value::BulkString(dump) = dump else { panic!("{dump:?}") };
        c.run("ZEITSET.PANIC load");
        let refused = c.try_call(redis::cmd("RESTORE").arg("copy").arg(0).arg(dump));
        assert_eq!(refused.expect_err("refused"), "ERR Bad data format");
        let refused = strike(&server, &mut c, "copy", &format!("COPY {key} copy"));
        assert!(refused.starts_with('!'), "{refused}");
        c.script(&[("EXISTS copy", "0")]);
        strike(&server, &mut c, "digest", &format!("DEBUG DIGEST-VALUE {key}"));
        strike(&server, &mut c, "memory-usage", &format!("MEMORY USAGE {key}"));
        strike(&server, &mut c, "info", "INFO zeitset");
        c.run(&format!("COPY {key} copy"));
        strike(&server, &mut c, "free-effort", "UNLINK copy");
        c.run(&format!("COPY {key} copy"));
        strike(&server, &mut c, "free", "DEL copy");
        c.script(&[("EXISTS copy", "0")]);
        assert_eq!(c.string(&format!("TYPE {key}")), format!("zeit{key}"));
    }
}

/// What is being saved must be whole: the child that panics ends, and the files stay what they were.
#[test]
fn a_child_that_panics_while_it_saves_leaves_the_files_that_there_are() {
    let (mut server, _replica, mut c) = pair();
    writes(&mut c);
    c.run("CONFIG SET crash-log-enabled no");
    for (place, save, status) in
        [("save", "BGSAVE", "rdb_last_bgsave_status"), ("rewrite", "BGREWRITEAOF", "aof_last_bgrewrite_status")]
    {
        // The child that the replica got its data from may be at its end still; and one at a time is allowed.
        eventually(PATIENCE, "no child is left", || {
            let info = c.info("persistence");
            ["rdb_bgsave_in_progress", "aof_rewrite_in_progress"].iter().all(|child| info[*child] == "0")
        });
        c.run(&format!("ZEITSET.PANIC {place}"));
        c.run(save);
        eventually(PATIENCE, place, || c.info("persistence")[status] == "err");
        assert_eq!(panics(&server, place), 1);
        // The order was carried out in the child; here it still stands.
        c.run("ZEITSET.PANIC none");
    }
    let before = Dataset::of(&mut c);
    server.crash_and_restart();
    assert_eq!(Dataset::of(&mut server.client()), before);
}
