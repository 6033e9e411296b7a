//! ZLB.APPLY: effects from masters and AOF files, and calls of ordinary clients.

use testkit::{PATIENCE, Server, Stream, eventually, start};

#[test]
fn effects_are_carried_out() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZLB.APPLY b CREATE DIM x DIM f FLOAT TIES NAME", "1"),
        ("ZLB.APPLY b CREATE DIM x DIM f FLOAT TIES NAME", "1"),
        ("ZLB.APPLY b SET m 5 0.5 n 5 0.5 o 1 1", "1"),
        ("ZLB.RANGE b 0 -1", "['m' 'n' 'o']"),
        ("ZLB.APPLY b REM n nobody", "1"),
        ("ZLB.APPLY b REMRANGE 1 1", "1"),
        ("ZLB.RANGE b 0 -1 WITHVALUES", "[['m' 5 '0.5']]"),
        ("ZLB.APPLY b CLEAR", "1"),
        ("ZLB.CARD b", "0"),
    ]);
}

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
    for (line, reply) in [
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
        ("ZLB.APPLY b REPLACE", "0"),
        ("ZLB.APPLY b REPLACE 1 0 0 1 0", "0"),
        ("ZLB.APPLY b REPLACE 1 0 0 1 0 x 0 surplus", "0"),
        ("ZLB.APPLY b REPLACE 1 0 0 1 0 x 1", "0"),
        ("ZLB.APPLY b REPLACE x 0 0 1 0 x 0", "0"),
        ("ZLB.APPLY b REPLACE 99 0 0 1 0 x 0", "0"),
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
    ] {
        c.script(&[(line, reply)]);
    }
    assert_eq!((c.trace("b"), c.trace("s")), before);
}

/// If a replica has its own `maxmemory`, it refuses commands with the flag `deny-oom`, even from its master, and then
/// differs from the master. So the effects of boards do not have that flag.
#[test]
fn a_replica_over_its_maxmemory_still_gets_every_change() {
    let (server, mut c) = start();
    c.run("ZLB.CREATE old DIM x");
    let replica = Server::builder().config("replica-ignore-maxmemory no").replica_of(&server);
    let mut r = replica.client();
    r.run("CONFIG SET maxmemory 1");
    for line in [
        "ZLB.CREATE b DIM x",
        "ZLB.SET b m 5 n 6 o 7",
        "ZLB.INCR b m x 3",
        "ZLB.REM b n",
        "ZLB.MERGE s 2 b old",
        "ZLB.REMRANGE s 0 0",
        "ZLB.SET old p 1",
        "ZLB.CLEAR old",
    ] {
        c.run(line);
    }
    replica.wait_for_sync(&server);
    eventually(PATIENCE, "the replica has all", || r.reply("DEBUG DIGEST") == c.reply("DEBUG DIGEST"));
    r.script(&[("ZLB.RANGE b 0 -1 WITHVALUES", "[['m' 8] ['o' 7]]"), ("ZLB.RANGE s 0 -1", "['o']")]);
}

/// As with queues, only INFO and the log tell an operator that a replica differs. A key's name may have any length, and
/// the log must not interpret it as a format.
#[test]
fn effects_that_do_not_fit_are_counted_and_the_log_names_the_key() {
    let (server, mut c) = start();
    let replica = Server::builder().config("replica-read-only no").replica_of(&server);
    let mut r = replica.client();
    let long = "k".repeat(5000);
    for key in ["%s%n{x}\n\"b\"", &long] {
        c.call(redis::cmd("ZLB.CREATE").arg(key).arg("DIM").arg("x"));
        replica.wait_for_sync(&server);
        r.call(redis::cmd("DEL").arg(key));
        c.call(redis::cmd("ZLB.SET").arg(key).arg("m").arg(1));
        replica.wait_for_sync(&server);
    }
    assert_eq!(r.info_number("zeitset", "zeitset_board_effects_rejected"), 2);
    assert_eq!(c.info_number("zeitset", "zeitset_board_effects_rejected"), 0);
    let log = replica.log();
    let said = "zeitset: rejected a replicated effect that does not fit the leaderboard";
    assert!(log.contains(&format!(r#"{said} "%s%n{{x}}\n\"b\"""#)), "{log}");
    assert!(log.contains(&format!(r#"{said} "{}...""#, "k".repeat(200))), "{log}");
    assert!(!log.contains(&"k".repeat(201)), "the line has an end");
}
