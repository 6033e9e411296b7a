//! The history of the keys in the fixtures: values of all families in every state, and every effect. No ID, payload or
//! name is the name of an effect or of an option.
//!
//! Windows and leases are so long that they end after the year 2100, or so short that they have ended when the files
//! are loaded.

use std::time::Duration;
use testkit::{Client, Clock, FAR, Job, NEVER, PATIENCE, cmd, eventually};

/// The last call of each limit. A limit of 10 units becomes available again at a rate of a unit in 1,900 years.
pub const LIMITS: &[&str] = &[
    "ZRL.CHECK limit:sliding 100 1000000w COST 3",
    "ZRL.CHECK limit:grid 1000 1000000w COST 3",
    "ZRL.CHECK limit:exact 100000 1000000w COST 3 EXACT",
    "ZRL.CHECK limit:precision 100000 1000000w COST 3 PRECISION 10w",
    "ZRL.CHECK limit:fixed 70 1000000w COST 3 FIXED",
    "ZRL.CHECK limit:leaky 7 1000000w COST 3 LEAKY",
    "ZRL.CHECK limit:debt 10 1000000w COST 30 FORCE",
    "ZRL.CHECK limit:leaky:debt 10 1000000w COST 30 LEAKY FORCE",
    "ZRL.CHECK limit:fixed:debt 10 1000000w COST 30 FIXED FORCE",
    "ZRL.CHECK limit:half-expired 100 1000000w COST 3",
];

/// A lease that ends after the year 2100.
const LEASE: &str = "LEASE 4000w";

fn claim(c: &mut Client, queue: &str, options: &str) -> Job {
    c.job(&format!("ZQ.CLAIM 1 {queue} {options}"))
}

fn finish(c: &mut Client, command: &str, queue: &str, options: &str) {
    let Job { id, token, .. } = claim(c, queue, LEASE);
    c.run(&format!("{command} {queue} {id} {token} {options}"));
}

/// What the base of the AOF has.
pub fn before_the_rewrite(c: &mut Client, clock: &Clock) {
    sets(c);
    c.run_all(["ZRL.CHECK limit:half-expired 100 1h COST 5", "SET plain:string sliding", "ZADD plain:zset 1 a 2 b"]);
    // Some of the slots of each ring.
    for _ in 0..3 {
        c.run_all(LIMITS);
        clock.advance(Duration::from_secs(3600));
    }
    c.run_all(["ZRL.THROTTLE limit:throttle 5 1 1000000000 3", "SET limit:cell 4102444800000000000"]);
    jobs(c);
    changes(c, clock, "early");
    declared_jobs(c, "early");
    groups(c);
    boards(c);
    c.run_all(["PEXPIREAT jobs 4102444800001", "PEXPIREAT board:last 4102444800002"]);
}

/// What the tail of the AOF adds.
pub fn after_the_rewrite(c: &mut Client, clock: &Clock) {
    clock.advance(Duration::from_secs(3600));
    sets_again(c);
    c.run_all(LIMITS);
    for line in LIMITS {
        let check = line.replace("limit:", "limit:tail:");
        let key = check.split(' ').nth(1).expect("a key");
        let at = c.verdict(&check).charged_until;
        c.script(&[(format!("ZRL.REFUND {key} 1 AT {at}"), "1")]);
    }
    c.run("ZRL.THROTTLE limit:throttle 5 1 1000000000 1");
    jobs_again(c);
    changes(c, clock, "late");
    declared_jobs(c, "late");
    groups_again(c);
    boards_again(c);
}

/// Waits until the module has deleted what has expired, and has dropped what it drops in the background.
pub fn wait_for_upkeep(c: &mut Client) {
    eventually(PATIENCE, "the sweeper has deleted all expired members", || {
        c.int("ZCOUNT set:mixed 0 inf") == 3 && c.int("EXISTS set:expired") == 0
    });
    for queue in ["expiring:early", "expiring:late"] {
        eventually(PATIENCE, "expired jobs are dropped", || c.field(&format!("ZQ.STATS {queue}"), "expired") == 3);
    }
}

