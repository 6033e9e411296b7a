//! Replicas, with and without the module, have the master's data. They delete nothing by themselves, never return an
//! expired member, and hide expired members.

use std::fs;
use std::io::Write;
use testkit::{
    Client, FAR, PATIENCE, Server, after_scan, assert_agree, assert_drained, assert_tagged, eventually, plant,
    start_keeping_aof, start_pair,
};

#[test]
fn replicas_get_deletions_and_make_none() {
    let (server, mut c) = start_keeping_aof();
    let (replica, plain) = (Server::builder().replica_of(&server), Server::builder().plain().replica_of(&server));
    c.run("CONFIG SET zeitset.sweep no");
    let at = c.now() + 50;
    plant(&mut c, "k", &[("dead", at), ("live", FAR)]);
    plant(&mut c, "all", &[("x", at), ("y", at)]);
    c.wait_until(at + 1000);
    replica.wait_for_sync(&server);
    // With its sweeper off, the master keeps its expired members. So does a replica, even if its own sweeper is on.
    let (mut r, mut p) = (replica.client(), plain.client());
    r.script(&[
        ("ZCARD k", "3"),
        ("ZEXP.CARD k", "1"),
        ("ZEXP.MEMBERS k", "['live']"),
        ("ZEXP.ISMEMBER k dead", "0"),
        ("ZEXP.PTTL k dead", "[-2]"),
        ("ZCARD all", "3"),
        ("ZEXP.CARD all", "0"),
        ("ZEXP.RANDMEMBER all", "nil"),
    ]);
    assert_eq!(r.info_number("zeitset", "zeitset_members_expired"), 0);
    c.run("CONFIG SET zeitset.sweep yes");
    assert_drained(&mut c, "k", 1);
    assert_drained(&mut c, "all", 0);
    for (client, server_of) in [(&mut r, &replica), (&mut p, &plain)] {
        server_of.wait_for_sync(&server);
        client.script(&[("ZRANGE k 1 -1", "['live']"), ("EXISTS all", "0")]);
        assert_tagged(client, "k");
    }
    assert_eq!(r.info_number("zeitset", "zeitset_members_expired"), 0);
    assert_agree(&server, &[&replica, &plain]);
}

#[test]
fn no_timer_is_armed_on_a_replica() {
    let (server, mut c) = start_keeping_aof();
    let at = c.now() + 300;
    c.run(&format!("ZEXP.ADD before AT {at}ms dead {FAR}ms live"));
    let replica = Server::builder().replica_of(&server);
    c.run(&format!("ZEXP.ADD after AT {at}ms dead {FAR}ms live"));
    c.run(&format!("ZADD after {at} plain"));
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    eventually(PATIENCE, "the replica knows both", || r.info_number("zeitset", "zeitset_sets_tracked") == 2);
    eventually(PATIENCE, "no timer is armed", || r.info_number("zeitset", "zeitset_sweep_timer_armed") == 0);
    let slices = r.info_number("zeitset", "zeitset_sweep_slices");
    r.wait_until(at + 500);
    r.script(&[("ZEXP.MEMBERS before", "['live']"), ("ZEXP.MEMBERS after", "['live']")]);
    assert_eq!(r.info_number("zeitset", "zeitset_sweep_slices"), slices);
    assert_eq!(r.info_number("zeitset", "zeitset_sweep_timer_armed"), 0);
    assert_agree(&server, &[&replica]);
}

