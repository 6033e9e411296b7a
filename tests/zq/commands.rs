//! All ZQ commands and their options: the replies and their form, and refused calls.

use crate::server::described::commands;
use redis::Value;
use testkit::{Server, assert_agree, show, start, start_pair};

#[test]
fn a_job_goes_through_its_life() {
    let (_server, mut c) = start();
    let before = c.now();
    c.script(&[("ZQ.PUSH q hello ID a", "'a'"), ("TYPE q", "+zeitqueue")]);
    let Value::Array(jobs) = c.run("ZQ.CLAIM 1 q LEASE 10s") else { panic!() };
    let Value::Array(job) = &jobs[0] else { panic!() };
    let [key, id, Value::Int(token), attempt, Value::Int(deadline), payload] = job.as_slice() else {
        panic!("{job:?}")
    };
    assert_eq!([key, id, attempt, payload].map(show), ["'q'", "'a'", "1", "'hello'"]);
    assert!((before + 10_000..=c.now() + 10_000).contains(deadline));
    c.script(&[
        ("ZQ.CLAIM 1 q LEASE 10s", "[]"),
        (&format!("ZQ.ACK q a {}", token + 1), "0"),
        (&format!("ZQ.ACK q b {token}"), "0"),
        (&format!("ZQ.ACK q a {token}"), "1"),
        (&format!("ZQ.ACK q a {token}"), "0"),
        ("ZQ.GET q a", "nil"),
        ("EXISTS q", "1"),
    ]);
}

#[test]
fn ids_are_made_up_or_given_and_given_ones_make_a_push_idempotent() {
    let (_server, mut c) = start();
    let (first, second) = (c.string("ZQ.PUSH q x"), c.string("ZQ.PUSH q x"));
    let parts = |id: &str| -> (i64, i64) {
        let (ms, seq) = id.split_once('-').expect("<ms>-<seq>");
        (ms.parse().unwrap(), seq.parse().unwrap())
    };
    assert!(parts(&first) < parts(&second), "{first} {second}");
    assert!((parts(&first).0 - c.now()).abs() < 20_000);
    c.script(&[
        ("ZQ.PUSH q one ID a", "'a'"),
        ("ZQ.PUSH q two ID a", "nil"),
        ("ZQ.PUSH q three ID a REPLACE PRIORITY -1", "'a'"),
        ("ZQ.CANCEL q a b a", "1"),
        ("ZQ.PUSH q \"\" ID \"\"", "!ERR job ID must not be empty"),
    ]);
}

#[test]
fn claim_takes_several_and_from_the_first_key_that_has_any() {
    let (_server, mut c) = start();
    c.run_all((0..5).map(|n| format!("ZQ.PUSH b {n} ID {n}")));
    c.run("ZQ.PUSH c x ID c");
    let claimed = c.reply("ZQ.CLAIM 3 a b c LEASE 1m COUNT 4");
    for n in 0..4 {
        assert!(claimed.contains(&format!("['b' '{n}' ")), "{claimed}");
    }
    assert!(!claimed.contains("'4'") && !claimed.contains("'c'"), "{claimed}");
    assert_eq!(c.job("ZQ.CLAIM 3 c b a LEASE 1m").id, "c");
    c.script(&[("ZQ.CLAIM 2 a c LEASE 1m", "[]"), ("EXISTS a", "0")]);
}

