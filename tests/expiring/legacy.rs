//! Expiring sets of version 0.3. They have no tag: the key's TTL is exactly the highest score plus 47,111 ms. A master
//! gives them the tag and removes the TTL.

use testkit::{
    Client, FAR, NEVER, PATIENCE, Server, TAG, after_scan, assert_agree, assert_drained, assert_tagged, card,
    eventually, module, start, start_keeping_aof,
};

const GRACE_MS: i64 = 47_111;

/// Returns the commands that write a set as version 0.3 did. Its TTL is off by `shift` ms.
fn lines(key: &str, members: &[(&str, i64)], shift: i64) -> Vec<String> {
    let scored: Vec<_> = members.iter().map(|(member, at)| format!("{at} {member}")).collect();
    let highest = members.iter().map(|(_, at)| at).max().expect("a member");
    vec![format!("ZADD {key} {}", scored.join(" ")), format!("PEXPIREAT {key} {}", highest + GRACE_MS + shift)]
}

const MEMBERS: [(&str, i64); 2] = [("dead", 1000), ("live", FAR)];

/// Sends the commands as one transaction, so that no scan runs in between. Returns the replies.
fn at_once(c: &mut Client, lines: Vec<String>) -> String {
    c.run("MULTI");
    c.run_all(lines);
    c.reply("EXEC")
}

#[test]
fn a_command_that_writes_to_the_set_converts_it() {
    for (command, left) in [
        ("ZEXP.ADD k 5m dead", 2),
        ("ZEXP.ADD k CAP 2 5m new", 2),
        ("ZEXP.EXPIRE k 5m live", 1),
        ("ZEXP.PERSIST k live", 1),
        ("ZEXP.ADOPT k", 1),
        ("ZEXP.REM k other", 1),
    ] {
        let (server, mut c) = start_keeping_aof();
        let plain = Server::builder().plain().replica_of(&server);
        let members = [&MEMBERS[..], if command.contains("REM") { &[("other", FAR - 1)] } else { &[] }].concat();
        let mut all = lines("k", &members, 0);
        all.extend(["ZEXP.CARD k".into(), command.into(), format!("ZSCORE k {TAG}"), "PTTL k".into()]);
        let replies = at_once(&mut c, all);
        assert!(replies.ends_with(" '-inf' -1]"), "{command}: {replies}");
        assert_drained(&mut c, "k", left);
        assert_agree(&server, &[&plain]);
    }
}

/// Regression test: replicas kept the TTL of version 0.3, and the key would have died with it.
#[test]
fn a_command_that_replaces_the_only_member_removes_the_ttl_everywhere() {
    let (server, mut c) = start_keeping_aof();
    let plain = Server::builder().plain().replica_of(&server);
    let mut all = lines("k", &MEMBERS[1..], 0);
    all.extend([format!("ZEXP.ADD k AT 1 live {FAR}ms new"), "ZEXP.MEMBERS k".into()]);
    let replies = at_once(&mut c, all);
    assert!(replies.ends_with(" 1 ['new']]"), "{replies}");
    assert_tagged(&mut c, "k");
    assert_agree(&server, &[&plain]);
}

#[test]
fn the_last_member_takes_the_key_with_it() {
    let (_server, mut c) = start();
    for command in ["ZEXP.REM k live", "ZEXP.POP k"] {
        let mut all = lines("k", &MEMBERS[1..], 0);
        all.extend([command.into(), "EXISTS k".into()]);
        let replies = at_once(&mut c, all);
        assert!(replies.ends_with(" 0]"), "{command}: {replies}");
    }
}

#[test]
fn the_scan_converts_sets_whether_they_were_loaded_or_the_module_was() {
    let mut server = Server::builder().keeping_aof().start();
    let mut c = server.client();
    // While writes are paused, the module converts no set.
    let mut all = [lines("k", &MEMBERS, 0), lines("never", &[("dead", 1000), ("never", NEVER)], 0)].concat();
    all.push("CLIENT PAUSE 100000 WRITE".into());
    at_once(&mut c, all);
    c.script(&[("ZEXP.MEMBERS k", "['live']"), ("ZEXP.CARD never", "1")]);
    assert_eq!(c.int("PEXPIRETIME k"), FAR + GRACE_MS);
    server.crash_and_restart();
    let mut c = server.client();
    for key in ["k", "never"] {
        assert_drained(&mut c, key, 1);
        assert_tagged(&mut c, key);
    }
    assert_agree(&server, &[]);

    let server = Server::builder().plain().config("enable-module-command yes").start();
    let mut c = server.client();
    c.run_all(lines("k", &MEMBERS, 0));
    c.call(redis::cmd("MODULE").arg("LOAD").arg(module().as_os_str().as_encoded_bytes()));
    assert_drained(&mut c, "k", 1);
    assert_tagged(&mut c, "k");
}

