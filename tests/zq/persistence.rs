//! Queues in RDB and AOF files, with DUMP, RESTORE and COPY, after crashes, and in forged payloads.

use redis::Value;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use testkit::{Client, Job, PATIENCE, Server, assert_agree, eventually, show, start, start_keeping_aof};

/// Creates a queue with a job in every state, all settings, and some counters above zero.
fn fill(c: &mut Client) {
    c.run("ZQ.CONFIG q MAXATTEMPTS 3 BACKOFF 1s 1h AGING 5s MAXLEN 100 CONCURRENCY 50 RATE 1000 1h");
    for n in 0..20 {
        c.run(&format!("ZQ.PUSH q payload{n} ID job{n} PRIORITY {}", n % 5 - 2));
    }
    c.run("ZQ.PUSH q x");
    c.run("ZQ.PUSH q x ID later DELAY 1h EVERY 1h MAXATTEMPTS 0");
    for _ in 0..3 {
        let Job { id, token, .. } = c.job("ZQ.CLAIM 1 q LEASE 1h");
        c.run(&format!("ZQ.NACK q {id} {token} DEAD"));
        let Job { id, token, .. } = c.job("ZQ.CLAIM 1 q LEASE 1h");
        c.run(&format!("ZQ.ACK q {id} {token}"));
        c.claim("ZQ.CLAIM 1 q LEASE 1h");
    }
    c.run("ZQ.CANCEL q job19");
    c.run("ZQ.PUSH q x ID held GROUP acme");
    c.script(&[("ZQ.HOLD q acme 1h", "1"), ("ZQ.HOLD q \"\" 1h", "1"), ("ZQ.HOLD q \"\" 0", "1")]);
}

/// Returns the state of the queue as clients see it. The state does not depend on the time of the call.
fn state(c: &mut Client) -> Vec<String> {
    ["READY", "DELAYED", "CLAIMED", "DEAD"]
        .iter()
        .map(|state| format!("ZQ.PEEK q {state} COUNT 1000"))
        .chain(["ZQ.STATS q", "ZQ.GET q later", "ZQ.GROUPS q", "DEBUG DIGEST-VALUE q"].map(str::to_owned))
        .map(|line| c.reply(&line))
        .collect()
}

#[test]
fn rdb_and_both_forms_of_the_aof_keep_everything() {
    for config in ["save 3600 1000000", "appendonly yes", "appendonly yes\naof-use-rdb-preamble no"] {
        let mut server = Server::builder().config(config).start();
        let mut c = server.client();
        fill(&mut c);
        let before = state(&mut c);
        server.restart();
        let mut c = server.client();
        assert_eq!(state(&mut c), before, "{config}");
        if config.starts_with("append") {
            c.rewrite_aof();
            server.restart();
            assert_eq!(state(&mut server.client()), before, "{config}, rewritten");
            assert_agree(&server, &[]);
        }
        // Tokens continue from the last one.
        let mut c = server.client();
        let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
        assert!(before.iter().all(|line| !line.contains(&token.to_string())), "{token} was given twice");
    }
}

#[test]
fn a_rewrite_of_many_jobs_is_many_commands() {
    let mut server = Server::builder().config("appendonly yes\naof-use-rdb-preamble no").start();
    let mut c = server.client();
    let payload = "x".repeat(1000);
    for n in 0..1000 {
        c.run(&format!("ZQ.PUSH q {payload} ID {n} PRIORITY {}", n % 7));
    }
    let digest = c.reply("DEBUG DIGEST");
    c.rewrite_aof();
    server.restart();
    assert_eq!(server.client().reply("DEBUG DIGEST"), digest);
}

#[test]
fn dump_restore_copy_and_reload_make_equal_queues() {
    let (server, mut c) = start_keeping_aof();
    fill(&mut c);
    let digest = c.reply("DEBUG DIGEST-VALUE q");
    let before = state(&mut c);
    c.run("COPY q p");
    let dump = c.dump("q");
    c.restore("r", 0, &dump);
    c.script(&[("DEBUG DIGEST-VALUE p", &digest), ("DEBUG DIGEST-VALUE r", &digest)]);
    // Changes of the copy do not affect the original.
    c.run("ZQ.PUSH p more");
    c.script(&[("DEBUG DIGEST-VALUE q", digest.as_str()), ("DEL p", "1"), ("DEBUG RELOAD", "+OK")]);
    assert_eq!(state(&mut c), before);
    c.script(&[("RENAME q p", "+OK"), ("DEBUG DIGEST-VALUE p", digest.as_str())]);
    assert_agree(&server, &[]);
}

