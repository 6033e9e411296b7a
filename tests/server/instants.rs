//! The time after `AT`: all commands parse it by the same rule.

use testkit::{Client, FAR, Stream, start};

/// Passes a time to each command that accepts one. Returns the resulting time in ms, or the error.
fn given_to_all(c: &mut Client, instant: &str) -> Vec<(&'static str, String)> {
    c.run("DEL added expired q");
    c.run("ZEXP.ADD expired 1h m");
    c.run("ZQ.PUSH q x ID later");
    let calls = [
        ("ZEXP.ADD", format!("ZEXP.ADD added AT {instant} m"), "ZSCORE added m"),
        ("ZEXP.EXPIRE", format!("ZEXP.EXPIRE expired AT {instant} m"), "ZSCORE expired m"),
        ("ZQ.PUSH", format!("ZQ.PUSH q x ID new AT {instant}"), "ZQ.PEEK q DELAYED COUNT 1"),
        ("ZQ.RESCHEDULE", format!("ZQ.RESCHEDULE q later AT {instant}"), "ZQ.PEEK q DELAYED COUNT 1"),
    ];
    let mut outcome = |(command, call, look): (_, String, &str)| {
        let reply = c.reply(&call);
        let made = if reply.starts_with('!') { reply } else { c.reply(look) };
        if command == "ZQ.PUSH" {
            c.run("ZQ.CANCEL q new");
        }
        (command, made)
    };
    calls.map(&mut outcome).into()
}

#[test]
fn every_command_reads_an_instant_in_the_same_way() {
    let (_server, mut c) = start();
    for instant in [
        "4102444800",
        "4102444800000",
        "4102444800s",
        "4102444800000MS",
        "2099-12-31T23:00:00-01:00",
        // Rounded up to a millisecond.
        "4102444799.9991",
        "4102444799.9999s",
        "2100-01-01T00:59:59.9995+01:00",
    ] {
        for (command, made) in given_to_all(&mut c, instant) {
            assert!(made.contains(&FAR.to_string()), "{command} AT {instant}: {made}");
        }
    }
}

#[test]
fn what_is_no_instant_is_an_error_in_every_command() {
    let (_server, mut c) = start();
    for instant in ["1d", "5m", "-5", "1.5ms", "4102444800000.5", "2100-01-01", "2100-01-01T00:00:00", "noon"] {
        for (command, made) in given_to_all(&mut c, instant) {
            // At positions where a keyword is allowed, the error reports an unknown keyword instead of an invalid time.
            assert!(made.starts_with("!ERR "), "{command} AT {instant}: {made}");
        }
        c.script(&[("EXISTS added", "0"), ("ZCARD expired", "2"), ("ZQ.PEEK q DELAYED", "[]")]);
    }
}

#[test]
fn what_a_reply_says_can_be_given_back() {
    let (server, mut c) = start();
    c.run("ZQ.PUSH q x ID a DELAY 1h");
    let due = |c: &mut Client| c.reply("ZQ.PEEK q DELAYED").split(' ').nth(1).map(str::to_owned).expect("a due time");
    let before = due(&mut c);
    c.script(&[(format!("ZQ.RESCHEDULE q a AT {before}"), "1")]);
    assert_eq!(due(&mut c), before);

    let until = c.verdict("ZRL.CHECK k 10 1h COST 5").charged_until;
    let mut stream = Stream::attach(&server);
    for text in [format!("{until}ms"), format!("{}.{:03}", until / 1000, until % 1000), until.to_string()] {
        c.script(&[(format!("ZRL.REFUND k 1 AT {text}"), "1")]);
        assert!(!stream.take().is_empty(), "{text}");
    }
}
