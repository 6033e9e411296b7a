//! The questions that a test asks about the keys of a release, and the notation of the answers.
//!
//! A question is a line that begins with `> `. The lines that follow are the answer, in the notation of
//! `testkit::show`: a line for each element of an array, and a line `field: value` for each field of a map. A field with
//! the value null, 0 or `no` has no line. So newer modules may answer with more fields, if old values do not have them.
//!
//! Most questions are commands. Three have answers that depend on the time, so the answer has only a part of the reply:
//!
//! | question | answer |
//! |---|---|
//! | `EXPIRIES key` | the live members, each with its expiry in Unix ms or `never` |
//! | `ZRL.PEEK ...` | the first three fields |
//! | `ZQ.CLAIM ...` | id, attempt and payload of each job |

use std::path::Path;
use std::time::{Duration, Instant};
use testkit::redis::{Value, cmd, from_redis_value};
use testkit::{Client, Job, NEVER, PATIENCE, Server, show, show_bytes};

/// The commands whose replies are maps.
const MAPS: [&str; 4] = ["ZRL.INFO", "ZQ.STATS", "ZQ.GET", "ZLB.INFO"];

/// Fields whose meaning has changed after release 0.3: `pushed` and `replaced` now count each push with AGAIN, also when
/// an append-only file of 0.3 is replayed.
const CHANGED: [&str; 3] = ["oldest_ready_ms: ", "pushed: ", "replaced: "];

fn has_changed(line: &str) -> bool {
    CHANGED.iter().any(|field| line.starts_with(field))
}

/// Writes the questions about all keys of a server, with the answers. Claims all claimable jobs.
pub fn questions(server: &Server) -> String {
    let mut c = server.client();
    let mut text = String::new();
    let mut ask = |c: &mut Client, question: &str| {
        let lines = answer(c, question);
        text.push_str(&format!("> {question}\n"));
        lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    };
    let mut keys = c.strings("KEYS *");
    keys.sort();
    ask(&mut c, "DBSIZE");
    ask(&mut c, "ZQ.LIST COUNT 100");
    for key in &keys {
        let kind = c.string(&format!("TYPE {key}"));
        ask(&mut c, &format!("TYPE {key}"));
        let commands: &[&str] = match &*kind {
            "zset" if c.try_run(&format!("ZEXP.CARD {key}")).is_ok() => &["ZEXP.CARD", "EXPIRIES"],
            "zset" => &["ZEXP.CARD", "ZRANGE 0 -1 WITHSCORES", "PEXPIRETIME"],
            "string" => &["ZRL.INFO", "PEXPIRETIME"],
            "zeitqueue" => &[
                "ZQ.STATS",
                "ZQ.GROUPS",
                "ZQ.PEEK READY COUNT 100",
                "ZQ.PEEK DELAYED COUNT 100",
                "ZQ.PEEK CLAIMED COUNT 100 WITHLEASE",
                "ZQ.PEEK DEAD COUNT 100",
                "PEXPIRETIME",
            ],
            _ => &["ZLB.INFO", "ZLB.RANGE 0 -1 WITHRANK DENSE WITHVALUES", "PEXPIRETIME"],
        };
        for command in commands {
            let (name, options) = command.split_once(' ').unwrap_or((command, ""));
            ask(&mut c, format!("{name} {key} {options}").trim_end());
        }
        if kind == "zeitqueue" {
            for state in ["READY", "DELAYED", "CLAIMED", "DEAD"] {
                for id in c.ids(&format!("ZQ.PEEK {key} {state} COUNT 100")) {
                    ask(&mut c, &format!("ZQ.GET {key} {id}"));
                }
            }
        }
    }
    for question in super::history::LIMITS {
        ask(&mut c, &question.replace("CHECK", "PEEK"));
    }
    // Only claims show what RATE, GROUPRATE and holds allow.
    for key in &keys {
        if c.string(&format!("TYPE {key}")) == "zeitqueue" {
            ask(&mut c, &format!("ZQ.CLAIM 1 {key} LEASE 1h COUNT 1000"));
        }
    }
    text
}

/// Asks the questions of a file. Fails if an answer still differs after `PATIENCE`: after a load, the module deletes
/// expired members and drops expired jobs in the background.
#[track_caller]
pub fn assert_answers(server: &Server, expected: &Path, way: &str) {
    let text = std::fs::read_to_string(expected).expect("the answers");
    let mut c = server.client();
    let start = Instant::now();
    for part in text.split("> ").skip(1) {
        let (question, lines) = part.split_once('\n').expect("a question is a line");
        let lines: Vec<_> = lines.lines().filter(|line| !has_changed(line)).collect();
        loop {
            let mut found = answer(&mut c, question);
            found.retain(|line| !has_changed(line));
            if lines == found {
                break;
            }
            let repeats = !question.starts_with("ZQ.CLAIM") && start.elapsed() < PATIENCE;
            assert!(repeats, "{way}: {question}\n  expected: {lines:#?}\n  found: {found:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn answer(c: &mut Client, question: &str) -> Vec<String> {
    if let Some(key) = question.strip_prefix("EXPIRIES ") {
        return expiries(c, key);
    }
    let reply = match c.try_run(question) {
        Ok(reply) => reply,
        Err(error) => return vec![format!("!{}", error.split(' ').next().unwrap_or_default())],
    };
    match reply {
        reply if question.starts_with("ZQ.CLAIM") => Job::all(&reply)
            .iter()
            .map(|job| format!("{} {} {}", job.id, job.attempt, show_bytes(job.payload.as_bytes())))
            .collect(),
        Value::Array(items) if question.starts_with("ZRL.PEEK") => items[..3].iter().map(show).collect(),
        Value::Array(fields) if MAPS.iter().any(|command| question.starts_with(command)) => fields
            .chunks(2)
            .map(|field| (show(&field[0]), show(&field[1])))
            .filter(|(_, value)| !["nil", "0", "'no'"].contains(&value.as_str()))
            .map(|(field, value)| format!("{}: {value}", field.trim_matches('\'')))
            .collect(),
        Value::Array(items) => items.iter().map(show).collect(),
        reply => vec![show(&reply)],
    }
}

/// Returns the live members with their expiries. The score of a member is its expiry. Checks that the remaining time
/// that ZEXP.MEMBERS returns fits.
fn expiries(c: &mut Client, key: &str) -> Vec<String> {
    let before = c.now();
    let rows: Vec<(Vec<u8>, i64)> =
        from_redis_value(c.run(&format!("ZEXP.MEMBERS {key} WITHPTTL"))).expect("members with times");
    let after = c.now();
    let mut lines = Vec::new();
    for (member, left) in rows {
        let score: f64 = from_redis_value(c.call(cmd("ZSCORE").arg(key).arg(&member[..]))).expect("a score");
        let expiry = score as i64;
        let fits = if left == -1 { expiry == NEVER } else { (before + left..=after + left).contains(&expiry) };
        assert!(fits, "{key} {}: {left} ms remain until {expiry}", show_bytes(&member));
        let expiry = if expiry == NEVER { "never".to_owned() } else { expiry.to_string() };
        lines.push(format!("{} {expiry}", show_bytes(&member)));
    }
    lines
}
