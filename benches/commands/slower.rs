//! Calls that take more instructions of the server than what a user would take instead.
//!
//! The other ways are counted first, on a server on which no client has used the module yet. From the first expiring set
//! and the first queue on, plain commands cost more.

use crate::Bench;
use crate::instructions::{Counter, KEYS, PIPELINE, REQUESTS};
use crate::load::{Request, flood};
use redis::{Cmd, Connection, RedisResult, cmd};
use std::fmt::Write as _;

/// The number of members of a large set or board.
const LARGE: usize = 100_000;
const JOBS: usize = 1_000;
const CYCLES: usize = 400;
/// 2100-01-01, in Unix ms.
const FUTURE: usize = 4_102_444_800_000;

/// A call, in which `{n}` is the number of the call, `{next}` the number of the call after it, `{k}` one of [`KEYS`]
/// numbers, and `{at}` a time in the future that rises with `{n}`.
pub type Template = &'static str;

/// What is compared, our call, and the other one.
const ROWS: [(&str, Template, Template); 14] = [
    ("ten members in the middle of 100,000", "ZEXP.MEMBERS large LIMIT 50000 10", "ZRANGE zlarge 50000 50009"),
    ("a random member of five", "ZEXP.RANDMEMBER five", "ZRANDMEMBER zfive"),
    ("a random member of 100,000", "ZEXP.RANDMEMBER large", "ZRANDMEMBER zlarge"),
    ("the number of members, five", "ZEXP.CARD five", "ZCARD zfive"),
    ("the number of members, 100,000", "ZEXP.CARD large", "ZCARD zlarge"),
    ("the number of members, half of 100,000 expired", "ZEXP.CARD half", "ZCOUNT zhalf 1000000 +inf"),
    ("a later expiry of the only member", "ZEXP.ADD small:{k} AT {at} m", "ZADD zsmall:{k} {at} m"),
    ("a later expiry in 100,000", "ZEXP.ADD large AT {at} m:{n}", "ZADD zlarge {at} m:{n}"),
    ("a plain ZADD to an expiring set", "ZADD large {at} m:{n}", "ZADD zlarge {at} m:{n}"),
    ("a removal from 100,000", "ZEXP.REM large m:{n}", "ZREM zlarge m:{n}"),
    ("an update of a board of 100,000", "ZLB.SET board m:{n} {at} 1", "ZADD zboard {at} m:{n}"),
    ("a removal from the board", "ZLB.REM board m:{n}", "ZREM zboard m:{n}"),
    ("the removal of the board's last member", "ZLB.REMRANGE board -1 -1", "ZREMRANGEBYRANK zboard 0 0"),
    ("a RENAME on a server with an expiring set and a queue", "RENAME r:{n} r:{next}", "RENAME r:{n} r:{next}"),
];

/// The calls that fill the keys, and how often each is called.
const FILL: [(Template, usize); 9] = [
    ("CONFIG SET zeitset.sweep no", 1),
    ("ZEXP.ADD five AT {at} m:{n}", 5),
    ("ZEXP.ADD large AT {at} m:{n}", LARGE),
    ("ZEXP.ADD half AT {at} m:{n}", LARGE / 2),
    ("ZADD half 1000 expired:{n}", LARGE / 2),
    ("ZEXP.ADD small:{k} AT {at} m", KEYS),
    ("ZLB.CREATE board DIM first DIM second", 1),
    ("ZLB.SET board m:{n} {n} 1", LARGE),
    ("ZQ.PUSH queue payload DELAY 1d", JOBS),
];
const FILL_INSTEAD: [(Template, usize); 6] = [
    ("ZADD zfive {at} m:{n}", 5),
    ("ZADD zlarge {at} m:{n}", LARGE),
    ("ZADD zhalf {at} m:{n}", LARGE / 2),
    ("ZADD zhalf 1000 expired:{n}", LARGE / 2),
    ("ZADD zsmall:{k} {at} m", KEYS),
    ("ZADD zboard {n} m:{n}", LARGE),
];

