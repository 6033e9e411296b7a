//! The read commands: CARD, ISMEMBER, MISMEMBER, MEMBERS, RANDMEMBER. They neither return expired members nor write.

use std::collections::BTreeSet;
use testkit::{FAR, NEVER, PATIENCE, Server, assert_tagged, eventually, plant, start};

/// Live and expired members in the order of MEMBERS: some with the same expiry, one without expiry.
const MEMBERS: [(&str, i64); 7] =
    [("dead1", 1000), ("dead2", 2000), ("c", FAR), ("B", FAR + 1), ("a", FAR + 1), ("b", FAR + 1), ("never", NEVER)];

#[test]
fn expired_members_are_neither_counted_nor_shown() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &MEMBERS);
    c.script(&[
        ("ZEXP.CARD k", "5"),
        ("ZEXP.ISMEMBER k a", "1"),
        ("ZEXP.ISMEMBER k dead1", "0"),
        ("ZEXP.ISMEMBER k absent", "0"),
        ("ZEXP.MISMEMBER k a dead2 absent never a", "[1 0 0 1 1]"),
        ("ZEXP.MEMBERS k", "['c' 'B' 'a' 'b' 'never']"),
    ]);
}

#[test]
fn a_missing_key_is_an_empty_set() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.CARD k", "0"),
        ("ZEXP.ISMEMBER k a", "0"),
        ("ZEXP.MISMEMBER k a b", "[0 0]"),
        ("ZEXP.MEMBERS k", "[]"),
        ("ZEXP.MEMBERS k WITHIN 5m LIMIT 0 10 WITHPTTL", "[]"),
        ("ZEXP.RANDMEMBER k", "nil"),
        ("ZEXP.RANDMEMBER k 3", "[]"),
        ("ZEXP.RANDMEMBER k -3", "[]"),
    ]);
}

#[test]
fn a_set_of_the_dead_is_empty() {
    let (_server, mut c) = start();
    let ago = c.now() - 1000;
    plant(&mut c, "k", &[("x", ago), ("y", ago - 1)]);
    c.script(&[
        ("ZEXP.CARD k", "0"),
        ("ZEXP.MISMEMBER k x y", "[0 0]"),
        ("ZEXP.MEMBERS k WITHPTTL", "[]"),
        ("ZEXP.RANDMEMBER k", "nil"),
        ("ZEXP.RANDMEMBER k -3", "[]"),
        ("ZEXP.PTTL k x", "[-2]"),
        ("ZEXP.POP k", "nil"),
        ("ZEXP.POP k 5", "[]"),
        ("ZEXP.ADD k XX 5m x", "0"),
        ("ZEXP.ADD k CAP 1 5m x", "1"),
        ("ZEXP.MEMBERS k", "['x']"),
    ]);
    assert_tagged(&mut c, "k");
}

#[test]
fn a_member_is_gone_at_the_very_millisecond_of_its_expiry() {
    let (_server, mut c) = start();
    let at = c.now() + 250;
    c.run(&format!("ZEXP.ADD k AT {at}ms a"));
    c.run("ZEXP.ADD k 5m other");
    loop {
        let before = c.now();
        let alive = c.int("ZEXP.ISMEMBER k a") == 1;
        let after = c.now();
        assert!(alive || after >= at, "gone {} ms early", at - after);
        assert!(!alive || before < at, "shown {} ms late", before - at);
        if !alive {
            break;
        }
    }
}

#[test]
fn limit_is_read_as_in_zrangebyscore() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &MEMBERS);
    // A plain sorted set with the live members in the same order.
    plant(&mut c, "model", &MEMBERS[2..]);
    for offset in [-1, 0, 1, 4, 5, 6, i64::MAX] {
        for count in [-1, 0, 1, 2, 5, 6, i64::MIN, i64::MAX] {
            let limit = format!("LIMIT {offset} {count}");
            let expected = c.reply(&format!("ZRANGEBYSCORE model 0 +inf {limit}"));
            c.script(&[(format!("ZEXP.MEMBERS k {limit}"), expected)]);
        }
    }
}