#[test]
fn get_and_stats_are_maps() {
    let (server, mut c) = start();
    let mut c3 = server.resp3();
    c.run("ZQ.CONFIG empty PAUSED no");
    c.run("ZQ.APPLY q 5 PUSH a hello 7000 -3 4 3600000");
    let resp3 = "{'state': 'ready' 'payload': 'hello' 'priority': -3 'attempts': 0 'max_attempts': 4 'due_ms': 7000 \
                 'every_ms': 3600000 'ttl_ms': nil 'expires_ms': nil 'token': nil 'created_ms': 5 'claimed_ms': nil 'failed_ms': nil 'progress_ms': nil 'worker': nil 'error': nil 'progress': nil 'group': nil 'again_payload': nil}";
    let resp2 = "['state' 'ready' 'payload' 'hello' 'priority' -3 'attempts' 0 'max_attempts' 4 'due_ms' 7000 \
                 'every_ms' 3600000 'ttl_ms' nil 'expires_ms' nil 'token' nil 'created_ms' 5 'claimed_ms' nil 'failed_ms' nil 'progress_ms' nil 'worker' nil 'error' nil 'progress' nil 'group' nil 'again_payload' nil]";
    c3.script(&[("ZQ.GET q a", resp3), ("ZQ.GET q b", "nil"), ("ZQ.GET none a", "nil")]);
    c.script(&[("ZQ.GET q a", resp2), ("ZQ.GET q b", "nil"), ("ZQ.GET none a", "nil")]);
    let settings = "'max_attempts': 0 'backoff_base_ms': 0 'backoff_max_ms': 0 'aging_ms': 0 'maxlen': 0 'concurrency': 0 \
                    'rate_limit': 0 'rate_window_ms': 0 'groupconcurrency': 0 'grouprate_limit': 0 'grouprate_window_ms': 0 'ordered': 'no' 'paused': 'no' 'jitter': 0 'deadlen': 0 'deadttl_ms': 0}";
    let further =
        "'replaced': 0 'recurred': 0 'missed': 0 'cleaned': 0 'dropped': 0 'revoked': 0 'late': 0 'expired': 0";
    c3.script(&[
        ("ZQ.CONFIG q", format!("{{{settings}").as_str()),
        (
            "ZQ.STATS q",
            &format!(
                "{{'ready': 1 'delayed': 0 'claimed': 0 'dead': 0 'groups': 1 'oldest_ready_ms': 7000 'pushed': 1 'claimed_total': 0 'acked': 0 'nacked': 0 \
                 'cancelled': 0 'redriven': 0 'expired_leases': 0 {further} {settings}"
            ),
        ),
        (
            "ZQ.STATS empty",
            &format!(
                "{{'ready': 0 'delayed': 0 'claimed': 0 'dead': 0 'groups': 0 'oldest_ready_ms': nil 'pushed': 0 'claimed_total': 0 'acked': 0 'nacked': 0 \
                 'cancelled': 0 'redriven': 0 'expired_leases': 0 {further} {settings}"
            ),
        ),
        ("EXISTS none", "0"),
    ]);
}

#[test]
fn peek_shows_each_state_in_serving_order() {
    let (_server, mut c) = start();
    c.run_all((0..12).map(|n| format!("ZQ.PUSH q p{n} ID {n} AT {}", n + 1)));
    c.run("ZQ.PUSH q x ID soon DELAY 1h");
    c.run("ZQ.PUSH q x ID later DELAY 2h PRIORITY -1");
    c.run("ZQ.PUSH q y ID dead PRIORITY -2147483648");
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1m");
    c.script(&[(format!("ZQ.NACK q dead {token} DEAD"), "1")]);
    c.claim("ZQ.CLAIM 1 q LEASE 1m");
    c.script(&[("ZQ.PEEK q COUNT 2", "[['1' 2000 0 0 'p1'] ['2' 3000 0 0 'p2']]"), ("ZQ.PEEK none DEAD", "[]")]);
    assert_eq!(c.ids("ZQ.PEEK q READY").len(), 10);
    assert_eq!(c.ids("ZQ.PEEK q DELAYED"), ["soon", "later"]);
    assert_eq!(c.ids("ZQ.PEEK q CLAIMED COUNT 5"), ["0"]);
    assert_eq!(c.ids("ZQ.PEEK q COUNT 3 DEAD"), ["dead"]);
}

#[test]
fn reschedule_moves_what_waits() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x ID a");
    c.run("ZQ.PUSH q x ID b");
    c.script(&[("ZQ.RESCHEDULE q b PRIORITY -1", "1"), ("ZQ.RESCHEDULE q none PRIORITY -1", "0")]);
    assert_eq!(c.job("ZQ.CLAIM 1 q LEASE 1m").id, "b");
    c.script(&[("ZQ.RESCHEDULE q b DELAY 0", "0"), ("ZQ.RESCHEDULE q a DELAY 1h PRIORITY 7", "1")]);
    assert_eq!(c.text_field("ZQ.GET q a", "state"), "delayed");
    assert_eq!(c.field("ZQ.GET q a", "priority"), 7);
    c.script(&[("ZQ.RESCHEDULE q a AT 1", "1"), ("ZQ.RESCHEDULE none a AT 1", "0"), ("EXISTS none", "0")]);
    assert_eq!(c.job("ZQ.CLAIM 1 q LEASE 1m").id, "a");
}

