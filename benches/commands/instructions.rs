//! Counts the instructions of the server per request, with callgrind (valgrind). Other load on the machine does not
//! affect the count, so different machines can be compared.

use crate::Bench;
use crate::contests::Contest;
use crate::load::{Request, flood};
use crate::{plain, slower, stats};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// With this number of requests, a run of the cron does not matter. The number is no larger, because valgrind makes the
/// server fifty times slower.
pub const KEYS: usize = 1_000;
pub const REQUESTS: usize = 4_000;
/// The number of keys in contests that first fill the keys, with up to a hundred requests each.
const FILLED_KEYS: usize = 250;
pub const PIPELINE: usize = 32;

/// The server, and the output folder of callgrind.
pub struct Counter {
    process: String,
    folder: PathBuf,
    dumps: usize,
}

impl Counter {
    pub fn of(con: &mut redis::Connection, folder: &Path) -> Counter {
        let process = stats::info(con, "server")["process_id"].clone();
        Counter { process, folder: folder.to_owned(), dumps: 0 }
    }

    fn control(&self, what: &str) {
        let done = Command::new("callgrind_control").args([what, &self.process]).output().expect("callgrind_control");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Calls `run`, which sends requests. Returns the number of instructions per request.
    pub fn count<T>(&mut self, requests: usize, run: impl FnOnce() -> T) -> u64 {
        self.control("--zero");
        run();
        self.control("--dump");
        self.dumps += 1;
        let dump = self.folder.join(format!("out.{}.{}", self.process, self.dumps));
        let text = fs::read_to_string(&dump).unwrap_or_else(|error| panic!("{}: {error}", dump.display()));
        let sum = text.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
        let sum: u64 = sum.and_then(|sum| sum.trim().parse().ok()).expect("a sum");
        sum / requests as u64
    }
}

/// Counts the contests. `is_wanted` tells whether to count the other sections: `slower` and `plain`.
pub fn measure(bench: &mut Bench, contests: &[Contest], is_wanted: impl Fn(&str) -> bool, folder: &Path) -> String {
    let mut counter = Counter::of(&mut bench.con, folder);
    let mut text = format!("# Instructions per request: {}\n\n", stats::describe(&mut bench.con));
    let ping: Vec<_> = (0..REQUESTS).map(|_| Request::of(&[redis::cmd("PING")])).collect();
    let _ = writeln!(
        text,
        "`make bench-instructions` runs a server inside callgrind and counts its instructions. The server has \
         {KEYS} keys, and gets {REQUESTS} requests for random keys, {PIPELINE} at a time. In sections with units in \
         use, the server has {FILLED_KEYS} keys, and gets one request for each key. The figures include all work of \
         the server: reading, parsing, replying. A PING takes {} instructions.",
        count(bench, &mut counter, &ping)
    );
    for contest in contests {
        if contest.is_refilled {
            bench.flush();
        }
        let _ = write!(text, "\n## {}\n\n| | instructions |\n|---|--:|\n", contest.title);
        for subject in &contest.subjects {
            let keys = if contest.is_refilled { FILLED_KEYS } else { KEYS };
            if contest.primings > 0 {
                bench.fill(subject, keys, contest.primings);
            }
            // Each key gets one request, so that the number of units in use stays as the contest says.
            let requests =
                if contest.is_refilled { bench.each(subject, keys) } else { bench.random(subject, keys, REQUESTS) };
            let _ = writeln!(text, "| {} | {} |", subject.name, count(bench, &mut counter, &requests));
        }
    }
    if is_wanted("slower") {
        text.push_str(&slower::measure(bench, &mut counter));
    }
    if is_wanted("plain") {
        text.push_str(&plain::measure(folder));
    }
    text
}

fn count(bench: &mut Bench, counter: &mut Counter, requests: &[Request]) -> u64 {
    counter.count(requests.len(), || flood(&mut bench.pipelined[..1], requests, PIPELINE))
}
