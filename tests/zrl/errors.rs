//! Invalid arguments and invalid keys of rate limits. Each call returns an error and changes nothing.

use testkit::{Client, FAR, Stream, plant, start};

const SYNTAX: &str = "!ERR syntax error";
const ARITY: &str = "!ERR wrong number of arguments";
const ANY: &str = "!ERR ";

/// Arguments of ZRL.CHECK and ZRL.PEEK. The unit tests of the parsers try more numbers and durations.
const CHECKS: [(&str, &str); 35] = [
    ("", ARITY),
    ("k", ARITY),
    ("k 5", ARITY),
    ("k 5 10m COST", ANY),
    ("k 5 10m PRECISION", ANY),
    ("k 5 10m COST 1 COST 1", SYNTAX),
    ("k 5 10m COST 1 2", SYNTAX),
    ("k 5 10m FORCE FORCE", SYNTAX),
    ("k 5 10m SLIDING SLIDING", SYNTAX),
    ("k 5 10m SLIDING FIXED", SYNTAX),
    ("k 5 10m LEAKY SLIDING", SYNTAX),
    ("k 5 10m FIXED LEAKY", SYNTAX),
    ("k 5 10m EXACT EXACT", SYNTAX),
    ("k 5 10m EXACT PRECISION 1s", SYNTAX),
    ("k 5 10m PRECISION 1s EXACT", SYNTAX),
    ("k 5 10m PRECISION 1s PRECISION 1s", SYNTAX),
    ("k 5 10m 3", SYNTAX),
    ("k 5 10m TUMBLING", SYNTAX),
    ("k 5 10m COST 1 nonsense", SYNTAX),
    ("k 0 10m", ANY),
    ("k -1 10m", ANY),
    ("k five 10m", ANY),
    ("k 9007199254740992 10m", ANY),
    ("k 9223372036854775808 10m", ANY),
    ("k 5 10m COST -1", ANY),
    ("k 5 10m COST five", ANY),
    ("k 5 10m COST 9007199254740992", ANY),
    ("k 5 10m COST 9223372036854775808", ANY),
    ("missing 5 0", ANY),
    ("missing 5 0ms", ANY),
    ("missing 5 ten", ANY),
    ("missing 5 9007199254740991ms", ANY),
    ("k 5 10m PRECISION 0", ANY),
    ("k 5 10m PRECISION 0ms", ANY),
    ("k 5 10m PRECISION ten", ANY),
];

const OTHERS: [(&str, &str); 39] = [
    ("ZRL.MCHECK", ARITY),
    ("ZRL.MCHECK 0 5 10m", ANY),
    ("ZRL.MCHECK -1 a 5 10m", ANY),
    ("ZRL.MCHECK x a 5 10m", ANY),
    ("ZRL.MCHECK 2 a 5 10m", ANY),
    ("ZRL.MCHECK 2 a b 5 10m", ANY),
    ("ZRL.MCHECK 2 a b 5 10m 5", ANY),
    ("ZRL.MCHECK 2 a b 5 10m 5 10m 5 10m", ANY),
    ("ZRL.MCHECK 9223372036854775807 a 5 10m", ANY),
    ("ZRL.MCHECK 4294967297 a 5 10m", ANY),
    ("ZRL.MCHECK 2 a a 5 10m 5 10m", ANY),
    ("ZRL.MCHECK 3 a b a 5 10m 5 10m 5 10m", ANY),
    ("ZRL.MCHECK 2 a b 5 10m 0 10m", ANY),
    ("ZRL.MCHECK 2 a b 5 10m 5 0", ANY),
    ("ZRL.MCHECK 1 a 5 10m COST 1 COST 1", SYNTAX),
    ("ZRL.MCHECK 1 a 5 10m FIXED LEAKY", SYNTAX),
    ("ZRL.MCHECK 3 a b c 9 1h 9 1h 9 1h COST 1 2", SYNTAX),
    ("ZRL.MCHECK 2 a b 9 1h 9 1h COST 1 2 3", SYNTAX),
    ("ZRL.MCHECK 3 a b c 9 1h 9 1h 9 1h FIXED LEAKY", SYNTAX),
    ("ZRL.MCHECK 2 a b 9 1h 9 1h FIXED COST 1 LEAKY", SYNTAX),
    ("ZRL.MCHECK 2 a b 9 1h 9 1h FIXED LEAKY EXACT", SYNTAX),
    ("ZRL.MCHECK 2 a b 9 1h 9 1h FORCE FORCE", SYNTAX),
    ("ZRL.MCHECK 2 a text 5 10m 5 10m", "!NOTLIMIT "),
    ("ZRL.REFUND k", ARITY),
    ("ZRL.REFUND k -1 AT UNTIL", ANY),
    ("ZRL.REFUND k x AT UNTIL", ANY),
    ("ZRL.REFUND k 9007199254740992 AT UNTIL", ANY),
    ("ZRL.REFUND k 1 FROM UNTIL", SYNTAX),
    ("ZRL.REFUND k 1 AT UNTIL x", ANY),
    ("ZRL.REFUND k 1 AT -5", ANY),
    ("ZRL.REFUND k 1 AT x", ANY),
    ("ZRL.THROTTLE", ARITY),
    ("ZRL.THROTTLE missing 1 1", ARITY),
    ("ZRL.THROTTLE missing 1 1 1 1 1", ANY),
    ("ZRL.THROTTLE missing -1 1 1", ANY),
    ("ZRL.THROTTLE missing 1 1 1 9223372036854775807", ANY),
    ("ZRL.THROTTLE missing 9223372036854775808 1 1", ANY),
    ("ZRL.THROTTLE missing 1 1.5 1", ANY),
    ("ZRL.THROTTLE missing 1 1 1m", ANY),
];