#[test]
fn within_asks_who_expires_soon() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k 60 minute", "1"),
        ("ZEXP.ADD k 1h hour", "1"),
        ("ZEXP.ADD k 1d day", "1"),
        ("ZEXP.ADD k 1d never", "1"),
        ("ZEXP.PERSIST k never", "[1]"),
        ("ZEXP.MEMBERS k WITHIN 1ms", "[]"),
        ("ZEXP.MEMBERS k WITHIN 2m", "['minute']"),
        ("ZEXP.MEMBERS k WITHIN 2h", "['minute' 'hour']"),
        ("ZEXP.MEMBERS k WITHIN 100w", "['minute' 'hour' 'day']"),
        ("ZEXP.MEMBERS k LIMIT 1 1 WITHIN 2d", "['hour']"),
        ("ZEXP.MEMBERS k WITHPTTL LIMIT 3 1", "['never' -1]"),
        ("ZEXP.MEMBERS k LIMIT 3 1 WITHPTTL", "['never' -1]"),
        ("ZEXP.MEMBERS k withpttl WITHIN 1s limit 0 -1", "[]"),
    ]);
}

/// Large offsets and counts, in a set that is no listpack and has expired members.
#[test]
fn limit_and_within_agree_with_zrangebyscore_far_into_a_set() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    let (now, names) = (c.now(), (0..1500).map(|n| format!("m{n}")).collect::<Vec<_>>());
    // The first 300 members have expired. The others expire a day apart, two at a time.
    let at = |n: i64| if n < 300 { n } else { now + (n - 298) / 2 * 86_400_000 };
    let members: Vec<_> = (0..).zip(&names).map(|(n, name)| (name.as_str(), at(n))).collect();
    plant(&mut c, "k", &members);
    for (within, until) in [("", "+inf".to_string()), ("WITHIN 12012h", (now + 12_012 * 3_600_000).to_string())] {
        for offset in [0, 256, 257, 499, 500, 501, 600, 998, 999, 1000, 1001, 1199, 1200, i64::MAX] {
            for count in [-1, 0, 1, 2, 300, 600, i64::MAX] {
                let limit = format!("LIMIT {offset} {count}");
                let expected = c.reply(&format!("ZRANGEBYSCORE k (300 {until} {limit}"));
                c.script(&[(format!("ZEXP.MEMBERS k {within} {limit}"), expected)]);
            }
        }
    }
}

/// ZRANGE is the command with which the module finds members by rank. Without it, only calls that skip few members, or
/// return more than they skip, have a reply.
#[test]
fn members_are_found_by_rank_if_the_offset_exceeds_the_reply() {
    let server = Server::builder().config("rename-command ZRANGE \"\"\nrename-command GET ZRANGE").start();
    let mut c = server.client();
    let names: Vec<_> = (0..1000).map(|n| format!("m{n:03}")).collect();
    c.run(&format!("ZEXP.ADD k {}", testkit::pairs("1h", &names)));
    c.run("ZEXP.ADD k 2h last");
    for limit in ["990 -1", "501 500", "257 1", "600 -1 WITHIN 90m"] {
        c.script(&[(format!("ZEXP.MEMBERS k LIMIT {limit}"), "!ERR server refused ZCOUNT or ZRANGE")]);
    }
    for (limit, found) in [
        ("256 1", 1),
        ("300 -1", 701),
        ("500 1000", 501),
        ("300 -1 WITHIN 90m", 700),
        ("500 1000 WITHIN 90m", 500),
        // No member matches, so none is read.
        ("1001 -1", 0),
        ("500 500 WITHIN 1s", 0),
        ("600 0", 0),
    ] {
        assert_eq!(c.strings(&format!("ZEXP.MEMBERS k LIMIT {limit}")).len(), found, "{limit}");
    }
}

#[test]
fn withpttl_lists_flat_in_resp2_and_in_pairs_in_resp3() {
    let (server, mut c) = start();
    plant(&mut c, "k", &[("dead", 1000), ("a", FAR), ("b", FAR), ("never", NEVER)]);
    for (mut client, shape) in
        [(server.client(), "['a' TTL 'b' TTL 'never' -1]"), (server.resp3(), "[['a' TTL] ['b' TTL] ['never' -1]]")]
    {
        eventually(PATIENCE, "a reply between two ticks of the clock", || {
            let before = client.now();
            let reply = client.reply("ZEXP.MEMBERS k WITHPTTL");
            if client.now() != before {
                return false;
            }
            let ttl = (FAR - before).to_string();
            assert_eq!(reply, shape.replace("TTL", &ttl));
            true
        });
        client.script(&[
            ("ZEXP.MEMBERS k", "['a' 'b' 'never']"),
            ("ZEXP.CARD k", "3"),
            ("ZEXP.MISMEMBER k a dead", "[1 0]"),
            ("ZEXP.MEMBERS k WITHPTTL LIMIT 5 1", "[]"),
        ]);
    }
}

