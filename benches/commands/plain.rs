//! The instructions that the module adds to commands that do not use it.
//!
//! All servers have a key with a TTL, as most servers have: from the first such key on, Redis itself does more.

use crate::Bench;
use crate::instructions::{Counter, PIPELINE, REQUESTS};
use crate::load::flood;
use crate::slower::{Template, request};
use crate::stats;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::thread;
use std::time::Duration;
use testkit::Server;

/// Calls without a pipeline take longer.
const LONE_REQUESTS: usize = 1_000;
const OTHER_KEYS: usize = 20_000;

/// What is compared, the call that creates the key, and the call that is counted.
const ROWS: [(&str, Template, Template); 9] = [
    ("`SET`", "PING", "SET s:{n} x"),
    ("`ZADD` of a new key", "PING", "ZADD s:{n} 1 m"),
    ("`ZADD` of a second member", "ZADD s:{n} 1 m", "ZADD s:{n} 2 n"),
    ("`EXPIRE` of a string", "SET s:{n} x", "EXPIRE s:{n} 1000"),
    ("`EXPIRE` of a sorted set", "ZADD s:{n} 1 m", "EXPIRE s:{n} 1000"),
    ("`RENAME` of a string", "SET s:{n} x", "RENAME s:{n} t:{n}"),
    ("`RENAME` of a sorted set", "ZADD s:{n} 1 m", "RENAME s:{n} t:{n}"),
    ("`DEL` of a string", "SET s:{n} x", "DEL s:{n}"),
    ("`DEL` of a sorted set", "ZADD s:{n} 1 m", "DEL s:{n}"),
];

/// The number of expiring sets of each server. `None`: the server does not load the module.
const SERVERS: [Option<usize>; 4] = [None, Some(0), Some(1), Some(5_000)];

/// Returns a section of the report.
pub fn measure(folder: &Path) -> String {
    let columns = SERVERS.map(|sets| count_all(sets, folder));
    let mut text = format!(
        "\n## The cost for plain commands\n\nThe server has {OTHER_KEYS} other keys, and a key with a TTL. The \
         figures without the module are instructions per command. The others are differences.\n"
    );
    for (mode, heading) in
        [format!("{PIPELINE} commands in one pipeline"), "one command at a time".to_owned()].iter().enumerate()
    {
        let _ = write!(
            text,
            "\n| {heading} | without the module | no expiring set | 1 expiring set | 5,000 expiring sets |\n\
             |---|--:|--:|--:|--:|\n"
        );
        for (row, (name, ..)) in ROWS.iter().enumerate() {
            let [without, with @ ..] = columns.each_ref().map(|column| column[row][mode] as f64);
            let [none, one, many] = with.map(|with| (with / without - 1.0) * 100.0);
            let _ = writeln!(text, "| {name} | {without} | {none:+.1} % | {one:+.1} % | {many:+.1} % |");
        }
    }
    text
}

/// Returns the instructions of each row: of pipelined calls, and of calls one at a time.
fn count_all(sets: Option<usize>, folder: &Path) -> Vec<[u64; 2]> {
    let mut server = Server::builder().config("hz 1\ndynamic-hz no\n").start();
    if sets.is_none() {
        server.remove_module();
        server.restart();
    }
    let mut bench = Bench::new(&server);
    let mut counter = Counter::of(&mut bench.con, folder);
    let of = |template, numbers: Range<usize>| numbers.map(|n| request(template, n, 0)).collect::<Vec<_>>();
    bench.send(&of("SET with-ttl x EX 777600", 0..1));
    bench.send(&of("SET other:{n} x", 0..OTHER_KEYS));
    if let Some(sets @ 1..) = sets {
        // The first expiring set starts a scan of all keys in the background, which is not part of a command.
        let scans = |bench: &mut Bench| stats::info(&mut bench.con, "zeitset")["zeitset_scans_completed"].clone();
        let before = scans(&mut bench);
        bench.send(&of("ZEXP.ADD set:{n} 9d m", 0..sets));
        while scans(&mut bench) == before {
            thread::sleep(Duration::from_millis(10));
        }
        bench.send(&of("CONFIG SET zeitset.sweep no", 0..1));
    }
    let mut first = 0;
    ROWS.map(|(_, before, call)| {
        [(REQUESTS, PIPELINE), (LONE_REQUESTS, 1)].map(|(count, pipeline)| {
            let numbers = first..first + PIPELINE + count;
            first = numbers.end;
            bench.send(&of(before, numbers.clone()));
            let calls = of(call, numbers);
            // The first calls may load pages of code, and enlarge buffers.
            let (warm, counted) = calls.split_at(PIPELINE);
            let connection = &mut bench.pipelined[..1];
            flood(connection, warm, pipeline);
            counter.count(count, || flood(connection, counted, pipeline))
        })
    })
    .to_vec()
}
