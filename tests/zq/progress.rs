//! PROGRESS: what an attempt has done is there at the next one.

use redis::Value;
use testkit::{assert_agree, show, start_pair};

#[test]
fn progress_is_shown_replicated_and_bounded() {
    let (server, replica, mut c) = start_pair();
    c.string("ZQ.PUSH q x ID a MAXATTEMPTS 3");
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
    let long = "x".repeat(1024);
    c.script(&[
        (format!("ZQ.PROGRESS q a {token} {long}"), "1"),
        (format!("ZQ.PROGRESS q a {token} {long}y"), "!ERR progress text is too long, must be at most 1024 bytes"),
        (format!("ZQ.PROGRESS q a {token} 40%"), "1"),
        (format!("ZQ.PROGRESS q a {} x", token + 1), "0"),
        (format!("ZQ.PROGRESS q b {token} x"), "0"),
        (format!("ZQ.PROGRESS none a {token} x"), "0"),
        ("EXISTS none".to_owned(), "0"),
        ("ZQ.PROGRESS q a half x".to_owned(), "!ERR value is not an integer or out of range"),
        (format!("ZQ.PROGRESS q a {token}"), "!ERR wrong number of arguments for 'ZQ.PROGRESS' command"),
        (format!("ZQ.NACK q a {token} ERROR broken"), "1"),
    ]);
    let shown = show(&c.run("ZQ.GET q a"));
    assert!(shown.contains("'error' 'broken' 'progress' '40%' "), "{shown}");
    let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
    c.script(&[(format!("ZQ.PROGRESS q a {token} \"\""), "1")]);
    let shown = show(&c.run("ZQ.GET q a"));
    assert!(shown.contains("'progress_ms' nil ") && shown.contains("'progress' nil "), "{shown}");
    assert_agree(&server, &[&replica]);
}

#[test]
fn an_error_is_not_cut_inside_a_character() {
    let (_server, mut c) = testkit::start();
    // The last bytes of the text, and how many of them fit.
    for (end, kept) in [("€€", 3), ("x€", 1), ("xy€", 2), ("xyz", 3), ("é€", 2), ("\u{1f600}", 0), ("xé", 3)]
    {
        let text = format!("{}{end}", "e".repeat(1021));
        c.run("DEL q");
        c.string("ZQ.PUSH q x ID a");
        let token = c.claim("ZQ.CLAIM 1 q LEASE 1h");
        c.run(&format!("ZQ.NACK q a {token} ERROR {text}"));
        let Value::Array(fields) = c.run("ZQ.GET q a") else { panic!("a job") };
        let error = fields.chunks(2).find(|pair| show(&pair[0]) == "'error'").expect("a field");
        let error: Vec<u8> = redis::from_redis_value_ref(&error[1]).expect("a text");
        let expected = if text.len() <= 1024 { text.len() } else { 1021 + kept };
        assert_eq!(String::from_utf8(error).as_deref(), Ok(&text[..expected]), "{end}");
    }
}
