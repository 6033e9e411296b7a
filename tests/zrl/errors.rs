//! Whatever is wrong with a rate limit's arguments or key: an error, and nothing has changed.

use testkit::{FAR, Stream, plant, start};

#[test]
fn keys_of_other_kinds_are_refused_and_left_alone() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    c.run("SET string x");
    c.run("HSET hash f v");
    c.run("ZADD plain 1 a 2 b");
    // As a limit of version 0.2 was stored.
    c.run(&format!("ZADD old {FAR} 0 {} 1", FAR + 1));
    c.run(&format!("PEXPIREAT old {}", FAR / 1000 * 1000 + 2001));
    plant(&mut c, "expiring", &[("a", FAR), ("b", FAR + 1)]);
    stream.take();
    for (key, error) in [
        ("string", "!NOTLIMIT "),
        ("hash", "!WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("plain", "!WRONGTYPE "),
        ("old", "!WRONGTYPE "),
        ("expiring", "!WRONGTYPE "),
    ] {
        let before = c.trace(key);
        for call in ["ZRL.CHECK", "ZRL.PEEK"] {
            for options in ["5 10m", "5 10m COST 0", "5 10m COST 9"] {
                c.script(&[(format!("{call} {key} {options}"), error)]);
            }
        }
        assert_eq!(c.trace(key), before, "{key}");
    }
    assert_eq!(stream.take(), [""; 0]);
}

#[test]
fn bad_input_is_an_error_and_never_a_crash() {
    let (server, mut c) = start();
    c.verdict("ZRL.CHECK k 5 10m COST 2");
    let mut stream = Stream::attach(&server);
    stream.take();
    let before = c.trace("k");
    let syntax = "!ERR syntax error";
    let arity = "!ERR wrong number of arguments";
    let mut table: Vec<(String, &str)> = [
        ("", arity),
        ("k", arity),
        ("k 5", arity),
        ("k 5 10m COST", "!ERR "),
        ("k 5 10m PRECISION", "!ERR "),
        ("k 5 10m COST 1 COST 1", syntax),
        ("k 5 10m SLIDING SLIDING", syntax),
        ("k 5 10m SLIDING FIXED", syntax),
        ("k 5 10m LEAKY SLIDING", syntax),
        ("k 5 10m FIXED LEAKY", syntax),
        ("k 5 10m EXACT EXACT", syntax),
        ("k 5 10m EXACT PRECISION 1s", syntax),
        ("k 5 10m PRECISION 1s EXACT", syntax),
        ("k 5 10m PRECISION 1s PRECISION 1s", syntax),
        ("k 5 10m 3", syntax),
        ("k 5 10m TUMBLING", syntax),
        ("k 5 10m COST 1 nonsense", syntax),
    ]
    .map(|(arguments, error)| (arguments.to_owned(), error))
    .into();
    for limit in [
        "0",
        "-1",
        "-0",
        "+5",
        "5.0",
        "1e3",
        "0x5",
        "five",
        "\"\"",
        "NaN",
        "inf",
        "9007199254740992",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "99999999999999999999999999",
    ] {
        table.push((format!("k {limit} 10m"), "!ERR "));
        if limit != "0" {
            table.push((format!("k 5 10m COST {limit}"), "!ERR "));
        }
    }
    for duration in [
        "0",
        "0ms",
        "-1",
        "-5m",
        "+5m",
        "5.",
        ".5",
        "1e3",
        "ten",
        "\"\"",
        "m",
        "10y",
        "NaN",
        "9007199254740991ms",
        "9007199254740992ms",
        "99999999999999999999w",
    ] {
        table.push((format!("k 5 {duration}"), "!ERR "));
        table.push((format!("missing 5 {duration}"), "!ERR "));
        if !duration.starts_with('9') {
            table.push((format!("k 5 10m PRECISION {duration}"), "!ERR "));
        }
    }
    for (arguments, error) in table {
        for call in ["ZRL.CHECK", "ZRL.PEEK"] {
            let line = format!("{call} {arguments}");
            c.script(&[(&line, error)]);
            assert_eq!(c.trace("k"), before, "{line}");
        }
    }
    c.script(&[("EXISTS missing", "0")]);
    assert_eq!(stream.take(), [""; 0]);
}

#[test]
fn bytes_that_are_no_text_are_answered_with_clean_errors() {
    let (_server, mut c) = start();
    for junk in
        [&b"5 "[..], b" 5", b"5\n", b"5\0", b"\0", b"\r\n+OK\r\n", b"\xff", b"%s%n", "５".as_bytes(), &[b'9'; 5000]]
    {
        for call in ["ZRL.CHECK", "ZRL.PEEK"] {
            for command in [
                redis::cmd(call).arg("k").arg(junk).arg("10m"),
                redis::cmd(call).arg("k").arg("5").arg(junk),
                redis::cmd(call).arg("k").arg("5").arg("10m").arg(junk),
                redis::cmd(call).arg("k").arg("5").arg("10m").arg("COST").arg(junk),
                redis::cmd(call).arg("k").arg("5").arg("10m").arg("PRECISION").arg(junk),
            ] {
                let error = c.try_call(command).expect_err("junk is refused");
                assert!(error.starts_with("ERR "), "{error:?}");
                assert!(!error.contains(['\r', '\n', '\0']), "{error:?}");
            }
        }
    }
    c.script(&[("EXISTS k", "0")]);
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
