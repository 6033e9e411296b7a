//! How often limiters decide wrongly. Compares two limiters with a log of all requests: SLIDING, and the sliding
//! counter of two fixed windows that most libraries and proxies use. `cargo run --release -p zeitset-benches --example
//! replay`. The program needs no server.
//!
//! Cloudflare published a comparison of its counter with a log: of 400 million requests of 270,000 sources, the counter
//! decided 0.003 % wrongly (https://blog.cloudflare.com/counting-things-a-lot-of-different-things/, 2017). Cloudflare's
//! traffic is not public. In this program, the rates of the sources follow Zipf's law. Each source sends at random
//! times and changes its rate every 20 s. REQUESTS sets the number of requests.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::time::Instant;

/// The module's model of limits, compiled into this program.
#[allow(dead_code, unused_imports, clippy::all)]
#[path = "../src/limits/model/mod.rs"]
mod model;

#[allow(dead_code, unused_imports, unused_macros, clippy::all)]
#[path = "../src/base/mod.rs"]
mod base;

use model::{Algorithm, Assessment, Call, Intent, Patch, Policy, Update, assess};

const SOURCES: u64 = 270_000;
const WINDOW: u64 = 60_000;
const HOUR: u64 = 3_600_000;
/// The start of a window.
const START: u64 = 1_800_000_000_000 / WINDOW * WINDOW;
/// The time in ms for which a source keeps its rate. The rate is at most twice the mean.
const STRETCH: u64 = 20_000;

/// The decisions of a limiter, compared with a log of the same requests.
#[derive(Default)]
struct Score {
    allowed: u64,
    denied: u64,
    wrongly_allowed: u64,
    wrongly_denied: u64,
}

impl Score {
    /// Counts a request. `would_be` is whether a log of the requests would allow it.
    fn count(&mut self, is_allowed: bool, would_be: bool) {
        *if is_allowed { &mut self.allowed } else { &mut self.denied } += 1;
        self.wrongly_allowed += u64::from(is_allowed && !would_be);
        self.wrongly_denied += u64::from(!is_allowed && would_be);
    }

    /// Prints a row. If a limiter counts only allowed requests, its earlier requests differ from the log's, so a single
    /// denial cannot be called wrong.
    fn print(&self, name: &str, takes_all: bool) {
        let share = |count: u64| format!("{count} {:.3} %", 100.0 * count as f64 / (self.allowed + self.denied) as f64);
        println!(
            "    {name:<40} {:>12} {:>12} {:>18} {:>18}",
            self.allowed,
            self.denied,
            share(self.wrongly_allowed),
            if takes_all { share(self.wrongly_denied) } else { "-".to_owned() }
        );
    }
}

/// The times of the requests of the last window.
#[derive(Default)]
struct Log(VecDeque<u64>);

impl Log {
    fn count(&mut self, now: u64) -> u64 {
        while self.0.front().is_some_and(|&at| at + WINDOW <= now) {
            self.0.pop_front();
        }
        self.0.len() as u64
    }
}

/// The sliding counter: the count of the current fixed window, plus the part of the previous window's count that the
/// trailing window still covers.
#[derive(Default)]
struct Counter {
    window: u64,
    current: u64,
    before: u64,
}

impl Counter {
    fn estimate(&mut self, now: u64) -> f64 {
        let window = now / WINDOW;
        if window != self.window {
            self.before = if window == self.window + 1 { self.current } else { 0 };
            (self.current, self.window) = (0, window);
        }
        self.before as f64 * (1.0 - (now % WINDOW) as f64 / WINDOW as f64) + self.current as f64
    }
}

/// A limit of the module, as the string of its key.
#[derive(Default)]
struct Limit(Vec<u8>);