#[test]
fn bad_input_is_an_error_and_never_a_crash() {
    let (server, mut c) = start();
    let until = c.verdict("ZRL.CHECK k 5 10m COST 2").charged_until;
    c.run("SET text x");
    let mut stream = Stream::attach(&server);
    stream.take();
    let before = c.trace("k");
    let checks = CHECKS.iter().flat_map(|(arguments, error)| {
        ["ZRL.CHECK", "ZRL.PEEK"].map(|command| (format!("{command} {arguments}"), *error))
    });
    let others = OTHERS.iter().map(|(line, error)| (line.replace("UNTIL", &until.to_string()), *error));
    // At another time, no units were taken.
    let nothing = (format!("ZRL.REFUND k 1 AT {}", until + 7), "0");
    for (line, reply) in checks.chain(others).chain([nothing]) {
        c.script(&[(&line, reply)]);
        assert_eq!(c.trace("k"), before, "{line}");
    }
    c.script(&[("EXISTS missing a b c", "0")]);
    assert_eq!(stream.take(), [""; 0]);
}

#[test]
fn keys_are_any_bytes() {
    let (_server, mut c) = start();
    for key in [&b""[..], b"\0", b"a\r\nb", b"\xff\x00", b"%s", &[b'x'; 70_000]] {
        for remaining in [1, 0] {
            let reply = c.call(redis::cmd("ZRL.CHECK").arg(key).arg(2).arg("10m"));
            let expected = format!("[1 2 {remaining} 0 600000 ");
            assert!(testkit::show(&reply).starts_with(&expected));
        }
    }
}

/// Checks that all commands refuse the key, except those of the algorithm `own`, and leave it unchanged.
#[track_caller]
fn assert_refused(c: &mut Client, key: &str, own: &str, error: &str) {
    let before = c.trace(key);
    for (algorithm, call) in [
        ("SLIDING", "ZRL.CHECK {} 10 1m"),
        ("SLIDING", "ZRL.CHECK {} 10 1m COST 0"),
        ("SLIDING", "ZRL.CHECK {} 10 1m COST 11"),
        ("SLIDING", "ZRL.CHECK {} 10 1m COST 2 FORCE"),
        ("SLIDING", "ZRL.PEEK {} 10 1m"),
        ("SLIDING", "ZRL.PEEK {} 10 1m COST 0"),
        ("SLIDING", "ZRL.MCHECK 1 {} 10 1m"),
        ("FIXED", "ZRL.CHECK {} 10 1m FIXED"),
        ("FIXED", "ZRL.MCHECK 1 {} 10 1m FIXED"),
        ("LEAKY", "ZRL.CHECK {} 10 1m LEAKY"),
        ("THROTTLE", "ZRL.THROTTLE {} 10 10 60"),
        ("any", "ZRL.REFUND {} 1 AT 4102444800000"),
        ("any", "ZRL.INFO {}"),
    ] {
        if algorithm != own && (algorithm != "any" || own.is_empty()) {
            let line = call.replace("{}", key);
            c.script(&[(&line, error)]);
            assert_eq!(c.trace(key), before, "{line}");
        }
    }
}

/// The unit tests of the model define which strings are limits, and of which algorithm.
#[test]
fn keys_of_other_kinds_and_of_other_algorithms_are_refused_and_left_alone() {
    let (server, mut c) = start();
    let now = c.now();
    let longest = "x".repeat(5000);
    c.run_all([
        "SET text x".to_owned(),
        "SET counter 42 EX 60".into(),
        "SET tagged sliding:0123456789abcdef".into(),
        format!("SET long {longest}"),
        // Times in other units than redis-cell stores.
        format!("SET ms {} PXAT {}", now + 60_000, now + 60_000),
        format!("SET us {}000 PXAT {}", now + 60_000, now + 60_000),
        "RPUSH list x".into(),
        // A hand-written limiter, and limits in the form of version 0.2.
        format!("ZADD log {now} {now} {} {}", now + 1, now + 1),
        "PEXPIRE log 60000".into(),
        format!("ZADD old {FAR} 0 {} 1:3", FAR + 1),
        format!("PEXPIREAT old {}", FAR / 1000 * 1000 + 2001),
        "ZRL.CHECK sliding 5 1h".into(),
        "ZRL.CHECK fixed 5 30d FIXED".into(),
        "ZRL.CHECK leaky 5 1h LEAKY".into(),
        "ZRL.THROTTLE throttle 5 5 3600".into(),
    ]);
    plant(&mut c, "expiring", &[("a", FAR), ("b", FAR + 1)]);
    let mut stream = Stream::attach(&server);
    for key in ["text", "counter", "tagged", "long", "ms", "us"] {
        assert_refused(&mut c, key, "", "!NOTLIMIT ");
    }
    for key in ["list", "log", "old", "expiring"] {
        assert_refused(&mut c, key, "", "!WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    for algorithm in ["SLIDING", "FIXED", "LEAKY", "THROTTLE"] {
        let error = "!NOTLIMIT key holds a rate limit of another algorithm";
        assert_refused(&mut c, &algorithm.to_lowercase(), algorithm, error);
    }
    c.script(&[("ZRL.REFUND throttle 1 AT 4102444800000", "!NOTLIMIT ")]);
    assert_eq!(stream.take(), [""; 0]);
}
