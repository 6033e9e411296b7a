//! Operations on a dataset of expiring sets, and pushes to a queue with thousands of waiting clients.

use super::cpu::{Served, connect, median, words};
use super::fill;
use std::thread;
use std::time::{Duration, Instant};
use testkit::Server;

fn with(config: &str) -> Served {
    Served::new(Server::builder().config(&format!("save \"\"\n{config}\n")).start())
}

pub fn run(scale: u64) {
    println!("\n## A dataset of {scale} expiring sets\n");
    if scale <= 1_000_000 {
        compare_with_plain_sets(scale);
    }
    found(scale);
}

fn compare_with_plain_sets(scale: u64) {
    println!(
        "The table has the time of each operation, in ms, on a server with {scale} expiring sets, and on a server without \
         the module that has {scale} plain sorted sets.\n"
    );
    println!("| operation | with | without |\n|---|--:|--:|");
    let mut with = with("");
    let mut plain = Server::builder().config("save \"\"\n").start();
    plain.remove_module();
    plain.restart();
    let mut plain = Served::new(plain);
    let (unlucky, plain_unlucky) =
        (grow(&mut with, "ZEXP.ADD k:{n} 9d m", scale), grow(&mut plain, "ZADD k:{n} 1 m", scale));
    row("the slowest call that adds a set, in wall-clock time (0: less than 1 ms)", unlucky, plain_unlucky);
    for line in ["SWAPDB 0 1", "SWAPDB 0 1", "FLUSHDB ASYNC"] {
        let costs = [&mut with, &mut plain].map(|served| served.cost(&words(line)) / 1000.0);
        row(line, costs[0], costs[1]);
    }
    println!();
}

fn row(what: &str, with: f64, without: f64) {
    println!("| {what} | {with:.2} | {without:.2} |");
}

/// Writes `scale` sets. Returns the duration of the longest call in ms, by the server's clock.
fn grow(served: &mut Served, line: &str, scale: u64) -> f64 {
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("slowlog-log-slower-than")
        .arg(1000)
        .arg("slowlog-max-len")
        .arg(1000)
        .exec(&mut served.con)
        .expect("CONFIG");
    fill::each(served, scale, |pipe, n| {
        pipe.add_command(words(&line.replace("{n}", &n.to_string()))).ignore();
    });
    let slow: Vec<(u64, u64, u64, Vec<String>, String, String)> =
        redis::cmd("SLOWLOG").arg("GET").arg(-1).query(&mut served.con).expect("SLOWLOG");
    let name = line.split(' ').next().unwrap_or_default();
    let worst = slow.iter().filter(|entry| entry.3[0].eq_ignore_ascii_case(name)).map(|entry| entry.2).max();
    worst.unwrap_or(0) as f64 / 1000.0
}

/// Measures how fast the keyspace scan finds sets after the server has loaded them from a file.
fn found(scale: u64) {
    let mut server = Server::builder().config("save \"\"\n").start();
    {
        let mut served = Served::new(server);
        fill::by_script(&mut served, scale, "redis.call('ZEXP.ADD', 'k:' .. n, '9d', 'm')");
        redis::cmd("SAVE").exec(&mut served.con).expect("SAVE");
        server = served.server;
    }
    server.restart();
    let mut served = Served::new(server);
    let started = Instant::now();
    while served.info("zeitset", "zeitset_scans_completed") < 1.0 && started.elapsed() < Duration::from_secs(180) {
        thread::sleep(Duration::from_millis(50));
    }
    let took = started.elapsed().as_secs_f64();
    let mut info = |name: &str| served.info("zeitset", name);
    let (sets, slices, cpu, longest) = (
        info("zeitset_sets_tracked"),
        info("zeitset_sweep_slices"),
        info("zeitset_sweep_cpu_us"),
        info("zeitset_sweep_longest_slice_us"),
    );
    println!(
        "After a restart from an RDB file with these sets, the keyspace scan found {sets:.0} sets within {took:.1} s \
         after the server's first answer. The scan worked in {slices:.0} slices of {:.0} µs of processor time each, or \
         {:.2} µs a set. The longest slice took {longest:.0} µs of wall-clock time, in which other processes also ran.",
        cpu / slices,
        cpu / sets
    );
}

pub fn waiting() {
    println!(
        "\n## Waiting clients\n\nThe table has the server's time for a push that serves one of N waiting clients, in µs \
         beyond the cost of PING. The column \"checks\" shows how often the module checked the queue per push. For \
         comparison, RPUSH serves one of N clients that wait in BLPOP. The times of equal calls differ by tens of µs. A \
         time of 0 means that the push costs no more than PING. The cost does not grow with N.\n"
    );
    println!("| clients | ZQ.PUSH | checks | RPUSH |\n|--:|--:|--:|--:|");
    for clients in [1, 1000, 10_000] {
        let mut served = with("maxclients 20100");
        let pushes = 25;
        let costs = ["ZQ.CLAIM 1 q LEASE 1h BLOCK 0|ZQ.PUSH q x", "BLPOP l 0|RPUSH l x"].map(|lines| {
            let (wait, push) = lines.split_once('|').expect("two");
            // The clients of the previous row have disconnected. The server needs a moment to notice this.
            until(&mut served, 0.0);
            let mut waiting: Vec<_> = (0..clients + pushes).map(|_| connect(&served.server)).collect();
            let wait = words(wait).get_packed_command();
            waiting.iter_mut().for_each(|con| con.send_packed_command(&wait).expect("the server reads"));
            until(&mut served, waiting.len() as f64);
            let checks = served.info("zeitset", "zeitset_clients_checks");
            let push = words(push);
            let mut costs: Vec<_> = (0..pushes).map(|_| served.cost(&push)).collect();
            (median(&mut costs), (served.info("zeitset", "zeitset_clients_checks") - checks) / pushes as f64)
        });
        println!("| {clients} | {:.0} | {:.1} | {:.0} |", costs[0].0, costs[0].1, costs[1].0);
    }
}

/// Returns when this many clients are blocked.
fn until(served: &mut Served, clients: f64) {
    let started = Instant::now();
    while served.info("clients", "blocked_clients") != clients {
        assert!(started.elapsed() < Duration::from_secs(60), "{clients} clients wait");
        thread::sleep(Duration::from_millis(5));
    }
}
