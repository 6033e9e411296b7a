//! Queues in RDB and AOF files, with DUMP, RESTORE and COPY, after crashes, and in forged payloads.

use super::commands::claim_one;
use redis::Value;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use testkit::{Client, PATIENCE, Server, assert_agree, crc64, eventually, show, start, start_keeping_aof};

/// Creates a queue with a job in every state, all settings, and some counters above zero.
fn fill(c: &mut Client) {
    c.run("ZQ.CONFIG q MAXATTEMPTS 3 BACKOFF 1s 1h AGING 5s MAXLEN 100 CONCURRENCY 50 RATE 1000 1h");
    for n in 0..20 {
        c.run(&format!("ZQ.PUSH q payload{n} ID job{n} PRIORITY {}", n % 5 - 2));
    }
    c.run("ZQ.PUSH q x");
    c.run("ZQ.PUSH q x ID later DELAY 1h EVERY 1h MAXATTEMPTS 0");
    for _ in 0..3 {
        let (id, token) = claim_one(c, "ZQ.CLAIM 1 q LEASE 1h");
        c.run(&format!("ZQ.NACK q {id} {token} DEAD"));
        let (id, token) = claim_one(c, "ZQ.CLAIM 1 q LEASE 1h");
        c.run(&format!("ZQ.ACK q {id} {token}"));
        claim_one(c, "ZQ.CLAIM 1 q LEASE 1h");
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
            rewrite(&mut c);
            server.restart();
            assert_eq!(state(&mut server.client()), before, "{config}, rewritten");
            assert_agree(&server, &[]);
        }
        // Tokens continue from the last one.
        let mut c = server.client();
        let (_, token) = claim_one(&mut c, "ZQ.CLAIM 1 q LEASE 1h");
        assert!(before.iter().all(|line| !line.contains(&token.to_string())), "{token} was given twice");
    }
}

