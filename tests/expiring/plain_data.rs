//! The module never changes an ordinary sorted set, in any state of the server, even if the set resembles an expiring
//! set.

use testkit::{
    Client, Dataset, FAR, NEVER, Server, TAG, Traffic, after_scan, assert_drained, assert_same_data, at_full_speed,
    backlog, begin_draining, module, plant, start,
};

/// A set of version 0.3 expires exactly this many ms after its last member.
const GRACE_MS: i64 = 47_111;

/// Returns sorted sets of every kind: name, scores, and TTL as a Unix time in ms (-1 for none). No TTL is exactly that of
/// a set of version 0.3.
fn ordinary_sets(now: i64) -> Vec<(String, Vec<String>, i64)> {
    let (past, future) = ([now - 5000, now - 1000], [FAR - 5000, FAR]);
    let legacy = FAR + GRACE_MS; // The TTL that version 0.3 gave to a set with this last member.
    let mut sets = Vec::new();
    let mut add = |name: String, scores: &[String], ttl: i64| sets.push((name, scores.to_vec(), ttl));
    let texts = |scores: &[i64]| scores.iter().map(i64::to_string).collect::<Vec<_>>();

    add("small".into(), &texts(&[1, 2, 3]), -1);
    add("past".into(), &texts(&past), -1);
    add("future".into(), &texts(&future), -1);
    add("mixed".into(), &texts(&[past[0], past[1], FAR]), -1);
    add("seconds".into(), &texts(&[past[0] / 1000, FAR / 1000]), legacy);
    add("past-with-ttl".into(), &texts(&past), FAR);
    add("future-with-ttl".into(), &texts(&future), FAR);
    // Expired and live members, and a TTL close to that of a set of version 0.3.
    for shift in [-GRACE_MS, -10_001, -10_000, -1001, -1000, -999, -1, 1, 999, 1000, 1001, 10_000, 10_001, 100_000] {
        add(format!("offset{shift}"), &texts(&[past[0], past[1], FAR]), legacy + shift);
        add(format!("single-offset{shift}"), &texts(&[FAR]), legacy + shift);
    }
    // The TTL is that of a set of version 0.3 with another last member.
    add("of-the-first".into(), &texts(&[past[0], FAR, FAR + 100_000]), legacy);
    add("of-the-middle".into(), &texts(&[FAR - 20_000, FAR, FAR + 20_000]), legacy);
    // Rounded up, this score is FAR + 1 ms.
    add("fraction".into(), &[past[0].to_string(), format!("{FAR}.5")], legacy);
    // These scores are no times.
    add("infinite".into(), &[past[0].to_string(), "+inf".into()], legacy);
    add("infinite-without-ttl".into(), &["-inf".into(), "+inf".into()], -1);
    add("minus-infinite".into(), &["-inf".into()], FAR);
    add("minus-infinite-offset".into(), &["-inf".into(), FAR.to_string()], legacy + 1);
    add("negative".into(), &texts(&[-2, -1]), legacy);
    add("negative-and-grace".into(), &texts(&[-GRACE_MS, -5]), legacy);
    add("beyond".into(), &texts(&[past[0], NEVER + 1]), NEVER + 1 + GRACE_MS);
    add("tiny".into(), &["1e-300".into(), "0".into()], legacy);
    add("huge".into(), &["1e300".into()], legacy);
    // This set is so large that the server stores it as a skiplist.
    let many: Vec<_> = (0..500).map(|n| (past[0] + n).to_string()).chain([FAR.to_string()]).collect();
    add("large".into(), &many, -1);
    add("large-offset".into(), &many, legacy - 1);
    add("large-past".into(), &many[..500], FAR);
    // Sets that resemble rate limits of version 0.2: the TTL ends 1 ms or 1001 ms after the last score.
    add("like-a-limit".into(), &texts(&[past[0], FAR]), FAR + 1);
    add("like-a-late-limit".into(), &texts(&[past[0], FAR]), FAR + 1001);
    sets
}

/// Scores of the member `zeitset:expiring` that do not make a set an expiring set.
const OTHER_SCORES: [&str; 7] = ["0", "1000", "-1", "-1e308", "-1.7976931348623157e308", "+inf", "4102444800000"];

/// Creates the sets in two databases, and keys of other types.
fn fill(c: &mut Client) {
    let now = c.now();
    for database in [0, 11] {
        c.run(&format!("SELECT {database}"));
        for (name, scores, ttl) in ordinary_sets(now) {
            let scored: Vec<_> = scores.iter().enumerate().map(|(n, score)| format!("{score} m{n}")).collect();
            c.run(&format!("ZADD {name} {}", scored.join(" ")));
            if ttl >= 0 {
                c.script(&[(format!("PEXPIREAT {name} {ttl}"), "1")]);
            }
        }
        for (n, score) in OTHER_SCORES.iter().enumerate() {
            c.run(&format!("ZADD tagged{n} {score} {TAG} 1000 dead {FAR} live -inf lowest"));
            c.run(&format!("ZADD alone{n} {score} {TAG}"));
        }
        c.run(&format!("ZADD almost -inf {TAG}s -inf {} -inf zeitset: 1000 dead", TAG.to_uppercase()));
        c.run("GEOADD geo 13.4 52.5 berlin 2.35 48.85 paris");
        for other in ["SET string 1", "RPUSH list 1 2", "HSET hash 1 2", "SADD set 1 2", "XADD stream 1-1 f v"] {
            c.run(other);
            let key = other.split(' ').nth(1).expect("a key");
            c.run(&format!("PEXPIREAT {key} {}", FAR + GRACE_MS));
        }
    }
    c.run("SELECT 0");
}

