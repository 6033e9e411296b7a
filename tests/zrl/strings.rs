//! Limits are strings: their format, their size, their TTL, and the commands that are replicated.

use testkit::{Client, Stream, start};

#[test]
fn a_string_says_itself_what_it_is() {
    let (_server, mut c) = start();
    let end = c.verdict("ZRL.CHECK f 100 30d FIXED COST 7").charged_until;
    c.script(&[("GET f", format!("'fixed:{end}:7'")), ("PEXPIRETIME f", end.to_string())]);

    let empty = c.verdict("ZRL.CHECK l 100 100s LEAKY COST 7").charged_until;
    let written = empty - 7000;
    c.script(&[("GET l", format!("'leaky:{empty}:100/100000!{written}'"))]);
    // The key's TTL is a little longer than necessary, so that it changes rarely.
    let ttl = c.int("PEXPIRETIME l");
    assert!((empty..=empty + 12_500).contains(&ttl), "{ttl}, empty at {empty}");

    c.run("ZRL.THROTTLE t 9 10 100 7");
    let nanos: i64 = c.string("GET t").parse().expect("nanoseconds");
    assert!((0..2).contains(&(nanos / 1_000_000 - c.int("PEXPIRETIME t"))));
    for key in ["f", "l", "t"] {
        let bytes = c.int(&format!("MEMORY USAGE {key} SAMPLES 0")) - 16;
        assert!(bytes <= 96, "{key}: {bytes} bytes besides its name");
    }
}

/// Runs a script that creates keys with `call`. Returns how much `used_memory` grows per key.
fn bytes_a_key(c: &mut Client, call: &str) -> i64 {
    // This number is not close to a power of two, at which the server's tables grow.
    const KEYS: i64 = 12_000;
    let script = format!("for i = 1, ARGV[1] do local key = string.format('limit:%08d', i); redis.call({call}) end");
    let fill = |c: &mut Client, keys: i64| {
        c.run("FLUSHALL SYNC");
        c.call(redis::cmd("EVAL").arg(&script).arg(0).arg(keys));
        c.info_number("memory", "used_memory")
    };
    // The first fill allocates what the server keeps for a script.
    let before = fill(c, 1);
    (fill(c, KEYS) - before) / (KEYS - 1)
}

/// Most of the memory is the server's own: for the name, the TTL and a short value.
#[test]
fn a_limit_takes_no_more_memory_than_the_same_string_by_hand() {
    let (_server, mut c) = start();
    let bare = bytes_a_key(&mut c, "'SET', key, 1, 'PX', 3600000");
    for call in [
        "'ZRL.CHECK', key, 100, 3600, 'FIXED'",
        "'ZRL.CHECK', key, 100, 3600, 'LEAKY'",
        "'ZRL.THROTTLE', key, 99, 100, 3600",
    ] {
        let ours = bytes_a_key(&mut c, call);
        let value = c.string("GET limit:00000001");
        let by_hand = bytes_a_key(&mut c, &format!("'SET', key, '{value} ', 'PX', 3600000"));
        println!("{call}: {ours} bytes; as a string by hand: {by_hand}; SET key 1 PX: {bare}");
        // SET stores a short value right after its header. The allocator then rounds up once less.
        assert!(ours <= by_hand + 32, "{call}: {ours} bytes, {by_hand} by hand");
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
}
