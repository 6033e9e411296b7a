//! Queues compared with published figures of other queues: `cargo bench -p zeitset-benches --bench published`.
//!
//! | measurement | published by |
//! |---|---|
//! | 30,000 dequeues a second | Netflix Timestone |
//! | the delay of 10,000 jobs that are due within a minute | Dropbox ATF |
//! | how long jobs of quiet tenants wait while a noisy tenant pushes a million jobs | Amazon SQS fair queues |
//! | a full server that still dequeues | Slack's job queue |
//!
//! The other systems are clusters. This benchmark has one server, and its clients run on the same machine. So the
//! results only tell whether one server is in the same range. The benchmark takes about four minutes.

use redis::{Connection, Pipeline, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testkit::Server;

const BATCH: usize = 500;
const WORKERS: usize = 8;

fn main() {
    let server = Server::builder().start();
    println!("server {}, payloads of 100 bytes\n", info(&mut connect(&server), "server", "redis_version"));
    println!("{:<74} {:>9} {:>9} {:>9} {:>9}", "ms", "p50", "p95", "p99", "worst");
    dequeues(&server);
    lateness(&server);
    for groups in [true, false] {
        quiet_tenants(&server, groups);
    }
    full_server();
}

fn tell(name: &str, mut us: Vec<u64>) {
    assert!(!us.is_empty(), "{name}: nothing was measured");
    us.sort_unstable();
    let at = |percent: usize| us[(us.len() * percent / 100).min(us.len() - 1)] as f64 / 1000.0;
    println!("{name:<74} {:>9.2} {:>9.2} {:>9.2} {:>9.2}", at(50), at(95), at(99), at(100));
}

/// Claims at fixed times. The wait counts from the time at which the claim should have been sent, so it includes delays
/// by slow earlier claims.
fn dequeues(server: &Server) {
    const RATE: u64 = 30_000;
    const SECONDS: u64 = 20;
    let jobs = RATE * SECONDS;
    let mut con = connect(server);
    redis::cmd("FLUSHALL").exec(&mut con).expect("FLUSHALL");
    push_many(&mut con, jobs as usize + BATCH, |_| String::new());
    let begin = Instant::now() + Duration::from_millis(100);
    let threads: Vec<_> = (0..WORKERS as u64)
        .map(|worker| {
            let mut con = connect(server);
            thread::spawn(move || {
                let mut waits = Vec::with_capacity((jobs / WORKERS as u64) as usize);
                for nth in (worker..jobs).step_by(WORKERS) {
                    let at = begin + Duration::from_nanos(nth * 1_000_000_000 / RATE);
                    thread::sleep(at.saturating_duration_since(Instant::now()));
                    assert_eq!(claim(&mut con, None).len(), 1, "a job");
                    waits.push(at.elapsed().as_micros() as u64);
                }
                waits
            })
        })
        .collect();
    let waits: Vec<u64> = joined(threads);
    let rate = waits.len() as f64 / begin.elapsed().as_secs_f64();
    tell(&format!("a claim, {rate:.0} a second, {WORKERS} connections, {jobs} jobs"), waits);
}

/// Measures the time from a job's due time until a waiting worker gets the job.
fn lateness(server: &Server) {
    const JOBS: usize = 10_000;
    const MINUTE: u64 = 60_000;
    let mut con = connect(server);
    redis::cmd("FLUSHALL").exec(&mut con).expect("FLUSHALL");
    let first = now_us() / 1000 + 1000;
    push_many(&mut con, JOBS, |nth| format!("AT {}ms", first + (nth as u64 * 7919) % MINUTE));
    let left = Arc::new(AtomicU64::new(JOBS as u64));
    let threads = (0..WORKERS).map(|_| {
        let (mut con, left) = (connect(server), Arc::clone(&left));
        thread::spawn(move || {
            let mut waits = Vec::new();
            while left.load(Ordering::Relaxed) > 0 {
                for (id, token, payload) in claim(&mut con, Some("100ms")) {
                    let due_ms: u64 =
                        payload.split(' ').next().and_then(|due| due.parse().ok()).expect("when it was due");
                    waits.push(now_us().saturating_sub(due_ms * 1000));
                    left.fetch_sub(1, Ordering::Relaxed);
                    ack(&mut con, &id, token);
                }
            }
            waits
        })
    });
    tell(
        &format!("{JOBS} jobs due within a minute, {WORKERS} workers: from due to claimed"),
        joined(threads.collect()),
    );
}

/// A hundred quiet tenants push one job per second each, after a noisy tenant has pushed a million jobs. Workers take a
/// millisecond per job, so they never finish the million.
fn quiet_tenants(server: &Server, groups: bool) {
    const NOISY: usize = 1_000_000;
    const QUIET: u64 = 3000;
    let mut con = connect(server);
    redis::cmd("FLUSHALL").exec(&mut con).expect("FLUSHALL");
    let in_group = move |name: &str| if groups { format!("GROUP {name}") } else { String::new() };
    let is_over = Arc::new(AtomicBool::new(false));
    let noise = {
        let (mut con, group) = (connect(server), in_group("noisy"));
        thread::spawn(move || push_many(&mut con, NOISY, |_| group.clone()))
    };
    let quiet = {
        let mut con = connect(server);
        thread::spawn(move || {
            for nth in 0..QUIET {
                let payload = format!("quiet {}", now_us());
                push(payload.as_bytes(), &in_group(&format!("quiet:{}", nth % 100))).exec(&mut con).expect("pushed");
                thread::sleep(Duration::from_millis(10));
            }
        })
    };
    let left = Arc::new(AtomicU64::new(QUIET));
    let threads: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (mut con, is_over, left) = (connect(server), Arc::clone(&is_over), Arc::clone(&left));
            thread::spawn(move || {
                let mut waits = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    for (id, token, payload) in claim(&mut con, Some("10ms")) {
                        if let Some(pushed) = payload.strip_prefix("quiet ") {
                            waits.push(now_us().saturating_sub(pushed.parse().expect("a time")));
                            left.fetch_sub(1, Ordering::Relaxed);
                        }
                        thread::sleep(Duration::from_millis(1));
                        ack(&mut con, &id, token);
                    }
                }
                waits
            })
        })
        .collect();
    quiet.join().expect("the quiet tenants");
    noise.join().expect("the noisy tenant");
    // Without groups, the quiet tenants' jobs come after the million.
    let patience = Instant::now() + Duration::from_secs(5);
    while left.load(Ordering::Relaxed) > 0 && Instant::now() < patience {
        thread::sleep(Duration::from_millis(10));
    }
    is_over.store(true, Ordering::Relaxed);
    let waits = joined(threads);
    let name = if groups { "with a group each" } else { "without groups" };
    let served = waits.len();
    tell(&format!("quiet tenants' jobs, a million of a noisy one, {name}: {served} of {QUIET} served"), waits);
}

