//! Every command with N keys, members or jobs, next to the native command it stands for.

use super::cpu::{Served, median, words};
use super::fill;
use super::rows::{ROWS, Row, WHOLE};
use super::support::Server;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use redis::Value;
use std::time::{Duration, Instant};

/// Calls that are measured for a row, unless they take that long together.
const CALLS: usize = 25;
const ENOUGH: Duration = Duration::from_secs(4);

/// Above this, in µs, a call stands out.
const AIM: f64 = 1000.0;

struct Table {
    served: Served,
    rng: SmallRng,
    scale: u64,
    unique: u64,
    /// When the last unit of `exact` comes back.
    last: u64,
}

pub fn run(scale: u64) {
    let mut served = Served::new(Server::builder().config("save \"\"\nmaxclients 20000\n").start());
    let last = fill::all(&mut served, scale);
    let mut table = Table { served, rng: SmallRng::seed_from_u64(1), scale, unique: 0, last };
    println!("\n## Single calls at scale\n");
    println!(
        "µs of the server for one call with {scale} keys, members or jobs (an EXACT limit: {} entries), beyond what PING costs; median and \
         worst of up to {CALLS}.\n",
        scale.min(300_000)
    );
    println!("| call | median | worst | native command | median | worst |\n|---|--:|--:|---|--:|--:|");
    ROWS.iter().for_each(|row| table.print(row, CALLS));
    println!("\nWhole values, as Redis itself takes them whole:\n");
    println!("| call | median | worst | native command | median | worst |\n|---|--:|--:|---|--:|--:|");
    WHOLE.iter().for_each(|row| table.print(row, 1));
}

impl Table {
    fn print(&mut self, row: &Row, calls: usize) {
        let [(median, worst), (native_median, native_worst)] =
            [row.call, row.native].map(|line| self.costs(line, calls));
        let sign = if worst > AIM { " **" } else { "" };
        println!(
            "| `{}` | {median:.0} | {worst:.0}{sign} | `{}` | {native_median:.0} | {native_worst:.0} |",
            row.call, row.native
        );
    }

    fn costs(&mut self, line: &str, calls: usize) -> (f64, f64) {
        let started = Instant::now();
        let mut costs = Vec::new();
        while costs.len() < calls && (costs.is_empty() || started.elapsed() < ENOUGH) {
            let line = self.line(line);
            costs.push(self.served.cost(&words(&line)));
        }
        (median(&mut costs), costs.last().copied().unwrap_or_default())
    }

    /// A call with its places filled in.
    fn line(&mut self, line: &str) -> String {
        let mut line = line.to_owned();
        if line.contains("{token}") {
            let jobs: Value = words("ZQ.CLAIM 1 jobs LEASE 1h").query(&mut self.served.con).expect("a job");
            let (Value::Array(jobs), place) = (jobs, "a job is an array") else { panic!("no jobs") };
            let Some(Value::Array(job)) = jobs.first() else { panic!("{place}") };
            let id: String = redis::from_redis_value(job[1].clone()).expect("an id");
            let token: u64 = redis::from_redis_value(job[2].clone()).expect("a token");
            line = line.replace("{id}", &id).replace("{token}", &token.to_string());
        }
        while line.contains("{r}") {
            line = line.replacen("{r}", &self.rng.random_range(0..self.scale).to_string(), 1);
        }
        // Of the jobs that are not claimed yet.
        let tail = self.scale - 1 - self.rng.random_range(0..self.scale / 2);
        self.unique += 1;
        line.replace("{n}", &(self.scale + self.unique).to_string())
            .replace("{tail}", &tail.to_string())
            .replace("{last}", &(self.last - 100).to_string())
    }
}
