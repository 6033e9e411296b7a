//! Calls free the memory that they allocate, also if they fail. `used_memory` is exact: the module allocates through
//! the server's allocator, which counts every allocation.

use redis::{ConnectionLike, Value};
use testkit::{PATIENCE, Server, eventually};

/// Calls per repetition. Three repetitions and one to warm up make more than a million calls.
const CALLS: usize = 300_000;

/// Calls per batch of replies.
const BATCH: usize = 2000;

/// How much memory the server itself may use in addition: client buffers, latency statistics, larger tables.
const SLACK: i64 = 256 << 10;

/// Valid and invalid calls of all families. `{n}` is the number of the call, `{k}` one of a few keys.
const LINES: &[&str] = &[
    "ZEXP.ADD set{k} 1w m{n}",
    "ZEXP.ADD set{k} 1ms m{n} 1w n{n}",
    "ZEXP.ADD set{k} NX XX 1w a",
    "ZEXP.ADD set{k} CAP 2 1w m{n}",
    "ZEXP.ADD board{k} 1w a",
    "ZEXP.ADD plain 1w a",
    "ZEXP.ADD set{k} bad a",
    "ZEXP.ADD set{k}",
    "ZEXP.EXPIRE set{k} 2w m{n} a",
    "ZEXP.PERSIST set{k} n{n}",
    "ZEXP.TTL set{k} m{n} a b c",
    "ZEXP.MEMBERS set{k} LIMIT 0 5 WITHPTTL",
    "ZEXP.RANDMEMBER set{k} -3",
    "ZEXP.RANDMEMBER set{k} 3",
    "ZEXP.POP set{k} 2",
    "ZEXP.REM set{k} m{n} a b",
    "ZEXP.ADOPT plain UNIT s PLUS 1w",
    "ZEXP.CARD set{k}",
    "ZEXP.MISMEMBER set{k} a b m{n}",
    "ZRL.CHECK limit{k} 50 1w",
    "ZRL.CHECK limit{k} 50 10ms COST 3",
    "ZRL.CHECK leaky{k} 50 10s LEAKY",
    "ZRL.CHECK limit{k} 5 1w LEAKY",
    "ZRL.CHECK set{k} 5 1w",
    "ZRL.CHECK limit{k} 0 1w",
    "ZRL.PEEK limit{k} 50 1w",
    "ZRL.MCHECK 2 limit{k} fixed{k} 50 1w 20 1h FIXED",
    "ZRL.MCHECK 2 limit{k} limit{k} 5 1w 5 1w",
    "ZRL.MCHECK 99 a",
    "ZRL.REFUND limit{k} 1 AT 4102444800000",
    "ZRL.THROTTLE throttle{k} 15 30 60",
    "ZRL.THROTTLE throttle{k} x 30 60",
    "ZQ.PUSH queue{k} payload-{n}",
    "ZQ.PUSH queue{k} p ID j{n} DELAY 1w EVERY 1d",
    "ZQ.PUSH queue{k} p ID j{n} REPLACE PRIORITY -5",
    "ZQ.PUSH queue{k} p DELAY 1w AT 5",
    "ZQ.PUSH board{k} p",
    "ZQ.CLAIM 2 queue{k} nothing LEASE 1ms COUNT 3",
    "ZQ.CLAIM 1 queue{k} LEASE 1w COUNT 2",
    "ZQ.CLAIM 1 queue{k} LEASE 1w COUNT 0",
    "ZQ.ACK queue{k} j{n} 5 j1 6",
    "ZQ.NACK queue{k} j{n} 5 DEAD",
    "ZQ.NACK queue{k} j{n} 5 HOLD 1h",
    "ZQ.HOLD queue{k} \"\" 1h",
    "ZQ.HOLD queue{k} g{n} 0",
    "ZQ.EXTEND queue{k} 1w j{n} 5",
    "ZQ.CANCEL queue{k} j{n} a b",
    "ZQ.RESCHEDULE queue{k} j{n} DELAY 1h PRIORITY 3",
    "ZQ.GET queue{k} j{n}",
    "ZQ.PEEK queue{k} DELAYED COUNT 3",
    "ZQ.STATS queue{k}",
    "ZQ.REDRIVE queue{k} COUNT 3",
    "ZQ.CONFIG queue{k} MAXATTEMPTS 2 RATE 1000 1s AGING 1m",
    "ZQ.CONFIG queue{k} RATE 1",
    "ZLB.CREATE board{k} DIM x DIM y ASC KEEP 300",
    "ZLB.CREATE other{k} DIM x DIM x",
    "ZLB.SET board{k} m{n} {n} 5 o{n} 5 {n}",
    "ZLB.SET board{k} m{n} 5 x",
    "ZLB.SET board{k} NX BEST m{n} 1 1",
    "ZLB.INCR board{k} m{n} x 3 y -1",
    "ZLB.INCR board{k} m{n} z 1",
    "ZLB.RANGE board{k} 0 5 WITHVALUES",
    "ZLB.AROUND board{k} m{n} 3",
    "ZLB.RANK board{k} m{n} DENSE",
    "ZLB.RANGE board{k} 0 5 REV WITHRANK COMPETITION",
    "ZLB.AROUND board{k} m{n} 3 WITHRANK DENSE WITHVALUES",
    "ZLB.SET board{k} WITHRANK m{n} 2 2",
    "ZLB.INCR board{k} WITHRANK m{n} x 1",
    "ZLB.MERGE merged 1 board{k}",
    "ZLB.MERGE merged 2 merged other{k} BEST",
    "ZLB.APPLY merged SET m{n} 1 1",
    "ZLB.APPLY merged REPLACE 1 0 {n} 1",
    "ZLB.REMRANGE merged 5 9",
    "ZLB.CLEAR merged",
    "ZLB.REM board{k} m{n} a",
    "COPY queue{k} copy REPLACE",
    "COPY board{k} copy REPLACE",
];

