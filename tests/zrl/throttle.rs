//! ZRL.THROTTLE: redis-cell's CL.THROTTLE under another name.

use testkit::start;

#[test]
fn the_example_of_redis_cell() {
    let (_server, mut c) = start();
    // The burst is 15 + 1. Then 30 units per minute become available: one every 2 seconds.
    let first = c.ints("ZRL.THROTTLE k 15 30 60 1");
    assert_eq!(first[..4], [0, 16, 15, -1]);
    assert!((2..=3).contains(&first[4]), "{first:?}");
    for remaining in (0..15).rev() {
        let fields = c.ints("ZRL.THROTTLE k 15 30 60");
        assert_eq!(fields[..2], [0, 16]);
        assert!((remaining..=remaining + 1).contains(&fields[2]), "{fields:?}");
    }
    let limited = c.ints("ZRL.THROTTLE k 15 30 60 10");
    assert_eq!(limited[..2], [1, 16]);
    assert!((1..=21).contains(&limited[3]), "{limited:?}");
    assert!((25..=33).contains(&limited[4]), "{limited:?}");
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
}
