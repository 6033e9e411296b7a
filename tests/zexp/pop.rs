//! ZEXP.POP and ZEXP.REM: removal of live members.

use testkit::{FAR, NEVER, assert_tagged, plant, start};

#[test]
fn pop_takes_the_soonest_to_expire_first() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &[("dead", 1000), ("d", FAR + 2), ("b", FAR), ("a", FAR), ("c", FAR + 1), ("never", NEVER)]);
    c.script(&[
        ("ZEXP.POP k", "'a'"),
        ("ZEXP.POP k 1", "['b']"),
        ("ZEXP.POP k 0", "[]"),
        ("ZEXP.POP k 2", "['c' 'd']"),
    ]);
    assert_tagged(&mut c, "k");
    c.script(&[("ZEXP.POP k 10", "['never']"), ("ZEXP.POP k", "nil"), ("ZEXP.POP k 3", "[]"), ("ZEXP.CARD k", "0")]);
}

#[test]
fn popping_the_last_removes_the_key() {
    let (_server, mut c) = start();
    for pop in ["ZEXP.POP k", "ZEXP.POP k 1", "ZEXP.POP k 99", "ZEXP.REM k a"] {
        c.run("ZEXP.ADD k 5m a");
        c.run(pop);
        c.script(&[("EXISTS k", "0")]);
    }
}

#[test]
fn pop_has_the_shapes_of_spop() {
    let (server, mut c) = start();
    c.script(&[("ZEXP.POP missing", "nil"), ("ZEXP.POP missing 2", "[]")]);
    let mut c3 = server.resp3();
    c3.script(&[("ZEXP.POP missing", "nil"), ("ZEXP.ADD k 5m a 5m b", "2"), ("ZEXP.POP k", "'a'")]);
    // In RESP3, SPOP replies a set. The reply of ZEXP.POP is ordered. The test accepts a set or an array.
    let reply = c3.reply("ZEXP.POP k 2");
    assert!(["['b']", "~['b']"].contains(&reply.as_str()), "{reply}");
}

#[test]
fn rem_counts_live_members() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &[("dead", 1000), ("a", FAR), ("b", FAR + 1), ("c", FAR + 2)]);
    c.script(&[("ZEXP.REM k dead absent", "0"), ("ZEXP.REM k c c absent dead", "1")]);
    assert_tagged(&mut c, "k");
    c.script(&[("ZEXP.REM k a b", "2"), ("ZEXP.CARD k", "0"), ("ZEXP.REM missing a", "0")]);
}
