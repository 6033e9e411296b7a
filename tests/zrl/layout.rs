//! How a limit lies in its sorted set, how large it gets, and what replicas are told.

use testkit::{Server, Stream, start};

#[test]
fn entries_are_contiguous_and_count_what_was_taken() {
    let (_server, mut c) = start();
    let mut taken = 0;
    for cost in [1, 3, 1, 1, 10, 2, 500, 1] {
        c.verdict(&format!("ZRL.CHECK k 1000 10m EXACT COST {cost}"));
        taken += cost;
        let entries = c.entries("k");
        assert_eq!(entries[0].0, 0, "{entries:?}");
        assert_eq!(entries.iter().map(|entry| entry.1).sum::<u64>(), taken);
        let tick = c.now() + 2;
        c.wait_until(tick);
    }
    assert_eq!(c.scores("k")[0].0, "0");
    assert_eq!(c.scores("k")[1].0, "1:3");
}

#[test]
fn units_of_one_moment_share_an_entry() {
    let (_server, mut c) = start();
    // In a grid of an hour nearly all calls fall on one point of it.
    for n in 1..=50 {
        c.verdict("ZRL.CHECK k 100 10h PRECISION 1h");
        let entries = c.entries("k");
        assert!(entries.len() <= 2, "{entries:?}");
        assert_eq!(entries.iter().map(|entry| entry.1).sum::<u64>(), n);
    }
}

#[test]
fn the_keys_ttl_is_a_whole_second_and_one_ms_soon_after_the_last_entry() {
    let (_server, mut c) = start();
    for window in ["1s", "100s", "10m", "1h", "1d", "0.5d"] {
        let key = format!("k{window}");
        for _ in 0..3 {
            c.verdict(&format!("ZRL.CHECK {key} 5 {window}"));
            c.assert_limit(&key);
        }
    }
    // With a short window the key does not stay for long after it.
    let last = c.entries("k1s").last().unwrap().2;
    assert!(c.int("PEXPIRETIME k1s") <= last + 125 + 1001);
}

#[test]
fn the_ttl_of_a_busy_limit_is_written_seldom() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    let start = c.now();
    while c.now() < start + 1500 {
        c.verdict("ZRL.CHECK k 1000000 80s");
        c.assert_limit("k");
    }
    let commands = stream.take();
    let written = commands.iter().filter(|command| command.starts_with("PEXPIREAT")).count() as i64;
    // Every 10 s; and in between if the window has advanced by more than that, on a machine that is slow beyond measure.
    let most = 1 + (c.now() - start) / 10_000 + 1;
    assert!((1..=most).contains(&written), "{written} of {} commands", commands.len());
}

#[test]
fn precision_decides_how_late_a_unit_may_come_back() {
    let (_server, mut c) = start();
    for (name, options, grid) in [
        ("exact-by-limit", "100 1000s", 1),
        ("grid-by-limit", "101 1000s", 10_000),
        ("exact", "100000 1000s EXACT", 1),
        ("precision", "5 1000s PRECISION 7s", 7_000),
        ("fine", "100000 1000s PRECISION 20ms", 20),
    ] {
        for _ in 0..3 {
            let (before, verdict, after) = c.timed_verdict(&format!("ZRL.CHECK {name} {options}"));
            let late = 1_000_000..1_000_000 + grid;
            assert!(
                (before + late.start..after + late.end).contains(&verdict.charged_until),
                "{name}: {verdict:?} at {before}..{after}"
            );
            if grid == 1 {
                assert_eq!(verdict.reset_after, 1_000_000, "{name}");
            }
            let tick = c.now() + 2;
            c.wait_until(tick);
        }
        if grid >= 7_000 {
            let points = c.entries(name).len();
            assert!(points <= 2, "{name}: {points} points of the grid in a few ms");
        }
    }
}