fn sets(c: &mut Client) {
    c.run_all([
        format!("ZEXP.ADD set:finite AT {FAR}ms a {}ms b {}ms c", FAR + 1, FAR + 1),
        format!("ZEXP.ADD set:mixed AT {FAR}ms far {NEVER}ms never"),
        format!("ZEXP.ADD set:never AT {NEVER}ms a {NEVER}ms b"),
        "ZEXP.ADD set:mixed 1m short".to_owned(),
        "ZEXP.ADD set:expired 1m a 2m b".to_owned(),
        "ZEXP.ADD set:popped 4000w a 4001w b 4002w c".to_owned(),
    ]);
    // More members than a listpack has.
    c.run_all((0..140).map(|n| format!("ZEXP.ADD set:large AT {}ms m{n}", FAR + n % 7)));
    cmd!(c, "ZEXP.ADD", "set:bytes", "AT", FAR, &b"\0\r\n\xff"[..], NEVER, "");
}

fn sets_again(c: &mut Client) {
    c.run_all([
        format!("ZEXP.ADD set:tail AT {FAR}ms a {NEVER}ms never"),
        "ZEXP.ADD set:tail 1m short".to_owned(),
        format!("ZEXP.ADD set:finite AT {}ms d", FAR + 2),
        format!("ZEXP.EXPIRE set:finite AT {}ms a", FAR + 3),
        "ZEXP.PERSIST set:mixed far".to_owned(),
        format!("ZEXP.ADD set:mixed AT {}ms later", FAR + 4),
        "ZEXP.REM set:large m0 m1 m2".to_owned(),
        "ZEXP.POP set:popped".to_owned(),
        "ZEXP.ADD set:removed 1h a".to_owned(),
        "ZEXP.REM set:removed a".to_owned(),
    ]);
    // The sweeper's own effects.
    c.run("ZEXP.ADD set:brief 20ms a 4000w b");
    c.run("CONFIG SET zeitset.sweep yes");
    eventually(PATIENCE, "the sweeper deletes the member", || c.int("ZCOUNT set:brief 0 inf") == 1);
    c.run("CONFIG SET zeitset.sweep no");
}

/// A queue with most settings, and jobs in every state.
fn jobs(c: &mut Client) {
    c.run("ZQ.CONFIG jobs MAXATTEMPTS 3 BACKOFF 1s 1h JITTER 7 AGING 5s MAXLEN 1000 CONCURRENCY 500 RATE 1000 1000000w DEADLEN 9 DEADTTL 100000w");
    c.run_all((0..24).map(|n| format!("ZQ.PUSH jobs payload{n} ID job{n} PRIORITY {}", n % 5 - 2)));
    c.run_all([
        "ZQ.PUSH jobs generated".to_owned(),
        format!("ZQ.PUSH jobs later ID later AT {FAR}ms EVERY 1w MAXATTEMPTS 0"),
        format!("ZQ.PUSH jobs worth ID worth AT {FAR}ms TTL 1w GROUP acme"),
    ]);
    cmd!(c, "ZQ.PUSH", "jobs", &b"\0\r\n\xff"[..], "ID", "bytes", "AT", FAR);
    for _ in 0..2 {
        finish(c, "ZQ.NACK", "jobs", "DEAD ERROR why");
        finish(c, "ZQ.ACK", "jobs", "");
        finish(c, "ZQ.NACK", "jobs", "DELAY 4000w ERROR later");
        let Job { id, .. } = claim(c, "jobs", &format!("{LEASE} AS ann"));
        // This push waits for the end of the claim.
        c.run(&format!("ZQ.PUSH jobs behind ID {id} PRIORITY 3 GROUP other TTL 1h AT {FAR}ms AGAIN"));
        // This lease has expired when the file is loaded.
        claim(c, "jobs", "LEASE 1m AS bob");
    }
    // A queue without BACKOFF: its claimed jobs are in other trees.
    c.run_all(["ZQ.PUSH simple a ID a", "ZQ.PUSH simple b ID b MAXATTEMPTS 1", "ZQ.PUSH simple c ID c"]);
    c.run_all(["ZQ.PUSH simple d ID d MAXATTEMPTS 1", "ZQ.PUSH simple e ID e EVERY 4000w MAXATTEMPTS 1"]);
    claim(c, "simple", "LEASE 1m");
    claim(c, "simple", "LEASE 1m");
    claim(c, "simple", LEASE);
    claim(c, "simple", LEASE);
    claim(c, "simple", "LEASE 1m");
    c.run_all(["ZQ.CONFIG paused PAUSED yes", "ZQ.PUSH paused a ID a", "ZQ.CONFIG empty MAXLEN 7"]);
}

