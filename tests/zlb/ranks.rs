//! WITHRANK: the rank of a member in RANGE and AROUND, and in the replies of SET and INCR.

use super::read::seven;
use testkit::start;

#[test]
fn a_range_tells_the_rank_of_each_member() {
    let (server, mut c) = start();
    seven(&mut c);
    let mut resp3 = server.resp3();
    for c in [&mut c, &mut resp3] {
        c.script(&[
            ("ZLB.RANGE b 2 4 WITHRANK", "[[2 'c'] [3 'd'] [4 'e']]"),
            ("ZLB.RANGE b 2 4 WITHRANK COMPETITION", "[[1 'c'] [1 'd'] [4 'e']]"),
            ("ZLB.RANGE b 2 4 withrank dense", "[[1 'c'] [1 'd'] [2 'e']]"),
            ("ZLB.RANGE b 2 4 WITHVALUES WITHRANK DENSE", "[[1 'c' 7] [1 'd' 7] [2 'e' 5]]"),
            ("ZLB.RANGE b 2 4 WITHRANK WITHVALUES", "[[2 'c' 7] [3 'd' 7] [4 'e' 5]]"),
            // With REV, index 0 is the worst. Ranks still count from the best.
            ("ZLB.RANGE b 0 2 REV WITHRANK", "[[6 'g'] [5 'f'] [4 'e']]"),
            ("ZLB.RANGE b 0 2 WITHRANK COMPETITION REV", "[[6 'g'] [4 'f'] [4 'e']]"),
            ("ZLB.RANGE b 2 4 REV WITHRANK DENSE", "[[2 'e'] [1 'd'] [1 'c']]"),
            ("ZLB.RANGE b 2 4 REV WITHRANK COMPETITION", "[[4 'e'] [1 'd'] [1 'c']]"),
            ("ZLB.RANGE b 7 9 WITHRANK", "[]"),
            ("ZLB.RANGE nothing 0 -1 WITHRANK DENSE", "[]"),
        ]);
    }
}

#[test]
fn neighbours_come_with_their_ranks() {
    let (_server, mut c) = start();
    seven(&mut c);
    c.script(&[
        ("ZLB.AROUND b d 1 WITHRANK", "[[2 'c'] [3 'd'] [4 'e']]"),
        ("ZLB.AROUND b d 1 WITHRANK COMPETITION WITHVALUES", "[[1 'c' 7] [1 'd' 7] [4 'e' 5]]"),
        ("ZLB.AROUND b d 2 WITHVALUES WITHRANK DENSE", "[[1 'b' 7] [1 'c' 7] [1 'd' 7] [2 'e' 5] [2 'f' 5]]"),
        ("ZLB.AROUND b a 1 WITHRANK", "[[0 'a'] [1 'b']]"),
        ("ZLB.AROUND b g 0 WITHRANK DENSE", "[[3 'g']]"),
        ("ZLB.AROUND b nobody 1 WITHRANK", "nil"),
    ]);
}

#[test]
fn dense_and_competition_belong_to_withrank() {
    let (_server, mut c) = start();
    seven(&mut c);
    for call in ["ZLB.RANGE b 0 -1", "ZLB.AROUND b a 1"] {
        for options in [
            "DENSE",
            "WITHVALUES DENSE",
            "DENSE WITHRANK",
            "WITHRANK WITHVALUES DENSE",
            "WITHRANK DENSE DENSE",
            "WITHRANK DENSE COMPETITION",
            "WITHRANK WITHRANK",
            "WITHRANK DENSE WITHRANK",
            "WITHRANK LOOSE",
            "WITHRANK 1",
        ] {
            c.script(&[(format!("{call} {options}"), "!ERR syntax error")]);
        }
    }
    c.script(&[("ZLB.RANGE b 0 -1 WITHRANK REV DENSE", "!ERR syntax error")]);
}

#[test]
fn set_returns_the_new_rank() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM x KEEP 3");
    c.script(&[
        ("ZLB.SET b WITHRANK a 5", "[1 0]"),
        ("ZLB.SET b WITHRANK b 5", "[1 1]"),
        ("ZLB.SET b withrank c 9", "[1 0]"),
        ("ZLB.SET b WITHRANK c 9", "[0 0]"),
        ("ZLB.SET b BEST WITHRANK c 1", "[0 0]"),
        ("ZLB.SET b NX WITHRANK a 99", "[0 1]"),
        ("ZLB.SET b WITHRANK BEST XX b 6", "[0 1]"),
        // `d` is not among the best three, and the condition excludes `e`.
        ("ZLB.SET b WITHRANK d 1", "[0 nil]"),
        ("ZLB.SET b XX WITHRANK e 50", "[0 nil]"),
        ("ZLB.SET b WITHRANK a 1 b 2", "!ERR syntax error"),
        ("ZLB.SET b WITHRANK WITHRANK a 1", "!ERR syntax error"),
        ("ZLB.SET b WITHRANK BEST NX XX a 1", "!ERR syntax error"),
        ("ZLB.RANGE b 0 -1 WITHVALUES", "[['c' 9] ['b' 6] ['a' 5]]"),
    ]);
}

#[test]
fn members_may_be_named_withrank() {
    let (_server, mut c) = start();
    for (dimensions, values) in [("DIM x", "1"), ("DIM x DIM y", "1 1"), ("DIM x DIM y DIM z", "1 1 1")] {
        c.script(&[
            ("DEL b".to_owned(), if dimensions == "DIM x" { "0" } else { "1" }),
            (format!("ZLB.CREATE b {dimensions}"), "+OK"),
            (format!("ZLB.SET b WITHRANK {values}"), "1"),
            (format!("ZLB.SET b WITHRANK WITHRANK {values}"), "[0 0]"),
            (format!("ZLB.SET b BEST {values} WITHRANK {values}"), "1"),
            (format!("ZLB.SET b XX BEST WITHRANK BEST {values}"), "[0 1]"),
            (format!("ZLB.SET b NX BEST {values}"), "0"),
            ("ZLB.RANGE b 0 -1".to_owned(), "['WITHRANK' 'BEST']"),
        ]);
    }
}

#[test]
fn incr_returns_the_new_rank() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM x DIM WITHRANK KEEP 2");
    c.script(&[
        ("ZLB.INCR b WITHRANK a x 5", "[0 5 0]"),
        ("ZLB.INCR b withrank c x 9", "[0 9 0]"),
        ("ZLB.INCR b WITHRANK a x 4 WITHRANK 1", "[0 9 1]"),
        ("ZLB.INCR b a WITHRANK -1", "[9 0]"),
        ("ZLB.INCR b WITHRANK a x 0", "[1 9 0]"),
        ("ZLB.INCR b WITHRANK d x 1", "[nil 1 0]"),
        ("ZLB.INCR b d x 1 WITHRANK", "!ERR syntax error"),
        ("ZLB.INCR b LAST d x 1", "!ERR syntax error"),
        ("ZLB.INCR b d x WITHRANK", "!ERR value is not an integer"),
        // The member has the name of the option.
        ("ZLB.INCR b WITHRANK x 50", "[50 0]"),
        ("ZLB.INCR b WITHRANK WITHRANK x 1", "[0 51 0]"),
    ]);
}