#[test]
fn replicas_stay_identical_through_everything() {
    let (server, mut c) = start_keeping_aof();
    let (modular, plain) = (Server::builder().replica_of(&server), Server::builder().plain().replica_of(&server));
    // The replica `plain` has no module and only passes commands on. This server replicates from it.
    let far = Server::builder().plain().replica_of(&plain);
    let copies_between = !c.copy_loses_the_database();
    for round in 0..60 {
        c.run(&format!("SELECT {}", round % 16));
        let (now, key) = (c.now(), format!("k{}", round % 7));
        for line in [
            format!("ZEXP.ADD {key} AT {}ms a{round} {}ms b{round} {FAR}ms c", now + 20, now + 3000),
            format!("ZEXP.EXPIRE {key} AT {}ms c d", FAR + round),
            format!("ZEXP.ADD brief{round} 15ms a 25ms b"),
            format!("ZEXP.ADD {key} CAP 3 1h capped"),
            format!("ZADD {key} {} later", FAR + 1000 + round),
            format!("ZADD {key} {} sooner", now + 30),
            format!("ZEXP.POP {key}"),
            format!("COPY {key} copy{round}"),
            format!("ZPOPMIN {key}"),
            format!("ZUNIONSTORE stored{round} 2 {key} copy{round}"),
            format!("RENAME stored{round} renamed{round}"),
            format!("ZRL.CHECK limit 30 1s COST {}", 1 + round % 5),
            format!("ZRL.CHECK leaky 30 2s LEAKY COST {}", 1 + round % 5),
            format!("ZRL.CHECK many 5000 700ms COST {}", 1 + round % 50),
        ] {
            c.run(&line);
        }
        match round % 10 {
            3 => c.run("SWAPDB 1 2"),
            5 if copies_between => c.run(&format!("COPY {key} moved{round} DB {} REPLACE", (round + 3) % 16)),
            7 => c.run("FLUSHDB"),
            9 => c.run(&format!("ZREM {key} zeitset:expiring")),
            _ => c.run(&format!("ZRL.PEEK limit 30 1s COST {}", 1 + round % 5)),
        };
    }
    let witness = c.now() + 100;
    c.wait_until(witness);
    after_scan(&mut c);
    assert_agree(&server, &[&modular, &plain, &far]);
}

/// A replica recognizes an expired member only by its score. If the master has not deleted the member yet, ZEXP.ADD
/// must not revive it.
#[test]
fn an_expired_member_that_is_added_again_is_one_new_member_everywhere() {
    let (server, replica, mut c) = start_pair();
    c.run("CONFIG SET zeitset.sweep no");
    plant(&mut c, "k", &[("m", 1000), ("n", 1000), ("live", FAR)]);
    c.script(&[
        ("ZEXP.ADD k XX 1h m", "0"),
        ("ZEXP.EXPIRE k 1h m", "[-2]"),
        ("ZEXP.PERSIST k m", "[-2]"),
        ("ZEXP.REM k n", "0"),
        ("ZEXP.ADD k NX AT 4102444800001ms m", "1"),
    ]);
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    r.script(&[("ZEXP.MEMBERS k", "['live' 'm']"), ("ZSCORE k m", "'4102444800001'"), ("ZEXP.ISMEMBER k n", "0")]);
    c.run("CONFIG SET zeitset.sweep yes");
    assert_drained(&mut c, "k", 2);
    assert_agree(&server, &[&replica]);
}

#[test]
fn one_slice_that_visits_many_databases_replicates_to_each() {
    let (server, mut c) = start_keeping_aof();
    let plain = Server::builder().plain().replica_of(&server);
    c.run("CONFIG SET zeitset.sweep no");
    for database in 0..16 {
        c.run(&format!("SELECT {database}"));
        plant(&mut c, "k", &[("a", 1), ("b", 2), ("live", FAR + database)]);
        plant(&mut c, "all", &[("a", just_past(database)), ("b", just_past(database))]);
    }
    c.run("SELECT 0");
    // The sweeper deletes everything in one long slice.
    c.run("CONFIG SET zeitset.sweep-slice-us 100000");
    c.run("CONFIG SET zeitset.sweep yes");
    for database in 0..16 {
        c.run(&format!("SELECT {database}"));
        assert_drained(&mut c, "k", 1);
        assert_drained(&mut c, "all", 0);
    }
    assert_agree(&server, &[&plain]);
}

/// Returns a time that has just passed, by the clock of the test process.
fn just_past(shift: i64) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_millis()).expect("not yet") - 100 - shift
}