fn jobs_again(c: &mut Client) {
    c.run_all(["ZQ.PUSH jobs new", "ZQ.PUSH jobs waiting ID job3 AGAIN", "ZQ.PUSH jobs replaced ID job4 REPLACE"]);
    finish(c, "ZQ.ACK", "jobs", "");
    finish(c, "ZQ.NACK", "jobs", "FREE ERROR 429");
    finish(c, "ZQ.NACK", "jobs", "DEAD FREE ERROR cause");
    finish(c, "ZQ.NACK", "jobs", "DELAY 4000w");
    let Job { id, token, .. } = claim(c, "jobs", "LEASE 1m AS carl");
    c.run(&format!("ZQ.EXTEND jobs 4000w {id} {token}"));
    let Job { id, .. } = claim(c, "jobs", &format!("{LEASE} AS ann"));
    c.run(&format!("ZQ.PUSH jobs behind ID {id} GROUP acme MAXATTEMPTS 5 EVERY 1w AT {FAR}ms AGAIN"));
}

/// Makes queues whose names end with `part`. Their jobs go through every change: the tail of the AOF has its effects, and
/// a rewritten AOF has its counters.
fn changes(c: &mut Client, clock: &Clock, part: &str) {
    let [changes, follow, dead, recurring, expiring, settled] =
        ["changes", "follow", "dead", "recurring", "expiring", "settled"].map(|queue| format!("{queue}:{part}"));
    // MOVE with a due time, with a priority, and with both; CANCEL; CLEAN.
    c.run_all((0..6).map(|n| format!("ZQ.PUSH {changes} x{n} ID j{n} AT {FAR}ms")));
    c.run_all([
        format!("ZQ.RESCHEDULE {changes} j0 AT {}ms", FAR + 1),
        format!("ZQ.RESCHEDULE {changes} j1 PRIORITY -7"),
        format!("ZQ.RESCHEDULE {changes} j2 AT {}ms PRIORITY 7", FAR + 2),
        format!("ZQ.CANCEL {changes} j3"),
        format!("ZQ.PUSH {changes} first ID first PRIORITY 1"),
        format!("ZQ.CLEAN {changes} READY COUNT 1"),
        format!("ZQ.PUSH {changes} x ID delayed"),
    ]);
    // A late ACK, and a claim that CANCEL ends.
    let Job { id, token, .. } = claim(c, &changes, "LEASE 1s");
    clock.advance(Duration::from_secs(2));
    c.run_all([format!("ZQ.ACK {changes} {id} {token}"), format!("ZQ.PUSH {changes} x ID withdrawn")]);
    claim(c, &changes, LEASE);
    c.run(&format!("ZQ.CANCEL {changes} withdrawn"));

    // The push that waits behind a claim replaces the dead letter: after a NACK, and (FOLLOW) after the last lease.
    c.run(&format!("ZQ.PUSH {follow} x ID a"));
    let Job { id, token, .. } = claim(c, &follow, LEASE);
    c.run_all([format!("ZQ.PUSH {follow} behind ID a AGAIN"), format!("ZQ.NACK {follow} {id} {token} DEAD")]);
    c.run(&format!("ZQ.PUSH {follow} x ID b MAXATTEMPTS 1 PRIORITY -1"));
    claim(c, &follow, "LEASE 1s");
    c.run(&format!("ZQ.PUSH {follow} behind ID b AGAIN"));
    clock.advance(Duration::from_secs(2));
    eventually(PATIENCE, "the push follows", || c.text_field(&format!("ZQ.GET {follow} b"), "payload") == "behind");

    // Dead letters: DROP (DEADLEN), REDRIVE of all, of a group and by ID (REVIVE).
    c.run(&format!("ZQ.CONFIG {dead} DEADLEN 5"));
    c.run_all((0..7).map(|n| format!("ZQ.PUSH {dead} x{n} ID d{n} GROUP g{}", n % 2)));
    (0..7).for_each(|_| finish(c, "ZQ.NACK", &dead, "DEAD ERROR why"));
    eventually(PATIENCE, "dead letters are dropped", || c.field(&format!("ZQ.STATS {dead}"), "dead") == 5);
    c.run_all(["COUNT 1", "GROUP g1 COUNT 1", "ID d6"].map(|which| format!("ZQ.REDRIVE {dead} {which}")));

    // Recurring jobs: AGAIN, RETRY with the last attempt, EXPIRE with the next occurrence.
    c.run(&format!("ZQ.PUSH {recurring} x ID tick EVERY 4000w"));
    finish(c, "ZQ.ACK", &recurring, "");
    c.run(&format!("ZQ.PUSH {recurring} x ID tock EVERY 4000w MAXATTEMPTS 1"));
    finish(c, "ZQ.NACK", &recurring, "ERROR why");
    c.run_all(["r1 EVERY 4000w", "r2"].map(|job| format!("ZQ.PUSH {expiring} x TTL 1s ID {job}")));
    clock.advance(Duration::from_secs(2));
    c.script(&[(format!("ZQ.CLAIM 1 {expiring} LEASE 1m"), "[]")]);
    eventually(PATIENCE, "the job is dropped", || c.field(&format!("ZQ.STATS {expiring}"), "expired") == 2);
    // This job expires after the files are written.
    c.run(&format!("ZQ.PUSH {expiring} later ID later TTL 1d DELAY 1h"));

    // SETTLE: units that were taken before the clock was set back.
    c.run(&format!("ZQ.CONFIG {settled} RATE 2 1h"));
    c.run_all((0..4).map(|n| format!("ZQ.PUSH {settled} x{n} ID s{n}")));
    clock.step_wall(7_200_000);
    (0..2).for_each(|_| finish(c, "ZQ.ACK", &settled, ""));
    clock.step_wall(-7_200_000);
    c.script(&[(format!("ZQ.CLAIM 1 {settled} LEASE 1m"), "[]")]);
}

