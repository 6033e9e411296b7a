//! What the server and the loader see of the module: the flags, keys and arities of its commands, and the symbols of
//! the shared library. (docs/commands.rs compares their documentation.)

use super::described::{assert_names, flags_and_categories};
use redis::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use testkit::{Client, Server, Traffic, module, show, start};

/// Every registered command: its required flags, a call, and the keys of that call. If the calls are made in this
/// order, they are valid and need only keys that begin with `a:`.
pub const COMMANDS: &[(&str, &[&str], &str, &str)] = &[
    ("zexp.add", &["write", "denyoom", "fast"], "ZEXP.ADD a:set NX CAP 5 5m x 5m y", "['a:set']"),
    ("zexp.expire", &["write", "fast"], "ZEXP.EXPIRE a:set GT 5m x", "['a:set']"),
    ("zexp.persist", &["write", "fast"], "ZEXP.PERSIST a:set x", "['a:set']"),
    ("zexp.rem", &["write", "fast"], "ZEXP.REM a:set x y", "['a:set']"),
    ("zexp.pop", &["write", "fast"], "ZEXP.POP a:set 2", "['a:set']"),
    ("zexp.adopt", &["write", "denyoom"], "ZEXP.ADOPT a:set UNIT ms", "['a:set']"),
    ("zexp.ttl", &["readonly", "fast"], "ZEXP.TTL a:set x", "['a:set']"),
    ("zexp.pttl", &["readonly", "fast"], "ZEXP.PTTL a:set x", "['a:set']"),
    ("zexp.card", &["readonly", "fast"], "ZEXP.CARD a:set", "['a:set']"),
    ("zexp.ismember", &["readonly", "fast"], "ZEXP.ISMEMBER a:set x", "['a:set']"),
    ("zexp.mismember", &["readonly", "fast"], "ZEXP.MISMEMBER a:set x y", "['a:set']"),
    ("zexp.members", &["readonly"], "ZEXP.MEMBERS a:set LIMIT 0 5", "['a:set']"),
    ("zexp.randmember", &["readonly"], "ZEXP.RANDMEMBER a:set 2", "['a:set']"),
    ("zrl.check", &["write", "denyoom", "fast"], "ZRL.CHECK a:limit 5 10m COST 2", "['a:limit']"),
    ("zrl.peek", &["readonly", "fast"], "ZRL.PEEK a:limit 5 10m COST 2", "['a:limit']"),
    (
        "zrl.mcheck",
        &["write", "denyoom", "fast"],
        "ZRL.MCHECK 2 a:limit a:other 9 10m 9 1h COST 2",
        "['a:limit' 'a:other']",
    ),
    ("zrl.refund", &["write"], "ZRL.REFUND a:limit 1 AT 4102444800000", "['a:limit']"),
    ("zrl.throttle", &["write", "denyoom", "fast"], "ZRL.THROTTLE a:throttle 5 60 36000", "['a:throttle']"),
    ("zrl.info", &["readonly", "fast"], "ZRL.INFO a:limit", "['a:limit']"),
    ("zq.push", &["write", "denyoom", "fast"], "ZQ.PUSH a:queue job ID x PRIORITY 3 REPLACE", "['a:queue']"),
    (
        "zq.claim",
        &["write", "blocking", "fast"],
        "ZQ.CLAIM 2 a:queue a:other-queue LEASE 5m COUNT 2",
        "['a:queue' 'a:other-queue']",
    ),
    ("zq.ack", &["write", "fast"], "ZQ.ACK a:queue x 1 y 2", "['a:queue']"),
    ("zq.nack", &["write", "fast"], "ZQ.NACK a:queue x 1 DELAY 5m", "['a:queue']"),
    ("zq.extend", &["write", "fast"], "ZQ.EXTEND a:queue 5m x 1", "['a:queue']"),
    ("zq.progress", &["write", "denyoom", "fast"], "ZQ.PROGRESS a:queue x 1 half", "['a:queue']"),
    ("zq.cancel", &["write", "fast"], "ZQ.CANCEL a:queue x y", "['a:queue']"),
    ("zq.reschedule", &["write", "fast"], "ZQ.RESCHEDULE a:queue x DELAY 5m PRIORITY 4", "['a:queue']"),
    ("zq.redrive", &["write"], "ZQ.REDRIVE a:queue COUNT 5", "['a:queue']"),
    ("zq.clean", &["write"], "ZQ.CLEAN a:queue DEAD OLDER 1h COUNT 5", "['a:queue']"),
    ("zq.hold", &["write", "fast"], "ZQ.HOLD a:queue x 5m", "['a:queue']"),
    ("zq.config", &["write"], "ZQ.CONFIG a:queue MAXATTEMPTS 5", "['a:queue']"),
    ("zq.apply", &["write"], "ZQ.APPLY a:queue 1 CANCEL x", "['a:queue']"),
    ("zq.get", &["readonly", "fast"], "ZQ.GET a:queue x", "['a:queue']"),
    ("zq.peek", &["readonly"], "ZQ.PEEK a:queue DEAD COUNT 5", "['a:queue']"),
    ("zq.groups", &["readonly"], "ZQ.GROUPS a:queue AFTER x COUNT 5", "['a:queue']"),
    ("zq.stats", &["readonly", "fast"], "ZQ.STATS a:queue", "['a:queue']"),
    ("zlb.create", &["write", "denyoom", "fast"], "ZLB.CREATE a:board DIM points", "['a:board']"),
    ("zlb.set", &["write", "denyoom", "fast"], "ZLB.SET a:board x 5 y 6", "['a:board']"),
    ("zlb.incr", &["write", "denyoom", "fast"], "ZLB.INCR a:board x points 1", "['a:board']"),
    ("zlb.get", &["readonly", "fast"], "ZLB.GET a:board x y", "['a:board']"),
    ("zlb.rank", &["readonly", "fast"], "ZLB.RANK a:board x DENSE", "['a:board']"),
    ("zlb.rankof", &["readonly", "fast"], "ZLB.RANKOF a:board 5", "['a:board']"),
    ("zlb.range", &["readonly"], "ZLB.RANGE a:board 0 -1 WITHVALUES", "['a:board']"),
    ("zlb.around", &["readonly"], "ZLB.AROUND a:board x 1", "['a:board']"),
    ("zlb.card", &["readonly", "fast"], "ZLB.CARD a:board", "['a:board']"),
    ("zlb.info", &["readonly", "fast"], "ZLB.INFO a:board", "['a:board']"),
    ("zlb.merge", &["write", "denyoom"], "ZLB.MERGE a:sum 2 a:board a:none SUM", "['a:sum' 'a:board' 'a:none']"),
    ("zlb.remrange", &["write"], "ZLB.REMRANGE a:sum 5 -1", "['a:sum']"),
    ("zlb.clear", &["write", "fast"], "ZLB.CLEAR a:sum", "['a:sum']"),
    ("zlb.apply", &["write"], "ZLB.APPLY a:board SET x 7", "['a:board']"),
    ("zlb.rem", &["write", "fast"], "ZLB.REM a:board x", "['a:board']"),
    // A command of the server itself, to check that this table is read correctly.
    ("zadd", &["write", "denyoom", "fast"], "ZADD a:plain 1 x", "['a:plain']"),
];

