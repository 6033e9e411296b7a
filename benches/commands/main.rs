//! Every command against its rivals, on one server, in one run: `make bench`.
//!
//! Machines are noisy, so nothing here is measured alone. The subjects of a contest take turns, a slice of load each, for
//! several rounds; what is told is the median of the rounds, and of the ratios round by round.
//!
//! | variable | meaning |
//! |---|---|
//! | `CELL` | path of `libredis_cell.so`: redis-cell takes part |
//! | `KEYS`, `REQUESTS`, `ROUNDS` | size of the contests (100,000, 100,000, 7) |
//! | `LARGEST` | where the growth tables end (1,000,000) |
//! | `INSTRUCTIONS` | folder that callgrind writes to: the server runs in it, and only instructions are counted (`make bench-instructions`) |
//! | `OUT` | folder for the report and its pictures; without it they are only printed |

mod contests;
mod growth;
mod instructions;
mod load;
mod memory;
mod picture;
mod report;
mod stats;

use contests::{Abilities, Contest, Scripts, Subject};
use indicatif::{ProgressBar, ProgressStyle};
use load::{Connection, Request, flood, ping_pong};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use stats::Watch;
use std::path::PathBuf;
use testkit::Server;

/// Commands sent at once where commands are pipelined.
const PIPELINE: usize = 32;
/// Connections of the pipelined load, and of the load without.
const CONNECTIONS: usize = 16;
const LONE_CONNECTIONS: usize = 50;

/// How much is measured.
struct Size {
    keys: usize,
    requests: usize,
    rounds: usize,
    largest: usize,
}

impl Size {
    fn from_environment() -> Size {
        let number = |name: &str, default| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number: {text}")),
            Err(_) => default,
        };
        Size {
            keys: number("KEYS", 100_000),
            requests: number("REQUESTS", 100_000),
            rounds: number("ROUNDS", 7),
            largest: number("LARGEST", 1_000_000),
        }
    }

    fn describe(&self) -> String {
        let Size { keys, requests, rounds, .. } = self;
        format!(
            "{keys} keys, {rounds} rounds of {requests} requests; pipelined: {PIPELINE} requests at a time on each of \
             {CONNECTIONS} connections; not pipelined: on {LONE_CONNECTIONS} connections; p50 and p99: on one."
        )
    }
}

/// The server under load, and all that is needed to load it.
pub struct Bench {
    pub con: redis::Connection,
    pipelined: Vec<Connection>,
    lone: Vec<Connection>,
    generator: StdRng,
    unique: u64,
    bar: ProgressBar,
}

/// What a round showed of a subject.
pub struct Round {
    pub pipelined_per_second: f64,
    pub per_second: f64,
    /// Sorted, µs.
    pub latencies: Vec<f64>,
    /// µs within commands, a request.
    pub in_command: f64,
    /// µs of CPU time of the server's main thread, a request.
    pub cpu: f64,
}

fn main() {
    let size = Size::from_environment();
    let cell = std::env::var("CELL").ok();
    let instructions = std::env::var_os("INSTRUCTIONS").map(PathBuf::from);
    let mut config = cell.iter().map(|path| format!("loadmodule {path}\n")).collect::<String>();
    if instructions.is_some() {
        // What the server does by the clock is no part of a request: the slower the machine, the more of it would be counted.
        config.push_str("hz 1\ndynamic-hz no\n");
    }
    let server = Server::builder().config(&config).start();
    let mut bench = Bench::new(&server);
    // A server may have an INCREX without UBOUND: only an answer tells.
    let mut increx = redis::cmd("INCREX");
    increx.arg("ability").arg(&["UBOUND", "1", "EX", "1", "ENX"]);
    let abilities = Abilities {
        has_cell: cell.is_some(),
        has_field_ttls: bench.knows("HSETEX"),
        has_increx: increx.query::<redis::Value>(&mut bench.con).is_ok(),
    };
    let scripts = Scripts::load(&mut bench.con);
    let contests = contests::all(&scripts, &abilities);

    if let Some(folder) = instructions {
        print!("{}", instructions::measure(&mut bench, &contests, &folder));
        return;
    }
    let results = contests.iter().map(|contest| bench.hold(contest, &size)).collect();
    let growths = growth::measure(&mut bench, &scripts, size.largest);
    let memories = memory::measure(&mut bench, &scripts, &abilities, size.keys);
    bench.bar.finish_and_clear();

    let report = report::Report {
        server: stats::describe(&mut bench.con),
        size: size.describe(),
        contests: &contests,
        results,
        growths,
        memories,
    };
    println!("{}", report.text());
    if let Some(folder) = std::env::var_os("OUT").map(PathBuf::from) {
        report.write(&folder).expect("the report is written");
        println!("Written to {}.", folder.display());
    }
}

/// Where a key is kept as it was filled.
fn filled(subject: &Subject, key: usize) -> String {
    format!("{}:filled", subject.key(key))
}

