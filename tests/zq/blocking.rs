//! Waiting claims: what wakes the clients, in which order, and how the waiting ends.

use std::thread;
use std::time::Duration;
use testkit::{Client, Clock, PATIENCE, Server, assert_agree, eventually, start, start_keeping_aof};

pub(super) fn blocked(c: &mut Client) -> i64 {
    c.info_number("clients", "blocked_clients")
}

pub(super) const WAIT: &str = "ZQ.CLAIM 1 q LEASE 1m BLOCK 0";

#[test]
fn pushes_serve_the_client_that_came_first() {
    let (server, mut c) = start();
    let mut waiters: Vec<_> = (0..4).map(|_| server.waiting(WAIT)).collect();
    c.run("ZQ.PUSH q x ID 0");
    assert_eq!(waiters[0].receive_id(), "0");
    // Two jobs wake two of the three remaining clients.
    c.script(&[
        ("MULTI", "+OK"),
        ("ZQ.PUSH q x ID 1", "+QUEUED"),
        ("ZQ.PUSH q x ID 2", "+QUEUED"),
        ("EXEC", "['1' '2']"),
    ]);
    assert_eq!([1, 2].map(|n| waiters[n].receive_id()), ["1", "2"]);
    assert_eq!(blocked(&mut c), 1);
    c.run("ZQ.PUSH q x ID 3");
    assert_eq!(waiters[3].receive_id(), "3");
}

#[test]
fn one_push_leaves_nothing_to_others() {
    let (server, mut c) = start();
    let mut many = server.waiting("ZQ.CLAIM 1 q LEASE 1m COUNT 10 BLOCK 0");
    let mut one = server.waiting(WAIT);
    c.call(redis::cmd("EVAL").arg("for i=1,3 do redis.call('ZQ.PUSH','q',i,'ID',i) end").arg(0));
    let reply = many.receive();
    for id in 1..=3 {
        assert!(reply.contains(&format!("'q' '{id}' ")), "{reply}");
    }
    assert!(c.is_blocked(&one));
    c.run("ZQ.PUSH q x ID next");
    assert_eq!(one.receive_id(), "next");
}

#[test]
fn the_clock_wakes_at_the_due_time_and_not_before() {
    let (server, mut c) = start();
    c.run("ZQ.PUSH q x ID far DELAY 1h");
    let mut first = server.waiting(WAIT);
    let mut second = server.waiting(WAIT);
    let due = c.now() + 200;
    c.run(&format!("ZQ.PUSH q x ID b AT {due}ms"));
    assert_eq!(first.receive_id(), "b");
    assert!(c.now() >= due);
    assert!(c.is_blocked(&second));
    let due = c.now() + 100;
    c.run(&format!("ZQ.RESCHEDULE q far AT {due}ms"));
    assert_eq!(second.receive_id(), "far");
    assert!(c.now() >= due);
}

