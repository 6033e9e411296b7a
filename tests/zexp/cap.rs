//! ZEXP.ADD CAP: semaphores with leases, and limits of the kind "at most n per window".

use testkit::{FAR, Server, plant, start};

#[test]
fn a_full_set_refuses_newcomers_and_stays_as_it_is() {
    let (_server, mut c) = start();
    c.script(&[("ZEXP.ADD k CAP 2 5m a", "1"), ("ZEXP.ADD k CAP 2 5m b", "1")]);
    let before = c.trace("k");
    c.script(&[
        ("ZEXP.ADD k CAP 2 5m c", "nil"),
        // A call does all or nothing: if the new member is refused, `a` is not refreshed.
        ("ZEXP.ADD k CAP 2 9m a 9m c", "nil"),
        ("ZEXP.ADD k CAP 3 9m c 9m d", "nil"),
        ("ZEXP.ADD k CH CAP 2 9m c", "nil"),
        ("ZEXP.ADD k NX CAP 2 9m c", "nil"),
    ]);
    assert_eq!(c.trace("k"), before);
    c.script(&[
        ("ZEXP.ADD k CAP 4 5m c 5m d", "2".to_owned()),
        ("ZEXP.ADD none CAP 0 5m a", "nil".into()),
        ("EXISTS none", "0".into()),
        (&format!("ZEXP.ADD k CAP {} 5m e 5m f", i64::MAX), "2".into()),
        ("ZEXP.ADD k CAP 9007199254740991 5m g", "1".into()),
    ]);
    // Expired members do not count.
    plant(&mut c, "k", &[("x", 1000), ("y", 2000), ("live", FAR)]);
    c.script(&[("ZEXP.ADD k CAP 2 5m z", "1"), ("ZEXP.ADD k CAP 2 5m x", "nil"), ("ZEXP.ADD k CAP 3 5m x", "1")]);
}

#[test]
fn members_that_are_in_may_always_be_refreshed() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k 5m a 5m b 5m c", "3"),
        ("ZEXP.ADD k CAP 3 CH 6m a 6m b 6m c", "3"),
        // Members are refreshed even if there are more of them than the cap.
        ("ZEXP.ADD k CAP 1 CH 7m a", "1"),
        ("ZEXP.ADD k CAP 0 CH 8m a 8m b", "2"),
    ]);
}

#[test]
fn only_those_count_that_would_be_added() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k 5m a 5m b", "2"),
        // XX or a past time keeps `stranger` from being added, so the cap does not refuse the call.
        ("ZEXP.ADD k XX CAP 2 6m a 6m stranger", "0"),
        ("ZEXP.ADD k CAP 2 AT 1 stranger", "0"),
        ("ZEXP.ADD k CAP 0 AT 1 stranger", "0"),
        ("ZEXP.ADD k CAP 0 CH AT 1 a", "1"),
        ("ZEXP.ADD k NX CAP 1 6m b", "0"),
        ("ZEXP.MEMBERS k", "['b']"),
        // A member named twice counts once.
        ("ZEXP.ADD k CAP 2 5m c 5m c 5m c", "1"),
    ]);
}

#[test]
fn a_member_removed_in_the_same_call_makes_room() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k 5m a 5m b", "2"),
        (&format!("ZEXP.ADD k CAP 2 AT 1 a {FAR}ms c"), "1"),
        (&format!("ZEXP.ADD k CAP 2 AT {FAR}ms d 1 b"), "1"),
        (&format!("ZEXP.ADD k CAP 2 AT 1 c {FAR}ms e {FAR}ms f"), "nil"),
        ("ZEXP.MEMBERS k", "['c' 'd']"),
    ]);
}

#[test]
fn concurrent_clients_never_pass_the_cap() {
    let server = Server::start();
    std::thread::scope(|scope| {
        for worker in 0..20 {
            let mut c = server.client();
            scope.spawn(move || {
                for n in 0..20 {
                    c.run(&format!("ZEXP.ADD k CAP 37 5m {worker}:{n}"));
                }
            });
        }
    });
    server.client().script(&[("ZEXP.CARD k", "37")]);
}
