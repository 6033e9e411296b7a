//! Invalid calls. Each returns an error with its code first, and changes nothing.

use testkit::{Client, FAR, Server, Stream, start};

/// Sends each line and expects its error. No key may change, and nothing may be replicated.
#[track_caller]
fn refused(server: &Server, c: &mut Client, lines: &[(&str, &str)]) {
    let keys = ["k", "plain", "ordinary", "string", "hash", "missing"];
    let mut stream = Stream::attach(server);
    stream.take();
    let before: Vec<_> = keys.iter().map(|key| c.trace(key)).collect();
    for (line, error) in lines {
        c.script(&[(line, error)]);
        let reply = c.reply(line);
        assert!(!reply.contains(['\r', '\n']), "{reply}");
        let after: Vec<_> = keys.iter().map(|key| c.trace(key)).collect();
        assert_eq!(after, before, "{line}");
    }
    assert_eq!(stream.take(), [""; 0]);
}

/// Creates an expiring set, and keys of every other kind.
fn zoo() -> (Server, Client) {
    let (server, mut c) = start();
    c.run(&format!("ZEXP.ADD k AT {FAR}ms a {FAR}ms b"));
    c.run("ZEXP.PERSIST k b");
    c.run("ZADD plain 1 a 2 b");
    c.run(&format!("ZADD ordinary {FAR} a 1 zeitset:expiring"));
    c.run("SET string x");
    c.run("HSET hash f v");
    (server, c)
}

/// server/rules.rs tries every command on keys of other kinds.
#[test]
fn missing_unknown_repeated_and_contradictory_arguments_are_errors() {
    let (server, mut c) = zoo();
    let arity = "!ERR wrong number of arguments";
    let syntax = "!ERR syntax error";
    refused(
        &server,
        &mut c,
        &[
            ("ZEXP.ADD k", arity),
            ("ZEXP.ADD k 5m", arity),
            ("ZEXP.EXPIRE k 5m", arity),
            ("ZEXP.PERSIST k", arity),
            ("ZEXP.TTL k", arity),
            ("ZEXP.PTTL k", arity),
            ("ZEXP.REM k", arity),
            ("ZEXP.CARD k x", arity),
            ("ZEXP.ISMEMBER k", arity),
            ("ZEXP.ISMEMBER k a b", arity),
            ("ZEXP.MISMEMBER k", arity),
            // The call has enough arguments for the command, but not for its option.
            ("ZEXP.ADD k NX 5m", "!ERR"),
            ("ZEXP.ADD k AT 5m", "!ERR"),
            ("ZEXP.ADD k CAP 5", "!ERR"),
            ("ZEXP.ADD k CAP 5 5m", "!ERR"),
            ("ZEXP.ADD k NX GT AT", "!ERR"),
            ("ZEXP.EXPIRE k AT 5m", "!ERR"),
            ("ZEXP.EXPIRE k GT 5m", "!ERR"),
            ("ZEXP.RANDMEMBER k 1 2", "!ERR"),
            ("ZEXP.POP k 1 2", "!ERR"),
            ("ZEXP.ADD k NX XX 5m c", syntax),
            ("ZEXP.ADD k XX NX 5m c", syntax),
            ("ZEXP.ADD k GT LT 5m c", syntax),
            ("ZEXP.ADD k NX GT 5m c", syntax),
            ("ZEXP.ADD k LT NX 5m c", syntax),
            ("ZEXP.ADD k NX NX 5m c", syntax),
            ("ZEXP.ADD k CH CH 5m c", syntax),
            ("ZEXP.ADD k GT GT 5m c", syntax),
            ("ZEXP.ADD k CAP 5 CAP 5 5m c", syntax),
            ("ZEXP.EXPIRE k GT LT 5m a", syntax),
            ("ZEXP.EXPIRE k GT GT 5m a", syntax),
            ("ZEXP.EXPIRE k LT LT 5m a", syntax),
            ("ZEXP.MEMBERS k WITHPTTL WITHPTTL", syntax),
            ("ZEXP.MEMBERS k WITHPTTLS", syntax),
            ("ZEXP.MEMBERS k LIMIT", syntax),
            ("ZEXP.MEMBERS k LIMIT 1", syntax),
            ("ZEXP.MEMBERS k LIMIT 0 1 LIMIT 0 1", syntax),
            ("ZEXP.MEMBERS k WITHIN", syntax),
            ("ZEXP.MEMBERS k WITHIN 5m WITHIN 5m", syntax),
            ("ZEXP.MEMBERS k 5", syntax),
            ("ZEXP.ADOPT plain UNIT", syntax),
            ("ZEXP.ADOPT plain UNIT m", syntax),
            ("ZEXP.ADOPT plain UNIT s UNIT s", syntax),
            ("ZEXP.ADOPT plain PLUS", syntax),
            ("ZEXP.ADOPT plain PLUS 5m PLUS 5m", syntax),
            ("ZEXP.ADOPT plain FORCE FORCE", syntax),
            ("ZEXP.ADOPT plain NOW", syntax),
            // One wrong pair.
            ("ZEXP.ADD k 5m b 5m", "!ERR "),
            ("ZEXP.ADD k 5m b c", "!ERR "),
            ("ZEXP.ADD missing 5m b -1 c", "!ERR "),
            // Calls that would change nothing are errors, too.
            ("ZEXP.POP hash 0", "!WRONGTYPE "),
            ("ZEXP.POP plain 0", "!NOTEXPIRING "),
            ("ZEXP.ADD ordinary CAP 1 AT 1 a", "!NOTEXPIRING key is an ordinary sorted set; use ZEXP.ADOPT "),
        ],
    );
}