#[test]
fn config_sets_what_is_given_and_makes_the_key() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZQ.CONFIG q", "nil"),
        ("ZQ.STATS q", "nil"),
        ("EXISTS q", "0"),
        ("ZQ.CONFIG q PAUSED no", "+OK"),
        ("EXISTS q", "1"),
        ("ZQ.CONFIG q MAXATTEMPTS 3 BACKOFF 1s 1m AGING 250ms MAXLEN 10 CONCURRENCY 2 RATE 5 1m PAUSED YES", "+OK"),
        ("ZQ.CONFIG q", "['max_attempts' 3 'backoff_base_ms' 1000 'backoff_max_ms' 60000 'aging_ms' 250 'maxlen' 10 'concurrency' 2 'rate_limit' 5 'rate_window_ms' 60000 'groupconcurrency' 0 'grouprate_limit' 0 'grouprate_window_ms' 0 'ordered' 'no' 'paused' 'yes' 'jitter' 0 'deadlen' 0 'deadttl_ms' 0]"),
        ("ZQ.CONFIG q aging 0 RATE 0 0 BACKOFF 0 0 paused No", "+OK"),
        ("ZQ.CONFIG q", "['max_attempts' 3 'backoff_base_ms' 0 'backoff_max_ms' 0 'aging_ms' 0 'maxlen' 10 'concurrency' 2 'rate_limit' 0 'rate_window_ms' 0 'groupconcurrency' 0 'grouprate_limit' 0 'grouprate_window_ms' 0 'ordered' 'no' 'paused' 'no' 'jitter' 0 'deadlen' 0 'deadttl_ms' 0]"),
    ]);
    let trace = c.trace("q");
    c.script(&[("ZQ.CONFIG q MAXLEN 10", "+OK")]);
    assert_eq!(c.trace("q"), trace);
}

/// The test takes all settings from COMMAND DOCS.
#[test]
fn every_setting_is_shown_stored_and_replicated() {
    let (server, replica, mut c) = start_pair();
    let config = commands(&mut c).into_iter().find(|command| command.name.eq_ignore_ascii_case("zq.config"));
    let mut all = "ZQ.CONFIG q".to_owned();
    for argument in &config.expect("the command is known").arguments[1..] {
        let token = argument.token.as_ref().expect("a setting begins with its name");
        let parts = if argument.kind == "block" { &argument.parts[..] } else { std::slice::from_ref(argument) };
        let values = parts.iter().map(|part| match part.kind.as_str() {
            "integer" => "7",
            "string" => "7s",
            "oneof" => "yes",
            other => panic!("{token}: {other}"),
        });
        let option = format!("{token} {}", values.collect::<Vec<_>>().join(" "));
        let before = c.reply("ZQ.CONFIG one");
        c.run(&format!("ZQ.CONFIG one {option}"));
        assert_ne!(c.reply("ZQ.CONFIG one"), before, "{option} does not show");
        all += &format!(" {option}");
    }
    c.run(&all);
    let shown = c.reply("ZQ.CONFIG q");
    assert!(!shown.contains(" 0") && !shown.contains("'no'"), "COMMAND DOCS does not list it: {shown}");
    let stats = c.reply("ZQ.STATS q");
    assert!(stats.ends_with(&shown[1..]), "{stats}");
    // One replica gets the settings by an effect, another one in a snapshot.
    replica.wait_for_sync(&server);
    assert_eq!(replica.client().reply("ZQ.STATS q"), stats);
    let replica = Server::builder().replica_of(&server);
    replica.wait_for_sync(&server);
    assert_eq!(replica.client().reply("ZQ.STATS q"), stats);
    assert_agree(&server, &[]);
}

