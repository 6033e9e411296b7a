//! Queues of the module, compared with queues of Lua scripts: `cargo bench -p zeitset-benches --bench queues`.
//!
//! Compares two ways on one server in one run: ZQ, and the classic queue of Lua scripts with two sorted sets and hashes
//! (due jobs, leases, payloads, tokens, attempts). Both have delays, leases, fenced acks and counted attempts. The
//! benchmark takes about two minutes.

use redis::{Cmd, Connection, Pipeline, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testkit::Server;

const PAYLOAD: usize = 100;
const BATCH: usize = 500;

fn main() {
    let server = Server::builder().start();
    let mut con = connect(&server);
    println!("server {}, payloads of {PAYLOAD} bytes, one connection unless said otherwise\n", version(&mut con));
    let zq = Zq;
    let lua = Lua::load(&mut con);

    println!("push, claim, ack: {:>33} {:>12} {:>12} {:>12}", "cycles/s", "push us", "claim us", "ack us");
    for queue in [&zq as &dyn Queue, &lua] {
        cycles(&mut con, queue, 60_000);
    }
    println!("\nCPU of the server per cycle, us: {:>30} {:>15}", "pipelined", "not pipelined");
    cpu_per_cycle(&mut con, [&zq, &lua]);
    println!("\nmemory of waiting jobs: {:>27}", "bytes/job");
    for queue in [&zq as &dyn Queue, &lua] {
        memory(&mut con, queue, 1_000_000);
    }
    println!("\nack, by jobs in flight: {:>27} {:>12}", "100: us", "100,000: us");
    for queue in [&zq as &dyn Queue, &lua] {
        acks(&mut con, queue);
    }
    println!(
        "\ndelivery of a delayed job to waiting clients, after its due time:   {:>8} {:>8} {:>8}",
        "p50", "p99", "worst"
    );
    delays(&server, "8 clients, 2,000 jobs with different due times", 2_000);
    idle(&server);
    waiting_clients(&server);
}

trait Queue {
    fn name(&self) -> &'static str;
    /// Pushes a job that is due at a Unix time in ms.
    fn push(&self, id: usize, due: u64) -> Cmd;
    fn claim(&self) -> Cmd;
    /// Returns the ID and the token in the reply of a claim.
    fn claimed(&self, reply: &Value) -> (String, i64);
    fn ack(&self, id: &str, token: i64) -> Cmd;
    /// Returns the names of the commands for push, claim and ack in the server's statistics.
    fn statistics(&self) -> [&'static str; 3];
}

struct Zq;

impl Queue for Zq {
    fn name(&self) -> &'static str {
        "ZQ"
    }

    fn push(&self, id: usize, due: u64) -> Cmd {
        let mut cmd = redis::cmd("ZQ.PUSH");
        cmd.arg("zq").arg(payload()).arg("ID").arg(format!("job:{id}")).arg("AT").arg(format!("{due}ms"));
        cmd
    }

    fn claim(&self) -> Cmd {
        let mut cmd = redis::cmd("ZQ.CLAIM");
        cmd.arg(1).arg("zq").arg("LEASE").arg("1h");
        cmd
    }

    fn claimed(&self, reply: &Value) -> (String, i64) {
        let Value::Array(jobs) = reply else { panic!("{reply:?}") };
        let Some(Value::Array(job)) = jobs.first() else { panic!("no job") };
        (text(&job[1]), integer(&job[2]))
    }

    fn ack(&self, id: &str, token: i64) -> Cmd {
        let mut cmd = redis::cmd("ZQ.ACK");
        cmd.arg("zq").arg(id).arg(token);
        cmd
    }

    fn statistics(&self) -> [&'static str; 3] {
        ["ZQ.PUSH", "ZQ.CLAIM", "ZQ.ACK"]
    }
}

/// The classic queue: one Lua script each for push, claim and ack.
struct Lua {
    scripts: [String; 3],
}

const PUSH: &str = "
    if redis.call('HSETNX', KEYS[3], ARGV[1], ARGV[2]) == 1 then
        redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
        return 1
    end
    return 0";

const CLAIM: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 10)) do
        redis.call('ZREM', KEYS[2], id)
        redis.call('ZADD', KEYS[1], now, id)
    end
    local id = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)[1]
    if not id then return false end
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZADD', KEYS[2], now + ARGV[1], id)
    local token = redis.call('HINCRBY', KEYS[4], 'last', 1)
    redis.call('HSET', KEYS[4], id, token)
    local attempt = redis.call('HINCRBY', KEYS[5], id, 1)
    return {id, token, attempt, redis.call('HGET', KEYS[3], id)}";

