//! ZRL.THROTTLE: redis-cell's CL.THROTTLE under another name.

use testkit::start;

#[test]
fn the_example_of_redis_cell() {
    let (_server, mut c) = start();
    // The burst is 15 + 1. Then 30 units per 100 minutes become available: one every 200 seconds. (In the example, the
    // period is a minute. A busy machine would need longer for the calls.)
    let first = c.ints("ZRL.THROTTLE k 15 30 6000 1");
    assert_eq!(first[..4], [0, 16, 15, -1]);
    assert!((200..=201).contains(&first[4]), "{first:?}");
    for remaining in (0..15).rev() {
        assert_eq!(c.ints("ZRL.THROTTLE k 15 30 6000")[..4], [0, 16, remaining, -1]);
    }
    let limited = c.ints("ZRL.THROTTLE k 15 30 6000 10");
    assert_eq!(limited[..3], [1, 16, 0]);
    assert!((1800..=2001).contains(&limited[3]), "{limited:?}");
    assert!((3000..=3201).contains(&limited[4]), "{limited:?}");
}

#[test]
fn quantity_zero_asks() {
    let (_server, mut c) = start();
    assert_eq!(c.ints("ZRL.THROTTLE k 4 1 3600 0")[..4], [0, 5, 5, -1]);
    c.script(&[("EXISTS k", "0")]);
    c.ints("ZRL.THROTTLE k 4 1 3600 5");
    let before = c.trace("k");
    assert_eq!(c.ints("ZRL.THROTTLE k 4 1 3600 0")[..3], [0, 5, 0]);
    assert_eq!(c.ints("ZRL.THROTTLE k 4 1 3600")[..3], [1, 5, 0]);
    assert_eq!(c.trace("k"), before);
}

#[test]
fn a_negative_quantity_gives_units_back() {
    let (_server, mut c) = start();
    c.ints("ZRL.THROTTLE k 9 1 3600 6");
    assert_eq!(c.ints("ZRL.THROTTLE k 9 1 3600 -4")[..4], [0, 10, 8, -1]);
    assert_eq!(c.ints("ZRL.THROTTLE k 9 1 3600 -4"), [0, 10, 10, -1, 0], "never more than are held");
    c.script(&[("EXISTS k", "0")]);
}

/// A key as redis-cell writes it: its value is the theoretical arrival time in nanoseconds, and its TTL ends at that
/// time.
#[test]
fn a_key_that_redis_cell_wrote_goes_on() {
    let (_server, mut c) = start();
    let now = c.now();
    c.run(&format!("SET k {}000000 PX 7200000", now + 7_200_000));
    assert_eq!(c.ints("ZRL.THROTTLE k 4 1 3600")[..3], [0, 5, 2]);
    // A key without a TTL. redis-cell leaves such a key if more units are returned than are in use.
    c.run(&format!("SET k {}000000", now - 5_184_000_000));
    assert_eq!(c.ints("ZRL.THROTTLE k 4 1 3600")[..3], [0, 5, 4]);
    assert!(c.int("PTTL k") > 3_590_000);
    // Another client has changed the TTL, or the key comes from a server with another clock.
    c.run("PEXPIRE k 1000000");
    assert_eq!(c.ints("ZRL.THROTTLE k 4 1 3600")[..3], [0, 5, 3]);
    assert!(c.int("PTTL k") > 7_190_000);
}