pub(super) fn rewrite(c: &mut Client) {
    c.run("BGREWRITEAOF");
    eventually(PATIENCE, "the AOF is rewritten", || {
        let info = c.info("persistence");
        info["aof_rewrite_in_progress"] == "0"
            && info["aof_rewrite_scheduled"] == "0"
            && info["aof_last_bgrewrite_status"] == "ok"
    });
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
    rewrite(&mut c);
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
    let Value::BulkString(dump) = c.run("DUMP q") else { panic!() };
    c.call(redis::cmd("RESTORE").arg("r").arg(0).arg(&dump));
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

/// Returns the RESTORE payload: this body, which ends with the version, and its checksum.
fn sealed(body: &[u8]) -> Vec<u8> {
    [body, &crc64(body).to_le_bytes()].concat()
}

/// Restores a payload. If it is accepted, uses the queue in every way.
fn try_payload(c: &mut Client, payload: &[u8]) -> bool {
    let restored = c.try_call(redis::cmd("RESTORE").arg("h").arg(0).arg(payload).arg("REPLACE"));
    match &restored {
        Err(error) => assert!(error.starts_with("ERR Bad data format"), "{error}"),
        Ok(_) => {
            for line in [
                "ZQ.STATS h",
                "ZQ.PEEK h READY COUNT 100",
                "ZQ.PEEK h DEAD COUNT 100",
                "ZQ.CLAIM 1 h LEASE 1h COUNT 100",
                "ZQ.PUSH h x",
                "ZQ.REDRIVE h",
                "ZQ.CONFIG h PAUSED no AGING 0 RATE 0 0 CONCURRENCY 0",
                "ZQ.CLAIM 1 h LEASE 1 COUNT 100",
                "MEMORY USAGE h",
                "DEBUG DIGEST-VALUE h",
                "DUMP h",
            ] {
                c.reply(line);
            }
        }
    }
    c.run("DEL h");
    restored.is_ok()
}

#[test]
fn payloads_made_up_are_refused_or_give_sound_queues() {
    let (_server, mut c) = start();
    fill(&mut c);
    let Value::BulkString(dump) = c.run("DUMP q") else { panic!() };
    let body = &dump[..dump.len() - 8];
    assert_eq!(sealed(body), dump, "our CRC is the server's");
    assert!(try_payload(&mut c, &dump));
    // Truncates the payload at any position. The last two bytes are the version (10 and 0 on Redis 7.0). Skips two
    // positions at which the server would read the version as the missing bytes: without the last two bytes, and
    // without the last ten (a time in 9 bytes, and one more byte).
    let (value, version) = body.split_at(body.len() - 2);
    for end in (0..value.len()).filter(|end| ![2, 10].contains(&(value.len() - end))) {
        let cut = [&value[..end], version].concat();
        assert!(!try_payload(&mut c, &sealed(&cut)), "cut at {end} of {}", value.len());
    }
    // Changes each byte in a few ways.
    let mut accepted = 0;
    for at in 0..value.len() {
        for change in [1, 0x40, 0x80, 0xff] {
            let mut bytes = body.to_vec();
            bytes[at] ^= change;
            // The first byte is the type. Other types are the server's own.
            if at > 0 {
                accepted += u32::from(try_payload(&mut c, &sealed(&bytes)));
            }
        }
    }
    assert!(accepted > 0);
    // Inserts huge lengths, 2^44 and 2^64-1, at many positions.
    for at in 9..value.len().min(200) {
        for huge in [0x1000_0000_0000_u64, u64::MAX] {
            let mut bytes = value[..at].to_vec();
            bytes.push(0x81);
            bytes.extend(huge.to_be_bytes());
            bytes.extend(&value[at..]);
            bytes.extend(version);
            try_payload(&mut c, &sealed(&bytes));
        }
    }
    c.script(&[("PING", "+PONG")]);
}

#[test]
fn effects_made_up_never_harm() {
    let (server, mut c) = start_keeping_aof();
    fill(&mut c);
    let words = [
        "PUSH",
        "MADE",
        "CLAIM",
        "SETTLE",
        "ACK",
        "AGAIN",
        "RETRY",
        "BURY",
        "EXTEND",
        "CANCEL",
        "MOVE",
        "REDRIVE",
        "CONFIGURE",
        "JOB",
        "TAKEN",
        "TOTALS",
        "CLEAN",
        "DROP",
        "REVIVE",
        "CLAIM+",
        "RETRY+",
        "BURY+",
        "JOB+",
    ];
    let values = [
        "job1",
        "1-1",
        "",
        "0",
        "1",
        "-1",
        "-",
        "claimed",
        "dead",
        "9007199254740991",
        "9223372036854775807",
        "4294967295",
        "x",
        "worker",
        "error",
        "free",
    ];
    let mut random = 7_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % below
    };
    for _ in 0..20_000 {
        let mut command = redis::cmd("ZQ.APPLY");
        command.arg("q").arg(values[next(values.len())]).arg(words[next(words.len())]);
        for _ in 0..next(13) {
            command.arg(values[next(values.len())]);
        }
        let _ = c.try_call(&command);
    }
    assert_agree(&server, &[]);
    for line in ["ZQ.STATS q", "ZQ.PEEK q DEAD", "DEBUG RELOAD", "ZQ.CLAIM 1 q LEASE 1 COUNT 100", "ZQ.STATS q"] {
        c.run(line);
    }
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
        let Value::Array(jobs) = reply else { panic!("{reply:?}") };
        for job in jobs {
            let Value::Array(job) = job else { panic!() };
            let (Value::BulkString(id), Value::Int(token)) = (&job[1], &job[2]) else { panic!() };
            let id = String::from_utf8_lossy(id).into_owned();
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
                        let Value::Array(jobs) = c.run("ZQ.CLAIM 1 q LEASE 1h COUNT 3 BLOCK 700ms") else { panic!() };
                        let now = c.now();
                        for job in &jobs {
                            let Value::Array(job) = job else { panic!() };
                            let Value::BulkString(due) = &job[5] else { panic!() };
                            let due: i64 = String::from_utf8_lossy(due).parse().unwrap();
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
