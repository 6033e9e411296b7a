//! The effects of changing a board: on replicas, the AOF, keyspace events, WATCH, transactions and scripts.

use testkit::{Stream, Witness, assert_agree, start, start_keeping_aof};

/// The event of a command has the command's name. The event of ZLB.APPLY has the name of the effect.
#[test]
fn final_values_are_replicated_and_nothing_for_nothing() {
    let (server, mut c) = start_keeping_aof();
    let mut witness = Witness::of(&server, "b", "ZLB.INFO b");
    for (line, effect) in [
        ("ZLB.CREATE b DIM x DIM f ASC FLOAT KEEP 4", "CREATE DIM x DIM f ASC FLOAT KEEP 4"),
        ("ZLB.CREATE b DIM x", ""),
        ("zlb.create b dim x desc DIM f FLOAT ASC TIES FIRST KEEP 4", ""),
        ("ZLB.SET b m 5 0.5 n 6 1", "SET m 5 0.5 n 6 1"),
        ("ZLB.SET b m 5 0.50 n 6 1e0", ""),
        ("ZLB.SET b NX m 9 9", ""),
        ("ZLB.SET b XX absent 7 7", ""),
        ("ZLB.SET b NX p 1 1", "SET p 1 1"),
        ("ZLB.SET b XX BEST m 9 9", "SET m 9 9"),
        ("ZLB.SET b BEST m 9 9 n 7 .25 p 0 0", "SET n 7 0.25"),
        ("ZLB.SET b BEST m 9 10", ""),
        ("ZLB.INCR b m f 0.5 x -1", "SET m 8 9.5"),
        ("ZLB.INCR b m x 0", ""),
        ("ZLB.SET b q 0 0", "SET q 0 0"),
        // `r` is not among the best four, which the board keeps.
        ("ZLB.SET b r 0 0", ""),
        ("ZLB.INCR b r x -1", ""),
        // Now `r` is among the best four, and `q` is removed. The replica removes `q` by itself.
        ("ZLB.INCR b r x 1", "SET r 1 0"),
        ("ZLB.REM b q nobody", ""),
        ("ZLB.REM b m nobody", "REM m"),
        ("ZLB.GET b m n", ""),
        ("ZLB.RANGE b 0 -1", ""),
        ("ZLB.INFO b", ""),
        ("ZLB.RANKOF b 1 1", ""),
        ("ZLB.SET b m 1", ""),
        ("ZLB.SET b m", ""),
        ("ZLB.SET b WITHRANK m 3 3", "SET m 3 3"),
        ("ZLB.SET b WITHRANK m 3 3", ""),
        ("ZLB.INCR b WITHRANK m x 1", "SET m 4 3"),
        ("ZLB.REMRANGE b 9 12", ""),
        ("ZLB.REMRANGE b -1 -1", "REMRANGE 3 1"),
        ("ZLB.REMRANGE b 1 99", "REMRANGE 1 2"),
        // The last member is removed, and the board stays.
        ("ZLB.REM b n", "REM n"),
        ("ZLB.MERGE b 2 nothing nobody", "REPLACE 1 0 4 2 0 x 3 f 0"),
        ("ZLB.MERGE other 2 nothing nobody", ""),
        ("ZLB.CLEAR b", ""),
        ("ZLB.SET b m 1 1", "SET m 1 1"),
        ("ZLB.CLEAR b", "CLEAR"),
        ("ZLB.CLEAR b", ""),
        ("ZLB.CLEAR nothing", ""),
        // A replica passes effects on unchanged.
        ("ZLB.APPLY b SET m 1 1", "SET m 1 1"),
        ("ZLB.APPLY b SET m 1 1", ""),
        ("ZLB.APPLY b REM nobody", ""),
        ("ZLB.APPLY b REMRANGE 0 1", "REMRANGE 0 1"),
        ("ZLB.APPLY b REMRANGE 0 1", ""),
        ("ZLB.APPLY b CLEAR", ""),
        ("ZLB.APPLY nothing SET m 1 1", ""),
    ] {
        let told = witness.call(&mut c, line);
        let (command, event) = (line.split(' ').next().expect("a command"), effect.split(' ').next().expect("a word"));
        let event = if command == "ZLB.APPLY" { format!("zlb.{event} b") } else { format!("{command} b") };
        let (commands, events) = match effect {
            "" => (vec![], vec![]),
            effect => (vec![format!("ZLB.APPLY b {effect}")], vec![event.to_lowercase()]),
        };
        assert_eq!((told.commands, told.events), (commands, events), "{line}");
    }
    assert_agree(&server, &[]);
}

#[test]
fn a_transaction_and_a_script_are_replicated_as_one() {
    let (server, mut c) = start_keeping_aof();
    c.run("ZLB.CREATE b DIM x");
    let mut stream = Stream::attach(&server);
    c.script(&[
        ("MULTI", "+OK"),
        ("ZLB.INCR b m x 2", "+QUEUED"),
        ("ZLB.SET b NX m 9", "+QUEUED"),
        ("ZLB.INCR b m x 3", "+QUEUED"),
        ("ZLB.RANGE b 0 -1 WITHVALUES", "+QUEUED"),
        ("EXEC", "[[2] 0 [5] [['m' 5]]]"),
    ]);
    assert_eq!(stream.take(), ["MULTI", "ZLB.APPLY b SET m 2", "ZLB.APPLY b SET m 5", "EXEC"]);
    let script = "redis.call('ZLB.INCR', KEYS[1], 'n', 'x', 7); redis.call('ZLB.REM', KEYS[1], 'm'); \
                  return redis.call('ZLB.GET', KEYS[1], 'n', 'm')";
    let reply = c.call(redis::cmd("EVAL").arg(script).arg(1).arg("b"));
    assert_eq!(testkit::show(&reply), "[[0 7] nil]");
    assert_eq!(stream.take(), ["MULTI", "ZLB.APPLY b SET n 7", "ZLB.APPLY b REM m", "EXEC"]);
    assert_agree(&server, &[]);
}

#[test]
fn events_have_class_d() {
    let (server, mut c) = start();
    let mut listener = server.resp3();
    listener.psubscribe("__keyspace@0__:b");
    c.run("CONFIG SET notify-keyspace-events Kd");
    c.run("ZLB.CREATE b DIM x");
    assert_eq!(listener.pushes().len(), 1);
    c.run("CONFIG SET notify-keyspace-events Kgz");
    c.run("ZLB.SET b m 1");
    assert_eq!(listener.pushes().len(), 0);
}
