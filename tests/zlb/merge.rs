//! ZLB.MERGE, ZLB.REMRANGE and ZLB.CLEAR: changes of whole boards.

use testkit::{Client, assert_agree, start, start_pair};

fn board(c: &mut Client, key: &str, description: &str, members: &str) {
    c.run(&format!("ZLB.CREATE {key} {description}"));
    if !members.is_empty() {
        c.run(&format!("ZLB.SET {key} {members}"));
    }
}

#[test]
fn boards_are_added_up_or_the_better_tuples_taken() {
    let (_server, mut c) = start();
    board(&mut c, "mon", "DIM x DIM y ASC", "ann 5 1 bob 7 7 eve 1 0");
    board(&mut c, "tue", "DIM x DIM y ASC", "ann 4 2 bob 7 3 zoe 3 3");
    c.script(&[
        ("ZLB.MERGE sum 2 mon tue", "4"),
        ("ZLB.RANGE sum 0 -1 WITHVALUES", "[['bob' 14 10] ['ann' 9 3] ['zoe' 3 3] ['eve' 1 0]]"),
        ("ZLB.MERGE sum 2 mon tue sum", "4"),
        ("ZLB.MERGE best 3 mon nothing tue BEST", "4"),
        ("ZLB.RANGE best 0 -1 WITHVALUES", "[['bob' 7 3] ['ann' 5 1] ['zoe' 3 3] ['eve' 1 0]]"),
        // The destination is replaced, and the sources stay.
        ("ZLB.MERGE best 1 mon", "3"),
        ("ZLB.GET best zoe", "[nil]"),
        ("ZLB.CARD mon", "3"),
        // A source may also be the destination, and may be named twice.
        ("ZLB.MERGE mon 3 tue mon mon", "4"),
        ("ZLB.RANGE mon 0 -1 WITHVALUES", "[['bob' 21 17] ['ann' 14 4] ['zoe' 3 3] ['eve' 2 0]]"),
    ]);
}

#[test]
fn boards_that_are_missing_are_empty() {
    let (_server, mut c) = start();
    c.script(&[("ZLB.MERGE week 2 mon tue", "0"), ("EXISTS week", "0")]);
    board(&mut c, "week", "DIM x", "ann 5");
    // Neither source exists, so last week's sums are removed.
    c.script(&[("ZLB.MERGE week 2 mon tue", "0"), ("ZLB.CARD week", "0"), ("ZLB.SET week bob 1", "1")]);
}

#[test]
fn the_time_to_live_of_the_destination_goes_as_with_zunionstore() {
    let (_server, mut c) = start();
    board(&mut c, "a", "DIM x", "m 1");
    board(&mut c, "s", "DIM x", "");
    c.run("EXPIRE s 1000");
    c.script(&[("ZLB.MERGE s 1 a", "1"), ("TTL s", "-1")]);
    c.run("EXPIRE s 1000");
    // CLEAR and REMRANGE change the existing board, which keeps its TTL.
    c.script(&[("ZLB.REMRANGE s 0 -1", "1"), ("ZLB.MERGE a 2 a a", "1"), ("TTL s", "1000")]);
    c.run("ZLB.SET s m 1");
    c.script(&[("ZLB.CLEAR s", "1"), ("TTL s", "1000")]);
}

#[test]
fn an_error_changes_nothing() {
    let (_server, mut c) = start();
    board(&mut c, "a", "DIM x DIM f FLOAT", "m 9223372036854775807 1e308 n 1 1");
    board(&mut c, "b", "DIM x DIM f FLOAT", "n 1 1 m 1 0");
    board(&mut c, "big", "DIM x DIM f FLOAT", "m 0 1.7e308");
    board(&mut c, "s", "DIM x DIM f FLOAT", "o 5 5");
    for (key, description) in [
        ("names", "DIM X DIM f FLOAT"),
        ("kinds", "DIM x DIM f"),
        ("order", "DIM x ASC DIM f FLOAT"),
        ("ties", "DIM x DIM f FLOAT TIES LAST"),
        ("keep", "DIM x DIM f FLOAT KEEP 5"),
    ] {
        board(&mut c, key, description, "");
    }
    c.run("SET text t");
    let before = (c.trace("s"), c.trace("a"), c.trace("text"));
    c.script(&[
        ("ZLB.MERGE s 2 a b", "!ERR increment or decrement would overflow"),
        ("ZLB.MERGE s 3 b nothing a SUM", "!ERR increment or decrement would overflow"),
        ("ZLB.MERGE a 2 a b", "!ERR increment or decrement would overflow"),
        ("ZLB.MERGE s 2 a big", "!ERR increment would produce NaN or Infinity"),
        ("ZLB.MERGE s 2 b text", "!WRONGTYPE "),
        ("ZLB.MERGE text 1 b", "!WRONGTYPE "),
        ("ZLB.MERGE s 2 b names", "!ERR leaderboards must have the same dimensions, TIES and KEEP"),
        ("ZLB.MERGE s 2 kinds b", "!ERR leaderboards must have the same"),
        ("ZLB.MERGE new 2 b order", "!ERR leaderboards must have the same"),
        ("ZLB.MERGE ties 1 b", "!ERR leaderboards must have the same"),
        ("ZLB.MERGE s 1 keep", "!ERR leaderboards must have the same"),
        ("ZLB.MERGE s 0", "!ERR wrong number of arguments"),
        ("ZLB.MERGE s 0 a", "!ERR numkeys should be greater than 0"),
        ("ZLB.MERGE s -1 a", "!ERR numkeys should be greater than 0"),
        ("ZLB.MERGE s x a", "!ERR numkeys should be greater than 0"),
        ("ZLB.MERGE s 3 a b", "!ERR Number of keys can't be greater than number of args"),
        ("ZLB.MERGE s 1 b SUM BEST", "!ERR syntax error"),
        ("ZLB.MERGE s 1 b SUM SUM", "!ERR syntax error"),
        ("ZLB.MERGE s 1 b MAX", "!ERR syntax error"),
        ("ZLB.MERGE s 1 b 1", "!ERR syntax error"),
        ("ZLB.REMRANGE s 0", "!ERR wrong number of arguments"),
        ("ZLB.REMRANGE s 0 x", "!ERR value is not an integer or out of range"),
        ("ZLB.REMRANGE s 0 9223372036854775808", "!ERR value is not an integer or out of range"),
        ("ZLB.REMRANGE text 0 1", "!WRONGTYPE "),
        ("ZLB.CLEAR text", "!WRONGTYPE "),
        ("ZLB.CLEAR s now", "!ERR wrong number of arguments"),
    ]);
    assert_eq!((c.trace("s"), c.trace("a"), c.trace("text")), before);
    c.script(&[("EXISTS new", "0"), ("ZLB.MERGE s 2 a b BEST", "2")]);
}