/// Declared jobs in every state, and progress, unless the server is of version 0.3.
fn declared_jobs(c: &mut Client, part: &str) {
    if c.try_run("ZQ.PROGRESS none x 1 half").is_err() {
        return;
    }
    let queue = &format!("declared:{part}");
    let declare = |c: &mut Client, id: &str, rest: &str| c.run(&format!("ZQ.PUSH {queue} {id} EVERY 4000w {rest}"));
    let claim_with_progress = |c: &mut Client, lease: &str| {
        let job = claim(c, queue, lease);
        c.script(&[(format!("ZQ.PROGRESS {queue} {} {} half", job.id, job.token), "1")]);
        job
    };
    declare(c, "old ID idle", &format!("AT {FAR}ms DECLARE"));
    declare(c, "new ID idle", &format!("AT {FAR}ms PRIORITY 3 GROUP acme MAXATTEMPTS 5 TTL 9w DECLARE"));
    // The declaration waits for the end of the claim, which has not come, or ends with an ACK, a retry or a dead letter.
    for (id, end) in [
        ("running", None),
        ("done", Some(("ACK", ""))),
        ("waits", Some(("NACK", "DELAY 4000w"))),
        ("buried", Some(("NACK", "DEAD ERROR why"))),
    ] {
        declare(c, &format!("old ID {id}"), "DECLARE");
        let Job { token, .. } = claim_with_progress(c, LEASE);
        declare(c, &format!("new ID {id}"), "PRIORITY 1 GROUP acme TTL 9w DECLARE");
        if let Some((command, options)) = end {
            c.run(&format!("ZQ.{command} {queue} {id} {token} {options}"));
        }
    }
    for (id, options) in [("failed", "DELAY 4000w ERROR why"), ("letter", "DEAD")] {
        c.run(&format!("ZQ.PUSH {queue} x ID {id}"));
        let Job { token, .. } = claim_with_progress(c, LEASE);
        c.run(&format!("ZQ.NACK {queue} {id} {token} {options}"));
    }
    c.run(&format!("ZQ.PUSH {queue} x ID late"));
    claim_with_progress(c, "LEASE 1m AS bob");
}

