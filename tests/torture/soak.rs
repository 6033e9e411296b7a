//! All families at the same time: several clients use expiring sets, limits, queues and boards, while saves, AOF
//! rewrites, changed settings, refused unloads and killed connections disturb the server. The test checks all the time
//! that:
//!
//! - every pushed job is either acknowledged once or still in the queue;
//! - a limit admits no more than its limit in any trailing window;
//! - no client sees a member after it has expired;
//! - a board agrees with a model;
//! - the replica agrees with the master at checkpoints, and with the data loaded from the AOF and the RDB file at the
//!   end.
//!
//! The test takes some seconds in `make test`, and an hour with SOAK_SECONDS=3600.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use redis::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{Client, Dataset, PATIENCE, Server, Verdict, assert_same_data, eventually, show};

/// The state that all threads share.
struct Soak<'s> {
    master: &'s Server,
    replica: &'s Server,
    is_over: AtomicBool,
    /// Each call locks this for reading, and a checkpoint for writing.
    calls: RwLock<()>,
    ledger: Mutex<Ledger>,
    calls_made: AtomicU64,
}

/// What clients know of the jobs. A call whose connection broke may or may not have run.
#[derive(Default)]
struct Ledger {
    pushed: BTreeSet<String>,
    perhaps_pushed: BTreeSet<String>,
    acked: BTreeSet<String>,
    perhaps_acked: BTreeSet<String>,
}

impl Soak<'_> {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Opens a connection. Tries again if the connection is killed while it is opened.
    fn connect(&self, server: &Server) -> Client {
        let start = Instant::now();
        loop {
            if let Some(client) = server.try_client() {
                return client;
            }
            assert!(start.elapsed() < PATIENCE, "the server accepts connections");
        }
    }

    /// Runs a call. If the connection was lost, opens a new one and returns `None`.
    fn call(&self, c: &mut Client, server: &Server, line: &str) -> Option<Value> {
        let _held = self.calls.read().unwrap_or_else(PoisonError::into_inner);
        self.calls_made.fetch_add(1, Ordering::Relaxed);
        match c.try_run(line) {
            Ok(value) => Some(value),
            // CLIENT UNBLOCK has ended the claim, which got no job.
            Err(error) if error.contains("connection lost") || error.starts_with("UNBLOCKED") => {
                *c = self.connect(server);
                None
            }
            Err(error) => panic!("{line}: {error}"),
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Int(number) => number.to_string(),
        other => panic!("a string, not {}", show(other)),
    }
}

fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => panic!("an array, not {}", show(&other)),
    }
}

