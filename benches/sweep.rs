//! The latency that clients see while many members expire: `cargo bench -p zeitset-benches --bench sweep`.
//!
//! A client sends PING without a pause. In the same run, the benchmark measures the sweeper, the noise of the machine,
//! and Redis' own ways: one ZREMRANGEBYSCORE, and field TTLs of a hash if the server has them. The benchmark takes
//! about a minute.

use redis::{Cmd, Connection, Pipeline};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use testkit::Server;

const MEMBERS: usize = 1_000_000;
const KEYS: usize = 10_000;
const BATCH: usize = 1000;

/// The benchmark begins to add members this long before they expire, in ms. Adding them must take less time.
const AHEAD_MS: u64 = 12_000;

/// The timeout of a measurement, so that the benchmark always ends.
const BOUND: Duration = Duration::from_secs(40);

fn main() {
    let server = Server::builder().config("lazyfree-lazy-expire no").start();
    let mut con = connect(&server);
    let version: String = field(&mut con, "server", "redis_version").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    println!("server {version}, {cores} cores; latency of a client that sends PING meanwhile, in microseconds\n");
    println!(
        "{:<52} {:>8} {:>8} {:>8} {:>10} {:>10} {:>9}",
        "operation", "p50", "p99.9", "worst", "drained ms", "slice us", "CPU ms"
    );

    run(&server, "nothing (the noise floor)", |_| {}, |_| thread::sleep(Duration::from_secs(3)));
    run(
        &server,
        "ZEXP: 1,000,000 members of a key, all due at once",
        |con| add(con, "all", MEMBERS, |_| 0),
        |con| until(con, |con| dbsize(con) == 0),
    );
    run(
        &server,
        "ZEXP: the same, and one member that stays",
        |con| {
            add(con, "most", MEMBERS, |_| 0);
            call(con, &["ZEXP.ADD", "most", "1h", "survivor"]);
        },
        |con| until(con, |con| number(con, &["ZCARD", "most"]) == 2),
    );
    run(
        &server,
        "ZEXP: 10,000 keys x 100, due within a second",
        |con| {
            let due = server_ms(con) + AHEAD_MS;
            for key in 0..KEYS {
                let mut add = redis::cmd("ZEXP.ADD");
                add.arg(format!("key:{key}")).arg("AT");
                for member in 0..MEMBERS / KEYS {
                    let at = due + (key * 7 + member * 13) as u64 % 1000;
                    add.arg(format!("{at}ms")).arg(format!("member:{member}"));
                }
                let _: i64 = add.query(con).expect("ZEXP.ADD");
            }
            wait_until(con, due);
        },
        |con| until(con, |con| dbsize(con) == 0),
    );
    run(
        &server,
        "Redis: one ZREMRANGEBYSCORE of 1,000,000",
        |con| {
            fill(con, |pipe, member| {
                pipe.cmd("ZADD").arg("plain").arg(1).arg(format!("member:{member:07}")).ignore();
            });
        },
        |con| {
            call(con, &["ZREMRANGEBYSCORE", "plain", "-inf", "1"]);
        },
    );
    if redis::cmd("HPEXPIRE").arg("none").arg(1).arg("FIELDS").arg(1).arg("f").query::<redis::Value>(&mut con).is_ok() {
        run(
            &server,
            "Redis: 1,000,000 fields of a hash, all due at once",
            |con| {
                let due = server_ms(con) + AHEAD_MS;
                fill(con, |pipe, field| {
                    let field = format!("member:{field:07}");
                    pipe.cmd("HSET").arg("hash").arg(&field).arg("").ignore();
                    pipe.cmd("HPEXPIREAT").arg("hash").arg(due).arg("FIELDS").arg(1).arg(&field).ignore();
                });
                wait_until(con, due);
            },
            |con| until(con, |con| dbsize(con) == 0),
        );
    } else {
        println!("(no field TTLs of hashes on this server)");
    }
    let armed: i64 = field(&mut con, "zeitset", "zeitset_sweep_timer_armed").and_then(|v| v.parse().ok()).unwrap_or(-1);
    println!("\ntimers armed at the end, with nothing due: {armed}");
}