impl Limit {
    fn check(&mut self, policy: Policy, now: u64) -> bool {
        let stored = (!self.0.is_empty()).then_some(&self.0[..]);
        let Assessment { verdict, update, .. } =
            assess(Call { policy, now, cost: 1 }, Intent::Take, stored).expect("a ring");
        match update {
            Some(Update::Replace { text, .. }) => self.0 = text.to_vec(),
            Some(Update::Overwrite { parts, .. }) => {
                parts.iter().for_each(|Patch { at, bytes }| self.0[*at..at + bytes.len()].copy_from_slice(bytes));
            }
            Some(Update::Remove) | None => {}
        }
        verdict.allowed
    }
}

fn main() {
    let requests: u64 = std::env::var("REQUESTS").map_or(400_000_000, |text| text.parse().expect("a number"));
    println!("{SOURCES} sources by Zipf's law, one hour, limits per minute; each algorithm gets the same requests\n");
    println!("{:<44} {:>12} {:>12} {:>18} {:>18}", "", "allowed", "denied", "wrongly allowed", "wrongly denied");
    for limit in [100, 1_000, 10_000] {
        replay(limit, requests);
    }
}

fn replay(limit: u64, requests: u64) {
    let started = Instant::now();
    let harmonic: f64 = (1..=SOURCES).map(|rank| 1.0 / rank as f64).sum();
    let policy = Policy { algorithm: Algorithm::Sliding, limit, window: WINDOW, precision: None };
    let (mut by_counter, mut by_module, mut by_log) = (Score::default(), Score::default(), Score::default());
    let (mut all, mut over, mut difference, mut compared) = (0, 0, 0.0, 0);
    let mut rng = SmallRng::seed_from_u64(1);
    for rank in 1..=SOURCES {
        let mean = requests as f64 / harmonic / rank as f64 / HOUR as f64;
        let (mut counter, mut every) = (Counter::default(), Log::default());
        let (mut limited, mut admitted, mut logged) = (Limit::default(), Log::default(), Log::default());
        let (mut is_over, mut now, mut rate, mut until) = (false, START as f64, 0.0, 0.0);
        loop {
            // Computes the time of the next request of a Poisson process with a changing rate.
            let mut weight = -rng.random_range(f64::MIN_POSITIVE..1.0).ln();
            while now + weight / rate >= until {
                weight -= (until - now).max(0.0) * rate;
                now = now.max(until);
                until = now + STRETCH as f64;
                rate = mean * rng.random_range(0.0..2.0);
            }
            now += weight / rate;
            let at = now as u64;
            if at >= START + HOUR {
                break;
            }
            all += 1;

            // Counts every request, as Cloudflare's counter does.
            let (estimate, real) = (counter.estimate(at), every.count(at));
            by_counter.count(estimate < limit as f64, real < limit);
            counter.current += 1;
            every.0.push_back(at);
            if real >= limit / 2 {
                difference += (estimate - real as f64).abs() / real as f64;
                compared += 1;
            }

            // The module takes no units for a denied request. The decision is wrong if the module allows a request
            // although its window is full.
            let held = admitted.count(at);
            let is_allowed = limited.check(policy, at);
            by_module.count(is_allowed, is_allowed && held < limit);
            if is_allowed {
                admitted.0.push_back(at);
            } else {
                is_over = true;
            }
            // Because of the precision, units are held up to a hundredth of the window longer. The comparison with a
            // log of allowed requests shows how many requests are denied for this reason.
            let is_logged = logged.count(at) < limit;
            by_log.count(is_logged, is_logged);
            if is_logged {
                logged.0.push_back(at);
            }
        }
        over += u64::from(is_over);
    }
    println!(
        "{all} requests, limit {limit} a minute, reached by {over} sources ({:.0} s)",
        started.elapsed().as_secs_f64()
    );
    by_counter.print("sliding counter, every request counts", true);
    by_module.print("SLIDING", false);
    by_log.print("a log of allowed requests", false);
    println!(
        "    SLIDING allows {:.3} % less than the log",
        100.0 * (1.0 - by_module.allowed as f64 / by_log.allowed as f64)
    );
    println!(
        "    the counter's estimate differs from the log by {:.1} % on average, when at least half the limit is used\n",
        100.0 * difference / f64::from(compared.max(1))
    );
}