#[test]
fn the_grid_keeps_any_limit_small() {
    let (_server, mut c) = start();
    // 2.5 windows at full speed: every point of the grid gets its entry.
    let end = c.now() + 2500;
    let mut costs = [1, 2, 17, 100, 1, 3].iter().cycle();
    while c.now() < end {
        for _ in 0..20 {
            let cost = costs.next().unwrap();
            c.verdict(&format!("ZRL.CHECK k 1000000 1s COST {cost}"));
        }
        let entries = c.int("ZCARD k");
        assert!(entries <= 128, "{entries} entries");
    }
    c.entries("k");
    let bytes = c.int("MEMORY USAGE k SAMPLES 0");
    assert!(bytes < 8192, "{bytes} bytes");
    assert_eq!(c.string("OBJECT ENCODING k"), "listpack");
}

#[test]
fn dead_entries_never_make_a_key_large() {
    let (_server, mut c) = start();
    let end = c.now() + 1500;
    while c.now() < end {
        c.verdict("ZRL.CHECK k 100 50ms");
        let entries = c.int("ZCARD k");
        assert!(entries <= 128, "{entries} entries");
    }
    c.entries("k");
}

#[test]
fn an_exact_limit_may_hold_many_entries_and_counts_right() {
    let (_server, mut c) = start();
    let mut used = 0;
    let end = c.now() + 1000;
    while c.now() < end && used < 3000 {
        used = 3000 - c.verdict("ZRL.CHECK k 3000 10m EXACT").remaining;
    }
    let entries = c.entries("k");
    assert_eq!(entries.iter().map(|entry| entry.1).sum::<u64>(), used as u64);
}

#[test]
fn an_idle_limit_vanishes() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK k 5 20ms");
    let until = c.int("PEXPIRETIME k");
    c.wait_until(until + 1); // the server removes a key after its time, not at it
    c.script(&[("EXISTS k", "0")]);
}

#[test]
fn replicas_and_the_aof_get_native_commands() {
    let (server, mut c) = start();
    let replica = Server::builder().plain().replica_of(&server);
    let mut stream = Stream::attach(&server);
    let mut single = 0;
    for n in 0..60 {
        // Mostly apart from each other: units of one millisecond share an entry, which then has to be replaced.
        let tick = c.now() + 3;
        c.wait_until(tick);
        c.verdict("ZRL.CHECK k 100 10m");
        let commands = stream.take();
        for command in &commands {
            let name = command.split(' ').next().unwrap();
            assert!(
                ["ZADD", "ZREM", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE", "PEXPIREAT", "MULTI", "EXEC"].contains(&name),
                "call {n} replicates {command}"
            );
        }
        assert!(!commands.is_empty(), "call {n} was not replicated");
        if let [command] = &commands[..] {
            single += i32::from(command.starts_with("ZADD k "));
        }
    }
    // The TTL moves eight times a window; most calls are one ZADD.
    assert!(single >= 30, "only {single} of 60 were a single ZADD");
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    assert_eq!(r.entries("k"), c.entries("k"));
    assert_eq!(r.int("PEXPIRETIME k"), c.int("PEXPIRETIME k"));
}

#[test]
fn a_limit_survives_restarts_by_aof_and_snapshot() {
    for (config, kill) in [("appendonly yes\nappendfsync always", true), ("save 3600 1", false)] {
        let mut server = Server::builder().config(config).start();
        let mut c = server.client();
        for _ in 0..3 {
            c.verdict("ZRL.CHECK k 5 10m");
        }
        if kill {
            server.crash_and_restart();
        } else {
            server.restart();
        }
        let mut c = server.client();
        assert_eq!(c.verdict("ZRL.CHECK k 5 10m").remaining, 1, "{config}");
    }
}

#[test]
fn events_tell_of_admitted_calls_only() {
    let server = Server::builder().config("notify-keyspace-events KEA").start();
    let (mut c, mut listener) = (server.client(), server.resp3());
    listener.psubscribe("__keyevent@0__:*");
    c.verdict("ZRL.CHECK k 1 10m");
    let heard = listener.pushes();
    assert!(heard.iter().any(|push| push.contains(":zadd' 'k'")), "{heard:?}");
    c.verdict("ZRL.CHECK k 1 10m");
    c.verdict("ZRL.PEEK k 1 10m");
    assert_eq!(listener.pushes(), [""; 0]);
}