/// Runs `prepare`, and then measures the client's latency during `act`.
fn run(server: &Server, name: &str, prepare: impl FnOnce(&mut Connection), act: impl FnOnce(&mut Connection)) {
    let mut con = connect(server);
    call(&mut con, &["FLUSHALL", "SYNC"]);
    thread::sleep(Duration::from_millis(300));
    prepare(&mut con);
    let cpu_before: i64 = sweep_figure(&mut con, "zeitset_sweep_cpu_us");
    let probe = Probe::start(server);
    let started = Instant::now();
    act(&mut con);
    let drained = started.elapsed();
    thread::sleep(Duration::from_millis(200));
    let mut latencies = probe.stop();
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    let cpu = (sweep_figure(&mut con, "zeitset_sweep_cpu_us") - cpu_before) as f64 / 1000.0;
    let is_sweep = name.starts_with("ZEXP");
    let only_sweep = |text: String| if is_sweep { text } else { "-".into() };
    println!(
        "{name:<52} {:>8} {:>8} {:>8} {:>10} {:>10} {:>9}",
        at(0.5),
        at(0.999),
        at(1.0),
        drained.as_millis(),
        only_sweep(sweep_figure(&mut con, "zeitset_sweep_longest_slice_us").to_string()),
        only_sweep(format!("{cpu:.1}")),
    );
}

struct Probe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u32>>,
}

impl Probe {
    fn start(server: &Server) -> Probe {
        let mut con = connect(server);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut latencies = Vec::with_capacity(1 << 20);
            while !stopped.load(Ordering::Relaxed) {
                let sent = Instant::now();
                call(&mut con, &["PING"]);
                latencies.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
                thread::sleep(Duration::from_micros(50));
            }
            latencies
        });
        Probe { stop, thread }
    }

    fn stop(self) -> Vec<u32> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the probe ends")
    }
}

/// Adds members that are due at the same time, plus `offset`. Returns just before that time.
fn add(con: &mut Connection, key: &str, count: usize, offset: impl Fn(usize) -> u64) {
    let due = server_ms(con) + AHEAD_MS;
    for batch in 0..count / BATCH {
        let mut add = redis::cmd("ZEXP.ADD");
        add.arg(key).arg("AT");
        for member in batch * BATCH..(batch + 1) * BATCH {
            add.arg(format!("{}ms", due + offset(member))).arg(format!("member:{member:07}"));
        }
        let _: i64 = add.query(con).expect("ZEXP.ADD");
    }
    wait_until(con, due);
}

fn fill(con: &mut Connection, queue: impl Fn(&mut Pipeline, usize)) {
    for batch in 0..MEMBERS / BATCH {
        let mut pipe = redis::pipe();
        (batch * BATCH..(batch + 1) * BATCH).for_each(|member| queue(&mut pipe, member));
        let () = pipe.query(con).expect("the batch");
    }
}

fn wait_until(con: &mut Connection, due: u64) {
    let now = server_ms(con);
    assert!(now < due, "filling took longer than {AHEAD_MS} ms");
    thread::sleep(Duration::from_millis((due - now).saturating_sub(50)));
}

/// Polls until all members are gone and their memory is freed, including memory that is freed in the background.
fn until(con: &mut Connection, is_done: impl Fn(&mut Connection) -> bool) {
    let started = Instant::now();
    let is_freed = |con: &mut Connection| field(con, "memory", "lazyfree_pending_objects").as_deref() == Some("0");
    while !(is_done(con) && is_freed(con)) {
        assert!(started.elapsed() < BOUND, "not drained within {BOUND:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn connect(server: &Server) -> Connection {
    let (host, port) = server.address();
    let client = redis::Client::open(format!("redis://{host}:{port}/")).expect("an address");
    client.get_connection().expect("a connection")
}

fn call(con: &mut Connection, words: &[&str]) -> redis::Value {
    let mut command = Cmd::new();
    words.iter().for_each(|word| {
        command.arg(*word);
    });
    command.query(con).expect(words[0])
}

fn number(con: &mut Connection, words: &[&str]) -> i64 {
    redis::from_redis_value(call(con, words)).expect("a number")
}

fn dbsize(con: &mut Connection) -> i64 {
    number(con, &["DBSIZE"])
}

fn server_ms(con: &mut Connection) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(con).expect("TIME");
    seconds * 1000 + micros / 1000
}

fn field(con: &mut Connection, section: &str, name: &str) -> Option<String> {
    let info: String = redis::cmd("INFO").arg(section).query(con).ok()?;
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(|value| value.trim().to_owned()))
}

fn sweep_figure(con: &mut Connection, name: &str) -> i64 {
    field(con, "zeitset", name).and_then(|value| value.parse().ok()).unwrap_or(0)
}
