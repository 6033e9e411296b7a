//! Values of all families, in every state. Clients see the same, in whatever way a value is saved and loaded, copied,
//! moved, or replicated.

use testkit::{Client, FAR, Job, NEVER, Server, assert_agree, show, start_keeping_aof};

const SETS: [&str; 2] = ["set", "large"];
const LIMITS: [&str; 6] = ["sliding", "grid", "exact", "fixed", "leaky", "throttle"];
const QUEUES: [&str; 3] = ["jobs", "many", "configured"];
const BOARDS: [&str; 5] = ["first", "last", "name", "keep", "empty"];

/// Creates the values. Some queues and boards have more entries than one command of a rewritten AOF adds.
fn plant(c: &mut Client) {
    c.run_all([format!("ZEXP.ADD set AT {FAR}ms a {FAR}ms b {NEVER}ms never")]);
    c.run_all((0..300).map(|n| format!("ZEXP.ADD large AT {}ms m{n}", FAR + n % 7)));
    // The windows are long, so no unit becomes available again during a test.
    c.run_all((1..4).flat_map(|cost| {
        [
            "sliding 100 1000h",
            "grid 1000 52w",
            "exact 100000 1000h EXACT",
            "fixed 70 1000w FIXED",
            "leaky 10 1000h LEAKY",
        ]
        .map(|check| format!("ZRL.CHECK {check} COST {cost}"))
    }));
    c.run_all(["ZRL.CHECK leaky 10 1000h LEAKY COST 30 FORCE", "ZRL.THROTTLE throttle 5 1 1000000 3"]);
    c.run_all([
        "ZQ.CONFIG configured MAXATTEMPTS 9 GROUPCONCURRENCY 2 GROUPRATE 5 1h ORDERED yes PAUSED yes JITTER 7 DEADLEN 8 DEADTTL 1w",
        "ZQ.CONFIG jobs MAXATTEMPTS 3 BACKOFF 1s 1h AGING 5s MAXLEN 100 CONCURRENCY 50 RATE 1000 1h",
    ]);
    c.run_all((0..20).map(|n| format!("ZQ.PUSH jobs payload{n} ID job{n} PRIORITY {}", n % 5 - 2)));
    c.run_all(["ZQ.PUSH jobs x", "ZQ.PUSH jobs x ID later DELAY 1h EVERY 1h MAXATTEMPTS 0"]);
    for _ in 0..3 {
        let Job { id, token, .. } = c.job("ZQ.CLAIM 1 jobs LEASE 1h AS worker");
        c.run(&format!("ZQ.NACK jobs {id} {token} DEAD ERROR why"));
        let Job { id, token, .. } = c.job("ZQ.CLAIM 1 jobs LEASE 1h");
        c.run(&format!("ZQ.ACK jobs {id} {token}"));
        let Job { id, .. } = c.job("ZQ.CLAIM 1 jobs LEASE 1h");
        // This push waits for the end of the claim.
        c.run(&format!("ZQ.PUSH jobs again-{id} ID {id} PRIORITY 3 GROUP other TTL 1h DELAY 1h AGAIN"));
    }
    c.run_all(["ZQ.CANCEL jobs job19", "ZQ.PUSH jobs x ID held GROUP acme", "ZQ.HOLD jobs acme 1h"]);
    c.run_all(["ZQ.HOLD jobs \"\" 1h", "ZQ.HOLD jobs \"\" 0", "ZQ.PUSH jobs x GROUP acme TTL 1w"]);
    let payload = "x".repeat(1000);
    c.run_all((0..1000).map(|n| format!("ZQ.PUSH many {payload} ID {n} PRIORITY {}", n % 7)));
    c.run_all([
        "ZLB.CREATE first DIM x DIM time ASC FLOAT",
        "ZLB.CREATE last DIM x TIES LAST",
        "ZLB.CREATE name DIM ASC ASC DIM \"\" TIES NAME",
        "ZLB.CREATE keep DIM x FLOAT KEEP 700 TIES LAST",
        "ZLB.CREATE empty DIM x DIM y ASC FLOAT KEEP 9223372036854775807",
    ]);
    c.run_all((0..2000).flat_map(|n| {
        [
            format!("ZLB.SET first m{n} {} {}", n % 3, (n % 5) as f64 / 10.0),
            format!("ZLB.SET last m{n} {}", n % 7),
            format!("ZLB.SET name m{n} {} {}", n % 2, i64::MAX - n % 3),
            format!("ZLB.INCR keep m{n} x {}e-3", n % 11),
        ]
    }));
    // Some members get another value and then their old value again. Other members have that value, too.
    c.run_all((0..2000).step_by(9).flat_map(|n| {
        [format!("ZLB.INCR last m{n} x 100"), format!("ZLB.INCR last m{n} x -100"), format!("ZLB.REM first m{n}")]
    }));
    c.script(&[("ZLB.CARD keep", "700"), ("ZLB.CARD last", "2000"), ("PEXPIREAT last 4102444800000", "1")]);
}

/// Returns everything that clients can read of the values. It does not depend on the time of the call.
fn seen(c: &mut Client) -> Vec<String> {
    let mut lines = Vec::new();
    for key in SETS {
        lines.push(format!("ZEXP.MEMBERS {key}"));
    }
    for key in LIMITS {
        lines.push(format!("ZRL.INFO {key}"));
    }
    for key in QUEUES {
        lines.extend(["READY", "DELAYED", "CLAIMED", "DEAD"].map(|state| format!("ZQ.PEEK {key} {state} COUNT 2000")));
        lines.extend(["later", "job0", "job5", "held"].map(|id| format!("ZQ.GET {key} {id}")));
        lines.extend([format!("ZQ.STATS {key}"), format!("ZQ.GROUPS {key}")]);
    }
    for key in BOARDS {
        lines.extend([format!("ZLB.INFO {key}"), format!("ZLB.RANGE {key} 0 -1 WITHVALUES")]);
    }
    for key in [&SETS[..], &LIMITS, &QUEUES, &BOARDS].concat() {
        lines.extend([format!("DEBUG DIGEST-VALUE {key}"), format!("PEXPIRETIME {key}")]);
    }
    lines.iter().map(|line| format!("{line}: {}", c.reply(line))).collect()
}