/// Returns the dataset, which must not change.
fn filled(c: &mut Client) -> Dataset {
    fill(c);
    Dataset::of(c)
}

#[track_caller]
fn unharmed(c: &mut Client, before: &Dataset) {
    after_scan(c);
    let now = Dataset::of(c);
    assert_eq!(&now, before);
}

#[test]
fn ordinary_keys_are_unharmed_next_to_sets_that_are_drained() {
    let (_server, mut c) = start();
    after_scan(&mut c);
    let before = filled(&mut c);
    for database in [0, 11] {
        c.run(&format!("SELECT {database}"));
        plant(&mut c, "test:ours", &[("dead", 1000), ("live", FAR)]);
        assert_drained(&mut c, "test:ours", 1);
        c.run("DEL test:ours");
    }
    c.run("SELECT 0");
    unharmed(&mut c, &before);
}

#[test]
fn ordinary_keys_are_unharmed_during_a_large_sweep() {
    let (_server, mut c) = start();
    after_scan(&mut c);
    let before = filled(&mut c);
    backlog(&mut c, "test:ours", 20_000);
    begin_draining(&mut c, "test:ours", 20_000);
    at_full_speed(&mut c);
    assert_drained(&mut c, "test:ours", 1);
    c.run("DEL test:ours");
    unharmed(&mut c, &before);
}

#[test]
fn ordinary_keys_are_unharmed_by_restarts_and_reloads() {
    for config in
        ["save 3600 1", "appendonly yes", "appendonly yes\naof-use-rdb-preamble no\nauto-aof-rewrite-percentage 0"]
    {
        let mut server = Server::builder().config(config).start();
        let mut c = server.client();
        let before = filled(&mut c);
        c.run("DEBUG RELOAD");
        unharmed(&mut c, &before);
        if config.starts_with("appendonly") {
            c.rewrite_aof();
        }
        server.restart();
        unharmed(&mut server.client(), &before);
    }
}

#[test]
fn ordinary_keys_are_unharmed_by_promotion() {
    let (server, mut c) = start();
    let before = filled(&mut c);
    let replica = Server::builder().replica_of(&server);
    let mut r = replica.client();
    assert_same_data(&mut c, &mut r);
    r.run("REPLICAOF NO ONE");
    unharmed(&mut r, &before);
    unharmed(&mut c, &before);
}

#[test]
fn ordinary_keys_are_unharmed_by_loading_the_module() {
    let server = Server::builder().plain().config("enable-module-command yes").start();
    let mut c = server.client();
    let before = filled(&mut c);
    c.call(redis::cmd("MODULE").arg("LOAD").arg(module().as_os_str().as_encoded_bytes()));
    unharmed(&mut c, &before);
}

#[test]
fn ordinary_keys_are_unharmed_by_moving_to_another_server() {
    let (_server, mut c) = start();
    after_scan(&mut c);
    let before = filled(&mut c);
    c.run("SWAPDB 0 3");
    c.run("SWAPDB 3 0");
    let keys = c.strings("KEYS *");
    for key in &keys {
        c.script(&[
            (format!("RENAME {key} test:away"), "+OK"),
            (format!("COPY test:away {key}"), "1"),
            ("MOVE test:away 9".into(), "1"),
            ("SELECT 9".into(), "+OK"),
            ("DEL test:away".into(), "1"),
            ("SELECT 0".into(), "+OK"),
        ]);
    }
    unharmed(&mut c, &before);
}

/// Random commands change other keys, and move and copy them.
#[test]
fn ordinary_keys_are_unharmed_by_a_workload() {
    let (_server, mut c) = start();
    let before = filled(&mut c);
    let mut traffic = Traffic::new(47, &["1ms", "200ms", "1h"]);
    for n in 0..6000 {
        let now = c.now();
        let line = if n % 3 == 0 { traffic.native_on_one(now) } else { traffic.line(now) };
        traffic.send(&mut c, &line, "workload");
    }
    for key in c.strings("KEYS {k}*") {
        c.run(&format!("DEL {key}"));
    }
    unharmed(&mut c, &before);
}

/// The module's commands refuse these keys, or read them without side effects.
#[test]
fn ordinary_keys_are_unharmed_by_commands_that_refuse() {
    let (_server, mut c) = start();
    after_scan(&mut c);
    let before = filled(&mut c);
    let names = ordinary_sets(c.now()).into_iter().map(|(name, ..)| name);
    for name in names.chain(["tagged0".into(), "alone5".into(), "almost".into()]) {
        for call in ["ZEXP.ADD {} 5m x", "ZEXP.CARD {}", "ZEXP.POP {}", "ZEXP.REM {} m0", "ZEXP.EXPIRE {} 5m m0"] {
            let reply = c.reply(&call.replace("{}", &name));
            assert!(reply.starts_with("!NOTEXPIRING "), "{call} of {name}: {reply}");
        }
        for call in ["ZRL.CHECK {} 10 1h", "ZRL.PEEK {} 10 1h", "ZRL.REFUND {} 1 AT 4102444800000ms"] {
            let reply = c.reply(&call.replace("{}", &name));
            assert!(reply.starts_with("!WRONGTYPE "), "{call} of {name}: {reply}");
        }
    }
    unharmed(&mut c, &before);
}
