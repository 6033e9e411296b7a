//! The effects of changing a board: on replicas, the AOF, keyspace events, WATCH, transactions and scripts.

use testkit::{Stream, assert_agree, start, start_keeping_aof};

#[test]
fn final_values_are_replicated_and_nothing_for_nothing() {
    let (server, mut c) = start_keeping_aof();
    let mut stream = Stream::attach(&server);
    for (line, replicated) in [
        ("ZLB.CREATE b DIM x DIM f ASC FLOAT KEEP 4", &["ZLB.APPLY b CREATE DIM x DIM f ASC FLOAT KEEP 4"][..]),
        ("ZLB.CREATE b DIM x", &[]),
        ("zlb.create b dim x desc DIM f FLOAT ASC TIES FIRST KEEP 4", &[]),
        ("ZLB.SET b m 5 0.5 n 6 1", &["ZLB.APPLY b SET m 5 0.5 n 6 1"]),
        ("ZLB.SET b m 5 0.50 n 6 1e0", &[]),
        ("ZLB.SET b NX m 9 9", &[]),
        ("ZLB.SET b NX p 1 1", &["ZLB.APPLY b SET p 1 1"]),
        ("ZLB.SET b XX BEST m 9 9", &["ZLB.APPLY b SET m 9 9"]),
        ("ZLB.SET b BEST m 9 9 n 7 .25 p 0 0", &["ZLB.APPLY b SET n 7 0.25"]),
        ("ZLB.SET b BEST m 9 10", &[]),
        ("ZLB.INCR b m f 0.5 x -1", &["ZLB.APPLY b SET m 8 9.5"]),
        ("ZLB.INCR b m x 0", &[]),
        ("ZLB.SET b q 0 0", &["ZLB.APPLY b SET q 0 0"]),
        // `r` is not among the best four, which the board keeps.
        ("ZLB.SET b r 0 0", &[]),
        ("ZLB.INCR b r x -1", &[]),
        // Now `r` is among the best four, and `q` is removed. The replica removes `q` by itself.
        ("ZLB.INCR b r x 1", &["ZLB.APPLY b SET r 1 0"]),
        ("ZLB.REM b q nobody", &[]),
        ("ZLB.REM b m nobody", &["ZLB.APPLY b REM m nobody"]),
        ("ZLB.GET b m n", &[]),
        ("ZLB.RANKOF b 1 1", &[]),
        ("ZLB.SET b m 1", &[]),
        ("ZLB.SET b WITHRANK m 3 3", &["ZLB.APPLY b SET m 3 3"]),
        ("ZLB.SET b WITHRANK m 3 3", &[]),
        ("ZLB.INCR b WITHRANK m x 1", &["ZLB.APPLY b SET m 4 3"]),
        ("ZLB.REMRANGE b 9 12", &[]),
        ("ZLB.REMRANGE b -1 -1", &["ZLB.APPLY b REMRANGE 3 1"]),
        ("ZLB.REMRANGE b 1 99", &["ZLB.APPLY b REMRANGE 1 2"]),
        ("ZLB.MERGE b 2 nothing nobody", &["ZLB.APPLY b REPLACE 1 0 4 2 0 x 3 f 0"]),
        ("ZLB.MERGE other 2 nothing nobody", &[]),
        ("ZLB.CLEAR b", &[]),
        ("ZLB.SET b m 1 1", &["ZLB.APPLY b SET m 1 1"]),
        ("ZLB.CLEAR b", &["ZLB.APPLY b CLEAR"]),
        ("ZLB.CLEAR b", &[]),
        ("ZLB.CLEAR nothing", &[]),
        // A replica passes effects on unchanged.
        ("ZLB.APPLY b SET m 1 1", &["ZLB.APPLY b SET m 1 1"]),
        ("ZLB.APPLY b SET m 1 1", &[]),
        ("ZLB.APPLY b REMRANGE 0 1", &["ZLB.APPLY b REMRANGE 0 1"]),
        ("ZLB.APPLY b REMRANGE 0 1", &[]),
        ("ZLB.APPLY b CLEAR", &[]),
        ("ZLB.APPLY nothing SET m 1 1", &[]),
    ] {
        c.reply(line);
        assert_eq!(stream.take(), replicated, "{line}");
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
fn events_tell_what_was_done() {
    let (server, mut c) = start();
    c.run("CONFIG SET notify-keyspace-events KEA");
    let mut listener = server.resp3();
    listener.psubscribe("__keyspace@0__:b");
    for (line, events) in [
        ("ZLB.CREATE b DIM x", &["zlb.create"][..]),
        ("ZLB.SET b m 5", &["zlb.set"]),
        ("ZLB.SET b m 5", &[]),
        ("ZLB.SET b NX m 6", &[]),
        ("ZLB.INCR b m x 1", &["zlb.incr"]),
        ("ZLB.INCR b m x 0", &[]),
        ("ZLB.REM b nobody", &[]),
        // The last member is removed, and the board stays.
        ("ZLB.REM b m", &["zlb.rem"]),
        ("ZLB.SET b m", &[]),
        ("ZLB.GET b m", &[]),
        ("ZLB.CREATE b DIM x", &[]),
        ("ZLB.CLEAR b", &[]),
        ("ZLB.SET b n 5", &["zlb.set"]),
        ("ZLB.MERGE b 1 b", &["zlb.merge"]),
        ("ZLB.REMRANGE b 5 6", &[]),
        ("ZLB.REMRANGE b 0 0", &["zlb.remrange"]),
        ("ZLB.APPLY b SET n 5", &["zlb.set"]),
        ("ZLB.CLEAR b", &["zlb.clear"]),
        ("DEL b", &["del"]),
    ] {
        c.reply(line);
        let got = listener.pushes();
        assert_eq!(got.len(), events.len(), "{line}: {got:?}");
        for (got, event) in got.iter().zip(events) {
            assert!(got.contains(&format!("'{event}'")), "{line}: {got}");
        }
    }
    // The events have class `d`.
    c.run("CONFIG SET notify-keyspace-events Kd");
    c.run("ZLB.CREATE b DIM x");
    assert_eq!(listener.pushes().len(), 1);
    c.run("CONFIG SET notify-keyspace-events Kgz");
    c.run("ZLB.SET b m 1");
    assert_eq!(listener.pushes().len(), 0);
}

#[test]
fn watch_is_broken_by_changes_only() {
    let (server, mut c) = start();
    let mut other = server.client();
    c.run("ZLB.CREATE b DIM x KEEP 2");
    c.run("ZLB.SET b m 5 n 6");
    for (line, broken) in [
        ("ZLB.SET b m 5", false),
        ("ZLB.SET b NX m 7", false),
        ("ZLB.SET b XX p 7", false),
        ("ZLB.SET b BEST m 4", false),
        ("ZLB.SET b p 4", false),
        ("ZLB.INCR b p x 5", false),
        ("ZLB.INCR b m x 0", false),
        ("ZLB.SET b m 1 2", false),
        ("ZLB.REM b p", false),
        ("ZLB.CREATE b DIM x", false),
        ("ZLB.GET b m", false),
        ("ZLB.RANGE b 0 -1", false),
        ("ZLB.INFO b", false),
        ("ZLB.CREATE b DIM x KEEP 2", false),
        ("ZLB.REMRANGE b 7 9", false),
        ("ZLB.CLEAR nothing", false),
        ("ZLB.APPLY b REM nobody", false),
        ("ZLB.MERGE nothing 1 nobody", false),
        ("ZLB.SET b m 7", true),
        ("ZLB.INCR b m x 1", true),
        ("ZLB.REM b m", true),
        ("ZLB.REMRANGE b 0 0", true),
        ("ZLB.MERGE b 1 b", true),
        ("ZLB.APPLY b SET n 6", true),
        ("ZLB.CLEAR b", true),
    ] {
        c.run("WATCH b");
        let changes = c.info_number("persistence", "rdb_changes_since_last_save");
        other.reply(line);
        assert_eq!(c.info_number("persistence", "rdb_changes_since_last_save") > changes, broken, "{line}");
        c.run("MULTI");
        c.run("PING");
        let reply = c.reply("EXEC");
        assert_eq!(reply == "nil", broken, "{line}: {reply}");
    }
    c.run("DEL b");
    c.run("WATCH b");
    other.run("ZLB.CREATE b DIM x");
    c.script(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "nil")]);
}