#[track_caller]
fn assert_seen(c: &mut Client, before: &[String], way: &str) {
    for (now, before) in seen(c).iter().zip(before) {
        assert_eq!(now, before, "{way}");
    }
}

/// The values continue from their earlier state: units are still taken, tokens grow, ranks follow the old order.
#[track_caller]
fn go_on(c: &mut Client, before: &[String]) {
    assert_eq!(c.verdict("ZRL.CHECK sliding 100 1000h COST 94").remaining, 0);
    assert_eq!(c.verdict("ZRL.CHECK fixed 70 1000w FIXED COST 64").remaining, 0);
    assert_eq!(c.verdict("ZRL.CHECK leaky 10 1000h LEAKY").remaining, -26);
    let token = c.claim("ZQ.CLAIM 1 jobs LEASE 1h");
    assert!(before.iter().all(|line| !line.contains(&token.to_string())), "{token} was given twice");
    c.script(&[("ZLB.INCR last m5 x 1000", "[1005]"), ("ZLB.RANK last m5", "0"), ("ZEXP.ADD set 1h c", "1")]);
}

#[test]
fn all_values_are_saved_and_loaded() {
    for config in ["save 3600 1000000", "appendonly yes", "appendonly yes\naof-use-rdb-preamble no"] {
        let mut server = Server::builder().config(config).start();
        let mut c = server.client();
        plant(&mut c);
        let before = seen(&mut c);
        server.restart();
        let mut c = server.client();
        assert_seen(&mut c, &before, config);
        c.run("DEBUG RELOAD");
        assert_seen(&mut c, &before, "DEBUG RELOAD");
        if config.starts_with("append") {
            c.rewrite_aof();
            c.run_all(["ZLB.SET first new 1 0.05", "ZLB.REM first new", "ZQ.PUSH brief x", "DEL brief"]);
            server.crash_and_restart();
            c = server.client();
            assert_seen(&mut c, &before, "rewritten");
        }
        go_on(&mut c, &before);
        if config.starts_with("append") {
            assert_agree(&server, &[]);
        }
    }
}

/// The replica gets one half of the history as an RDB file, the other half as a stream. It is promoted at the end.
#[test]
fn all_values_are_replicated() {
    let (server, mut c) = start_keeping_aof();
    plant(&mut c);
    let replica = Server::builder().keeping_aof().replica_of(&server);
    c.run("FLUSHALL");
    plant(&mut c);
    for n in 0..500 {
        c.run_all([
            format!("ZLB.INCR last m{} x {}", n * 3, n % 4),
            format!("ZLB.SET keep BEST n{n} {}e-3 m{n} 0.009", n % 13),
            format!("ZLB.SET name NX m{n} 1 1 n{n} 0 {n}"),
        ]);
    }
    c.run("COPY last copy");
    let late = Server::builder().keeping_aof().replica_of(&replica);
    assert_agree(&server, &[&replica, &late]);
    let before = seen(&mut c);
    for server in [late, replica] {
        let mut r = server.client();
        assert_seen(&mut r, &before, "a replica");
        r.script(&[("ZLB.SET last m 1", "!READONLY "), ("REPLICAOF NO ONE", "+OK")]);
        go_on(&mut r, &before);
        assert_agree(&server, &[]);
    }
}

#[test]
fn all_values_are_copied_and_moved() {
    let (server, mut c) = start_keeping_aof();
    plant(&mut c);
    let before = seen(&mut c);
    for key in [&SETS[..], &LIMITS, &QUEUES, &BOARDS].concat() {
        let dump = c.dump(key);
        let until = c.int(&format!("PEXPIRETIME {key}")).max(0);
        c.restore("restored", until, &dump);
        c.script(&[(format!("COPY {key} copy"), "1")]);
        let digests = [key, "copy", "restored"].map(|key| c.reply(&format!("DEBUG DIGEST-VALUE {key}")));
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{key}");
        assert!(SETS.contains(&key) || c.dump("restored") == dump, "{key}");
        // Changes of the copies do not affect the original.
        let mut delete = |line: String| assert!(!c.reply(&line).starts_with('!'), "{line}");
        for copy in ["copy", "restored"] {
            match key {
                _ if SETS.contains(&key) => delete(format!("ZEXP.REM {copy} a m1")),
                _ if QUEUES.contains(&key) => delete(format!("ZQ.CANCEL {copy} held later 5")),
                _ if BOARDS.contains(&key) => delete(format!("ZLB.REM {copy} m1 m2")),
                _ => delete(format!("APPEND {copy} x")),
            }
        }
        c.run_all(["DEL copy restored".to_owned(), format!("RENAME {key} elsewhere"), "MOVE elsewhere 1".into()]);
        c.run_all(["SELECT 1".to_owned(), format!("RENAME elsewhere {key}"), "SELECT 0".into()]);
    }
    c.run("SWAPDB 0 1");
    assert_seen(&mut c, &before, "moved");
    assert_eq!(
        show(&c.run("DBSIZE")),
        before.iter().filter(|line| line.starts_with("PEXPIRETIME")).count().to_string()
    );
    go_on(&mut c, &before);
    assert_agree(&server, &[]);
}
