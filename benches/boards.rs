//! A leaderboard of three dimensions, compared with a plain sorted set of one score: `cargo bench -p zeitset-benches
//! --bench boards`.
//!
//! One server has both keys, each with a million members that were added in random order. Then the keys take turns, a
//! round each, with the same members. A connection sends without waiting, so that only the server limits the speed. The
//! benchmark measures operations per second by the wall clock, and the server's CPU time per operation. The benchmark
//! takes a few minutes, and less time with `MEMBERS=100000`.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;
use testkit::{Client, PATIENCE, Server};

const ROUNDS: usize = 9;
const CALLS: usize = 50_000;

/// Values are below this number. So some members are equal in the first dimension, and few in all three.
const VALUES: u64 = 1_000_000;

/// Encoded calls, to be sent as one text.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    calls: usize,
}

impl Batch {
    fn call(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        self.bytes.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            self.bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
        self.calls += 1;
    }
}

#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    /// Nanoseconds of the server's CPU time per call.
    cpu: f64,
}

struct Bench {
    stream: TcpStream,
    client: Client,
    members: u64,
    random: StdRng,
}

impl Bench {
    fn run(&mut self, mut batch: Batch) -> Figures {
        const END: &str = "that is all";
        batch.bytes.extend(format!("*2\r\n$4\r\nECHO\r\n${}\r\n{END}\r\n", END.len()).bytes());
        let cpu = self.cpu();
        let start = Instant::now();
        let mut sending = self.stream.try_clone().expect("another handle of the socket");
        let sender = thread::spawn(move || sending.write_all(&batch.bytes).expect("the server reads"));
        let (mut buffer, mut tail) = (vec![0; 1 << 18], Vec::new());
        while !tail.ends_with(format!("{END}\r\n").as_bytes()) {
            let read = self.stream.read(&mut buffer).expect("the server replies");
            assert!(read > 0, "the server has closed the connection");
            tail.extend_from_slice(&buffer[read.saturating_sub(64)..read]);
            tail.drain(..tail.len().saturating_sub(64));
        }
        let seconds = start.elapsed().as_secs_f64();
        sender.join().expect("all is sent");
        let calls = batch.calls as f64;
        Figures { per_second: calls / seconds, cpu: (self.cpu() - cpu) / calls }
    }

