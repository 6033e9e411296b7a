//! Every way to load a dataset again, with and without the module. No data are lost, no expired member returns, and the
//! sweeper continues.

use super::releases::{aof, commands};
use std::fs;
use testkit::effects::codes;
use testkit::{
    Client, Dataset, FAR, NEVER, PATIENCE, Server, assert_agree, assert_drained, assert_tagged, eventually, plant,
    start_keeping_aof,
};

/// The ways to persist data.
const KEEPING: [&str; 4] = [
    "save 3600 1",
    "appendonly yes",
    "appendonly yes\naof-use-rdb-preamble no",
    "appendonly yes\nappendfsync always\nauto-aof-rewrite-percentage 0",
];

/// Creates sets in every state. Switches the sweeper off, so that the sets keep their state.
fn fill(c: &mut Client) -> i64 {
    c.run("CONFIG SET zeitset.sweep no");
    let soon = c.now() + 1000;
    for database in [0, 9] {
        c.run(&format!("SELECT {database}"));
        c.run(&format!("ZEXP.ADD soon AT {soon}ms dead {FAR}ms live"));
        plant(c, "dead", &[("a", soon - 10_000), ("b", soon - 5000)]);
        plant(c, "mixed", &[("a", 1), ("b", soon - 5000), ("live", FAR)]);
        plant(c, "never", &[("a", 1), ("never", NEVER)]);
        let many: Vec<_> = (0..300).map(|n| format!("m{n}")).collect();
        c.run(&format!("ZEXP.ADD large {}", testkit::pairs("30d", &many)));
        c.run("ZEXP.ADD large CH 60d m7");
        c.run("ZEXP.REM large m8");
        c.run("ZEXP.POP large");
        c.run("ZADD plain 1000 x");
    }
    c.run("SELECT 0");
    soon
}

#[track_caller]
fn drain_all(c: &mut Client, soon: i64) {
    for database in [0, 9] {
        c.run(&format!("SELECT {database}"));
        assert_drained(c, "dead", 0);
        for (key, left) in [("soon", "live"), ("mixed", "live"), ("never", "never")] {
            assert_drained(c, key, 1);
            c.script(&[(format!("ZEXP.MEMBERS {key}"), format!("['{left}']"))]);
            assert_tagged(c, key);
        }
        assert!(c.now() >= soon);
        c.script(&[("ZEXP.CARD large", "298"), ("ZCARD large", "299"), ("ZRANGE plain 0 -1", "['x']")]);
        assert_tagged(c, "large");
    }
    c.run("SELECT 0");
}

#[test]
fn sets_are_drained_after_a_restart_or_a_reload() {
    for config in KEEPING {
        for way in ["restart", "rewrite", "DEBUG RELOAD", "DEBUG LOADAOF"] {
            let keeps_aof = config.starts_with("appendonly");
            if !keeps_aof && ["rewrite", "DEBUG LOADAOF"].contains(&way) {
                continue;
            }
            let mut server = Server::builder().config(config).start();
            let mut c = server.client();
            let soon = fill(&mut c);
            if way == "rewrite" {
                c.rewrite_aof();
            }
            if way.starts_with("DEBUG") {
                c.run_all([way, "CONFIG SET zeitset.sweep yes"]);
            } else {
                server.restart();
                c = server.client();
            }
            drain_all(&mut c, soon);
            if keeps_aof {
                assert_agree(&server, &[]);
            }
        }
    }
}

#[test]
fn a_server_without_the_module_loads_the_same_data() {
    for config in KEEPING {
        let mut server = Server::builder().config(config).start();
        let mut c = server.client();
        fill(&mut c);
        c.run("ZRL.CHECK limit 10 1000h COST 3");
        c.run("ZRL.CHECK leaky 10 1000h LEAKY COST 3");
        c.run("DEL dead");
        c.run("SELECT 9");
        c.run("DEL dead");
        let before = Dataset::of(&mut c);
        server.remove_module();
        server.restart();
        let mut c = server.client();
        assert_eq!(Dataset::of(&mut c), before, "{config}");
        assert!(!c.reply("MODULE LIST").contains("zeitset"));
    }
}

#[test]
fn what_the_sweeper_did_is_in_the_aof_in_native_words() {
    for preamble in ["yes", "no"] {
        let mut server =
            Server::builder().config("appendonly yes").config(&format!("aof-use-rdb-preamble {preamble}")).start();
        let mut c = server.client();
        for database in 0..16 {
            c.run(&format!("SELECT {database}"));
            let at = c.now() + 200;
            c.run(&format!("ZEXP.ADD k AT {at}ms a {at}ms b {FAR}ms live"));
            c.run(&format!("ZEXP.ADD all AT {at}ms a {at}ms b"));
        }
        for database in 0..16 {
            c.run(&format!("SELECT {database}"));
            assert_drained(&mut c, "k", 1);
            assert_drained(&mut c, "all", 0);
        }
        assert_agree(&server, &[]);
        let before = Dataset::of(&mut c);
        server.remove_module();
        server.restart();
        assert_eq!(Dataset::of(&mut server.client()), before);
    }
}