/// The rings have wrapped around and have grown. Units were refunded, and every other limit has a shorter window. A
/// replica gives the same replies as the master.
#[test]
fn limits_are_the_same_everywhere_byte_for_byte() {
    let (server, mut c) = start_keeping_aof();
    let (modular, plain) = (Server::builder().replica_of(&server), Server::builder().plain().replica_of(&server));
    let keys: Vec<_> = (0..20).map(|n| format!("k{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        // Units become available again, so the ring reuses its slots.
        for _ in 0..5 * n {
            c.verdict(&format!("ZRL.CHECK {key} 4 5ms COST 2 EXACT"));
            let tick = c.now() + 1;
            c.wait_until(tick);
        }
        let mut told = Vec::new();
        for cost in 1..=9 {
            let verdict = c.verdict(&format!("ZRL.CHECK {key} 30 2000h EXACT COST {cost}"));
            told.extend((verdict.allowed == 1).then_some(verdict.charged_until));
            let tick = c.now() + 2;
            c.wait_until(tick);
        }
        assert_eq!(c.int(&format!("ZRL.REFUND {key} 1 AT {}ms", told[n % told.len()])), 1);
        if n % 2 == 0 {
            c.verdict(&format!("ZRL.CHECK {key} 30 1000h COST 3 EXACT"));
            c.run(&format!("ZRL.CHECK {key} 30 1000h COST 30 EXACT FORCE"));
        }
    }
    let calls =
        ["a 10 1000h", "b 1000 52w", "c 10 1000h LEAKY", "d 7 1000w FIXED", "e 100000 1000h", "f 3 1000h LEAKY"];
    for cost in [1, 2, 1, 100, 3] {
        let said = calls.map(|call| c.verdict(&format!("ZRL.CHECK {call} COST {cost} FORCE")));
        c.run(&format!("ZRL.THROTTLE t 99 7 60 {cost}"));
        modular.wait_for_sync(&server);
        let peeked = calls.map(|call| modular.client().verdict(&format!("ZRL.PEEK {call}")));
        assert_eq!(peeked.map(|peeked| peeked.remaining), said.map(|said| said.remaining), "COST {cost}");
    }
    assert_agree(&server, &[&modular, &plain]);
}

/// A replica keeps nothing in memory about the commands that it applies.
#[test]
fn the_memory_of_a_replica_does_not_grow_with_heartbeats() {
    const BEATS: i64 = 100_000;
    let (server, mut c) = start_keeping_aof();
    let replica = Server::builder().config("repl-backlog-size 16kb").replica_of(&server);
    let mut r = replica.client();
    c.run(&format!("ZEXP.ADD steady AT {FAR}ms top"));
    c.run("ZEXP.ADD steady 1h m");
    c.run("ZEXP.ADD steady 2h m");
    let beat = |c: &mut testkit::Client, from: i64| {
        for n in from..from + BEATS / 10 {
            c.run(&format!("ZEXP.ADD k AT {}ms m", FAR + n));
        }
    };
    beat(&mut c, 0);
    replica.wait_for_sync(&server);
    let before = r.info_number("memory", "used_memory");
    for n in 1..10 {
        beat(&mut c, n * BEATS / 10);
    }
    replica.wait_for_sync(&server);
    let grown = r.info_number("memory", "used_memory") - before;
    assert!(grown < 400_000, "by {grown} bytes in {BEATS} heartbeats");
    assert_agree(&server, &[&replica]);
}

/// Only INFO and the log tell an operator that a replica differs. A key's name may have any length, and the log must
/// not interpret it as a format.
#[test]
fn effects_that_do_not_fit_are_counted_and_the_log_names_the_key() {
    let (server, mut c) = start_keeping_aof();
    let replica = Server::builder().config("replica-read-only no").replica_of(&server);
    let mut r = replica.client();
    let long = "k".repeat(5000);
    for (kind, create, change, said) in [
        (
            "queue",
            &["ZQ.PUSH", "KEY", "x", "ID", "a"][..],
            &["ZQ.CLAIM", "1", "KEY", "LEASE", "1m"][..],
            "zeitset: rejected 1 replicated effects on the queue",
        ),
        (
            "board",
            &["ZLB.CREATE", "KEY", "DIM", "x"],
            &["ZLB.SET", "KEY", "m", "1"],
            "zeitset: rejected a replicated effect on the leaderboard",
        ),
    ] {
        for key in ["%s%n{x}\n\"q\"", &long] {
            let call = |c: &mut Client, words: &[&str]| {
                let words: Vec<_> = words.iter().map(|word| if *word == "KEY" { key } else { word }).collect();
                c.call(redis::cmd(words[0]).arg(&words[1..]));
            };
            call(&mut c, create);
            replica.wait_for_sync(&server);
            call(&mut r, &["DEL", "KEY"]);
            call(&mut c, change);
            replica.wait_for_sync(&server);
            call(&mut c, &["DEL", "KEY"]);
        }
        let rejected = format!("zeitset_{kind}_effects_rejected");
        assert_eq!((r.info_number("zeitset", &rejected), c.info_number("zeitset", &rejected)), (2, 0));
        let log = replica.log();
        assert!(log.contains(&format!(r#"{said} "%s%n{{x}}\n\"q\"""#)), "{log}");
        assert!(log.contains(&format!(r#"{said} "{}...""#, "k".repeat(200))), "{log}");
        assert!(!log.contains(&"k".repeat(201)), "the line has an end");
    }
}

/// An AOF file whose effects this version cannot read: of a newer version, cut short, or with arguments missing. Each
/// command that cannot be read counts once. The others are loaded.
#[test]
fn effects_that_cannot_be_read_are_counted_and_named() {
    let (server, mut c) = start_keeping_aof();
    c.script(&[("ZQ.PUSH q x ID a", "'a'"), ("ZLB.CREATE b DIM x", "+OK"), ("SET s text", "+OK")]);
    let commands: [&[&[u8]]; 16] = [
        &[b"ZQ.APPLY"],
        &[b"ZQ.APPLY", b"q"],
        &[b"ZQ.APPLY", b"q", b""],
        &[b"ZQ.APPLY", b"q", b"\x02\x07"],
        &[b"ZQ.APPLY", b"q", b"\x01\x07"],
        &[b"ZQ.APPLY", b"q", b"\x01\x07\x63\x00"],
        &[b"ZQ.APPLY", b"q", b"\x01\x07\x07\x02\x01"],
        &[b"ZQ.APPLY", b"q", b"\x01\x07\x07\x03\x01ab"],
        &[b"ZQ.APPLY", b"q", b"7", b"BLESS", b"a"],
        &[b"ZQ.APPLY", b"s", b"\x01\x07\x07\x02\x01a"],
        // This one is read, and does not fit.
        &[b"ZQ.APPLY", b"q", b"\x01\x07\x07\x02\x01n"],
        &[b"ZLB.APPLY"],
        &[b"ZLB.APPLY", b"b"],
        &[b"ZLB.APPLY", b"b", b"\x01\x63\x00"],
        &[b"ZLB.APPLY", b"b", b"\x01\x01\x05\x01\x00\x01m"],
        &[b"ZLB.APPLY", b"b", b"BLESS", b"m"],
    ];
    let mut bytes = Vec::new();
    for words in commands {
        bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
        for word in words {
            bytes.extend([format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat());
        }
    }
    let folder = server.folder().join("appendonlydir");
    let files = fs::read_dir(&folder).expect("the AOF").map(|file| file.expect("a file").path());
    let tail = files.filter(|file| file.to_string_lossy().ends_with(".incr.aof")).max().expect("the file that grows");
    let mut file = fs::OpenOptions::new().append(true).open(tail).expect("the AOF can be written");
    file.write_all(&bytes).expect("the effects are written");
    c.run("DEBUG LOADAOF");
    assert_eq!(c.info_number("zeitset", "zeitset_queue_effects_rejected"), 11);
    assert_eq!(c.info_number("zeitset", "zeitset_board_effects_rejected"), 5);
    c.script(&[("GET s", "'text'")]);
    assert_eq!(c.ids("ZQ.PEEK q"), ["a"]);
    let log = server.log();
    for said in [
        "rejected 1 replicated effects on the queue ?: ZQ.APPLY: it has no key",
        r#"on the queue "q": ZQ.APPLY: it has no effect"#,
        r#"on the queue "q": effects: it is cut short"#,
        r#"on the queue "q": effects: it has format 2; this version of the module reads format 1"#,
        r#"on the queue "q": 99: it is invalid: it is unknown"#,
        r#"on the queue "q": CANCEL: it is cut short"#,
        r#"on the queue "q": CANCEL: it is invalid: it is too long"#,
        r#"on the queue "q": "BLESS": ERR syntax error"#,
        r#"on the queue "s": CANCEL: WRONGTYPE "#,
        r#"on the queue "q": CANCEL: it does not fit the queue"#,
        "rejected a replicated effect on the leaderboard ?: ZLB.APPLY: it has no key",
        r#"on the leaderboard "b": ZLB.APPLY: it has no effect"#,
        r#"on the leaderboard "b": 99: it is invalid: it is unknown"#,
        r#"on the leaderboard "b": SET: it is cut short"#,
        r#"on the leaderboard "b": "BLESS": ERR syntax error"#,
    ] {
        assert!(log.contains(said), "{said} is not in the log:\n{log}");
    }
}
