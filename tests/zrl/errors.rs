//! Invalid arguments and invalid keys of rate limits. Each call returns an error and changes nothing.

use testkit::{Stream, start};

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
    // The unit tests of the parsers try more numbers and durations.
    for number in ["-1", "five", "9007199254740992", "9223372036854775808"] {
        table.push((format!("k {number} 10m"), "!ERR "));
        table.push((format!("k 5 10m COST {number}"), "!ERR "));
    }
    table.push(("k 0 10m".into(), "!ERR "));
    for duration in ["0", "0ms", "ten", "9007199254740991ms"] {
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