#[test]
fn what_is_refused_changes_nothing() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x ID a");
    let trace = c.trace("q");
    let syntax = "!ERR syntax error";
    let arity = "!ERR wrong number of arguments";
    let (duration, integer) = ("!ERR invalid duration", "!ERR value is not an integer or out of range");
    let (range, positive) = ("!ERR value is out of range", "!ERR value is out of range, must be positive");
    let negative = "!ERR value is out of range, must not be negative";
    let numkeys = "!ERR numkeys should be greater than 0";
    let too_many = "!ERR Number of keys can't be greater than number of args";
    let cases = [
        ("ZQ.PUSH q x ID", syntax),
        ("ZQ.PUSH q x NOPE", syntax),
        ("ZQ.PUSH q x ID b ID c", syntax),
        ("ZQ.PUSH q x DELAY 1 AT 5", syntax),
        ("ZQ.PUSH q x REPLACE REPLACE", syntax),
        ("ZQ.PUSH q x 5", syntax),
        ("ZQ.PUSH q x DELAY -1", duration),
        ("ZQ.PUSH q x DELAY 1x", duration),
        ("ZQ.PUSH q x EVERY 0", duration),
        ("ZQ.PUSH q x AT -5", "!ERR invalid time"),
        ("ZQ.PUSH q x DELAY 9007199254740991ms", "!ERR time is out of range"),
        ("ZQ.PUSH q x EVERY 9007199254740991ms", "!ERR time is out of range"),
        ("ZQ.PUSH q x TTL 0", duration),
        ("ZQ.PUSH q x TTL 9007199254740", "!ERR time is out of range, must be at most 2^53-1 ms"),
        ("ZQ.PUSH q x AT 9007199254740000 TTL 1h", "!ERR time is out of range, must be at most 2^53-1 ms"),
        ("ZQ.PUSH q x TTL 1 TTL 2", syntax),
        ("ZQ.PUSH q x PRIORITY 2147483648", range),
        ("ZQ.PUSH q x PRIORITY -2147483649", range),
        ("ZQ.PUSH q x PRIORITY 1.5", integer),
        ("ZQ.PUSH q x MAXATTEMPTS -1", negative),
        ("ZQ.PUSH q x MAXATTEMPTS 4294967296", range),
        ("ZQ.CLAIM 1 q LEASE 1 COUNT", syntax),
        ("ZQ.CLAIM 1 q COUNT 1 BLOCK 1", syntax),
        ("ZQ.CLAIM 0 q LEASE 1", numkeys),
        ("ZQ.CLAIM -1 q LEASE 1", numkeys),
        ("ZQ.CLAIM x q LEASE 1", numkeys),
        ("ZQ.CLAIM 2 q LEASE 1", too_many),
        ("ZQ.CLAIM 99 q LEASE 1", too_many),
        ("ZQ.CLAIM 9223372036854775807 q LEASE 1", too_many),
        ("ZQ.CLAIM 1 q LEASE 0", duration),
        ("ZQ.CLAIM 1 q LEASE 1 COUNT 0", positive),
        ("ZQ.CLAIM 1 q LEASE 1 BLOCK -1", duration),
        ("ZQ.CLAIM 1 q LEASE 1 BLOCK 9007199254740991ms", "!ERR time is out of range"),
        ("ZQ.ACK q a", arity),
        ("ZQ.ACK q a 1 b", arity),
        ("ZQ.ACK q a x", integer),
        ("ZQ.NACK q a 1 DELAY 1 DEAD", syntax),
        ("ZQ.NACK q a x", integer),
        ("ZQ.EXTEND q 0 a 1", duration),
        ("ZQ.EXTEND q 1 a 1 b", arity),
        ("ZQ.RESCHEDULE q a", arity),
        ("ZQ.EXTEND q 1 a x", integer),
        ("ZQ.NACK q a 1 AT 5 DELAY 1", syntax),
        ("ZQ.NACK q a 1 AT soon", "!ERR invalid time"),
        ("ZQ.CONFIG q MAXLEN -1", "!ERR value is out of range, must not be negative"),
        ("ZQ.CONFIG q MAXLEN 9007199254740992", range),
        ("ZQ.CONFIG q JITTER 101", range),
        ("ZQ.RESCHEDULE q a AT 1 PRIORITY", syntax),
        ("ZQ.RESCHEDULE q a DELAY 1 AT 5", syntax),
        ("ZQ.PEEK q READY DEAD", syntax),
        ("ZQ.PEEK q COUNT 0", positive),
        ("ZQ.REDRIVE q COUNT 0", positive),
        ("ZQ.REDRIVE q 5", syntax),
        ("ZQ.CONFIG q MAXATTEMPTS", syntax),
        ("ZQ.CONFIG q RATE 5", syntax),
        ("ZQ.CONFIG q RATE 5 0", duration),
        ("ZQ.CONFIG q RATE -1 1", range),
        (
            "ZQ.CONFIG q GROUPRATE 5 0",
            "!ERR invalid duration; expected a positive number and an optional unit (ms, s, m, h, d, w)",
        ),
        ("ZQ.CONFIG q ORDERED maybe", syntax),
        ("ZQ.CONFIG q BACKOFF 5", syntax),
        ("ZQ.CONFIG q PAUSED maybe", syntax),
        ("ZQ.CONFIG q GROUPCONCURRENCYX 5", syntax),
        ("ZQ.CONFIG q MAXATTEMPTSX 5", syntax),
        ("ZQ.CONFIG q PAUSED 1", syntax),
        ("ZQ.CONFIG q MAXLEN 1 MAXLEN 2", syntax),
        ("ZQ.APPLY q 1 NOPE", syntax),
        ("ZQ.APPLY q 1 PUSH a", arity),
        ("ZQ.APPLY q -1 SETTLE", negative),
        ("ZQ.APPLY q 1 ACK b", "0"),
        ("ZQ.APPLY q 1 CLAIM a 0 5", "0"),
        ("ZQ.APPLY q 1 REDRIVE 5", "0"),
        ("ZQ.APPLY q 1 JOB b x ready 9223372036854775807 0 5", "0"),
        ("ZADD q 1 x", "!WRONGTYPE "),
        ("GET q", "!WRONGTYPE "),
    ];
    c.script(&cases);
    assert_eq!(c.trace("q"), trace);
}