/// Invalid durations, times and numbers are errors at every position. The unit tests of the parsers try more.
#[test]
fn wrong_durations_times_and_numbers_are_errors_wherever_they_stand() {
    // A lifetime may be too large although it is a number, because it is added to the time.
    const DURATIONS: &[&str] = &["0", "0ms", "-5m", "five", "\"\"", "9007199254740992ms"];
    const LIFETIMES: &[&str] = &["9007199254740991ms", "9007199254740s", "104249991d"];
    const TIMES: &[&str] = &[
        "9007199254740992ms",
        "9007199254740.992",
        "18446744073709551615",
        "18446744073709551616ms",
        "-1",
        "-1ms",
        "now",
    ];
    const NUMBERS: &[&str] = &["1.0", "\"\"", "one", "9223372036854775808"];
    let (server, mut c) = zoo();
    let mut lines = Vec::new();
    for (line, wrong) in [
        ("ZEXP.ADD k ? c", [DURATIONS, LIFETIMES].concat()),
        ("ZEXP.ADD k 5m b ? c", [DURATIONS, LIFETIMES].concat()),
        ("ZEXP.ADD missing CAP 5 ? c", DURATIONS.to_vec()),
        ("ZEXP.EXPIRE k ? a", [DURATIONS, LIFETIMES].concat()),
        ("ZEXP.EXPIRE missing ? a", DURATIONS.to_vec()),
        ("ZEXP.MEMBERS k WITHIN ?", DURATIONS.to_vec()),
        ("ZEXP.ADOPT plain PLUS ?", DURATIONS.to_vec()),
        ("ZEXP.ADD k AT ? c", TIMES.to_vec()),
        ("ZEXP.EXPIRE k AT ? a", TIMES.to_vec()),
        ("ZEXP.ADD k CAP ? 5m c", [NUMBERS, &["-1"]].concat()),
        ("ZEXP.MEMBERS k LIMIT ? 1", NUMBERS.to_vec()),
        ("ZEXP.MEMBERS k LIMIT 1 ?", NUMBERS.to_vec()),
        ("ZEXP.RANDMEMBER k ?", [NUMBERS, &["-9223372036854775808"]].concat()),
        ("ZEXP.POP k ?", [NUMBERS, &["-1"]].concat()),
    ] {
        lines.extend(wrong.iter().map(|wrong| line.replace('?', wrong)));
    }
    let lines: Vec<_> = lines.iter().map(|line| (line.as_str(), "!ERR ")).collect();
    refused(&server, &mut c, &lines);
}