#[test]
fn randmember_has_the_shapes_of_srandmember() {
    let (server, mut c) = start();
    plant(&mut c, "k", &MEMBERS);
    c.run("ZEXP.ADD one 5m only");
    for mut c in [server.client(), server.resp3()] {
        c.script(&[
            ("ZEXP.RANDMEMBER one", "'only'"),
            ("ZEXP.RANDMEMBER one 0", "[]"),
            ("ZEXP.RANDMEMBER one 1", "['only']"),
            ("ZEXP.RANDMEMBER one 5", "['only']"),
            ("ZEXP.RANDMEMBER one -3", "['only' 'only' 'only']"),
            ("ZEXP.RANDMEMBER missing -1048576", "[]"),
            (
                "ZEXP.RANDMEMBER missing -1048577",
                "!ERR value is out of range, a negative count must be at least -1048576",
            ),
        ]);
        for (count, length) in [(1, 1), (3, 3), (5, 5), (6, 5), (1000, 5)] {
            let members = c.strings(&format!("ZEXP.RANDMEMBER k {count}"));
            let distinct: BTreeSet<_> = members.iter().collect();
            assert_eq!((members.len(), distinct.len()), (length, length));
            assert!(members.iter().all(|member| !member.starts_with("dead")));
        }
        let members = c.strings("ZEXP.RANDMEMBER k -1000");
        assert_eq!(members.len(), 1000);
    }
}

#[test]
fn randmember_gives_every_live_member_its_chance() {
    let (_server, mut c) = start();
    // The set has more members than a listpack holds. Two thirds of them have expired.
    let names: Vec<_> = (0..300).map(|n| format!("m{n}")).collect();
    let members: Vec<_> =
        (0i64..).zip(&names).map(|(n, name)| (name.as_str(), if n < 200 { 1000 + n } else { FAR + n })).collect();
    plant(&mut c, "k", &members);
    let mut counts = std::collections::BTreeMap::<String, i32>::new();
    for member in c.strings("ZEXP.RANDMEMBER k -10000") {
        *counts.entry(member).or_default() += 1;
    }
    assert_eq!(counts.len(), 100, "each of 100 members, at 100 draws a head");
    for (member, count) in counts {
        // The expected number is 100, the standard deviation 10.
        assert!((20..=300).contains(&count), "{member}: {count} of 10000");
    }
    let single: BTreeSet<_> = (0..200).map(|_| c.string("ZEXP.RANDMEMBER k")).collect();
    assert!(single.len() > 30, "{} distinct of 200", single.len());
    // Without repetitions, for a few members and for nearly all.
    for count in [3, 50, 99] {
        let members = c.strings(&format!("ZEXP.RANDMEMBER k {count}"));
        let distinct: BTreeSet<_> = members.iter().collect();
        assert_eq!((members.len(), distinct.len()), (count, count));
    }
}

/// A call of each read command.
pub const READS: [&str; 8] = [
    "ZEXP.CARD k",
    "ZEXP.ISMEMBER k a",
    "ZEXP.MISMEMBER k a b x",
    "ZEXP.MEMBERS k WITHPTTL",
    "ZEXP.RANDMEMBER k",
    "ZEXP.RANDMEMBER k -5",
    "ZEXP.TTL k a b",
    "ZEXP.PTTL k a b",
];

/// An operator may give the names of the server's commands to other commands (`rename-command`). What these reply is
/// never taken for "no members".
#[test]
fn with_other_commands_in_place_of_the_servers_no_set_looks_empty() {
    let names: Vec<_> = (0..300).map(|n| format!("m{n}")).collect();
    let members: Vec<_> =
        (0i64..).zip(&names).map(|(n, name)| (name.as_str(), if n < 200 { 1000 + n } else { FAR + n })).collect();
    for (name, line) in
        [("ZCOUNT", "ZEXP.CARD k"), ("ZCOUNT", "ZEXP.RANDMEMBER k 2"), ("ZRANGE", "ZEXP.RANDMEMBER k 2")]
    {
        // The server refuses a call of GET with three arguments. ZLEXCOUNT replies with an error.
        for other in ["GET", "ZLEXCOUNT"] {
            let config = format!("zeitset.sweep no\nrename-command {name} \"\"\nrename-command {other} {name}");
            let server = Server::builder().config(&config).start();
            let mut c = server.client();
            plant(&mut c, "k", &members);
            c.script(&[(line, "!ERR server refused ZCOUNT or ZRANGE; nothing was changed")]);
        }
    }
}
