//! The string of a SLIDING limit: its layout, its size, and its replication.

use testkit::{Server, Stream, start};

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
fn an_idle_limit_vanishes() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK k 5 20ms");
    let until = c.int("PEXPIRETIME k");
    c.wait_until(until + 1); // the key exists until the ms of its TTL has passed
    c.script(&[("EXISTS k", "0")]);
}

#[test]
fn replicas_and_the_aof_get_native_commands() {
    let (server, mut c) = start();
    let replica = Server::builder().plain().replica_of(&server);
    let mut stream = Stream::attach(&server);
    let mut single = 0;
    for n in 0..60 {
        // Each call is made in another millisecond, so that each has its own slot.
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
    // The TTL changes about eight times per window. Most calls are a single SETRANGE.
    assert!(single >= 30, "only {single} of 60 were a single SETRANGE");
    let bytes = c.int("MEMORY USAGE k SAMPLES 0");
    assert!(bytes < 2048, "{bytes} bytes");
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    assert_eq!(r.string("GET k"), c.string("GET k"));
    assert_eq!(r.int("PEXPIRETIME k"), c.int("PEXPIRETIME k"));
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