impl Bench {
    fn new(server: &Server) -> Bench {
        let (host, port) = server.address();
        let client = redis::Client::open(format!("redis://{host}:{port}/")).expect("an address");
        let open = |count| (0..count).map(|_| Connection::open((host, port))).collect();
        let style = ProgressStyle::with_template("{elapsed_precise} [{bar:40}] {pos}/{len} {msg}").expect("a template");
        Bench {
            con: client.get_connection().expect("the server accepts"),
            pipelined: open(CONNECTIONS),
            lone: open(LONE_CONNECTIONS),
            generator: StdRng::seed_from_u64(1),
            unique: 0,
            bar: ProgressBar::new(0).with_style(style),
        }
    }

    fn knows(&mut self, command: &str) -> bool {
        let known: redis::Value =
            redis::cmd("COMMAND").arg("INFO").arg(command).query(&mut self.con).expect("COMMAND INFO");
        matches!(known, redis::Value::Array(infos) if matches!(infos[..], [redis::Value::Array(_)]))
    }

    /// That many more steps are to come.
    pub fn expect(&self, steps: usize) {
        self.bar.inc_length(steps as u64);
    }

    /// Begins a step.
    pub fn step(&self, what: String) {
        self.bar.inc(1);
        self.bar.set_message(what);
    }

    pub fn flush(&mut self) {
        redis::cmd("FLUSHALL").arg("SYNC").exec(&mut self.con).expect("FLUSHALL");
    }

    /// One request for each key.
    pub fn each(&mut self, subject: &Subject, keys: usize) -> Vec<Request> {
        (0..keys).map(|key| subject.request(key, self.unique())).collect()
    }

    /// Calls a subject on each of its keys, that often.
    pub fn fill(&mut self, subject: &Subject, keys: usize, times: usize) {
        // Not all at once: a million prepared requests take more memory than the keys that they make.
        const AT_ONCE: usize = 100_000;
        let rounds = (AT_ONCE / keys).clamp(1, times);
        for done in (0..times).step_by(rounds) {
            let requests: Vec<_> = (done..times.min(done + rounds)).flat_map(|_| self.each(subject, keys)).collect();
            self.send(&requests);
        }
    }

    /// Copies keys from the first name to the second.
    fn copy(&mut self, keys: usize, names: impl Fn(usize) -> (String, String)) {
        let copy = |key| {
            let (from, to) = names(key);
            Request::of(&[redis::cmd("COPY").arg(from).arg(to).arg("REPLACE").to_owned()])
        };
        let requests: Vec<_> = (0..keys).map(copy).collect();
        self.send(&requests);
    }

    /// Requests for random keys.
    pub fn random(&mut self, subject: &Subject, keys: usize, count: usize) -> Vec<Request> {
        (0..count)
            .map(|_| {
                let key = self.generator.random_range(0..keys);
                subject.request(key, self.unique())
            })
            .collect()
    }

    fn unique(&mut self) -> u64 {
        self.unique += 1;
        self.unique
    }

    /// Sends requests as fast as can be; µs within commands, a request.
    pub fn send(&mut self, requests: &[Request]) -> f64 {
        let watch = Watch::start(&mut self.con);
        flood(&mut self.pipelined, requests, PIPELINE);
        watch.stop(&mut self.con, requests.len()).in_command
    }

    /// A contest: the rounds of each subject.
    fn hold(&mut self, contest: &Contest, size: &Size) -> Vec<Vec<Round>> {
        self.expect(contest.subjects.len() * (size.rounds + 1));
        // About one request for each key, before it is filled again.
        let few = (size.keys / 10).max(1);
        let (keys, requests) = if contest.is_refilled { (few, few) } else { (size.keys, size.requests) };
        if contest.is_refilled {
            self.flush();
        }
        for subject in &contest.subjects {
            self.step(format!("{}: preparing {}", contest.slug, subject.name));
            if contest.primings > 0 {
                self.fill(subject, keys, contest.primings);
            }
            if contest.is_refilled {
                self.copy(keys, |key| (subject.key(key), filled(subject, key)));
            }
        }
        let mut results: Vec<Vec<Round>> = contest.subjects.iter().map(|_| Vec::new()).collect();
        for _ in 0..size.rounds {
            for (subject, rounds) in contest.subjects.iter().zip(&mut results) {
                self.step(format!("{}: {}", contest.slug, subject.name));
                if contest.is_refilled {
                    self.copy(keys, |key| (filled(subject, key), subject.key(key)));
                }
                rounds.push(self.round(subject, keys, requests));
            }
        }
        results
    }

    fn round(&mut self, subject: &Subject, keys: usize, count: usize) -> Round {
        let requests = self.random(subject, keys, count);
        let watch = Watch::start(&mut self.con);
        let taken = flood(&mut self.pipelined, &requests, PIPELINE);
        let cost = watch.stop(&mut self.con, requests.len());

        let alone = self.random(subject, keys, (count / 5).max(1));
        let alone_taken = flood(&mut self.lone, &alone, 1);

        let pings = self.random(subject, keys, (count / 50).max(1));
        let mut latencies: Vec<f64> =
            ping_pong(&mut self.lone[0], &pings).iter().map(|taken| taken.as_secs_f64() * 1e6).collect();
        latencies.sort_by(f64::total_cmp);
        Round {
            pipelined_per_second: requests.len() as f64 / taken.as_secs_f64(),
            per_second: alone.len() as f64 / alone_taken.as_secs_f64(),
            latencies,
            in_command: cost.in_command,
            cpu: cost.cpu,
        }
    }
}