#[test]
fn members_are_removed_by_rank() {
    let (_server, mut c) = start();
    board(&mut c, "b", "DIM x TIES LAST", "a 1 b 2 c 2 d 2 e 3 f 4 g 4 h 5");
    c.script(&[
        ("ZLB.RANGE b 0 -1", "['h' 'g' 'f' 'e' 'd' 'c' 'b' 'a']"),
        ("ZLB.REMRANGE b 8 9", "0"),
        ("ZLB.REMRANGE b 1 0", "0"),
        ("ZLB.REMRANGE b -1 -1", "1"),
        ("ZLB.REMRANGE b 1 2", "2"),
        ("ZLB.RANGE b 0 -1", "['h' 'e' 'd' 'c' 'b']"),
        ("ZLB.REMRANGE b 2 -1", "3"),
        ("ZLB.RANGE b 0 -1 WITHVALUES", "[['h' 5] ['e' 3]]"),
        ("ZLB.SET b d 4", "1"),
        ("ZLB.RANK b d", "1"),
        ("ZLB.REMRANGE b -99 99", "3"),
        ("ZLB.CARD b", "0"),
        ("ZLB.SET b a 1", "1"),
        ("ZLB.REMRANGE nothing 0 -1", "!NOBOARD "),
        ("EXISTS nothing", "0"),
    ]);
}

#[test]
fn a_board_that_is_cleared_keeps_its_schema() {
    let (_server, mut c) = start();
    board(&mut c, "b", "DIM x ASC FLOAT DIM y TIES NAME KEEP 9", "a 1 1 b 1 1");
    c.script(&[("ZLB.CLEAR b", "2"), ("ZLB.CLEAR b", "0"), ("ZLB.CLEAR nothing", "!NOBOARD "), ("ZLB.CARD b", "0")]);
    c.script(&[("ZLB.CREATE b DIM x ASC FLOAT DIM y TIES NAME KEEP 9", "+OK"), ("ZLB.SET b c 1 1", "1")]);
    assert_eq!(c.reply("ZLB.RANGE b 0 -1"), "['c']");
}

/// Members with equal values have the same order on the master, on replicas and after a restart from the AOF, whatever
/// the changes were.
#[test]
fn replicas_and_the_aof_have_the_same_boards() {
    let (server, replica, mut c) = start_pair();
    let keys = ["first", "last", "name", "keep"];
    for (key, options) in keys.iter().zip(["", "TIES LAST", "TIES NAME", "KEEP 60 TIES LAST"]) {
        for day in 0..3 {
            c.run(&format!("ZLB.CREATE {key}:{day} DIM x DIM f ASC FLOAT {options}"));
            for n in 0..200 {
                let (x, f) = ((n * 7 + day) % 5, ((n + day) % 3) as f64 / 10.0);
                c.run(&format!("ZLB.SET {key}:{day} m{} {x} {f}", (n * 31 + day * 50) % 300));
            }
        }
        for combine in ["SUM", "BEST"] {
            c.run(&format!("ZLB.MERGE {key}:{combine} 3 {key}:0 {key}:1 {key}:2 {combine}"));
        }
        c.run(&format!("ZLB.MERGE {key}:1 2 {key}:2 {key}:1 BEST"));
        c.run(&format!("ZLB.REMRANGE {key}:1 5 9"));
        c.run(&format!("ZLB.REMRANGE {key}:2 30 -1"));
        c.run(&format!("ZLB.CLEAR {key}:0"));
        c.run(&format!("ZLB.SET {key}:0 WITHRANK m 5 0"));
        c.run(&format!("ZLB.INCR {key}:0 WITHRANK n x 5"));
        c.run(&format!("EXPIRE {key}:0 100000"));
    }
    assert_agree(&server, &[&replica]);
}
