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

/// Each ZEXP command in its shortest valid form.
const CALLS: [&str; 14] = [
    "ZEXP.ADD KEY 5m a",
    "ZEXP.ADD KEY CAP 1 AT 1 a",
    "ZEXP.EXPIRE KEY 5m a",
    "ZEXP.PERSIST KEY a",
    "ZEXP.TTL KEY a",
    "ZEXP.PTTL KEY a",
    "ZEXP.REM KEY a",
    "ZEXP.CARD KEY",
    "ZEXP.ISMEMBER KEY a",
    "ZEXP.MISMEMBER KEY a",
    "ZEXP.MEMBERS KEY",
    "ZEXP.RANDMEMBER KEY",
    "ZEXP.POP KEY",
    "ZEXP.POP KEY 0",
];

#[test]
fn other_types_are_refused_by_every_command() {
    let (server, mut c) = zoo();
    let lines: Vec<_> = CALLS
        .iter()
        .chain(&["ZEXP.ADOPT KEY", "ZEXP.ADOPT KEY FORCE"])
        .flat_map(|line| ["string", "hash"].map(|key| line.replace("KEY", key)))
        .collect();
    let wrong = "!WRONGTYPE Operation against a key holding the wrong kind of value";
    let lines: Vec<_> = lines.iter().map(|line| (line.as_str(), wrong)).collect();
    refused(&server, &mut c, &lines);
}

#[test]
fn ordinary_sorted_sets_are_never_touched() {
    let (server, mut c) = zoo();
    let lines: Vec<_> =
        CALLS.iter().flat_map(|line| ["plain", "ordinary"].map(|key| line.replace("KEY", key))).collect();
    let lines: Vec<_> = lines.iter().map(|line| (line.as_str(), "!NOTEXPIRING ")).collect();
    refused(&server, &mut c, &lines);
    // The error names the command that helps.
    let error = c.reply("ZEXP.ADD plain 5m a");
    assert!(error.contains("ZEXP.ADOPT"), "{error}");
}

#[test]
fn a_rate_limit_is_no_expiring_set() {
    let (_server, mut c) = start();
    c.run("ZRL.CHECK limit 5 10m");
    let before = c.trace("limit");
    for line in CALLS {
        c.script(&[(line.replace("KEY", "limit"), "!WRONGTYPE ")]);
        assert_eq!(c.trace("limit"), before, "{line}");
    }
}

#[test]
fn the_number_of_arguments_is_checked() {
    let (server, mut c) = zoo();
    let wrong = "!ERR wrong number of arguments";
    refused(
        &server,
        &mut c,
        &[
            ("ZEXP.ADD k", wrong),
            ("ZEXP.ADD k 5m", wrong),
            ("ZEXP.EXPIRE k 5m", wrong),
            ("ZEXP.PERSIST k", wrong),
            ("ZEXP.TTL k", wrong),
            ("ZEXP.PTTL k", wrong),
            ("ZEXP.REM k", wrong),
            ("ZEXP.CARD k x", wrong),
            ("ZEXP.ISMEMBER k", wrong),
            ("ZEXP.ISMEMBER k a b", wrong),
            ("ZEXP.MISMEMBER k", wrong),
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
        ],
    );
}

#[test]
fn unknown_repeated_and_contradictory_keywords_are_syntax_errors() {
    let (server, mut c) = zoo();
    let syntax = "!ERR syntax error";
    refused(
        &server,
        &mut c,
        &[
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

#[test]
fn bytes_that_are_no_text_are_answered_with_clean_errors() {
    let (_server, mut c) = zoo();
    let before = c.trace("k");
    for junk in [&b"5 m"[..], b"\0", b"\r\n", b"\xff\xfe", b"%s%n%s", &[b'9'; 1000]] {
        for command in [
            redis::cmd("ZEXP.ADD").arg("k").arg(junk).arg("m"),
            redis::cmd("ZEXP.ADD").arg("k").arg("AT").arg(junk).arg("m"),
            redis::cmd("ZEXP.ADD").arg("k").arg("CAP").arg(junk).arg("5m").arg("m"),
            redis::cmd("ZEXP.EXPIRE").arg("k").arg(junk).arg("a"),
            redis::cmd("ZEXP.MEMBERS").arg("k").arg(junk),
            redis::cmd("ZEXP.MEMBERS").arg("k").arg("WITHIN").arg(junk),
            redis::cmd("ZEXP.MEMBERS").arg("k").arg("LIMIT").arg(junk).arg("1"),
            redis::cmd("ZEXP.RANDMEMBER").arg("k").arg(junk),
            redis::cmd("ZEXP.POP").arg("k").arg(junk),
            redis::cmd("ZEXP.ADOPT").arg("plain").arg(junk),
            redis::cmd("ZEXP.ADOPT").arg("plain").arg("UNIT").arg(junk),
        ] {
            let error = c.try_call(command).expect_err("junk is refused");
            assert!(error.starts_with("ERR "), "{error:?}");
            assert!(!error.contains(['\r', '\n', '\0']), "{error:?}");
        }
        assert_eq!(c.trace("k"), before);
    }
}