/// Queues whose groups have units in use, leases, holds and an order of turns.
fn groups(c: &mut Client) {
    c.run("ZQ.CONFIG groups GROUPCONCURRENCY 2 GROUPRATE 3 1000000w");
    c.run_all(
        (0..15).map(|n| {
            format!("ZQ.PUSH groups x{n} ID g{n} GROUP {}", ["acme", "beta", "gamma", "delta", "\"\""][n % 5])
        }),
    );
    (0..4).for_each(|_| finish(c, "ZQ.ACK", "groups", ""));
    claim(c, "groups", &format!("{LEASE} AS ann"));
    c.run_all(["ZQ.HOLD groups beta 4000w", "ZQ.HOLD groups gamma 1m", "ZQ.HOLD groups delta 4000w"]);

    c.run("ZQ.CONFIG ordered ORDERED yes");
    c.run_all((0..6).map(|n| format!("ZQ.PUSH ordered x{n} ID o{n} GROUP {}", ["acme", "beta", "gamma"][n % 3])));
    finish(c, "ZQ.NACK", "ordered", "DELAY 4000w");

    c.run("ZQ.CONFIG rated RATE 5 1000000w");
    c.run_all((0..8).map(|n| format!("ZQ.PUSH rated x{n} ID r{n}")));
    (0..2).for_each(|_| finish(c, "ZQ.ACK", "rated", ""));
}

fn groups_again(c: &mut Client) {
    finish(c, "ZQ.ACK", "groups", "");
    finish(c, "ZQ.NACK", "groups", "FREE HOLD 4000w");
    c.run_all([
        "ZQ.HOLD groups delta 0",
        "ZQ.PUSH groups new ID new GROUP epsilon",
        "ZQ.PUSH groups new2 GROUP epsilon",
    ]);
    finish(c, "ZQ.ACK", "ordered", "");
    finish(c, "ZQ.ACK", "rated", "");
}

fn boards(c: &mut Client) {
    c.run_all([
        "ZLB.CREATE board:first DIM x DIM time ASC FLOAT",
        "ZLB.CREATE board:last DIM x TIES LAST",
        "ZLB.CREATE board:name DIM ASC ASC DIM \"\" TIES NAME",
        "ZLB.CREATE board:keep DIM x FLOAT KEEP 9 TIES LAST",
        "ZLB.CREATE board:empty DIM x DIM y ASC FLOAT KEEP 9223372036854775807",
    ]);
    let dimensions: String = (0..64).map(|n| format!(" DIM d{n}")).collect();
    let values: String = (0..64).map(|n| format!(" {n}")).collect();
    c.run_all([format!("ZLB.CREATE board:wide{dimensions}"), format!("ZLB.SET board:wide m{values}")]);
    c.run_all((0..30).flat_map(|n| {
        [
            format!("ZLB.SET board:first m{n} {} {}", n % 3, f64::from(n % 5) / 10.0),
            format!("ZLB.SET board:last m{n} {}", n % 7),
            format!("ZLB.SET board:name m{n} {} {}", n % 2, i64::MAX - i64::from(n % 3)),
            format!("ZLB.INCR board:keep m{n} x {}e-3", n % 11),
        ]
    }));
    c.run_all([
        "ZLB.SET board:first low -9223372036854775808 -1e300 high 9223372036854775807 1e-300",
        "ZLB.INCR board:last m5 x 100",
        "ZLB.INCR board:last m5 x -100",
        "ZLB.REM board:first m9",
    ]);
}

fn boards_again(c: &mut Client) {
    c.run_all([
        "ZLB.CREATE board:tail DIM x DIM y ASC FLOAT TIES LAST KEEP 20",
        "ZLB.SET board:tail a 1 0.1 b 1 0.1 c 2 -3.5",
        "ZLB.INCR board:tail a x 1",
        "ZLB.SET board:last BEST m1 500 m2 -500",
        "ZLB.REM board:last m3 m4",
        "ZLB.REMRANGE board:name 2 5",
        "ZLB.CREATE board:cleared DIM x",
        "ZLB.SET board:cleared a 1",
        "ZLB.CLEAR board:cleared",
        "ZLB.MERGE board:merged 2 board:last board:last",
    ]);
}
