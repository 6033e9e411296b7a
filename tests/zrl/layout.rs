//! How a SLIDING limit lies in its string, how large it gets, and what replicas are told.

use testkit::{Server, Stream, start};

#[test]
fn a_slot_is_a_moment_and_the_units_taken_by_then() {
    let (_server, mut c) = start();
    let mut held = Vec::new();
    for cost in [1, 3, 1, 1, 10, 2, 500, 1] {
        let until = c.verdict(&format!("ZRL.CHECK k 1000 10m EXACT COST {cost}")).charged_until;
        held.push((cost, until));
        assert_eq!(c.slots("k"), held);
        let tick = c.now() + 2;
        c.wait_until(tick);
    }
}

#[test]
fn units_of_one_moment_share_a_slot() {
    let (_server, mut c) = start();
    // In a grid of an hour nearly all calls fall on one point of it.
    for n in 1..=50 {
        c.verdict("ZRL.CHECK k 100 10h PRECISION 1h");
        assert!(c.int("STRLEN k") <= 8 + 16 * 6);
        assert_eq!(c.units("k"), n);
    }
}

#[test]
fn the_key_stays_until_its_last_unit_is_available_again_and_not_much_longer() {
    let (_server, mut c) = start();
    for window in ["1s", "100s", "10m", "1h", "1d", "0.5d"] {
        let key = format!("k{window}");
        for _ in 0..3 {
            let verdict = c.verdict(&format!("ZRL.CHECK {key} 5 {window}"));
            let ttl = c.int(&format!("PEXPIRETIME {key}"));
            let most = (verdict.reset_after / 8).min(20_000);
            assert!((0..=most).contains(&(ttl - verdict.charged_until)), "{ttl} {verdict:?}");
        }
    }
}

#[test]
fn the_ttl_of_a_busy_limit_is_written_seldom() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    let start = c.now();
    while c.now() < start + 1500 {
        c.verdict("ZRL.CHECK k 1000000 80s");
    }
    let commands = stream.take();
    let written =
        commands.iter().filter(|command| command.contains("PEXPIREAT") || command.contains("PXAT")).count() as i64;
    // Every 10 s; when the ring begins and grows; and once more if the window has advanced meanwhile, on a machine that is slow beyond measure.
    let most = 4 + (c.now() - start) / 10_000 + 1;
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
            let points = c.slots(name).len();
            assert!(points <= 2, "{name}: {points} points of the grid in a few ms");
        }
    }
}

#[test]
fn the_grid_keeps_any_limit_small() {
    let (_server, mut c) = start();
    // 2.5 windows at full speed: every point of the grid gets its slot.
    let end = c.now() + 2500;
    let mut costs = [1, 2, 17, 100, 1, 3].iter().cycle();
    while c.now() < end {
        for _ in 0..20 {
            let cost = costs.next().unwrap();
            c.verdict(&format!("ZRL.CHECK k 1000000 1s COST {cost}"));
        }
        let bytes = c.int("STRLEN k");
        assert!(bytes <= 8 + 16 * 104, "{bytes} bytes");
    }
    c.slots("k");
    let bytes = c.int("MEMORY USAGE k SAMPLES 0");
    assert!(bytes < 2048, "{bytes} bytes");
}

#[test]
fn expired_slots_never_make_a_key_large() {
    let (_server, mut c) = start();
    let end = c.now() + 1500;
    while c.now() < end {
        c.verdict("ZRL.CHECK k 100 50ms");
        let bytes = c.int("STRLEN k");
        assert!(bytes <= 8 + 16 * 104, "{bytes} bytes");
    }
    c.slots("k");
}

#[test]
fn an_exact_limit_may_hold_many_slots_and_counts_right() {
    let (_server, mut c) = start();
    let mut used = 0;
    let end = c.now() + 1000;
    while c.now() < end && used < 3000 {
        used = 3000 - c.verdict("ZRL.CHECK k 3000 10m EXACT").remaining;
    }
    assert_eq!(c.units("k"), used as u64);
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
        // Apart from each other: a slot for each.
        let tick = c.now() + 3;
        c.wait_until(tick);
        c.verdict("ZRL.CHECK k 100 10m");
        let commands = stream.take();
        for command in &commands {
            let name = command.split(' ').next().unwrap();
            assert!(["SET", "SETRANGE", "PEXPIREAT", "MULTI", "EXEC"].contains(&name), "call {n} replicates {command}");
        }
        assert!(!commands.is_empty(), "call {n} was not replicated");
        if let [command] = &commands[..] {
            single += i32::from(command.starts_with("SETRANGE k "));
        }
    }
    // The TTL moves eight times a window; most calls are one SETRANGE.
    assert!(single >= 30, "only {single} of 60 were a single SETRANGE");
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    assert_eq!(r.string("GET k"), c.string("GET k"));
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
    assert!(heard.iter().any(|push| push.contains(":set' 'k'")), "{heard:?}");
    let tick = c.now() + 2;
    c.wait_until(tick);
    c.verdict("ZRL.CHECK k 2 10m");
    let heard = listener.pushes();
    assert!(heard.iter().any(|push| push.contains(":set' 'k'") || push.contains(":setrange' 'k'")), "{heard:?}");
    c.verdict("ZRL.CHECK k 2 10m");
    c.verdict("ZRL.PEEK k 2 10m");
    assert_eq!(listener.pushes(), [""; 0]);
}