/// A job is pushed, claimed and acknowledged.
fn cycle(con: &mut Connection) -> RedisResult<()> {
    cmd("ZQ.PUSH").arg("queue").arg("payload").exec(con)?;
    let mut claim = cmd("ZQ.CLAIM");
    claim.arg(&["1", "queue", "LEASE", "30s"]);
    let jobs: Vec<(String, String, String, redis::Value, redis::Value, redis::Value)> = claim.query(con)?;
    let (_, id, token, ..) = &jobs[0];
    cmd("ZQ.ACK").arg("queue").arg(id).arg(token).exec(con)
}

fn cycle_instead(con: &mut Connection) -> RedisResult<()> {
    cmd("LPUSH").arg("waiting").arg("payload").exec(con)?;
    cmd("LMOVE").arg("waiting").arg("taken").arg("RIGHT").arg("LEFT").exec(con)?;
    cmd("RPOP").arg("taken").exec(con)
}

/// Returns a section of the report.
pub fn measure(bench: &mut Bench, counter: &mut Counter) -> String {
    let instead = count_all(bench, counter, &FILL_INSTEAD, &ROWS.map(|(_, _, call)| call), cycle_instead);
    let ours = count_all(bench, counter, &FILL, &ROWS.map(|(_, call, _)| call), cycle);
    let mut text = format!(
        "\n## Where Zeitset takes more instructions\n\nThe calls of the last row are not pipelined, and their queue \
         has {JOBS} other jobs.\n\n| | call | instead | instructions | instead | ratio |\n|---|---|---|--:|--:|--:|\n"
    );
    let first = |template: Template| template.split(' ').next().expect("a command");
    let rows = ROWS.iter().map(|&(what, ours, instead)| (what, first(ours), first(instead)));
    let cycle = ("a job", "ZQ.PUSH, ZQ.CLAIM, ZQ.ACK", "LPUSH, LMOVE, RPOP");
    for ((what, call, other), (ours, instead)) in rows.chain([cycle]).zip(ours.into_iter().zip(instead)) {
        let ratio = ours as f64 / instead as f64;
        let _ = writeln!(text, "| {what} | {call} | {other} | {ours} | {instead} | {ratio:.2} |");
    }
    text
}

/// Fills the server. Returns the instructions of each call and of a cycle.
fn count_all(
    bench: &mut Bench,
    counter: &mut Counter,
    fill: &[(Template, usize)],
    calls: &[Template],
    cycle: fn(&mut Connection) -> RedisResult<()>,
) -> Vec<u64> {
    bench.flush();
    cmd("SET").arg("r:0").arg("value").exec(&mut bench.con).expect("SET");
    for &(template, times) in fill {
        let requests: Vec<_> = (0..times).map(|n| request(template, n, 0)).collect();
        bench.send(&requests);
    }
    let mut renames = 0..;
    let mut numbers = 0..;
    let mut results: Vec<_> = calls
        .iter()
        .map(|template| {
            let numbers = if template.contains("{next}") { &mut renames } else { &mut numbers };
            let mut some =
                |count| numbers.by_ref().take(count).map(|n| request(template, n, LARGE)).collect::<Vec<_>>();
            // The first calls may load pages of code, and enlarge buffers.
            let (warm, counted) = (some(PIPELINE), some(REQUESTS));
            flood(&mut bench.pipelined[..1], &warm, PIPELINE);
            counter.count(REQUESTS, || flood(&mut bench.pipelined[..1], &counted, PIPELINE))
        })
        .collect();
    cycle(&mut bench.con).expect("a cycle");
    results.push(counter.count(CYCLES, || (0..CYCLES).for_each(|_| cycle(&mut bench.con).expect("a cycle"))));
    results
}

/// Returns a call. `later` moves its time.
pub fn request(template: Template, n: usize, later: usize) -> Request {
    let mut call = Cmd::new();
    for word in template.split(' ') {
        call.arg(
            word.replace("{n}", &n.to_string())
                .replace("{next}", &(n + 1).to_string())
                .replace("{k}", &(n % KEYS).to_string())
                .replace("{at}", &(FUTURE + later + n).to_string()),
        );
    }
    Request::of(&[call])
}