/// The module's commands without keys, and their flags.
const KEYLESS: [(&str, &[&str]); 2] = [("zrl.top", &["readonly"]), ("zq.list", &["readonly"])];

pub fn ours() -> impl Iterator<Item = &'static (&'static str, &'static [&'static str], &'static str, &'static str)> {
    COMMANDS.iter().filter(|(name, ..)| name.starts_with('z') && name.contains('.'))
}

/// Returns a map, or the RESP2 array of its pairs.
pub fn map(value: &Value) -> BTreeMap<String, Value> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (show(key), value.clone())).collect(),
        Value::Array(items) => items.chunks(2).map(|pair| (show(&pair[0]), pair[1].clone())).collect(),
        other => panic!("no map: {}", show(other)),
    }
}

pub fn registered(c: &mut Client) -> BTreeSet<String> {
    let list = c.strings("COMMAND LIST FILTERBY MODULE zeitset");
    list.into_iter().map(|name| name.to_lowercase()).collect()
}

#[test]
fn the_server_knows_the_version() {
    let (_server, mut c) = start();
    let version = env!("CARGO_PKG_VERSION");
    let number = version.split('.').fold(0, |number, part| 100 * number + part.parse::<i64>().expect("a number"));
    let list = c.reply("MODULE LIST");
    let ours = list.split("'name'").find(|module| module.contains("'zeitset'")).expect("loaded");
    assert!(ours.contains(&format!("'ver' {number} ")), "{version}: {list}");
    let info = c.string("INFO zeitset");
    assert!(info.starts_with(&format!("# zeitset\r\nzeitset_version:{version}\r\n")), "{info}");
}

/// The server writes the module's name before each line that the module logs.
#[test]
fn a_start_is_no_reason_to_warn() {
    let (server, _c) = start();
    assert!(!server.log().contains("<zeitset>"), "{}", server.log());
}

#[test]
fn the_commands_of_the_contract_are_there_and_no_others() {
    let (_server, mut c) = start();
    let keyless = KEYLESS.iter().map(|(name, _)| name);
    let ours: BTreeSet<_> = ours().map(|(name, ..)| name).chain(keyless).map(|name| (*name).to_owned()).collect();
    assert_names("COMMANDS and KEYLESS in tests/server/surface.rs", &ours, &registered(&mut c));
}

