//! Fair shares between customers: `cargo bench -p zeitset-benches --bench groups`.
//!
//! Compares two ways on one server in one run: a queue with a group per customer, and a queue per customer. In the
//! second way, the client claims from the queues in turn. Every customer has one waiting job. A cycle claims a job,
//! acknowledges it, and pushes a new job for the same customer. The benchmark takes about three minutes.

use redis::{Cmd, Connection, Pipeline, Value};
use std::time::Instant;
use testkit::Server;

const BATCH: usize = 500;
const CYCLES: usize = 40_000;

fn main() {
    let server = Server::builder().start();
    let (host, port) = server.address();
    let client = redis::Client::open(format!("redis://{host}:{port}/")).expect("an address");
    let mut con = client.get_connection().expect("the server accepts");
    println!("server {}, {CYCLES} cycles, payloads of 100 bytes\n", info(&mut con, "server", "redis_version"));
    println!(
        "cycles by customers: {:>37} {:>10} {:>10} {:>10} {:>10}",
        "cycles/s", "push us", "claim us", "ack us", "bytes/job"
    );
    for customers in [1, 1000, 1_000_000] {
        cycles(&mut con, "one queue, a group each", customers, |cmd, customer| {
            cmd.arg("zq").arg("payload".repeat(14)).arg("GROUP").arg(format!("customer:{customer}"));
        });
    }
    cycles(&mut con, "one queue, no groups, 1,000,000 jobs:", 1_000_000, |cmd, _| {
        cmd.arg("zq").arg("payload".repeat(14));
    });
    for customers in [1000, 1_000_000] {
        turns(&mut con, "a queue each, in turns", customers);
    }
}

fn cycles(con: &mut Connection, name: &str, customers: usize, push: impl Fn(&mut Cmd, usize)) {
    redis::cmd("FLUSHALL").exec(con).expect("FLUSHALL");
    let before = number(con, "memory", "used_memory");
    let pushed = |customer: usize| {
        let mut cmd = redis::cmd("ZQ.PUSH");
        push(&mut cmd, customer);
        cmd
    };
    // There are at least a thousand jobs, so that a batch of claims finds enough.
    let waiting = customers.max(1000);
    for first in (0..waiting).step_by(BATCH) {
        pipeline(con, (first..first + BATCH).map(|at| pushed(at % customers)).collect());
    }
    let bytes = (number(con, "memory", "used_memory") - before) / waiting as f64;
    let claim = || {
        let mut cmd = redis::cmd("ZQ.CLAIM");
        cmd.arg(1).arg("zq").arg("LEASE").arg("1h");
        cmd
    };
    measure(con, name, customers, bytes, |con, first| {
        let claims = pipeline(con, (0..BATCH).map(|_| claim()).collect());
        pipeline(con, claims.iter().map(|reply| ack("zq", reply)).collect());
        pipeline(con, (first..first + BATCH).map(|at| pushed(at % customers)).collect());
    });
}

fn turns(con: &mut Connection, name: &str, customers: usize) {
    redis::cmd("FLUSHALL").exec(con).expect("FLUSHALL");
    let before = number(con, "memory", "used_memory");
    let key = |at: usize| format!("zq:customer:{}", at % customers);
    let push = |at: usize| {
        let mut cmd = redis::cmd("ZQ.PUSH");
        cmd.arg(key(at)).arg("payload".repeat(14));
        cmd
    };
    for first in (0..customers).step_by(BATCH) {
        pipeline(con, (first..first + BATCH).map(push).collect());
    }
    let bytes = (number(con, "memory", "used_memory") - before) / customers as f64;
    measure(con, name, customers, bytes, |con, first| {
        let claim = |at: usize| {
            let mut cmd = redis::cmd("ZQ.CLAIM");
            cmd.arg(1).arg(key(at)).arg("LEASE").arg("1h");
            cmd
        };
        let claims = pipeline(con, (first..first + BATCH).map(claim).collect());
        let acks = claims.iter().zip(first..).map(|(reply, at)| ack(&key(at), reply)).collect();
        pipeline(con, acks);
        pipeline(con, (first..first + BATCH).map(push).collect());
    });
}

fn measure(
    con: &mut Connection,
    name: &str,
    customers: usize,
    bytes: f64,
    mut cycle: impl FnMut(&mut Connection, usize),
) {
    redis::cmd("CONFIG").arg("RESETSTAT").exec(con).expect("CONFIG");
    let start = Instant::now();
    for first in (0..CYCLES).step_by(BATCH) {
        cycle(con, first);
    }
    let per_second = CYCLES as f64 / start.elapsed().as_secs_f64();
    let [push, claim, ack] = ["ZQ.PUSH", "ZQ.CLAIM", "ZQ.ACK"].map(|command| {
        let line = info(con, "commandstats", &format!("cmdstat_{command}"));
        let text = line.split(',').find_map(|part| part.strip_prefix("usec_per_call=")).expect("it was called");
        text.parse::<f64>().expect("a number")
    });
    println!("    {name:<38} {customers:>9}: {per_second:>6.0} {push:>10.2} {claim:>10.2} {ack:>10.2} {bytes:>10.0}");
}

fn ack(key: &str, reply: &Value) -> Cmd {
    let Value::Array(jobs) = reply else { panic!("no array: {reply:?}") };
    let [Value::Array(job)] = jobs.as_slice() else { panic!("not one job: {jobs:?}") };
    let (Value::BulkString(id), Value::Int(token)) = (&job[1], &job[2]) else { panic!("{job:?}") };
    let mut cmd = redis::cmd("ZQ.ACK");
    cmd.arg(key).arg(id.as_slice()).arg(*token);
    cmd
}

fn pipeline(con: &mut Connection, commands: Vec<Cmd>) -> Vec<Value> {
    let mut pipeline = Pipeline::with_capacity(commands.len());
    for command in commands {
        pipeline.add_command(command);
    }
    pipeline.query(con).expect("the commands succeed")
}

fn info(con: &mut Connection, section: &str, field: &str) -> String {
    let text: String = redis::cmd("INFO").arg(section).query(con).expect("INFO");
    let prefix = format!("{field}:");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().to_owned()
}

fn number(con: &mut Connection, section: &str, field: &str) -> f64 {
    info(con, section, field).parse().expect("a number")
}
