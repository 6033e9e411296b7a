//! All commands of the module compared with other ways, on one server, in one run: `make bench`.
//!
//! Machines are noisy. So the subjects of a contest take turns for several rounds, with a part of the load each. The
//! results are medians of the rounds, and of the ratios within each round.
//!
//! | variable | meaning |
//! |---|---|
//! | `CELL` | the path of `libredis_cell.so`, to include redis-cell |
//! | `KEYS`, `REQUESTS`, `ROUNDS` | the size of the contests (100,000, 100,000, 7) |
//! | `LARGEST` | the largest size in the growth tables (1,000,000) |
//! | `INSTRUCTIONS` | the output folder of callgrind: counts only instructions (`make bench-instructions`) |
//! | `CONTESTS` | the slugs of the contests to run (all); with `INSTRUCTIONS`, also `slower` for the table of what costs more, and `plain` for the cost of plain commands |
//! | `OUT` | the folder for the report and its pictures. Without it, the report is only printed |

mod contests;
mod growth;
mod instructions;
mod load;
mod memory;
mod picture;
mod plain;
mod report;
mod slower;
mod stats;

use contests::{Abilities, Contest, Scripts, Subject};
use indicatif::{ProgressBar, ProgressStyle};
use load::{Connection, Request, flood, ping_pong};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use stats::Watch;
use std::path::PathBuf;
use testkit::Server;

const PIPELINE: usize = 32;
/// Connections with and without pipelining.
const CONNECTIONS: usize = 16;
const LONE_CONNECTIONS: usize = 50;

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
            "Each comparison uses {keys} keys, and has {rounds} rounds of {requests} requests. Pipelined requests \
             are sent {PIPELINE} at a time on each of {CONNECTIONS} connections; requests that are not pipelined, on \
             {LONE_CONNECTIONS} connections. The latencies p50 and p99 come from one connection."
        )
    }
}

pub struct Bench {
    pub con: redis::Connection,
    pipelined: Vec<Connection>,
    lone: Vec<Connection>,
    generator: StdRng,
    unique: u64,
    bar: ProgressBar,
}

/// The results of a subject in a round.
pub struct Round {
    pub pipelined_per_second: f64,
    pub per_second: f64,
    /// The latencies in µs, sorted.
    pub latencies: Vec<f64>,
    /// µs of time within commands, per request.
    pub in_command: f64,
    /// µs of CPU time of the server's main thread, per request.
    pub cpu: f64,
}

fn main() {
    let size = Size::from_environment();
    let cell = std::env::var("CELL").ok();
    let instructions = std::env::var_os("INSTRUCTIONS").map(PathBuf::from);
    let mut config = cell.iter().map(|path| format!("loadmodule {path}\n")).collect::<String>();
    if instructions.is_some() {
        // The server's cron is not part of a request. On a slow machine, the cron would add more to each request.
        config.push_str("hz 1\ndynamic-hz no\n");
    }
    let server = Server::builder().config(&config).start();
    let mut bench = Bench::new(&server);
    // A server's INCREX may lack UBOUND. Only a call shows this.
    let mut increx = redis::cmd("INCREX");
    increx.arg("ability").arg(&["UBOUND", "1", "EX", "1", "ENX"]);
    let abilities = Abilities {
        has_cell: cell.is_some(),
        has_field_ttls: bench.knows("HSETEX"),
        has_increx: increx.query::<redis::Value>(&mut bench.con).is_ok(),
    };
    let scripts = Scripts::load(&mut bench.con);
    let mut contests = contests::all(&scripts, &abilities);
    let wanted = std::env::var("CONTESTS").ok();
    let is_wanted = |slug: &str| wanted.as_ref().is_none_or(|wanted| wanted.split(' ').any(|name| name == slug));
    contests.retain(|contest| is_wanted(contest.slug));

    if let Some(folder) = instructions {
        print!("{}", instructions::measure(&mut bench, &contests, is_wanted, &folder));
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
    println!("{}", report.text(false));
    if let Some(folder) = std::env::var_os("OUT").map(PathBuf::from) {
        report.write(&folder).expect("the report is written");
        println!("Written to {}.", folder.display());
    }
}

/// Returns the name of the copy that keeps the content of a filled key.
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

    pub fn expect(&self, steps: usize) {
        self.bar.inc_length(steps as u64);
    }

    pub fn step(&self, what: String) {
        self.bar.inc(1);
        self.bar.set_message(what);
    }

    pub fn flush(&mut self) {
        redis::cmd("FLUSHALL").arg("SYNC").exec(&mut self.con).expect("FLUSHALL");
    }

    pub fn each(&mut self, subject: &Subject, keys: usize) -> Vec<Request> {
        (0..keys).map(|key| subject.request(key, self.unique())).collect()
    }

    /// Calls a subject `times` times on each of its keys.
    pub fn fill(&mut self, subject: &Subject, keys: usize, times: usize) {
        // Sends the requests in parts, because a million prepared requests take more memory than the keys that they
        // create.
        const AT_ONCE: usize = 100_000;
        let rounds = (AT_ONCE / keys).clamp(1, times);
        for done in (0..times).step_by(rounds) {
            let requests: Vec<_> = (done..times.min(done + rounds)).flat_map(|_| self.each(subject, keys)).collect();
            self.send(&requests);
        }
    }

    /// Copies keys. `names` returns the old and the new name of each key.
    fn copy(&mut self, keys: usize, names: impl Fn(usize) -> (String, String)) {
        let copy = |key| {
            let (from, to) = names(key);
            Request::of(&[redis::cmd("COPY").arg(from).arg(to).arg("REPLACE").to_owned()])
        };
        let requests: Vec<_> = (0..keys).map(copy).collect();
        self.send(&requests);
    }

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

    /// Sends requests as fast as possible. Returns the time within commands, in µs per request.
    pub fn send(&mut self, requests: &[Request]) -> f64 {
        let watch = Watch::start(&mut self.con);
        flood(&mut self.pipelined, requests, PIPELINE);
        watch.stop(&mut self.con, requests.len()).in_command
    }

    /// Runs a contest. Returns the rounds of each subject.
    fn hold(&mut self, contest: &Contest, size: &Size) -> Vec<Vec<Round>> {
        self.expect(contest.subjects.len() * (size.rounds + 1));
        // Each key gets about one request before the keys are filled again.
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