#[test]
fn memory_is_told() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG q PAUSED yes");
    let empty = c.int("MEMORY USAGE q");
    let payload = "x".repeat(1000);
    for _ in 0..200 {
        c.run(&format!("ZQ.PUSH q {payload}"));
    }
    let full = c.int("MEMORY USAGE q");
    assert!((200_000..300_000).contains(&(full - empty)), "{empty} {full}");
    c.script(&[("UNLINK q", "1"), ("EXISTS q", "0")]);
}

/// The server is killed under load, and workers crash. Every acknowledged push is delivered, no job before its due
/// time, and each job is finished exactly once.
#[test]
fn nothing_is_lost_when_server_and_workers_die() {
    let mut server = Server::builder().config("appendonly yes\nappendfsync always").start();
    let due_of: Arc<Mutex<HashMap<String, i64>>> = Arc::default();
    let finished: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    let unsure: Arc<Mutex<HashSet<String>>> = Arc::default();
    for round in 0..3 {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for pusher in 0..2 {
            let (mut c, stop, due_of) = (server.client(), Arc::clone(&stop), Arc::clone(&due_of));
            threads.push(thread::spawn(move || {
                for n in 0.. {
                    let id = format!("{round}:{pusher}:{n}");
                    let due = c.try_run("PING").map(|_| c.now() + n % 4 * 20);
                    let Ok(due) = due else { return };
                    let Ok(reply) = c.try_run(&format!("ZQ.PUSH q payload ID {id} AT {due}ms")) else { return };
                    assert_eq!(show(&reply), format!("'{id}'"));
                    due_of.lock().unwrap().insert(id, due);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }));
        }
        for worker in 0..3 {
            let (c, stop, finished, unsure) =
                (server.client(), Arc::clone(&stop), Arc::clone(&finished), Arc::clone(&unsure));
            threads.push(thread::spawn(move || work(c, worker, &stop, &finished, &unsure)));
        }
        eventually(PATIENCE, "there is some load", || {
            finished.lock().unwrap().len() >= 60 * (round + 1) && due_of.lock().unwrap().len() >= 90 * (round + 1)
        });
        // The server is killed without notice to its clients.
        server.crash_and_restart();
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let _ = thread.join();
        }
    }
    let stop = AtomicBool::new(false);
    let pushed: HashSet<String> = due_of.lock().unwrap().keys().cloned().collect();
    thread::scope(|scope| {
        scope.spawn(|| work(server.client(), 0, &stop, &finished, &unsure));
        eventually(PATIENCE * 3, "every acknowledged push is finished", || {
            let (finished, unsure) = (finished.lock().unwrap(), unsure.lock().unwrap());
            pushed.iter().all(|id| finished.contains_key(id) || unsure.contains(id))
        });
        stop.store(true, Ordering::Relaxed);
    });
    assert!(finished.lock().unwrap().values().all(|&acks| acks == 1), "a job was finished twice");
    assert_agree(&server, &[]);
}

/// Claims and finishes jobs until `stop`, or until the server is gone. Does not finish one in seven jobs, as if the
/// worker had crashed.
fn work(
    mut c: Client,
    worker: usize,
    stop: &AtomicBool,
    finished: &Mutex<HashMap<String, u32>>,
    unsure: &Mutex<HashSet<String>>,
) {
    for n in worker.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(reply) = c.try_run("ZQ.CLAIM 1 q LEASE 150ms BLOCK 50ms") else { return };
        for Job { id, token, .. } in Job::all(&reply) {
            if n % 7 == 6 {
                continue;
            }
            match c.try_run(&format!("ZQ.ACK q {id} {token}")) {
                Ok(Value::Int(1)) => *finished.lock().unwrap().entry(id).or_default() += 1,
                Ok(_) => {}
                // The push may or may not have run.
                Err(_) => drop(unsure.lock().unwrap().insert(id)),
            }
        }
    }
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
                        let jobs = c.jobs("ZQ.CLAIM 1 q LEASE 1h COUNT 3 BLOCK 700ms");
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
