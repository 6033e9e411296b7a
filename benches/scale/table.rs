//! All commands with N keys, members or jobs, compared with native commands.

use super::cpu::{Served, median, words};
use super::fill;
use super::rows::{LARGE, ROWS, Row, WHOLE};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::{Duration, Instant};
use testkit::Server;

/// The maximum number of measured calls per row.
const CALLS: usize = 25;
const ENOUGH: Duration = Duration::from_secs(4);

/// Calls that take longer than this, in µs, are listed below the table.
const AIM: f64 = 1000.0;

struct Table {
    served: Served,
    rng: SmallRng,
    scale: u64,
    unique: u64,
    tails: u64,
    refunds: u64,
    /// When the last unit of the limit `exact` becomes available again.
    last: u64,
    above: Vec<String>,
}

pub fn run(scale: u64) {
    // With `hz 1`, the server's cron hardly ever runs during a call.
    let mut served = Served::new(Server::builder().config("save \"\"\nhz 1\nmaxclients 20000\n").start());
    let last = fill::all(&mut served, scale);
    let rng = SmallRng::seed_from_u64(1);
    let mut table = Table { served, rng, scale, unique: 0, tails: 0, refunds: 0, last, above: Vec::new() };
    println!("\n## Single calls at scale: {scale}\n");
    println!(
        "The tables have the server's time for one call, in µs beyond the cost of PING: the median and the worst of up to \
         {CALLS} calls. Most keys have {scale} members or jobs (an EXACT limit: {} slots). Together, the keys take \
         {:.1} GB. A time of 0 means that the call costs no more than PING. The times of equal calls differ by tens of \
         µs.",
        scale.min(300_000),
        table.served.info("memory", "used_memory") / 1e9
    );
    for (title, rows, calls) in [
        ("Each command with default arguments", ROWS, CALLS),
        ("Calls with many members, jobs or keys", LARGE, CALLS),
        ("Calls that process a whole value", WHOLE, 1),
    ] {
        println!("\n### {title}\n");
        println!("| call | median | worst | native command | median | worst |\n|---|--:|--:|---|--:|--:|");
        rows.iter().for_each(|row| table.print(row, calls));
        if calls > 1 {
            let above = std::mem::take(&mut table.above);
            let above = if above.is_empty() { "none".to_owned() } else { above.join(", ") };
            println!("\nCalls whose worst time is above {AIM:.0} µs: {above}.");
        }
    }
    println!(
        "\nThe tables have no row for {}: only replication and AOF files contain them.",
        table.left_out().join(" and ")
    );
}

impl Table {
    fn print(&mut self, row: &Row, calls: usize) {
        let (median, worst) = self.costs(row.call, calls);
        let native = match row.native {
            "" => "| |".to_owned(),
            line => {
                let (median, worst) = self.costs(line, calls);
                format!("`{}` | {median:.0} | {worst:.0}", shown(line))
            }
        };
        if worst > AIM {
            self.above.push(format!("`{}`", row.call));
        }
        println!("| `{}` | {median:.0} | {worst:.0} | {native} |", shown(row.call));
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

    /// Returns the commands of the module that have no row in a table.
    fn left_out(&mut self) -> Vec<String> {
        let list = words("COMMAND LIST FILTERBY MODULE zeitset");
        let mut names: Vec<String> = list.query(&mut self.served.con).expect("names");
        names.iter_mut().for_each(|name| *name = name.to_uppercase());
        let is_of = |row: &Row, name: &str| row.call.split(' ').next() == Some(name);
        names.retain(|name| ![ROWS, LARGE, WHOLE].iter().copied().flatten().any(|row| is_of(row, name)));
        names.sort();
        names
    }

    /// Returns the IDs and tokens of the claimed jobs.
    fn claim(&mut self, count: usize) -> Vec<(String, u64)> {
        let call = words(&format!("ZQ.CLAIM 1 jobs LEASE 1h COUNT {count}"));
        let jobs: Vec<(String, String, u64, u64, u64, String)> = call.query(&mut self.served.con).expect("jobs");
        assert_eq!(jobs.len(), count, "there are jobs enough");
        jobs.into_iter().map(|(_, id, token, ..)| (id, token)).collect()
    }

    fn line(&mut self, line: &str) -> String {
        let mut line = line.to_owned();
        if let (Some(from), Some(to)) = (line.find("{1000 "), line.rfind('}')) {
            let each = &line[from + "{1000 ".len()..to];
            let all: Vec<String> = match each {
                "id token" => self.claim(1000).into_iter().map(|(id, token)| format!("{id} {token}")).collect(),
                _ => (0..1000).map(|_| self.line(each)).collect(),
            };
            return format!("{}{}", &line[..from], all.join(" "));
        }
        if line.contains("{token}") {
            let (id, token) = self.claim(1).remove(0);
            line = line.replace("{id}", &id).replace("{token}", &token.to_string());
        }
        while line.contains("{r}") {
            line = line.replacen("{r}", &self.rng.random_range(0..self.scale).to_string(), 1);
        }
        self.unique += 1;
        self.tails += u64::from(line.contains("{tail}"));
        // Each refund gets another slot.
        self.refunds += u64::from(line.contains("{last"));
        // This job would be among the last to be claimed.
        let tail = self.scale - 1 - self.tails % (self.scale / 2);
        line.replace("{n}", &(self.scale + self.unique).to_string())
            .replace("{tail}", &tail.to_string())
            .replace("{last}", &(self.last - 100 - self.refunds).to_string())
            .replace("{last-9000}", &(self.last - 9000 - self.refunds).to_string())
    }
}

fn shown(line: &str) -> String {
    match line.find("{1000 ") {
        Some(from) => format!("{}…, 1000 of them", &line[..from]),
        None => line.to_owned(),
    }
}
