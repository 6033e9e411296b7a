//! Calls free the memory that they allocate, also if they fail. `used_memory` is exact: the module allocates through
//! the server's allocator, which counts every allocation.

use super::surface::ours;
use redis::Value;
use testkit::{PATIENCE, Server, Traffic, command, eventually};

/// Calls per repetition. Three repetitions and one to warm up make more than a million calls.
const CALLS: usize = 300_000;

/// Calls per batch of replies.
const BATCH: usize = 2000;

/// How much memory the server itself may use in addition: client buffers, latency statistics, larger tables.
const SLACK: i64 = 256 << 10;

/// Returns a call of each command of the module, each also with its last word cut off. `n` varies members, jobs
/// and keys.
fn each_command(n: usize) -> impl Iterator<Item = String> {
    let call = move |call: &str| call.replace("a:", &format!("{}:", n % 5)).replace(" x", &format!(" m{}", n % 503));
    let cut = |call: &str| call.rsplit_once(' ').map_or(call, |(start, _)| start).to_owned();
    ours().map(move |(.., line, _)| call(line)).flat_map(move |line| [cut(&line), line])
}

/// Sends calls of all families, valid and invalid. Then deletes the keys, or lets them expire.
fn repetition(server: &Server) {
    let (mut control, mut c) = (server.client(), server.client());
    // The same calls in each repetition.
    let mut traffic = Traffic::new(5, &["1ms", "10ms", "1s", "1h", "1w"]);
    let (mut calls, mut errors) = (0, 0);
    while calls < CALLS {
        let now = control.now();
        let mut lines: Vec<_> = (0..BATCH / 2).map(|_| traffic.line(now)).collect();
        lines.extend((calls..).flat_map(each_command).take(BATCH / 2));
        let replies = c.burst(&lines.iter().map(|line| command(line)).collect::<Vec<_>>());
        for (line, reply) in lines.iter().zip(&replies) {
            match reply {
                Value::ServerError(_) => errors += 1,
                reply => traffic.note(line, reply),
            }
        }
        calls += BATCH;
    }
    assert!((calls / 5..calls / 2).contains(&errors), "{errors} errors in {calls} calls");
    drop(c);
    // Removes the keys in several ways: DEL, UNLINK, expiry, removal of the members, FLUSHALL.
    for key in control.strings("KEYS *") {
        let way = match key.len() % 4 {
            0 => format!("DEL {key}"),
            1 => format!("UNLINK {key}"),
            2 => format!("PEXPIRE {key} 1"),
            _ => format!("ZREMRANGEBYSCORE {key} -inf +inf"),
        };
        control.reply(&way);
    }
    control.run("FLUSHALL");
    eventually(PATIENCE, "nothing is left", || control.int("DBSIZE") == 0);
    eventually(PATIENCE, "no set is tracked", || control.info_number("zeitset", "zeitset_sets_tracked") == 0);
}

/// Returns `used_memory` while no other client is connected. Opens a new connection, because a client's memory depends
/// on what it has sent.
fn used(server: &Server) -> i64 {
    let c = &mut server.client();
    eventually(PATIENCE, "all that was to be freed in the background is", || {
        c.info_number("memory", "lazyfree_pending_objects") == 0
    });
    eventually(PATIENCE, "nobody else is connected", || c.info_number("clients", "connected_clients") == 1);
    c.run("MEMORY PURGE");
    c.info_number("memory", "used_memory")
}

#[test]
fn a_million_calls_leave_no_memory_behind() {
    let server = Server::builder().config("latency-tracking no\nslowlog-max-len 0\nrepl-backlog-size 16kb").start();
    let start = used(&server);
    let after: Vec<_> = (0..4)
        .map(|_| {
            repetition(&server);
            used(&server)
        })
        .collect();
    eprintln!("used_memory at the start {start}, after each of four times {CALLS} calls {after:?}");
    // The first repetition creates what the server and the module keep: tables, statistics, the errors that INFO
    // counts.
    assert!(after.iter().all(|used| used - start < SLACK), "{start}: {after:?}");
    // A leak of a byte per hundred calls would show in each repetition. Memory that grows once shows in one of them.
    // Growth by 17.6 KB has been observed. This is the size of an internal client with its reply buffer of 16 KB. The
    // server uses internal clients for a module's calls, events and blocked clients. If it needs more of them at once
    // than ever before, it creates another one. It keeps up to eight unused ones.
    let mut growth: Vec<_> = after.windows(2).map(|pair| pair[1] - pair[0]).collect();
    growth.sort_unstable();
    assert!(growth[growth.len() / 2] < (CALLS / 100) as i64, "{after:?}");
}