/// Sends all calls. Then deletes the keys, or lets them expire.
fn repetition(server: &Server) {
    let control = &mut server.client();
    control.run("ZADD plain 1e300 a");
    // Creates the boards first, because another command would create these keys with another type. The type that a call
    // finds must not depend on timing.
    for k in 0..5 {
        control.run(&format!("ZLB.CREATE board{k} DIM x DIM y ASC KEEP 300"));
    }
    let url = format!("redis://127.0.0.1:{}/", server.address().1);
    let mut connection = redis::Client::open(url).and_then(|client| client.get_connection()).expect("a connection");
    connection.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
    let (mut calls, mut errors) = (0, 0);
    while calls < CALLS {
        let mut packed = Vec::new();
        for call in calls..calls + BATCH {
            let (n, k) = (call * 7919 % 503, call / LINES.len() % 5);
            let line = LINES[call % LINES.len()].replace("{n}", &n.to_string()).replace("{k}", &k.to_string());
            let mut command = redis::Cmd::new();
            line.split_whitespace().for_each(|word| {
                command.arg(word);
            });
            packed.extend(command.get_packed_command());
        }
        let replies = connection.req_packed_commands(&packed, 0, BATCH).expect("every call is answered");
        errors += replies.iter().filter(|reply| matches!(reply, Value::ServerError(_))).count();
        calls += BATCH;
    }
    assert!((calls / 5..calls / 2).contains(&errors), "{errors} errors in {calls} calls");
    // Removes the keys in several ways: DEL, UNLINK, expiry, removal of the members, FLUSHALL.
    for k in 0..5 {
        control.run(&format!("DEL queue{k} limit{k}"));
        control.run(&format!("UNLINK board{k} leaky{k}"));
        control.run(&format!("PEXPIRE throttle{k} 1"));
        control.run(&format!("ZREMRANGEBYSCORE set{k} -inf (9007199254740991"));
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
    // Growth by 17.6 KB has been observed. This is the size of an internal client with its reply buffer of 16 KB, which
    // the server uses for a module's calls, events and blocked clients. The server creates another one when it needs
    // more at once than ever before, and keeps up to eight unused ones.
    let mut growth: Vec<_> = after.windows(2).map(|pair| pair[1] - pair[0]).collect();
    growth.sort_unstable();
    assert!(growth[growth.len() / 2] < (CALLS / 100) as i64, "{after:?}");
}