const ACK: &str = "
    if redis.call('HGET', KEYS[4], ARGV[1]) ~= ARGV[2] then return 0 end
    redis.call('HDEL', KEYS[4], ARGV[1])
    redis.call('HDEL', KEYS[5], ARGV[1])
    redis.call('HDEL', KEYS[3], ARGV[1])
    redis.call('ZREM', KEYS[1], ARGV[1])
    return redis.call('ZREM', KEYS[2], ARGV[1])";

impl Lua {
    fn load(con: &mut Connection) -> Lua {
        let scripts = [PUSH, CLAIM, ACK]
            .map(|script| redis::cmd("SCRIPT").arg("LOAD").arg(script).query(con).expect("the script is loaded"));
        Lua { scripts }
    }

    fn call(&self, script: usize) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.scripts[script]).arg(5).arg(&[
            "{lua}:due",
            "{lua}:leases",
            "{lua}:jobs",
            "{lua}:tokens",
            "{lua}:attempts",
        ]);
        cmd
    }
}

impl Queue for Lua {
    fn name(&self) -> &'static str {
        "Lua, sorted sets and hashes"
    }

    fn push(&self, id: usize, due: u64) -> Cmd {
        let mut cmd = self.call(0);
        cmd.arg(format!("job:{id}")).arg(payload()).arg(due);
        cmd
    }

    fn claim(&self) -> Cmd {
        let mut cmd = self.call(1);
        cmd.arg(3_600_000);
        cmd
    }

    fn claimed(&self, reply: &Value) -> (String, i64) {
        let Value::Array(job) = reply else { panic!("{reply:?}") };
        (text(&job[0]), integer(&job[1]))
    }

    fn ack(&self, id: &str, token: i64) -> Cmd {
        let mut cmd = self.call(2);
        cmd.arg(id).arg(token);
        cmd
    }

    fn statistics(&self) -> [&'static str; 3] {
        ["evalsha"; 3]
    }
}

/// Measures cycles of push, claim and ack in pipelines of [`BATCH`], and the cost of each command.
fn cycles(con: &mut Connection, queue: &dyn Queue, jobs: usize) {
    call(con, &["FLUSHALL"]);
    let mut spent = [0.0; 3];
    let start = Instant::now();
    for first in (0..jobs).step_by(BATCH) {
        let ids = first..first + BATCH;
        let mut step = |nth: usize, commands: Vec<Cmd>| {
            call(con, &["CONFIG", "RESETSTAT"]);
            let replies = pipeline(con, commands);
            spent[nth] += us_per_call(con, queue.statistics()[nth]);
            replies
        };
        step(0, ids.clone().map(|id| queue.push(id, 1)).collect());
        let claims = step(1, ids.map(|_| queue.claim()).collect());
        let acks = claims.iter().map(|reply| queue.claimed(reply)).map(|(id, token)| queue.ack(&id, token)).collect();
        assert!(step(2, acks).iter().all(|reply| *reply == Value::Int(1)), "every ack is good");
    }
    let per_second = jobs as f64 / start.elapsed().as_secs_f64();
    let rounds = (jobs / BATCH) as f64;
    let [push, claim, ack] = spent.map(|us| us / rounds);
    println!("    {:<36} {per_second:>10.0} {push:>12.2} {claim:>12.2} {ack:>12.2}", queue.name());
}

/// Measures the CPU time of a server per cycle, with and without pipelines. The queues take turns for some rounds.
/// Prints the medians, and the medians of the ratios within a round.
fn cpu_per_cycle(con: &mut Connection, queues: [&dyn Queue; 2]) {
    const ROUNDS: usize = 9;
    let mut spent = [(BATCH, 30_000), (1, 10_000)].map(|(batch, jobs)| {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(queues.map(|queue| {
                call(con, &["FLUSHALL"]);
                let before = cpu(con);
                for first in (0..jobs).step_by(batch) {
                    let ids = first..first + batch;
                    pipeline(con, ids.clone().map(|id| queue.push(id, 1)).collect());
                    let claims = pipeline(con, ids.map(|_| queue.claim()).collect());
                    let claimed = claims.iter().map(|reply| queue.claimed(reply));
                    pipeline(con, claimed.map(|(id, token)| queue.ack(&id, token)).collect());
                }
                (cpu(con) - before).as_secs_f64() * 1e6 / jobs as f64
            }));
        }
        rounds
    });
    let mut median = |of: &dyn Fn(&[f64; 2]) -> f64| {
        spent.each_mut().map(|rounds| {
            rounds.sort_by(|a, b| of(a).total_cmp(&of(b)));
            of(&rounds[ROUNDS / 2])
        })
    };
    for (at, queue) in queues.iter().enumerate() {
        let [pipelined, single] = median(&|round| round[at]);
        println!("    {:<36} {pipelined:>22.2} {single:>15.2}", queue.name());
    }
    let [pipelined, single] = median(&|[zq, lua]| lua / zq);
    println!("    {:<36} {pipelined:>22.2} {single:>15.2}", "ratio");
}