/// Tries to take a job on a server at its maxmemory: with LMOVE, as queues in Redis usually do, and with ZQ.CLAIM.
fn full_server() {
    let server = Server::builder().config("maxmemory 64mb\nmaxmemory-policy noeviction").start();
    let mut con = connect(&server);
    redis::cmd("RPUSH").arg("list").arg("job").exec(&mut con).expect("there is room");
    let mut jobs = 0;
    while push(&[b'x'; 100], "").exec(&mut con).is_ok() {
        jobs += 1;
    }
    let plain = redis::cmd("LMOVE").arg(&["list", "taken", "LEFT", "RIGHT"]).exec(&mut con);
    let plain = plain.expect_err("the server is full").to_string();
    let mut done = 0;
    loop {
        let claimed = claim(&mut con, None);
        let Some((id, token, _)) = claimed.into_iter().next() else { break };
        ack(&mut con, &id, token);
        done += 1;
    }
    println!("\na full server (maxmemory 64 MB): {done} of {jobs} jobs claimed and acknowledged; LMOVE: {plain}");
    assert_eq!(done, jobs);
}

fn joined(threads: Vec<JoinHandle<Vec<u64>>>) -> Vec<u64> {
    threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
}

fn connect(server: &Server) -> Connection {
    let (host, port) = server.address();
    let client = redis::Client::open(format!("redis://{host}:{port}/")).expect("an address");
    client.get_connection().expect("the server accepts")
}

fn push(payload: &[u8], options: &str) -> redis::Cmd {
    let mut cmd = redis::cmd("ZQ.PUSH");
    cmd.arg("q").arg(payload).arg(options.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>());
    cmd
}

fn push_many(con: &mut Connection, jobs: usize, options: impl Fn(usize) -> String) {
    for first in (0..jobs).step_by(BATCH) {
        let mut pipeline = Pipeline::with_capacity(BATCH);
        for nth in first..jobs.min(first + BATCH) {
            let options = options(nth);
            let due = options.strip_prefix("AT ").and_then(|at| at.strip_suffix("ms")).unwrap_or("0").to_owned();
            let payload = format!("{due} {}", "x".repeat(99 - due.len()));
            pipeline.add_command(push(payload.as_bytes(), &options));
        }
        pipeline.exec(con).expect("there is room");
    }
}

/// Returns the ID, the token and the payload of each claimed job.
fn claim(con: &mut Connection, block: Option<&str>) -> Vec<(String, i64, String)> {
    let mut cmd = redis::cmd("ZQ.CLAIM");
    cmd.arg(&["1", "q", "LEASE", "1h"]);
    if let Some(block) = block {
        cmd.arg("BLOCK").arg(block);
    }
    let jobs: Vec<(Value, String, i64, Value, Value, String)> = cmd.query(con).expect("a claim succeeds");
    jobs.into_iter().map(|(_, id, token, _, _, payload)| (id, token, payload)).collect()
}

fn ack(con: &mut Connection, id: &str, token: i64) {
    let done: i64 = redis::cmd("ZQ.ACK").arg("q").arg(id).arg(token).query(con).expect("an ack succeeds");
    assert_eq!(done, 1, "every ack is good");
}

fn info(con: &mut Connection, section: &str, field: &str) -> String {
    let text: String = redis::cmd("INFO").arg(section).query(con).expect("INFO");
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().to_owned()
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as u64
}
