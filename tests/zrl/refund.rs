//! ZRL.REFUND: units that one call took are given back.

use testkit::{Server, Stream, plant, start};

#[test]
fn what_was_reserved_too_much_comes_back() {
    let (_server, mut c) = start();
    let at = c.verdict("ZRL.CHECK k 100 10m COST 80").charged_until;
    c.script(&[(format!("ZRL.REFUND k 30 AT {at}"), "30")]);
    assert_eq!(c.verdict("ZRL.PEEK k 100 10m").remaining, 50);
    assert_eq!(c.verdict("ZRL.CHECK k 100 10m COST 50").remaining, 0);
}

#[test]
fn never_more_than_is_held_there() {
    let (_server, mut c) = start();
    let at = c.verdict("ZRL.CHECK k 100 10m COST 5").charged_until;
    c.script(&[
        (format!("ZRL.REFUND k 3 AT {at}"), "3"),
        (format!("ZRL.REFUND k 9 AT {at}"), "2"),
        (format!("ZRL.REFUND k 1 AT {at}"), "0"),
        (format!("ZRL.REFUND k 1 AT {}", at + 1), "0"),
        (format!("ZRL.REFUND missing 1 AT {at}"), "0"),
    ]);
    assert_eq!(c.verdict("ZRL.PEEK k 100 10m").remaining, 100);
}

#[test]
fn only_the_units_of_that_call_are_given_back() {
    let (_server, mut c) = start();
    let mut calls = Vec::new();
    for cost in [2, 3, 4] {
        calls.push(c.verdict(&format!("ZRL.CHECK k 20 10m COST {cost}")).charged_until);
        let tick = c.now() + 2;
        c.wait_until(tick);
    }
    c.script(&[(format!("ZRL.REFUND k 3 AT {}", calls[1]), "3")]);
    assert_eq!(c.slots("k"), [(2, calls[0]), (4, calls[2])]);
    assert_eq!(c.verdict("ZRL.PEEK k 20 10m").remaining, 14);
    c.script(&[(format!("ZRL.REFUND k 1 AT {}", calls[0]), "1")]);
    c.script(&[(format!("ZRL.REFUND k 1 AT {}", calls[2]), "1")]);
    assert_eq!(c.verdict("ZRL.CHECK k 20 10m").remaining, 15);
}

#[test]
fn fixed_and_leaky_give_back_too() {
    let (_server, mut c) = start();
    let at = c.verdict("ZRL.CHECK f 10 30d FIXED COST 8").charged_until;
    c.script(&[(format!("ZRL.REFUND f 5 AT {at}"), "5")]);
    assert_eq!(c.verdict("ZRL.PEEK f 10 30d FIXED").remaining, 7);
    let at = c.verdict("ZRL.CHECK l 10 30d LEAKY COST 8").charged_until;
    c.script(&[(format!("ZRL.REFUND l 5 AT {at}"), "5")]);
    assert_eq!(c.verdict("ZRL.PEEK l 10 30d LEAKY").remaining, 7);
}

#[test]
fn errors_change_nothing() {
    let (server, mut c) = start();
    let at = c.verdict("ZRL.CHECK k 10 10m COST 5").charged_until;
    c.run("SET string x");
    c.run("ZRL.THROTTLE throttle 5 1 60");
    plant(&mut c, "expiring", &[("a", testkit::FAR)]);
    let mut stream = Stream::attach(&server);
    stream.take();
    let before = c.trace("k");
    for (arguments, error) in [
        ("k".to_owned(), "!ERR wrong number of arguments"),
        (format!("k -1 AT {at}"), "!ERR "),
        (format!("k x AT {at}"), "!ERR "),
        (format!("k 9007199254740992 AT {at}"), "!ERR "),
        (format!("k 1 FROM {at}"), "!ERR syntax error"),
        (format!("k 1 AT {at} x"), "!ERR "),
        ("k 1 AT -5".into(), "!ERR "),
        ("k 1 AT x".into(), "!ERR "),
        (format!("string 1 AT {at}"), "!NOTLIMIT "),
        (format!("throttle 1 AT {at}"), "!NOTLIMIT "),
        (format!("expiring 1 AT {at}"), "!WRONGTYPE "),
    ] {
        c.script(&[(format!("ZRL.REFUND {arguments}"), error)]);
        assert_eq!(c.trace("k"), before, "{arguments}");
    }
    c.script(&[(format!("ZRL.REFUND k 1 AT {}", at + 7), "0")]);
    assert_eq!(c.trace("k"), before);
    assert_eq!(stream.take(), [""; 0]);
}

/// However much was taken since, in a ring that has wrapped around: the replica is told, too.
#[test]
fn a_refund_renumbers_all_that_was_taken_since() {
    let (server, mut c) = start();
    let replica = Server::builder().plain().replica_of(&server);
    let mut calls = Vec::new();
    let start = c.now();
    while c.now() < start + 700 {
        let at = c.verdict("ZRL.CHECK k 100000 500ms EXACT COST 2").charged_until;
        if calls.last() != Some(&at) {
            calls.push(at);
        }
    }
    let live = c.verdict("ZRL.CHECK k 100000 1h EXACT COST 0").remaining;
    let until = *calls.iter().rev().nth(20).unwrap();
    c.script(&[(format!("ZRL.REFUND k 1 AT {until}"), "1")]);
    assert!(c.verdict("ZRL.CHECK k 100000 1h EXACT COST 0").remaining > live);
    replica.wait_for_sync(&server);
    assert_eq!(replica.client().slots("k"), c.slots("k"));
}