    /// Returns nanoseconds.
    fn cpu(&mut self) -> f64 {
        let info = self.client.info("cpu");
        let seconds = |field: &str| info[field].parse::<f64>().expect("seconds");
        1e9 * (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread"))
    }

    fn memory(&mut self) -> f64 {
        self.client.info_number("memory", "used_memory") as f64
    }

    /// Fills a key in random order, and prints the bytes per member.
    fn fill(&mut self, what: &str, call: impl Fn(&str, [u64; 3]) -> String) -> f64 {
        let mut order: Vec<_> = (0..self.members).collect();
        order.shuffle(&mut self.random);
        let before = self.memory();
        let mut rounds = Vec::new();
        for chunk in order.chunks(CALLS) {
            let mut batch = Batch::default();
            for member in chunk {
                batch.call(&call(&name(*member), self.values()));
            }
            rounds.push(self.run(batch));
        }
        let bytes = (self.memory() - before) / self.members as f64;
        let median = median_of(&rounds);
        println!("{what:<44} {:>9.0}/s {:>7.0} ns CPU {bytes:>8.1} bytes a member", median.per_second, median.cpu);
        bytes
    }

    /// Measures a merge of seven days in one call, while the server does nothing else. A tenth of the members has a
    /// result on each day.
    fn merge(&mut self) {
        const DAYS: usize = 7;
        self.client.run("FLUSHALL");
        let daily = self.members / 10;
        for day in 0..DAYS {
            self.client.run(&format!("ZLB.CREATE board:{day} DIM first DIM second DIM third"));
            let mut batch = Batch::default();
            for _ in 0..daily {
                let (member, [a, b, c]) = (name(self.random.random_range(0..self.members / 5)), self.values());
                batch.call(&format!("ZADD plain:{day} {a} {member}"));
                batch.call(&format!("ZLB.SET board:{day} {member} {a} {b} {c}"));
            }
            self.run(batch);
        }
        let keys = |kind: &str| (0..DAYS).map(|day| format!(" {kind}:{day}")).collect::<String>();
        let mut milliseconds = [("ZUNIONSTORE plain", "plain"), ("ZLB.MERGE board", "board")].map(|(call, kind)| {
            let line = format!("{call} {DAYS}{}", keys(kind));
            // Each call replaces the result of the call before. Freeing that result is part of the cost.
            let times = (0..5).map(|_| {
                let start = Instant::now();
                self.client.run(&line);
                1e3 * start.elapsed().as_secs_f64()
            });
            let mut times: Vec<_> = times.collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        milliseconds.iter_mut().for_each(|time| *time = time.round());
        let [plain, board] = milliseconds;
        println!(
            "\nseven boards of {daily} draws from {} members: ZUNIONSTORE of 1 score {plain} ms, ZLB.MERGE of 3 values {board} ms",
            self.members / 5
        );
    }

    fn values(&mut self) -> [u64; 3] {
        [(); 3].map(|()| self.random.random_range(0..VALUES))
    }

    /// Measures the sorted set and the board in turns, with the same random members and numbers.
    fn compare(&mut self, what: &str, plain: impl Fn(&mut Batch, &Pick), board: impl Fn(&mut Batch, &Pick)) {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        // The first round warms up.
        for round in 0..=ROUNDS {
            let (mut there, mut here) = (Batch::default(), Batch::default());
            for _ in 0..CALLS {
                let member = name(self.random.random_range(0..self.members));
                let pick = Pick { member, index: self.random.random_range(0..self.members), values: self.values() };
                plain(&mut there, &pick);
                board(&mut here, &pick);
            }
            // If an operation needs several calls, these calls count as one.
            (there.calls, here.calls) = (CALLS, CALLS);
            let figures = if round % 2 == 0 {
                let there = self.run(there);
                (there, self.run(here))
            } else {
                let here = self.run(here);
                (self.run(there), here)
            };
            if round > 0 {
                theirs.push(figures.0);
                ours.push(figures.1);
            }
        }
        let ratios: Vec<_> = theirs
            .iter()
            .zip(&ours)
            .map(|(a, b)| Figures { per_second: b.per_second / a.per_second, cpu: a.cpu / b.cpu })
            .collect();
        let (theirs, ours, ratio) = (median_of(&theirs), median_of(&ours), median_of(&ratios));
        println!(
            "{what:<44} {:>9.0} {:>9.0} {:>6.2}x {:>9.0} {:>9.0} {:>6.2}x",
            theirs.per_second, ours.per_second, ratio.per_second, theirs.cpu, ours.cpu, ratio.cpu
        );
    }
}

struct Pick {
    member: String,
    index: u64,
    values: [u64; 3],
}

fn name(member: u64) -> String {
    format!("user:{member:08}")
}

fn median_of(rounds: &[Figures]) -> Figures {
    let median = |field: fn(&Figures) -> f64| {
        let mut values: Vec<_> = rounds.iter().map(field).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Figures { per_second: median(|f| f.per_second), cpu: median(|f| f.cpu) }
}

fn main() {
    let members = std::env::var("MEMBERS").map_or(1_000_000, |text| text.parse().expect("MEMBERS is a number"));
    let server = Server::builder().config("client-output-buffer-limit normal 0 0 0").start();
    let mut client = server.client();
    let stream = TcpStream::connect(server.address()).expect("the server accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
    println!("server {}, {members} members", client.info("server")["redis_version"]);
    client.run("ZLB.CREATE board DIM first DIM second DIM third");
    let mut bench = Bench { stream, client, members, random: StdRng::seed_from_u64(47_111) };

    let plain =
        bench.fill("ZADD of new members, 1 score", |member, [first, ..]| format!("ZADD plain {first} {member}"));
    let board = bench
        .fill("ZLB.SET of new members, 3 values", |member, [a, b, c]| format!("ZLB.SET board {member} {a} {b} {c}"));
    println!("the board has {:.2} of the bytes\n", board / plain);

    println!(
        "{:<44} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7}",
        "in turns, medians", "plain /s", "board /s", "ratio", "plain ns", "board ns", "ratio"
    );
    bench.compare(
        "rank: ZREVRANK | RANK",
        |batch, pick| batch.call(&format!("ZREVRANK plain {}", pick.member)),
        |batch, pick| batch.call(&format!("ZLB.RANK board {}", pick.member)),
    );
    bench.compare(
        "values: ZSCORE | GET (and the rank)",
        |batch, pick| batch.call(&format!("ZSCORE plain {}", pick.member)),
        |batch, pick| batch.call(&format!("ZLB.GET board {}", pick.member)),
    );
    bench.compare(
        "the best 10: ZREVRANGE | RANGE",
        |batch, _| batch.call("ZREVRANGE plain 0 9"),
        |batch, _| batch.call("ZLB.RANGE board 0 9"),
    );
    bench.compare(
        "a page of 20: ZREVRANGE | RANGE",
        |batch, pick| batch.call(&format!("ZREVRANGE plain {} {}", pick.index, pick.index + 19)),
        |batch, pick| batch.call(&format!("ZLB.RANGE board {} {}", pick.index, pick.index + 19)),
    );
    bench.compare(
        "with values: WITHSCORES | WITHVALUES",
        |batch, pick| batch.call(&format!("ZREVRANGE plain {} {} WITHSCORES", pick.index, pick.index + 19)),
        |batch, pick| batch.call(&format!("ZLB.RANGE board {} {} WITHVALUES", pick.index, pick.index + 19)),
    );
    bench.compare(
        "neighbours: ZREVRANK, ZREVRANGE | AROUND",
        |batch, pick| {
            batch.call(&format!("ZREVRANK plain {}", pick.member));
            batch.call(&format!("ZREVRANGE plain {} {}", pick.index, pick.index + 10));
        },
        |batch, pick| batch.call(&format!("ZLB.AROUND board {} 5", pick.member)),
    );
    bench.compare(
        "with ranks and values | WITHRANK WITHVALUES",
        |batch, pick| {
            batch.call(&format!("ZREVRANK plain {}", pick.member));
            batch.call(&format!("ZREVRANGE plain {} {} WITHSCORES", pick.index, pick.index + 10));
        },
        |batch, pick| batch.call(&format!("ZLB.AROUND board {} 5 WITHRANK WITHVALUES", pick.member)),
    );
    bench.compare(
        "shared ranks: and ZCOUNT | COMPETITION",
        |batch, Pick { member, index, values: [first, ..] }| {
            batch.call(&format!("ZREVRANK plain {member}"));
            batch.call(&format!("ZREVRANGE plain {index} {} WITHSCORES", index + 10));
            batch.call(&format!("ZCOUNT plain ({first} +inf"));
        },
        |batch, pick| batch.call(&format!("ZLB.AROUND board {} 5 WITHRANK COMPETITION WITHVALUES", pick.member)),
    );
    bench.compare(
        "update: ZADD | SET",
        |batch, Pick { member, values: [first, ..], .. }| batch.call(&format!("ZADD plain {first} {member}")),
        |batch, Pick { member, values: [a, b, c], .. }| batch.call(&format!("ZLB.SET board {member} {a} {b} {c}")),
    );
    bench.compare(
        "update if better: ZADD GT | SET BEST",
        |batch, Pick { member, values: [first, ..], .. }| batch.call(&format!("ZADD plain GT {first} {member}")),
        |batch, Pick { member, values: [a, b, c], .. }| batch.call(&format!("ZLB.SET board BEST {member} {a} {b} {c}")),
    );
    bench.compare(
        "increment by 1 to 100: ZINCRBY | INCR",
        |batch, pick| batch.call(&format!("ZINCRBY plain {} {}", 1 + pick.index % 100, pick.member)),
        |batch, pick| batch.call(&format!("ZLB.INCR board {} first {}", pick.member, 1 + pick.index % 100)),
    );
    bench.merge();
}