fn memory(con: &mut Connection, queue: &dyn Queue, jobs: usize) {
    call(con, &["FLUSHALL"]);
    let before = used_memory(con);
    let due = now_ms() + 3_600_000;
    fill(con, queue, jobs, |id| due + id as u64 % 100_000);
    let bytes = (used_memory(con) - before) as f64 / jobs as f64;
    println!("    {:<36} {bytes:>10.0}   ({jobs} jobs, due one by one within 100 s)", queue.name());
}

fn acks(con: &mut Connection, queue: &dyn Queue) {
    let mut figures = Vec::new();
    for in_flight in [100, 100_000] {
        call(con, &["FLUSHALL"]);
        fill(con, queue, in_flight, |_| 1);
        let mut jobs = Vec::new();
        for batch in (0..in_flight).collect::<Vec<_>>().chunks(BATCH) {
            let claims = pipeline(con, batch.iter().map(|_| queue.claim()).collect());
            jobs.extend(claims.iter().map(|reply| queue.claimed(reply)));
        }
        call(con, &["CONFIG", "RESETSTAT"]);
        // Acknowledges only a few jobs, from all over the queue, so that the number of claimed jobs hardly changes.
        let step = if in_flight > 1000 { in_flight / 2000 } else { 2 };
        let acks = jobs.iter().step_by(step).map(|(id, token)| queue.ack(id, *token)).collect();
        pipeline(con, acks);
        figures.push(us_per_call(con, queue.statistics()[2]));
    }
    println!("    {:<36} {:>10.2} {:>12.2}", queue.name(), figures[0], figures[1]);
}

/// Measures the time from a job's due time until a waiting client gets the job.
fn delays(server: &Server, name: &str, jobs: usize) {
    let mut con = connect(server);
    call(&mut con, &["FLUSHALL"]);
    let start = now_ms() + 1_000;
    for id in 0..jobs {
        let due = start + (id as u64 * 7_919) % 6_000;
        let due = format!("{due}ms");
        redis::cmd("ZQ.PUSH").arg("zq").arg(&due[..due.len() - 2]).arg("AT").arg(&due).exec(&mut con).expect("pushed");
    }
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let mut con = connect(server);
            thread::spawn(move || {
                let mut late = Vec::new();
                loop {
                    let reply: Value = redis::cmd("ZQ.CLAIM")
                        .arg(&["1", "zq", "LEASE", "1h", "BLOCK", "2"])
                        .query(&mut con)
                        .expect("claimed");
                    let now = now_us();
                    let Value::Array(claimed) = reply else { panic!() };
                    let Some(Value::Array(job)) = claimed.first() else { return late };
                    let due: f64 = text(&job[5]).parse().expect("the due time");
                    // The deadline minus the lease is the time at which the server served the job.
                    let given = integer(&job[4]) - 3_600_000;
                    late.push((now - due * 1000.0, given - due as i64));
                }
            })
        })
        .collect();
    let late: Vec<(f64, i64)> = workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect();
    assert_eq!(late.len(), jobs);
    let (mut received, mut given): (Vec<f64>, Vec<i64>) = late.into_iter().unzip();
    received.sort_by(f64::total_cmp);
    given.sort_unstable();
    assert!(received[0] >= 0.0 && given[0] >= 0, "a job came before its time");
    let at = |part: f64| ((jobs - 1) as f64 * part) as usize;
    let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|part| received[at(part)] / 1000.0);
    println!("    {:<64} {p50:>8.2} {p99:>8.2} {worst:>8.2} ms", format!("{name}: received"));
    let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|part| given[at(part)]);
    println!("    {:<64} {p50:>8} {p99:>8} {worst:>8} ms", "... served, by the server's clock, whole ms");
}

/// Measures the CPU time of a server while a thousand clients wait for jobs that are due next week.
fn idle(server: &Server) {
    let mut con = connect(server);
    call(&mut con, &["FLUSHALL"]);
    println!("\nidle CPU, percent of a core:");
    println!("    {:<64} {:>8.2}", "no client waits", cpu_share(&mut con));
    fill(&mut con, &Zq, 100_000, |id| now_ms() + 700_000_000 + id as u64);
    let clients = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..1000)
        .map(|_| {
            let mut con = connect(server);
            let clients = Arc::clone(&clients);
            thread::Builder::new()
                .stack_size(64 * 1024)
                .spawn(move || {
                    clients.fetch_add(1, Ordering::Relaxed);
                    let _: redis::RedisResult<Value> =
                        redis::cmd("ZQ.CLAIM").arg(&["1", "zq", "LEASE", "1h", "BLOCK", "0"]).query(&mut con);
                })
                .expect("a thread")
        })
        .collect();
    while info(&mut con, "clients", "blocked_clients") != "1000" {
        thread::sleep(Duration::from_millis(20));
    }
    println!("    {:<64} {:>8.2}", "1,000 clients wait, 100,000 jobs are far off", cpu_share(&mut con));
    call(&mut con, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    threads.into_iter().for_each(|thread| thread.join().expect("a client"));
}

