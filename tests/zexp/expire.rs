//! ZEXP.EXPIRE, ZEXP.PERSIST, ZEXP.TTL and ZEXP.PTTL: the expiry of existing members.

use testkit::{FAR, NEVER, assert_tagged, plant, start};

#[test]
fn expire_answers_for_each_member() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &[("dead", 1000), ("early", FAR - 1), ("same", FAR), ("late", FAR + 1)]);
    let all = format!("AT {FAR}ms early same late absent dead");
    c.script(&[
        (format!("ZEXP.EXPIRE k GT {all}"), "[1 0 0 -2 -2]"),
        (format!("ZEXP.EXPIRE k LT {all}"), "[0 0 1 -2 -2]"),
        (format!("ZEXP.EXPIRE k {all}"), "[1 1 1 -2 -2]"),
        (format!("ZEXP.EXPIRE k AT {}ms early late", FAR + 5), "[1 1]"),
    ]);
    assert_tagged(&mut c, "k");
    c.script(&[
        ("ZSCORE k same", format!("'{FAR}'")),
        ("ZSCORE k late", format!("'{}'", FAR + 5)),
        ("ZEXP.EXPIRE absent 5m a b", "[-2 -2]".into()),
        ("EXISTS absent", "0".into()),
    ]);
}

#[test]
fn expire_takes_lifetimes_too() {
    let (_server, mut c) = start();
    c.run("ZEXP.ADD k 5m a 5m b");
    let before = c.now();
    c.script(&[("ZEXP.EXPIRE k 1.5h a", "[1]")]);
    let after = c.now();
    let at: i64 = c.string("ZSCORE k a").parse().expect("a time");
    assert!((before + 5_400_000..=after + 5_400_000).contains(&at));
    assert_tagged(&mut c, "k");
}

#[test]
fn expiring_in_the_past_removes() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k 5m a 5m b 5m c 5m d", "4"),
        ("ZEXP.EXPIRE k AT 1 a absent", "[2 -2]"),
        ("ZEXP.EXPIRE k GT AT 1 b", "[0]"),
        ("ZEXP.EXPIRE k LT AT 1 b", "[2]"),
        // The first `c` is removed, so the second does not exist any more.
        ("ZEXP.EXPIRE k AT 0 c c", "[2 -2]"),
        ("ZRANGE k 1 -1", "['d']"),
        ("ZEXP.EXPIRE k AT 1 d", "[2]"),
        ("EXISTS k", "0"),
    ]);
}

#[test]
fn persist_takes_the_expiry_away() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &[("dead", 1000), ("a", FAR), ("b", FAR)]);
    c.script(&[
        ("ZEXP.PERSIST k a absent dead", "[1 -2 -2]".to_owned()),
        ("ZEXP.PERSIST k a b b", "[-1 1 -1]".into()),
        ("ZSCORE k a", format!("'{NEVER}'")),
        ("ZEXP.PTTL k a", "[-1]".into()),
        ("ZEXP.TTL k a", "[-1]".into()),
        ("ZEXP.ISMEMBER k a", "1".into()),
        ("ZEXP.CARD k", "2".into()),
        ("ZEXP.PERSIST missing a b", "[-2 -2]".into()),
    ]);
}

#[test]
fn a_member_without_expiry_can_get_one_again() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k 5m a 5m b", "2".to_owned()),
        ("ZEXP.PERSIST k a b", "[1 1]".into()),
        // No time is later than never.
        ("ZEXP.ADD k GT CH 5m a", "0".into()),
        ("ZEXP.EXPIRE k GT 5m a", "[0]".into()),
        ("ZEXP.EXPIRE k LT 5m a", "[1]".into()),
        ("ZEXP.ADD k CH 5m b", "1".into()),
    ]);
    assert_tagged(&mut c, "k");
}

#[test]
fn remaining_lives_are_told_in_milliseconds_and_in_seconds() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &[("dead", 1000), ("a", FAR), ("never", NEVER)]);
    let before = c.now();
    let pttl = c.ints("ZEXP.PTTL k a never absent dead a");
    let ttl = c.ints("ZEXP.TTL k a never absent dead a");
    let after = c.now();
    assert!((FAR - after..=FAR - before).contains(&pttl[0]), "{pttl:?}");
    assert_eq!(pttl[1..], [-1, -2, -2, pttl[0]]);
    // Rounded to the nearest second, as in TTL.
    let seconds = (FAR - after + 500) / 1000..=(FAR - before + 500) / 1000;
    assert!(seconds.contains(&ttl[0]), "{ttl:?}");
    assert_eq!(ttl[1..], [-1, -2, -2, ttl[0]]);
    c.script(&[("ZEXP.TTL missing a b", "[-2 -2]"), ("ZEXP.PTTL missing a", "[-2]")]);
}

#[test]
fn ttl_rounds_as_the_servers_own_does() {
    let (_server, mut c) = start();
    let at = c.now() + 100_000;
    c.script(&[(format!("ZEXP.ADD k AT {at}ms a"), "1")]);
    c.run("SET twin x");
    c.run(&format!("PEXPIREAT twin {at}"));
    // The rounded second may change between the two calls, so the test repeats them.
    testkit::eventually(testkit::PATIENCE, "TTL agrees", || {
        let ours = c.ints("ZEXP.TTL k a")[0];
        ours == c.int("TTL twin")
    });
}