/// A crash loses the last writes. It may cut one write in the middle, or separate two writes that belong together.
#[test]
fn an_aof_that_is_cut_anywhere_gives_limits_as_they_were_at_some_moment() {
    let mut server = Server::builder().keeping_aof().config("appendfsync always").start();
    let mut c = server.client();
    let look = |c: &mut Client| {
        ["k", "fixed", "leaky"].map(|key| [c.reply(&format!("GET {key}")), c.reply(&format!("PEXPIRETIME {key}"))])
    };
    let mut told = Vec::new();
    let mut states = vec![look(&mut c)];
    for round in 0..24 {
        // The ring grows, its TTL changes when the window becomes shorter, and units are refunded.
        let window = if round < 12 { "2000h" } else { "1000h" };
        let verdict = c.verdict(&format!("ZRL.CHECK k 40 {window} EXACT COST 2"));
        told.push(verdict.charged_until);
        states.push(look(&mut c));
        if round % 5 == 4 {
            c.run(&format!("ZRL.REFUND k 1 AT {}ms", told[round - 1]));
            states.push(look(&mut c));
        }
        c.run("ZRL.CHECK fixed 40 1000w FIXED");
        states.push(look(&mut c));
        c.run("ZRL.CHECK leaky 40 1000h LEAKY");
        states.push(look(&mut c));
        let tick = c.now() + 2;
        c.wait_until(tick);
    }
    drop(c);
    server.kill();
    let folder = server.folder().join("appendonlydir");
    let files = std::fs::read_dir(folder).expect("an AOF").map(|file| file.expect("a file").path());
    let file = files.into_iter().find(|path| path.to_string_lossy().ends_with(".incr.aof")).expect("its tail");
    let len = |file: &std::path::Path| file.metadata().expect("a file").len();
    let step = len(&file) / 30 + 1;
    while len(&file) > step {
        let shorter = len(&file) - step;
        std::fs::OpenOptions::new().write(true).open(&file).and_then(|file| file.set_len(shorter)).expect("it is cut");
        server.crash_and_restart();
        let mut c = server.client();
        let found = look(&mut c);
        assert!(states.contains(&found), "cut at {shorter}: {found:?}");
        for call in ["k 40 1000h EXACT", "fixed 40 1000w FIXED", "leaky 40 1000h LEAKY"] {
            c.verdict(&format!("ZRL.PEEK {call}"));
        }
        server.kill();
    }
    // The check at the end of the test loads the rest of the file once more.
    server.crash_and_restart();
}

#[test]
fn no_acknowledged_write_is_lost_by_a_crash() {
    let mut server = Server::builder().config("appendonly yes").config("appendfsync always").start();
    server.client().run("ZLB.CREATE board DIM points");
    for round in 0..3 {
        // Each writer stops when a call gets no reply, and returns the number of acknowledged calls.
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let mut client = server.client();
                std::thread::spawn(move || {
                    let mut acknowledged = 0;
                    loop {
                        let member = format!("r{round}w{writer}n{acknowledged}");
                        let lines = [
                            format!("ZEXP.ADD kept AT {FAR}ms {member}"),
                            format!("ZEXP.ADD brief 20ms {member}"),
                            format!("ZADD plain {acknowledged} {member}"),
                            format!("ZQ.PUSH queue x ID {member}"),
                            format!("ZLB.SET board {member} {acknowledged}"),
                            format!("ZRL.CHECK limit{round}{writer} 1000000 1000h"),
                        ];
                        if lines.iter().any(|line| client.try_run(line).is_err()) {
                            return acknowledged;
                        }
                        acknowledged += 1;
                    }
                })
            })
            .collect();
        let mut c = server.client();
        eventually(PATIENCE, "some writes", || c.int("ZCARD plain") > 200 * (round + 1));
        server.crash_and_restart();
        let mut c = server.client();
        for (writer, acknowledged) in writers.into_iter().enumerate() {
            let acknowledged: i64 = acknowledged.join().expect("a writer");
            for n in 0..acknowledged {
                let member = format!("r{round}w{writer}n{n}");
                c.script(&[
                    (format!("ZEXP.ISMEMBER kept {member}"), "1"),
                    (format!("ZSCORE plain {member}"), &format!("'{n}'")),
                ]);
                assert!(c.reply(&format!("ZQ.GET queue {member}")).contains("'state' 'ready'"), "{member}");
                assert!(c.reply(&format!("ZLB.GET board {member}")).ends_with(&format!(" {n}]]")), "{member}");
            }
            let spent = 1_000_000 - c.verdict(&format!("ZRL.PEEK limit{round}{writer} 1000000 1000h")).remaining;
            // The last call may have run although it got no reply.
            assert!(spent == acknowledged || spent == acknowledged + 1, "{spent} of {acknowledged}");
        }
        assert_tagged(&mut c, "kept");
        assert_drained(&mut c, "brief", 0);
        assert_agree(&server, &[]);
    }
}

