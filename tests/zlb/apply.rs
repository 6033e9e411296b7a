//! ZLB.APPLY: effects from masters and AOF files, and calls of ordinary clients.

use testkit::{Stream, start};

#[test]
fn effects_of_a_0_2_master_are_applied() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    c.script(&[
        ("ZLB.APPLY b WHOLE 1 0 0 1 0 x 0", "1"),
        ("ZLB.APPLY b SET m 5 n 4", "1"),
        ("ZLB.APPLY b CUT 0 1", "1"),
        ("ZLB.RANGE b 0 -1 WITHVALUES", "[['n' 4]]"),
    ]);
    let expected = ["ZLB.APPLY b REPLACE 1 0 0 1 0 x 0", "ZLB.APPLY b SET m 5 n 4", "ZLB.APPLY b REMRANGE 0 1"];
    assert_eq!(stream.take(), expected);
}

#[test]
fn effects_that_do_not_fit_change_nothing() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM x");
    c.run("ZLB.SET b m 5");
    c.run("SET s text");
    let before = (c.trace("b"), c.trace("s"));
    c.script(&[
        ("ZLB.APPLY b CREATE DIM y", "0"),
        ("ZLB.APPLY nothing SET m 5", "0"),
        ("ZLB.APPLY nothing REM m", "0"),
        ("ZLB.APPLY nothing REMRANGE 0 1", "0"),
        ("ZLB.APPLY nothing CLEAR", "0"),
        ("ZLB.APPLY b SET", "0"),
        ("ZLB.APPLY b SET m 5 6", "0"),
        ("ZLB.APPLY b REMRANGE 1 1", "0"),
        ("ZLB.APPLY b REMRANGE 0 2", "0"),
        ("ZLB.APPLY b REMRANGE 9223372036854775807 9223372036854775807", "0"),
        ("ZLB.APPLY b REPLACE", "!ERR invalid effect"),
        ("ZLB.APPLY b REPLACE 1 0 0 1 0", "!ERR invalid effect"),
        ("ZLB.APPLY b REPLACE 1 0 0 1 0 x 0 surplus", "!ERR invalid effect"),
        ("ZLB.APPLY b REPLACE 1 0 0 1 0 x 1", "!ERR invalid effect"),
        ("ZLB.APPLY b REPLACE x 0 0 1 0 x 0", "!ERR invalid effect"),
        ("ZLB.APPLY b REPLACE 99 0 0 1 0 x 0", "!ERR invalid effect"),
        ("ZLB.APPLY b REM nobody", "1"),
        ("ZLB.APPLY b BLESS m", "!ERR syntax error"),
        ("ZLB.APPLY b set m 5", "!ERR syntax error"),
        ("ZLB.APPLY b SET m x", "!ERR value is not an integer or out of range"),
        ("ZLB.APPLY b REMRANGE 0 0", "!ERR value is out of range, must be positive"),
        ("ZLB.APPLY b REMRANGE -1 1", "!ERR value is out of range, must not be negative"),
        ("ZLB.APPLY b REMRANGE 0", "!ERR "),
        ("ZLB.APPLY b REMRANGE 0 1 1", "!ERR syntax error"),
        ("ZLB.APPLY b CLEAR now", "!ERR syntax error"),
        ("ZLB.APPLY b CREATE", "!ERR leaderboard must have 1 to 64 dimensions"),
        ("ZLB.APPLY s SET m 5", "!WRONGTYPE "),
        ("ZLB.APPLY s REPLACE 1 0 0 1 0 x 0", "!WRONGTYPE "),
        ("ZLB.APPLY s CREATE DIM x", "!WRONGTYPE "),
    ]);
    assert_eq!((c.trace("b"), c.trace("s")), before);
}