fn produce(soak: &Soak<'_>, thread: u64) {
    let (mut random, mut c) = (StdRng::seed_from_u64(thread), soak.connect(soak.master));
    for n in 0_u64.. {
        if !soak.goes_on() {
            return;
        }
        let id = format!("{thread}:{n}");
        let option =
            ["", "DELAY 20ms", "PRIORITY -3", "MAXATTEMPTS 2", "PRIORITY 7"].choose(&mut random).expect("options");
        let line = format!("ZQ.PUSH jobs payload ID {id} {option}");
        let reply = soak.call(&mut c, soak.master, &line);
        let mut ledger = soak.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match reply {
            Some(_) => ledger.pushed.insert(id),
            // The push must not be repeated: it may have run, and the job may have been acknowledged already.
            None => ledger.perhaps_pushed.insert(id),
        };
        let is_ahead = ledger.pushed.len() > ledger.acked.len() + 5000;
        drop(ledger);
        if is_ahead {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn consume(soak: &Soak<'_>, thread: u64) {
    let (mut random, mut c) = (StdRng::seed_from_u64(thread), soak.connect(soak.master));
    while soak.goes_on() {
        let lease = ["30ms", "200ms", "1s"].choose(&mut random).expect("leases");
        let line = format!("ZQ.CLAIM 2 none jobs LEASE {lease} COUNT {} BLOCK 50ms", random.random_range(1..5));
        for job in soak.call(&mut c, soak.master, &line).map(items).unwrap_or_default().into_iter().map(items) {
            let (id, token) = (text(&job[1]), text(&job[2]));
            match random.random_range(0..10) {
                0 => drop(soak.call(&mut c, soak.master, &format!("ZQ.NACK jobs {id} {token}"))),
                1 => drop(soak.call(&mut c, soak.master, &format!("ZQ.EXTEND jobs 10ms {id} {token}"))),
                // The worker acts as if it had crashed, so that the lease expires.
                2 => {}
                _ => {
                    let reply = soak.call(&mut c, soak.master, &format!("ZQ.ACK jobs {id} {token}"));
                    let mut ledger = soak.ledger.lock().unwrap_or_else(PoisonError::into_inner);
                    match reply {
                        Some(Value::Int(1)) => assert!(ledger.acked.insert(id.clone()), "{id} was acked twice"),
                        Some(_) => {}
                        None => drop(ledger.perhaps_acked.insert(id)),
                    }
                }
            }
        }
    }
}

const LIMIT: usize = 20;
const WINDOW: i64 = 300;

/// Takes units. Returns the times at which units were taken, and for the FIXED limit the number of units per window.
fn take(soak: &Soak<'_>) -> (Vec<i64>, BTreeMap<i64, usize>) {
    let mut c = soak.connect(soak.master);
    let (mut taken, mut windows) = (Vec::new(), BTreeMap::new());
    while soak.goes_on() {
        let line = format!("ZRL.CHECK sliding {LIMIT} {WINDOW}ms");
        let verdict = |reply: Value| {
            let fields: Vec<_> = items(reply).iter().map(|field| text(field).parse().expect("a number")).collect();
            Verdict::from_fields(&fields)
        };
        if let Some(verdict) = soak.call(&mut c, soak.master, &line).map(verdict).filter(|verdict| verdict.allowed == 1)
        {
            taken.push(verdict.charged_until - WINDOW);
        }
        let line = format!("ZRL.CHECK fixed {LIMIT} {WINDOW}ms FIXED");
        if let Some(verdict) = soak.call(&mut c, soak.master, &line).map(verdict).filter(|verdict| verdict.allowed == 1)
        {
            *windows.entry(verdict.charged_until).or_default() += 1;
        }
    }
    (taken, windows)
}

/// Adds members whose names contain their expiry, and reads them on the master and on the replica.
fn expire(soak: &Soak<'_>, thread: u64) {
    let mut random = StdRng::seed_from_u64(thread);
    let mut clients = [(soak.connect(soak.master), soak.master), (soak.connect(soak.replica), soak.replica)];
    while soak.goes_on() {
        let key = format!("set{}", random.random_range(0..5));
        let (c, master) = &mut clients[0];
        if let Some(now) = soak.call(c, master, "TIME").map(|time| now(&time)) {
            let at = now + random.random_range(1..400);
            soak.call(c, master, &format!("ZEXP.ADD {key} AT {at}ms {at}:{}", random.random_range(0..9)));
        }
        let (c, server) = &mut clients[random.random_range(0..2)];
        let Some(now) = soak.call(c, server, "TIME").map(|time| now(&time)) else { continue };
        let Some(members) = soak.call(c, server, &format!("ZEXP.MEMBERS {key} WITHPTTL")) else { continue };
        for pair in items(members).chunks(2) {
            let (member, ttl) = (text(&pair[0]), text(&pair[1]));
            let at: i64 = member.split(':').next().and_then(|at| at.parse().ok()).expect("a moment");
            assert!(at > now, "{member} was seen at {now}");
            assert!((1..=400).contains(&ttl.parse::<i64>().expect("ms")), "{member} has {ttl} ms");
        }
    }
}

fn now(time: &Value) -> i64 {
    let Value::Array(parts) = time else { panic!("TIME is an array") };
    let part = |at: usize| text(&parts[at]).parse::<i64>().expect("a number");
    part(0) * 1000 + part(1) / 1000
}

/// Changes a board and a model of the board. The calls set final values, so a call can be repeated after a broken
/// connection.
fn climb(soak: &Soak<'_>) -> BTreeMap<String, (i64, i64)> {
    let (mut random, mut c) = (StdRng::seed_from_u64(99), soak.connect(soak.master));
    let mut model = BTreeMap::new();
    while soak.goes_on() {
        let member = format!("m{:03}", random.random_range(0..300));
        let line = if random.random_ratio(1, 4) {
            model.remove(&member);
            format!("ZLB.REM board {member}")
        } else {
            let values = (random.random_range(-9..9), random.random_range(-9..9));
            model.insert(member.clone(), values);
            format!("ZLB.SET board {member} {} {}", values.0, values.1)
        };
        while soak.call(&mut c, soak.master, &line).is_none() {}
        if random.random_ratio(1, 100) {
            let rows = loop {
                if let Some(rows) = soak.call(&mut c, soak.master, "ZLB.RANGE board 0 -1 WITHVALUES") {
                    break items(rows);
                }
            };
            assert_eq!(rows.into_iter().map(row).collect::<Vec<_>>(), ranked(&model));
        }
    }
    model
}

fn row(row: Value) -> (String, i64, i64) {
    let row = items(row);
    let value = |at: usize| text(&row[at]).parse().expect("a number");
    (text(&row[0]), value(1), value(2))
}

/// Returns the rows of the model in the order of the board: by the first value descending, the second ascending, then
/// the name.
fn ranked(model: &BTreeMap<String, (i64, i64)>) -> Vec<(String, i64, i64)> {
    let mut rows: Vec<_> = model.iter().map(|(member, &(x, y))| (member.clone(), x, y)).collect();
    rows.sort_by_key(|(member, x, y)| (-x, *y, member.clone()));
    rows
}

/// Disturbs the server, and runs the checkpoints.
fn disturb(soak: &Soak<'_>, until: Instant) {
    const LINES: [&str; 16] = [
        "BGSAVE SCHEDULE",
        "BGREWRITEAOF",
        "CONFIG SET zeitset.sweep no",
        "CONFIG SET zeitset.sweep yes",
        "CONFIG SET zeitset.sweep-slice-us 50",
        "CONFIG SET zeitset.sweep-slice-us 100000 zeitset.sweep-max-duty 90",
        "CONFIG SET zeitset.sweep-max-duty 1",
        "CONFIG SET zeitset.sweep-max-duty 0",
        "MODULE UNLOAD zeitset",
        "CLIENT KILL TYPE normal SKIPME yes",
        "CLIENT KILL TYPE replica",
        "CLIENT PAUSE 30 WRITE",
        "CLIENT PAUSE 10 ALL",
        "INFO everything",
        "MEMORY PURGE",
        "DEBUG STRINGMATCH-LEN 10 a",
    ];
    const REFUSED: [&str; 2] = ["MODULE UNLOAD", "sweep-max-duty 0"];
    let mut random = StdRng::seed_from_u64(7);
    let (mut c, mut checkpoint) = (soak.connect(soak.master), Instant::now());
    while Instant::now() < until && soak.goes_on() {
        let line = LINES.choose(&mut random).expect("lines");
        let refused = matches!(c.try_run(line), Err(error) if error.starts_with("ERR") && !error.contains("progress"));
        assert_eq!(
            refused,
            REFUSED.iter().any(|refused| line.contains(refused)) || line.starts_with("DEBUG"),
            "{line}"
        );
        thread::sleep(Duration::from_millis(random.random_range(20..150)));
        if checkpoint.elapsed() > Duration::from_secs(3) {
            let _alone = soak.calls.write().unwrap_or_else(PoisonError::into_inner);
            // Waits until paused writes and the sweeper have finished and both servers have the same data.
            assert_same_data(&mut c, &mut soak.connect(soak.replica));
            checkpoint = Instant::now();
        }
    }
}

/// Ends the soak when dropped, also if a thread panics.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn everything_at_once_and_every_invariant_holds() {
    let seconds = std::env::var("SOAK_SECONDS").map_or(8, |seconds| seconds.parse().expect("a number"));
    let mut master = Server::builder().config("appendonly yes\nenable-module-command yes").start();
    let replica = Server::builder().replica_of(&master);
    let mut c = master.client();
    c.run("ZQ.CONFIG jobs CONCURRENCY 500 BACKOFF 5ms 100ms");
    c.run("ZLB.CREATE board DIM x DIM y ASC TIES NAME");
    let until = Instant::now() + Duration::from_secs(seconds);
    let soak = Soak {
        master: &master,
        replica: &replica,
        is_over: AtomicBool::new(false),
        calls: RwLock::new(()),
        ledger: Mutex::default(),
        calls_made: AtomicU64::new(0),
    };
    let (mut taken, mut windows, mut model) = (Vec::new(), BTreeMap::<i64, usize>::new(), BTreeMap::new());
    thread::scope(|scope| {
        let soak = &soak;
        /// Starts one of the threads.
        macro_rules! run {
            ($work:expr) => {
                scope.spawn(move || {
                    let _over = Over(&soak.is_over);
                    $work
                })
            };
        }
        let others = [
            run!(produce(soak, 1)),
            run!(produce(soak, 2)),
            run!(consume(soak, 3)),
            run!(consume(soak, 4)),
            run!(expire(soak, 5)),
            run!(disturb(soak, until)),
        ];
        let takers = [run!(take(soak)), run!(take(soak))];
        let climber = run!(climb(soak));
        for thread in others {
            thread.join().expect("no thread fails");
        }
        for taker in takers {
            let (mine, by_window) = taker.join().expect("no thread fails");
            taken.extend(mine);
            by_window.into_iter().for_each(|(window, units)| *windows.entry(window).or_default() += units);
        }
        model = climber.join().expect("no thread fails");
    });
    let Ledger { pushed, perhaps_pushed, acked, perhaps_acked } =
        soak.ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
    let calls = soak.calls_made.into_inner();

    taken.sort_unstable();
    let crowd = taken.windows(LIMIT + 1).find(|units| units[LIMIT] - units[0] < WINDOW);
    assert_eq!(crowd, None, "more than {LIMIT} units in a window of {WINDOW} ms");
    assert!(windows.values().all(|&units| units <= LIMIT), "{windows:?}");

    let mut c = master.client();
    c.run("CONFIG SET zeitset.sweep yes zeitset.sweep-slice-us 500 zeitset.sweep-max-duty 25");
    c.run("CLIENT UNPAUSE");
    for id in &pushed {
        let is_there = c.run(&format!("ZQ.GET jobs {id}")) != Value::Nil;
        let is_acked = acked.contains(id);
        assert!(!(is_acked && is_there), "{id} was acked, and is there");
        assert!(is_acked || is_there || perhaps_acked.contains(id), "{id} is lost");
    }
    let strangers = acked.iter().find(|id| !pushed.contains(*id) && !perhaps_pushed.contains(*id));
    assert_eq!(strangers, None, "acked, but pushed by nobody");
    let Value::Array(stats) = c.run("ZQ.STATS jobs") else { panic!("stats") };
    let stat = |name: &str| {
        let at = stats.iter().position(|field| *field == Value::BulkString(name.into())).expect("the field");
        text(&stats[at + 1]).parse::<i64>().expect("a number")
    };
    let here = stat("ready") + stat("delayed") + stat("claimed") + stat("dead");
    assert_eq!(stat("pushed"), stat("acked") + here, "jobs come from nowhere, or are lost");
    let rows = items(c.run("ZLB.RANGE board 0 -1 WITHVALUES"));
    assert_eq!(rows.into_iter().map(row).collect::<Vec<_>>(), ranked(&model));

    // Waits until the remaining expiring sets and limits have expired. Then no more data change.
    let gone = ["set0", "set1", "set2", "set3", "set4", "sliding", "fixed"].join(" ");
    eventually(PATIENCE, "what has expired is gone", || c.int(&format!("EXISTS {gone}")) == 0);
    assert_same_data(&mut c, &mut replica.client());
    let before = Dataset::of(&mut c);
    // A save or an AOF rewrite may still run.
    eventually(PATIENCE, "no child runs", || c.info_number("persistence", "aof_rewrite_in_progress") == 0);
    c.run("DEBUG RELOAD");
    assert_eq!(Dataset::of(&mut c), before, "after loading the RDB file");
    master.crash_and_restart();
    assert_eq!(Dataset::of(&mut master.client()), before, "after loading the AOF");
    eprintln!(
        "{calls} calls in {seconds} s: {} jobs pushed, {} acked, {} units taken in {} windows",
        pushed.len(),
        acked.len(),
        taken.len(),
        windows.len()
    );
    assert!(acked.len() > 50 && taken.len() > LIMIT, "the soak did something");
}