/// All ways in which a job becomes claimable. Each entry has the commands before the wait, and the command that
/// makes the job claimable.
#[test]
fn whatever_makes_a_job_claimable_wakes() {
    let (server, mut c) = start();
    for (setup, wake) in [
        (&["ZQ.PUSH q x ID a", "ZQ.CLAIM 1 q LEASE 100ms"][..], "PING"),
        (&["ZQ.PUSH q x ID a", "ZQ.CONFIG q PAUSED yes"], "ZQ.CONFIG q PAUSED no"),
        (&["ZQ.PUSH q x ID a DELAY 1h"], "ZQ.RESCHEDULE q a DELAY 0"),
        (&["ZQ.PUSH q x ID a DELAY 1h"], "ZQ.RESCHEDULE q a DELAY 50ms"),
        (&["ZQ.PUSH q x ID a DELAY 1h"], "ZQ.PUSH q x ID a REPLACE"),
        (&["ZQ.PUSH q x ID a", "CLAIM"], "ZQ.NACK q a TOKEN"),
        (&["ZQ.PUSH q x ID a", "CLAIM"], "ZQ.NACK q a TOKEN DELAY 50ms"),
        (&["ZQ.PUSH q x ID a", "CLAIM"], "ZQ.EXTEND q 50ms a TOKEN"),
        (&["ZQ.PUSH q x ID a EVERY 50ms", "CLAIM"], "ZQ.ACK q a TOKEN"),
        (&["ZQ.PUSH q x ID a MAXATTEMPTS 1", "CLAIM", "ZQ.NACK q a TOKEN"], "ZQ.REDRIVE q"),
        (&["ZQ.CONFIG q CONCURRENCY 1", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.ACK q b TOKEN"),
        (&["ZQ.CONFIG q CONCURRENCY 1", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.CANCEL q b"),
        (&["ZQ.CONFIG q CONCURRENCY 1", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.NACK q b TOKEN DELAY 1h"),
        (&["ZQ.CONFIG q CONCURRENCY 1", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.CONFIG q CONCURRENCY 2"),
        (&["ZQ.CONFIG q RATE 1 1h", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.CONFIG q RATE 2 1h"),
        (&["ZQ.PUSH q x ID a", "CLAIM", "ZQ.PUSH q y ID a AGAIN"], "ZQ.ACK q a TOKEN"),
        (
            &["ZQ.CONFIG q GROUPCONCURRENCY 1", "ZQ.PUSH q x ID b GROUP g", "CLAIM", "ZQ.PUSH q x ID a GROUP g"],
            "ZQ.ACK q b TOKEN",
        ),
        (&["ZQ.PUSH q x ID a GROUP g", "ZQ.HOLD q g 1h"], "ZQ.HOLD q g 0"),
        (&["ZQ.PUSH q x ID a GROUP g", "ZQ.HOLD q g 1h"], "ZQ.HOLD q g 50ms"),
        (&["ZQ.PUSH q x ID a", "ZQ.HOLD q \"\" 1h"], "ZQ.HOLD q \"\" 0"),
        // Only time ends these holds and windows.
        (&["ZQ.PUSH q x ID a GROUP g", "CLAIM", "ZQ.NACK q a TOKEN HOLD 200ms"], "PING"),
        (&["ZQ.PUSH q x ID a GROUP g", "ZQ.HOLD q g 200ms"], "PING"),
        (&["ZQ.CONFIG q RATE 1 200ms", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "PING"),
        (&["ZQ.CONFIG q GROUPRATE 1 200ms", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "PING"),
        (&["ZQ.PUSH p x ID a"], "RENAME p q"),
        (&["ZQ.PUSH p x ID a DELAY 50ms"], "RENAME p q"),
        (&["ZQ.PUSH p x ID a", "ZQ.PUSH q y ID b DELAY 1h"], "RENAME p q"),
        (&["ZQ.PUSH p x ID a"], "COPY p q"),
        (&["ZQ.PUSH p x ID a DELAY 50ms", "ZQ.PUSH q y ID b DELAY 1h"], "COPY p q REPLACE"),
        (&["SELECT 1", "ZQ.PUSH q x ID a"], "MOVE q 0"),
        (&["SELECT 1", "ZQ.PUSH q x ID a", "SELECT 0", "ZQ.PUSH q x ID b DELAY 1h"], "SWAPDB 0 1"),
        (&["SELECT 1", "ZQ.PUSH q x ID a DELAY 50ms"], "SWAPDB 0 1"),
        (&["ZQ.PUSH p x ID a"], "RESTORE"),
        (&[], "SET"),
    ] {
        c.run("FLUSHALL");
        let mut token = String::new();
        for line in setup {
            match *line {
                "CLAIM" => token = c.claim("ZQ.CLAIM 1 q LEASE 1h").to_string(),
                line => drop(c.run(&line.replace("TOKEN", &token))),
            }
        }
        let mut waiter = server.waiting(WAIT);
        match wake {
            "RESTORE" => {
                let dump = c.dump("p");
                c.restore("q", 0, &dump);
            }
            // If the key gets another type, the client keeps waiting, as in BZPOPMIN.
            "SET" => {
                c.run("SET q x");
                assert!(c.is_blocked(&waiter));
                c.run_all(["DEL q", "ZQ.PUSH q x ID a"]);
            }
            _ => drop(c.run(&wake.replace("TOKEN", &token))),
        }
        c.run("SELECT 0");
        assert_eq!(waiter.receive_id(), "a", "{setup:?} {wake}");
    }
}

/// The server itself wakes the clients of a key that RENAME or COPY creates. All clients must be served.
#[test]
fn a_queue_renamed_to_a_key_that_was_just_found_empty_wakes() {
    let (server, mut c) = start();
    for round in 0..4 {
        let mut waiters: Vec<_> = (0..20).map(|_| server.waiting(WAIT)).collect();
        c.run_all((0..20).map(|n| format!("ZQ.PUSH p x ID {n}")));
        c.run_all(["ZQ.PUSH q x ID first", if round % 2 == 0 { "RENAME p q" } else { "COPY p q REPLACE" }]);
        let mut ids: Vec<_> = waiters.iter_mut().map(Client::receive_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 20);
        c.run("FLUSHALL");
    }
}

#[test]
fn time_runs_out_with_an_empty_array() {
    let (server, mut c) = start();
    c.run("ZQ.PUSH q x DELAY 1h");
    c.script(&[("ZQ.CLAIM 1 q LEASE 1m BLOCK 60ms", "[]"), ("ZQ.CLAIM 2 p q LEASE 1m BLOCK 0.001", "[]")]);
    let mut waiter = server.waiting(WAIT);
    c.script(&[(format!("CLIENT UNBLOCK {}", waiter.id), "1")]);
    assert_eq!(waiter.receive(), "[]");
}

#[test]
fn nothing_blocks_in_a_transaction_or_a_script() {
    let (_server, mut c) = start();
    c.script(&[("MULTI", "+OK"), (WAIT, "+QUEUED"), ("EXEC", "[[]]")]);
    let reply = c.call(redis::cmd("EVAL").arg("return redis.call('ZQ.CLAIM','1','q','LEASE','1m','BLOCK','0')").arg(0));
    assert_eq!(reply, redis::Value::Array(vec![]));
    c.run("ZQ.PUSH q x ID a");
    c.script(&[("MULTI", "+OK"), (WAIT, "+QUEUED")]);
    assert!(c.reply("EXEC").contains("'q' 'a' "));
}

#[test]
fn a_client_that_went_away_takes_no_job_with_it() {
    let (server, mut c) = start();
    let gone = server.waiting(WAIT);
    let mut second = server.waiting(WAIT);
    c.run(&format!("CLIENT KILL ID {}", gone.id));
    eventually(PATIENCE, "the client is gone", || blocked(&mut c) == 1);
    c.run("ZQ.PUSH q x ID a DELAY 50ms");
    assert_eq!(second.receive_id(), "a");
    // No client waits any more, and INFO has no waiting client.
    c.run("ZQ.PUSH q x ID b");
    assert_eq!(blocked(&mut c), 0);
}

#[test]
fn several_keys_and_databases() {
    let (server, mut c) = start();
    let mut both = server.waiting("ZQ.CLAIM 3 p q p LEASE 1m BLOCK 0");
    let mut other = server.client();
    other.run("SELECT 3");
    let mut other = other.waits(&mut c, WAIT);
    c.run("ZQ.PUSH q x ID a DELAY 50ms");
    assert_eq!(both.receive_id(), "a");
    assert!(c.is_blocked(&other));
    c.run("SELECT 3");
    c.run("ZQ.PUSH q x ID b DELAY 50ms");
    c.run("SELECT 0");
    assert_eq!(other.receive_id(), "b");
}

/// While the server is busy, two jobs become due. Then the server reads a claim before its timer can wake the waiting
/// client.
#[test]
fn a_newcomer_waits_behind_clients_that_were_not_woken_yet() {
    let (server, _c) = start();
    let mut waiter = server.waiting(WAIT);
    let mut newcomer = server.client();
    for line in ["ZQ.PUSH q x ID a DELAY 20ms", "ZQ.PUSH q x ID b DELAY 20ms", "DEBUG SLEEP 0.1", WAIT] {
        newcomer.send(line);
    }
    let replies = [(); 4].map(|()| newcomer.receive());
    assert!(replies[3].starts_with("[['q' 'b' "), "{replies:?}");
    assert_eq!(waiter.receive_id(), "a");
}

#[test]
fn deletion_leaves_them_waiting() {
    let (server, mut c) = start();
    for delete in ["DEL q", "UNLINK q", "FLUSHALL", "PEXPIREAT q 1", "RENAME q elsewhere"] {
        // If the job was due before it was deleted, repeats the test.
        let mut waiter = loop {
            let due = c.now() + 200;
            c.run(&format!("ZQ.PUSH q x ID a AT {due}ms"));
            let mut waiter = server.waiting(WAIT);
            c.run(delete);
            let in_time = c.now() < due;
            c.wait_until(due + 50);
            if in_time {
                break waiter;
            }
            c.run("ZQ.PUSH q x ID again");
            waiter.receive();
            c.run("FLUSHALL");
        };
        assert!(c.is_blocked(&waiter), "{delete}");
        c.run("ZQ.PUSH q x ID b");
        assert_eq!(waiter.receive_id(), "b", "{delete}");
        c.run("FLUSHALL");
    }
}

#[test]
fn waiting_on_a_replica_goes_on_after_its_promotion() {
    let clock = Clock::new();
    let patient = || Server::builder().clock(&clock).config("repl-timeout 1000000000");
    let server = patient().start();
    let replica = patient().config("replica-read-only no").replica_of(&server);
    let mut waiter = replica.waiting(WAIT);
    server.client().run("ZQ.PUSH q x ID a DELAY 1h");
    replica.wait_for_sync(&server);
    clock.advance(Duration::from_secs(3601));
    let mut r = replica.client();
    r.wait_for_cron();
    assert!(r.is_blocked(&waiter), "a replica does not act by itself");
    r.run("REPLICAOF NO ONE");
    assert_eq!(waiter.receive_id(), "a");
}

#[test]
fn who_waits_on_a_master_that_becomes_a_replica_is_told() {
    let (server, mut c) = start();
    let mut waiter = server.waiting(WAIT);
    let other = Server::start();
    c.run(&format!("REPLICAOF 127.0.0.1 {}", other.address().1));
    assert!(waiter.receive().starts_with("!UNBLOCKED"), "as of a client that waits in BLPOP");
}

/// Clients are woken one after the other. Some find no job, just before other jobs become due. All clients must get
/// these jobs.
#[test]
fn jobs_that_become_due_while_clients_are_woken_reach_all_clients() {
    const CLIENTS: usize = 300;
    let (server, mut c) = start();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
    for round in 0..40 {
        clients.iter_mut().for_each(|client| client.send("ZQ.CLAIM 1 q LEASE 1h BLOCK 0"));
        eventually(PATIENCE, "all wait", || blocked(&mut c) == CLIENTS as i64);
        let due = c.now() + 40;
        c.run_all((0..CLIENTS).map(|n| format!("ZQ.PUSH q x ID {round}-{n} AT {due}ms")));
        // Each push wakes clients, some of them just before the other jobs are due.
        let mut more = 0;
        while c.now() < due && more < CLIENTS {
            c.run(&format!("ZQ.PUSH q x ID {round}-more{more}"));
            more += 1;
        }
        let mut ids: Vec<_> = clients.iter_mut().map(Client::receive).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CLIENTS);
        c.run("DEL q");
    }
}

/// With thousands of workers at one queue, a push must not wake all of them, because all other clients would wait
/// meanwhile.
#[test]
fn a_push_checks_the_queue_once_for_each_client_that_it_serves() {
    const CLIENTS: u64 = 3000;
    let server = Server::builder().config(&format!("maxclients {}", CLIENTS + 100)).start();
    let mut c = server.client();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
    // Each client waits for a missing key and for a queue without due jobs.
    c.run("ZQ.PUSH other x ID far DELAY 1h");
    clients.iter_mut().for_each(|client| client.send("ZQ.CLAIM 2 q other LEASE 1h BLOCK 0"));
    eventually(PATIENCE, "all wait", || blocked(&mut c) == CLIENTS as i64);
    let checks = |c: &mut Client| c.info_number("zeitset", "zeitset_clients_checks");
    let mut first = 0;
    for (command, jobs) in [
        ("ZQ.PUSH q x ID a", 1),
        ("ZQ.PUSH q x ID b", 1),
        // This push serves no client.
        ("ZQ.PUSH q x ID c DELAY 1h", 0),
        ("ZQ.RESCHEDULE q c DELAY 0", 1),
        ("EVAL for\u{a0}i=1,50\u{a0}do\u{a0}redis.call('ZQ.PUSH','q',i)\u{a0}end 0", 50),
        ("RENAME other q", 0),
        ("ZQ.RESCHEDULE q far DELAY 0", 1),
        ("ZQ.PUSH other x ID new", 1),
    ] {
        let before = checks(&mut c);
        let mut words = command.split(' ');
        let mut call = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            call.arg(word.replace('\u{a0}', " "));
        });
        c.call(&call);
        for client in &mut clients[first..first + jobs] {
            assert!(client.receive().starts_with("[['"), "{command}: who came first is served first");
        }
        first += jobs;
        let cost = checks(&mut c) - before;
        assert!(cost <= jobs as i64 + 1, "{command}: {cost} looks");
    }
    assert_eq!(blocked(&mut c), (CLIENTS as usize - first) as i64);
}

#[test]
fn no_job_is_delivered_before_its_time() {
    let (server, mut c) = start_keeping_aof();
    let start = c.now();
    for n in 0..200 {
        let due = start + n % 50 * 10;
        c.run(&format!("ZQ.PUSH q {due} ID {n} AT {due}ms"));
    }
    let late = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let mut c = server.client();
                scope.spawn(move || {
                    let mut count = 0;
                    loop {
                        let jobs = c.jobs("ZQ.CLAIM 1 q LEASE 1h COUNT 3 BLOCK 2s");
                        let now = c.now();
                        for job in &jobs {
                            let due: i64 = job.payload.parse().unwrap();
                            assert!(due <= now, "due {due}, delivered by {now}");
                        }
                        count += jobs.len();
                        if jobs.is_empty() {
                            return count;
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>()
    });
    assert_eq!(late, 200);
    assert_agree(&server, &[]);
}
