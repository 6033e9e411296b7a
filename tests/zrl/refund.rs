//! ZRL.REFUND returns units that an earlier call took.

use testkit::{Server, Stream, start};

#[test]
fn no_more_is_given_back_than_is_held() {
    let (_server, mut c) = start();
    for algorithm in ["SLIDING", "FIXED", "LEAKY"] {
        let at = c.verdict(&format!("ZRL.CHECK k 100 30d {algorithm} COST 5")).charged_until;
        c.script(&[(format!("ZRL.REFUND k 3 AT {at}"), "3"), (format!("ZRL.REFUND missing 1 AT {at}"), "0")]);
        assert_eq!(c.verdict(&format!("ZRL.PEEK k 100 30d {algorithm}")).remaining, 98);
        c.script(&[
            (format!("ZRL.REFUND k 9 AT {at}"), "2"),
            (format!("ZRL.REFUND k 1 AT {at}"), "0"),
            ("EXISTS k missing".into(), "0"),
        ]);
    }
}

/// A refund also rewrites later slots. The replica gets all changes.
#[test]
fn replicas_hold_what_a_refund_has_left() {
    let (server, mut c) = start();
    let replica = Server::builder().plain().replica_of(&server);
    let mut calls = Vec::new();
    for cost in [2, 3, 4] {
        calls.push(c.verdict(&format!("ZRL.CHECK k 20 10m COST {cost}")).charged_until);
        let tick = c.now() + 2;
        c.wait_until(tick);
    }
    c.script(&[(format!("ZRL.REFUND k 3 AT {}", calls[1]), "3")]);
    assert_eq!(c.slots("k"), [(2, calls[0]), (4, calls[2])]);
    replica.wait_for_sync(&server);
    assert_eq!(replica.client().slots("k"), c.slots("k"));
}

#[test]
fn errors_change_nothing() {
    let (server, mut c) = start();
    let at = c.verdict("ZRL.CHECK k 10 10m COST 5").charged_until;
    c.run("ZRL.THROTTLE throttle 5 1 60");
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
        (format!("throttle 1 AT {at}"), "!NOTLIMIT "),
    ] {
        c.script(&[(format!("ZRL.REFUND {arguments}"), error)]);
        assert_eq!(c.trace("k"), before, "{arguments}");
    }
    c.script(&[(format!("ZRL.REFUND k 1 AT {}", at + 7), "0")]);
    assert_eq!(c.trace("k"), before);
    assert_eq!(stream.take(), [""; 0]);
}