#[test]
fn commands_on_a_missing_key_leave_it_missing() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZQ.CLAIM 1 q LEASE 1", "[]"),
        ("ZQ.ACK q a 1 b 2", "0"),
        ("ZQ.NACK q a 1", "0"),
        ("ZQ.EXTEND q 1 a 1", "[nil]"),
        ("ZQ.CANCEL q a b", "0"),
        ("ZQ.RESCHEDULE q a DELAY 5", "0"),
        ("ZQ.REDRIVE q", "0"),
        ("ZQ.PEEK q CLAIMED", "[]"),
        ("EXISTS q", "0"),
    ]);
    assert_eq!(c.info_number("persistence", "rdb_changes_since_last_save"), 0);
}

/// server/surface.rs and server/access.rs test the other properties of keys, flags and rights.
#[test]
fn keys_of_a_claim_are_counted_and_a_wait_needs_the_right_to_all_of_them() {
    let (server, mut c) = start();
    c.script(&[
        ("COMMAND GETKEYS ZQ.CLAIM 1 a b c LEASE 1", "['a']"),
        ("COMMAND GETKEYS ZQ.CLAIM 0 a LEASE 1", "!ERR "),
        ("COMMAND GETKEYS ZQ.CLAIM 9 a LEASE 1", "!ERR "),
        ("COMMAND GETKEYS ZQ.CLAIM x a LEASE 1", "!ERR "),
        ("ACL SETUSER ann on nopass ~a:* +@all", "+OK"),
        ("ACL SETUSER reader on nopass %R~* +@all", "+OK"),
    ]);
    let [mut ann, mut reader] = [(); 2].map(|()| server.client());
    ann.run("AUTH ann any");
    ann.script(&[("ZQ.CLAIM 2 b:q a:q LEASE 1 BLOCK 0", "!NOPERM ")]);
    reader.run("AUTH reader any");
    reader.script(&[("ZQ.CONFIG b:q", "!NOPERM ")]);
}

#[test]
fn payloads_and_ids_are_any_bytes() {
    let (_server, mut c) = start();
    let bytes: Vec<u8> = (0..=255).collect();
    c.call(redis::cmd("ZQ.PUSH").arg("q").arg(&bytes).arg("ID").arg(&bytes));
    let Value::Array(jobs) = c.run("ZQ.CLAIM 1 q LEASE 1m") else { panic!() };
    let Value::Array(job) = &jobs[0] else { panic!() };
    assert_eq!(job[1], Value::BulkString(bytes.clone()));
    assert_eq!(job[5], Value::BulkString(bytes.clone()));
    let Value::Int(token) = job[2] else { panic!() };
    assert_eq!(c.call(redis::cmd("ZQ.ACK").arg("q").arg(&bytes).arg(token)), Value::Int(1));
}
