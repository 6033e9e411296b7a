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
    c.run(&format!("ZADD ordinary {FAR} a"));
    c.run(&format!("PEXPIREAT ordinary {}", FAR + 100_000));
    c.run("SET string x");
    c.run("HSET hash f v");
    (server, c)
}

/// server/rules.rs tries every command.
#[test]
fn keys_of_other_kinds_are_never_touched() {
    let (server, mut c) = zoo();
    let wrong = "!WRONGTYPE Operation against a key holding the wrong kind of value";
    let mut lines = vec![("ZEXP.ADOPT string FORCE".to_owned(), wrong)];
    for (key, error) in [("string", wrong), ("hash", wrong), ("plain", "!NOTEXPIRING "), ("ordinary", "!NOTEXPIRING ")]
    {
        lines.extend(["ZEXP.ADD KEY CAP 1 AT 1 a", "ZEXP.POP KEY 0"].map(|line| (line.replace("KEY", key), error)));
    }
    let lines: Vec<_> = lines.iter().map(|(line, error)| (line.as_str(), *error)).collect();
    refused(&server, &mut c, &lines);
    // The error names the command that helps.
    let error = c.reply("ZEXP.ADD plain 5m a");
    assert!(error.contains("ZEXP.ADOPT"), "{error}");
}

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
        ],
    );
}

/// Texts that are never durations. The unit tests of the parser try more.
const BAD_DURATIONS: [&str; 6] = ["0", "0ms", "-5m", "five", "\"\"", "9007199254740992ms"];

#[test]
fn bad_durations_are_errors_wherever_one_stands() {
    let (server, mut c) = zoo();
    let lines: Vec<_> = [
        "ZEXP.ADD k TTL c",
        "ZEXP.ADD missing CAP 5 TTL c",
        "ZEXP.EXPIRE k TTL a",
        "ZEXP.EXPIRE missing TTL a",
        "ZEXP.MEMBERS k WITHIN TTL",
        "ZEXP.ADOPT plain PLUS TTL",
    ]
    .iter()
    .flat_map(|line| BAD_DURATIONS.map(|ttl| line.replace("TTL", ttl)))
    .collect();
    let lines: Vec<_> = lines.iter().map(|line| (line.as_str(), "!ERR ")).collect();
    refused(&server, &mut c, &lines);
}

#[test]
fn a_lifetime_may_not_reach_beyond_the_last_millisecond_a_score_can_tell() {
    let (server, mut c) = zoo();
    refused(
        &server,
        &mut c,
        &[
            // A valid number, but too large as a duration from now.
            ("ZEXP.ADD k 9007199254740991ms c", "!ERR "),
            ("ZEXP.ADD k 9007199254740s c", "!ERR "),
            ("ZEXP.ADD k 104249991d c", "!ERR "),
            ("ZEXP.EXPIRE k 9007199254740991ms a", "!ERR "),
            ("ZEXP.ADD k AT 9007199254740992ms c", "!ERR "),
            ("ZEXP.ADD k AT 9007199254740.992 c", "!ERR "),
            ("ZEXP.ADD k AT 18446744073709551615 c", "!ERR "),
            ("ZEXP.ADD k AT 18446744073709551616ms c", "!ERR "),
            ("ZEXP.ADD k AT -1 c", "!ERR "),
            ("ZEXP.ADD k AT -1ms c", "!ERR "),
            ("ZEXP.ADD k AT now c", "!ERR "),
            ("ZEXP.EXPIRE k AT -1 a", "!ERR "),
        ],
    );
}

#[test]
fn numbers_are_parsed_strictly() {
    let (server, mut c) = zoo();
    let bad = ["1.0", "\"\"", "one", "9223372036854775808"];
    let mut lines: Vec<_> = [
        "ZEXP.ADD k CAP ? 5m c",
        "ZEXP.MEMBERS k LIMIT ? 1",
        "ZEXP.MEMBERS k LIMIT 1 ?",
        "ZEXP.RANDMEMBER k ?",
        "ZEXP.POP k ?",
    ]
    .iter()
    .flat_map(|line| bad.map(|number| line.replace('?', number)))
    .collect();
    lines.extend(
        ["ZEXP.ADD k CAP -1 5m c", "ZEXP.POP k -1", "ZEXP.RANDMEMBER k -9223372036854775808"].map(str::to_owned),
    );
    let lines: Vec<_> = lines.iter().map(|line| (line.as_str(), "!ERR ")).collect();
    refused(&server, &mut c, &lines);
}