/// The scan has not met the sets yet.
#[test]
fn a_plain_zadd_during_the_first_scan_converts_the_set() {
    let (_server, mut c) = start();
    // The second ZADD adds the last member, so the TTL does not identify the set any more.
    let mut all = lines("k", &MEMBERS, 0);
    all.extend(["ZEXP.CARD any".into(), "ZADD k 2000 also".into(), format!("ZADD k {} later", FAR + 1)]);
    all.push("ZEXP.CARD k".into());
    let replies = at_once(&mut c, all);
    assert!(replies.ends_with(" 2]"), "{replies}");
    assert_drained(&mut c, "k", 2);
    assert_tagged(&mut c, "k");
}

#[test]
fn a_set_that_is_restored_or_copied_is_converted_wherever_it_goes() {
    let (_server, mut c) = start();
    after_scan(&mut c);
    c.run_all(["ZADD k 1000 dead".into(), format!("ZADD k {FAR} live")]);
    let dump = c.dump("k");
    c.run("MULTI");
    for key in ["k", "a", "b", "c"] {
        c.restore(key, FAR + GRACE_MS, &dump);
    }
    c.run_all(["RENAME a renamed", "COPY b copied", "MOVE c 9"]);
    c.run("EXEC");
    for key in ["k", "renamed", "b", "copied", "c"] {
        c.run(if key == "c" { "SELECT 9" } else { "SELECT 0" });
        assert_drained(&mut c, key, 1);
        assert_tagged(&mut c, key);
    }
}

#[test]
fn a_set_whose_members_have_all_expired_is_removed() {
    let (_server, mut c) = start();
    let ago = c.now() - 1000;
    at_once(&mut c, lines("k", &[("a", ago - 5000), ("b", ago)], 0));
    assert_drained(&mut c, "k", 0);
    // Otherwise, the test was so slow that the TTL has ended.
    assert!(c.info_number("zeitset", "zeitset_members_expired") == 2 || c.now() > ago + GRACE_MS);
}

/// All members may have expired, as in a log of moments with a TTL.
#[test]
fn a_set_whose_ttl_is_a_millisecond_off_is_ordinary() {
    let (_server, mut c) = start();
    let ago = c.now() - 1000;
    let sets = [("lives", &MEMBERS[..]), ("all-dead", &[("a", ago - 5000), ("b", ago)])];
    let mut before = Vec::new();
    for (key, members) in sets {
        for shift in [-1000, -2, -1, 1, 2, 1000] {
            let key = format!("{key}{shift}");
            at_once(&mut c, lines(&key, members, shift));
            for command in ["ZEXP.CARD", "ZEXP.MEMBERS", "ZEXP.POP"] {
                c.script(&[(format!("{command} {key}"), "!NOTEXPIRING ")]);
            }
            c.script(&[(format!("ZEXP.ADD {key} 5m new"), "!NOTEXPIRING "), (format!("ZADD {key} 2000 x"), "1")]);
            before.push((c.reply(&format!("DUMP {key}")), c.int(&format!("PEXPIRETIME {key}")), key));
        }
    }
    after_scan(&mut c);
    for (dump, until, key) in before {
        let now = (c.reply(&format!("DUMP {key}")), c.int(&format!("PEXPIRETIME {key}")));
        // When the client's TTL ends, the server removes the key.
        assert!(now == (dump, until) || c.now() > until, "{key}");
    }
}

/// The master may be of version 0.3, and would delete the set when its TTL ends.
#[test]
fn a_replica_reads_the_set_and_converts_it_when_it_is_promoted() {
    let master = Server::builder().plain().start();
    let replica = Server::builder().keeping_aof().replica_of(&master);
    let (mut c, mut r) = (master.client(), replica.client());
    c.run_all(lines("k", &MEMBERS, 0));
    replica.wait_for_sync(&master);
    let before = r.trace("k");
    r.script(&[("ZEXP.CARD k", "1"), ("ZEXP.MEMBERS k", "['live']")]);
    eventually(PATIENCE, "scans", || r.info_number("zeitset", "zeitset_scans_completed") >= 3);
    r.script(&[("ZEXP.CARD k", "1")]);
    assert_eq!((r.trace("k"), card(&mut r, "k")), (before, 2));
    r.run("REPLICAOF NO ONE");
    assert_drained(&mut r, "k", 1);
    assert_tagged(&mut r, "k");
    assert_agree(&replica, &[]);
}