/// Measures the cost of a push that serves one client, including the client's claim, while other clients wait.
fn waiting_clients(server: &Server) {
    let mut con = connect(server);
    println!("\na push that serves one of the waiting clients (CPU of the server, us):");
    for waiting in [1, 100, 1000] {
        call(&mut con, &["FLUSHALL"]);
        let threads: Vec<_> = (0..waiting)
            .map(|_| {
                let mut con = connect(server);
                thread::Builder::new()
                    .stack_size(64 * 1024)
                    .spawn(move || {
                        loop {
                            let reply: redis::RedisResult<Value> =
                                redis::cmd("ZQ.CLAIM").arg(&["1", "zq", "LEASE", "1h", "BLOCK", "0"]).query(&mut con);
                            if reply.is_err() {
                                return;
                            }
                        }
                    })
                    .expect("a thread")
            })
            .collect();
        let all = waiting.to_string();
        let mut spent = Duration::ZERO;
        const PUSHES: u32 = 300;
        for id in 0..PUSHES {
            while info(&mut con, "clients", "blocked_clients") != all {
                thread::yield_now();
            }
            let before = cpu(&mut con);
            pipeline(&mut con, vec![Zq.push(id as usize, 1)]);
            spent += cpu(&mut con) - before;
        }
        println!("    {waiting:>5} waiting {:>54.1}", spent.as_secs_f64() * 1e6 / f64::from(PUSHES));
        call(&mut con, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        threads.into_iter().for_each(|thread| thread.join().expect("a client"));
    }
}

fn fill(con: &mut Connection, queue: &dyn Queue, jobs: usize, due: impl Fn(usize) -> u64) {
    for first in (0..jobs).step_by(BATCH) {
        pipeline(con, (first..jobs.min(first + BATCH)).map(|id| queue.push(id, due(id))).collect());
    }
}

fn connect(server: &Server) -> Connection {
    let (host, port) = server.address();
    let client = redis::Client::open(format!("redis://{host}:{port}/")).expect("an address");
    client.get_connection().expect("the server accepts")
}

fn pipeline(con: &mut Connection, commands: Vec<Cmd>) -> Vec<Value> {
    let mut pipeline = Pipeline::with_capacity(commands.len());
    for command in commands {
        pipeline.add_command(command);
    }
    pipeline.query(con).expect("the commands succeed")
}

fn call(con: &mut Connection, words: &[&str]) {
    redis::cmd(words[0]).arg(&words[1..]).exec(con).expect("the command succeeds");
}

fn info(con: &mut Connection, section: &str, field: &str) -> String {
    let text: String = redis::cmd("INFO").arg(section).query(con).expect("INFO");
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().to_owned()
}

fn version(con: &mut Connection) -> String {
    info(con, "server", "redis_version")
}

fn used_memory(con: &mut Connection) -> u64 {
    info(con, "memory", "used_memory").parse().expect("a number")
}

fn us_per_call(con: &mut Connection, command: &str) -> f64 {
    let line = info(con, "commandstats", &format!("cmdstat_{command}"));
    let text = line.split(',').find_map(|part| part.strip_prefix("usec_per_call=")).expect("the command was called");
    text.parse().expect("a number")
}

/// Returns the user and system time.
fn cpu(con: &mut Connection) -> Duration {
    let text: String = redis::cmd("INFO").arg("cpu").query(con).expect("INFO");
    let seconds = text
        .lines()
        .filter(|line| line.starts_with("used_cpu_sys:") || line.starts_with("used_cpu_user:"))
        .filter_map(|line| line.split(':').next_back()?.parse::<f64>().ok());
    Duration::from_secs_f64(seconds.sum())
}

fn cpu_share(con: &mut Connection) -> f64 {
    let (before, start) = (cpu(con), Instant::now());
    thread::sleep(Duration::from_secs(3));
    (cpu(con) - before).as_secs_f64() / start.elapsed().as_secs_f64() * 100.0
}

fn payload() -> &'static [u8] {
    &[b'x'; PAYLOAD]
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("no text: {other:?}"),
    }
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        other => panic!("no integer: {other:?}"),
    }
}

fn now_us() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64() * 1e6
}

fn now_ms() -> u64 {
    (now_us() / 1000.0) as u64
}