#[test]
fn a_crash_during_sweeping_revives_no_member() {
    let mut server = Server::builder().config("appendonly yes").config("appendfsync always").start();
    let mut c = server.client();
    let at = c.now() + 300;
    c.run_all((0..200).map(|n| format!("ZEXP.ADD k{n} AT {at}ms a {at}ms b {FAR}ms live")));
    c.wait_until(at);
    server.crash_and_restart();
    let mut c = server.client();
    for n in 0..200 {
        c.script(&[(format!("ZEXP.MEMBERS k{n}"), "['live']")]);
        assert_drained(&mut c, &format!("k{n}"), 1);
        assert_tagged(&mut c, &format!("k{n}"));
    }
    assert_agree(&server, &[]);
}

/// The sets keep the members that plain commands have added, whatever ends the server, or wherever the sets go.
#[test]
fn sets_changed_by_plain_commands_live_on() {
    const SETS: i64 = 20;
    for config in ["save 3600 1", "appendonly yes\nappendfsync always"] {
        let target = Server::start();
        let mut server = Server::builder().config(config).start();
        let mut c = server.client();
        let keys: Vec<_> = (0..SETS).map(|n| format!("k{n}")).collect();
        c.run_all(keys.iter().map(|key| format!("ZEXP.ADD {key} 1s dead")));
        c.run_all(keys.iter().map(|key| format!("ZADD {key} {FAR} later")));
        if config.starts_with("save") {
            server.restart();
        } else {
            server.crash_and_restart();
        }
        let mut c = server.client();
        c.run_all(keys.iter().map(|key| format!("ZADD {key} {} latest", FAR + 1)));
        c.run(&format!("MIGRATE 127.0.0.1 {} \"\" 0 10000 KEYS {}", target.address().1, keys.join(" ")));
        let mut t = target.client();
        for key in &keys {
            t.script(&[(format!("ZEXP.ADD {key} 5m more"), "1")]);
            assert_drained(&mut t, key, 3);
        }
    }
}

#[test]
fn a_restart_arms_nothing_where_nothing_is_due() {
    let mut server = Server::builder().config("save 3600 1").start();
    let mut c = server.client();
    plant(&mut c, "never", &[("never", NEVER)]);
    c.run("ZADD plain 1000 x");
    server.restart();
    let mut c = server.client();
    let scans = |c: &mut Client| c.info_number("zeitset", "zeitset_scans_completed");
    eventually(PATIENCE, "the scan has been everywhere", || scans(&mut c) >= 1);
    eventually(PATIENCE, "no timer is armed", || c.info_number("zeitset", "zeitset_sweep_timer_armed") == 0);
    assert_eq!(c.info_number("zeitset", "zeitset_sets_tracked"), 1);
}

/// A command that has a whole queue would hold up the server while it loads, and a client that pipes the file.
#[test]
fn a_rewritten_queue_is_in_commands_of_at_most_64_effects_and_little_more_than_64_kb() {
    let (server, mut c) = start_keeping_aof();
    c.run("CONFIG SET aof-use-rdb-preamble no");
    c.run_all((0..200).map(|_| "ZQ.PUSH many x".to_owned()));
    let payload = "x".repeat(10_000);
    c.run_all((0..20).map(|_| format!("ZQ.PUSH large {payload}")));
    c.rewrite_aof();
    let file = fs::read(aof(&server, 'b')).expect("the rewritten file");
    let of = |key: &str| -> Vec<Vec<u8>> {
        commands(&file).into_iter().filter(|words| words[1] == key.as_bytes()).map(|words| words[2].clone()).collect()
    };
    let many: Vec<_> = of("many").iter().map(|packed| codes(packed).expect("packed effects").len()).collect();
    assert_eq!((&many[..3], many.len()), (&[64; 3][..], 4), "{many:?}");
    let large: Vec<_> = of("large").iter().map(Vec::len).collect();
    assert!(large[..2].iter().all(|length| (65_536..76_000).contains(length)) && large.len() == 3, "{large:?}");
}