/// Except those that only replicas and AOF files get, and ZQ.PROGRESS: the last release, to which some tests send the
/// traffic, does not read its effect.
#[test]
fn random_traffic_has_every_command() {
    let (_server, mut c) = start();
    let mut missing = registered(&mut c);
    missing.retain(|name| !name.ends_with(".apply") && name != "zq.progress");
    let mut traffic = Traffic::new(1, &["1h"]);
    let now = c.now();
    for _ in 0..20_000 {
        if missing.is_empty() {
            return;
        }
        let line = traffic.line(now);
        traffic.send(&mut c, &line, "surface");
        missing.remove(&line.split(' ').next().expect("a command").to_lowercase());
    }
    panic!("testkit/src/traffic.rs: no line, or `number` too small for its line: {missing:?}");
}

#[test]
fn every_command_is_measured_alone() {
    let rows = include_str!("../../benches/scale/rows.rs");
    let is_measured = |name: &str| [' ', '"'].iter().any(|end| rows.contains(&format!("row(\"{name}{end}")));
    let (_server, mut c) = start();
    let mut missing = registered(&mut c);
    missing.retain(|name| !name.ends_with(".apply") && !is_measured(&name.to_uppercase()));
    assert!(missing.is_empty(), "benches/scale/rows.rs: no row of {missing:?}");
}

#[test]
fn flags_tell_what_a_command_does() {
    let (_server, mut c) = start();
    for (name, flags) in
        COMMANDS.iter().map(|(name, flags, ..)| (name, flags)).chain(KEYLESS.iter().map(|(name, flags)| (name, flags)))
    {
        let (got, _) = flags_and_categories(&mut c, name);
        for flag in ["write", "readonly", "denyoom", "fast", "blocking"] {
            assert_eq!(got.iter().any(|got| got == flag), flags.contains(&flag), "{name}: {flag}, has {got:?}");
        }
    }
}

#[test]
fn getkeys_finds_the_keys() {
    let (_server, mut c) = start();
    for (_, _, call, keys) in COMMANDS {
        c.script(&[(&format!("COMMAND GETKEYS {call}"), *keys)]);
    }
}

#[test]
fn every_command_checks_how_many_arguments_it_gets() {
    let (_server, mut c) = start();
    for (name, ..) in ours() {
        c.script(&[(*name, "!ERR wrong number of arguments")]);
    }
}

#[test]
fn the_example_configuration_starts_a_server() {
    let example = include_str!("../../redis.conf.example");
    let loads = |line: &&str| line.starts_with("loadmodule ");
    assert_eq!(example.lines().filter(loads).count(), 1);
    // The test has its own module and port, as `scripts/run.sh` has.
    let rest = example.lines().filter(|line| !loads(line) && !line.starts_with("port "));
    let server = Server::builder().config(&rest.collect::<Vec<_>>().join("\n")).start();
    server.client().script(&[
        ("CONFIG GET maxmemory-policy", "['maxmemory-policy' 'noeviction']"),
        ("CONFIG GET zeitset.sweep", "['zeitset.sweep' 'yes']"),
        ("ZEXP.ADD k 5m a", "1"),
    ]);
}

#[test]
fn the_module_cannot_be_loaded_twice() {
    let server = Server::builder().config("enable-module-command local").start();
    let mut c = server.client();
    let reply = c.try_call(redis::cmd("MODULE").arg("LOAD").arg(module().to_str()));
    assert!(reply.is_err_and(|error| error.starts_with("ERR")));
    c.script(&[("ZEXP.CARD k", "0")]);
}

/// A symbol with the same name as one of the server's, such as `dictFind`, would be replaced by the server's symbol. A
/// call of it would crash.
#[test]
fn the_library_exports_its_entry_points_and_nothing_else() {
    let Ok(output) = Command::new("nm").arg("-D").arg("--defined-only").arg(module()).output() else {
        return; // binutils are not installed
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let symbols: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .filter_map(|symbol| symbol.split('@').next())
        .collect();
    assert!(symbols.contains("RedisModule_OnLoad"), "{symbols:?}");
    for symbol in symbols {
        assert!(["RedisModule_OnLoad", "RedisModule_OnUnload"].contains(&symbol), "{symbol} is exported");
    }
}

/// Protections against attacks: read-only function tables, no executable stack, no search path for libraries.
#[test]
fn the_library_is_hardened_and_has_a_build_id() {
    let Ok(output) = Command::new("readelf").args(["-W", "-l", "-d", "-n"]).arg(module()).output() else {
        return; // binutils are not installed
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let stack = text.lines().find(|line| line.contains("GNU_STACK")).expect("a stack");
    assert!(stack.contains(" RW ") && !stack.contains("RWE"), "{stack}");
    for (word, is_there) in
        [("GNU_RELRO", true), ("BIND_NOW", true), ("Build ID", true), ("RUNPATH", false), ("RPATH", false)]
    {
        assert_eq!(text.contains(word), is_there, "{word}:\n{text}");
    }
}
