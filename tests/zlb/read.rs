//! ZLB.GET, RANK, RANGE, AROUND, RANKOF: the read commands of boards. (The unit tests of the model count ranks and
//! indexes on random boards.)

use testkit::{Client, start};

/// Creates a board: `a` to `g` have the values 9 7 7 7 5 5 1.
fn seven(c: &mut Client) {
    c.run("ZLB.CREATE b DIM x");
    c.run("ZLB.SET b a 9 b 7 c 7 d 7 e 5 f 5 g 1");
}

/// All replies are arrays and integers, so they have the same shape in both protocols.
#[test]
fn members_ranks_and_ranges() {
    let (server, mut c) = start();
    seven(&mut c);
    let before = c.trace("b");
    for c in [&mut c, &mut server.resp3()] {
        c.script(&[
            ("ZLB.GET b a", "[[0 9]]"),
            ("ZLB.GET b g nobody c g", "[[6 1] nil [2 7] [6 1]]"),
            // Three ways to count members with equal values.
            ("ZLB.RANK b a DENSE", "0"),
            ("ZLB.RANK b c", "2"),
            ("ZLB.RANK b c COMPETITION", "1"),
            ("ZLB.RANK b d dense", "1"),
            ("ZLB.RANK b f", "5"),
            ("ZLB.RANK b f COMPETITION", "4"),
            ("ZLB.RANK b f dense", "2"),
            ("ZLB.RANK b g COMPETITION", "6"),
            ("ZLB.RANK b g DENSE", "3"),
            ("ZLB.RANK b nobody", "nil"),
            ("ZLB.RANK b nobody DENSE", "nil"),
            ("ZLB.RANGE b 0 1", "['a' 'b']"),
            ("ZLB.RANGE b 7 9 WITHRANK", "[]"),
            ("ZLB.RANGE b 2 4 WITHVALUES", "[['c' 7] ['d' 7] ['e' 5]]"),
            ("ZLB.RANGE b 0 1 withvalues rev", "[['g' 1] ['f' 5]]"),
            ("ZLB.RANGE b 2 4 WITHRANK", "[[2 'c'] [3 'd'] [4 'e']]"),
            ("ZLB.RANGE b 2 4 WITHRANK COMPETITION", "[[1 'c'] [1 'd'] [4 'e']]"),
            ("ZLB.RANGE b 2 4 withrank dense", "[[1 'c'] [1 'd'] [2 'e']]"),
            ("ZLB.RANGE b 2 4 WITHVALUES WITHRANK DENSE", "[[1 'c' 7] [1 'd' 7] [2 'e' 5]]"),
            ("ZLB.RANGE b 2 4 WITHRANK WITHVALUES", "[[2 'c' 7] [3 'd' 7] [4 'e' 5]]"),
            // With REV, index 0 is the worst. Ranks still count from the best.
            ("ZLB.RANGE b 0 2 REV WITHRANK", "[[6 'g'] [5 'f'] [4 'e']]"),
            ("ZLB.RANGE b 0 2 WITHRANK COMPETITION REV", "[[6 'g'] [4 'f'] [4 'e']]"),
            ("ZLB.RANGE b 2 4 REV WITHRANK DENSE", "[[2 'e'] [1 'd'] [1 'c']]"),
            ("ZLB.RANGE nothing 0 -1 WITHRANK DENSE", "[]"),
            // At an edge, there are fewer neighbours.
            ("ZLB.AROUND b a 2", "['a' 'b' 'c']"),
            ("ZLB.AROUND b f 9223372036854775807", "['a' 'b' 'c' 'd' 'e' 'f' 'g']"),
            ("ZLB.AROUND b b 1 WITHVALUES", "[['a' 9] ['b' 7] ['c' 7]]"),
            ("ZLB.AROUND b d 1 WITHRANK", "[[2 'c'] [3 'd'] [4 'e']]"),
            ("ZLB.AROUND b d 1 WITHRANK COMPETITION WITHVALUES", "[[1 'c' 7] [1 'd' 7] [4 'e' 5]]"),
            ("ZLB.AROUND b d 2 WITHVALUES WITHRANK DENSE", "[[1 'b' 7] [1 'c' 7] [1 'd' 7] [2 'e' 5] [2 'f' 5]]"),
            ("ZLB.AROUND b g 0 WITHRANK DENSE", "[[3 'g']]"),
            ("ZLB.AROUND b nobody 1", "nil"),
            ("ZLB.AROUND b nobody 1 WITHRANK", "nil"),
            ("ZLB.RANKOF b 10", "0"),
            ("ZLB.RANKOF b 7", "4"),
            ("ZLB.RANKOF b -9223372036854775808", "7"),
            ("ZLB.SET b a 9", "0"),
            ("ZLB.INCR b a x 0", "[9]"),
        ]);
    }
    assert_eq!(c.trace("b"), before);
    // A new member gets the rank that RANKOF has returned.
    c.script(&[("ZLB.SET b new 7", "1"), ("ZLB.RANK b new", "4")]);
}

#[test]
fn range_takes_indexes_as_zrange_does() {
    let (_server, mut c) = start();
    seven(&mut c);
    // A plain sorted set with the same members in the same order.
    c.run("ZADD z 0 a 1 b 2 c 3 d 4 e 5 f 6 g");
    let indexes = [i64::MIN, -8, -7, -6, -2, -1, 0, 1, 5, 6, 7, 8, i64::MAX];
    for (start, stop) in indexes.iter().flat_map(|start| indexes.map(|stop| (start, stop))) {
        for rev in ["", " REV"] {
            let plain = c.reply(&format!("ZRANGE z {start} {stop}{rev}"));
            c.script(&[(format!("ZLB.RANGE b {start} {stop}{rev}"), plain)]);
        }
    }
}

#[test]
fn wrong_arguments_are_errors() {
    let (_server, mut c) = start();
    seven(&mut c);
    c.script(&[
        ("ZLB.RANK b a DENSE COMPETITION", "!ERR syntax error"),
        ("ZLB.RANK b a DENSE DENSE", "!ERR syntax error"),
        ("ZLB.RANK b a LOOSE", "!ERR syntax error"),
        ("ZLB.RANK b a 1", "!ERR syntax error"),
        ("ZLB.RANGE b 0 x", "!ERR value is not an integer"),
        ("ZLB.RANGE b 0 9223372036854775808", "!ERR value is not an integer"),
        ("ZLB.RANGE b 0 1 REV REV", "!ERR syntax error"),
        ("ZLB.RANGE b 0 1 WITHSCORES", "!ERR syntax error"),
        ("ZLB.RANGE b 0 1 2", "!ERR syntax error"),
        ("ZLB.RANGE b 0 -1 WITHRANK REV DENSE", "!ERR syntax error"),
        ("ZLB.AROUND b d -1", "!ERR value is out of range, must not be negative"),
        ("ZLB.AROUND b d 1.5", "!ERR value is not an integer"),
        ("ZLB.AROUND b d 1 REV", "!ERR syntax error"),
        ("ZLB.RANKOF b 7 7", "!ERR syntax error"),
        ("ZLB.RANKOF b 7.0", "!ERR value is not an integer"),
        ("ZLB.RANKOF missing 1 x", "!ERR value is not a valid float"),
    ]);
    // DENSE and COMPETITION are allowed only directly after WITHRANK.
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
}
