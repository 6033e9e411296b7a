//! ZLB.GET, RANK, RANGE, AROUND, RANKOF: the read commands of boards.

use testkit::{Client, start};

/// Creates a board: `a` to `g` have the values 9 7 7 7 5 5 1.
pub(super) fn seven(c: &mut Client) {
    c.run("ZLB.CREATE b DIM x");
    c.run("ZLB.SET b a 9 b 7 c 7 d 7 e 5 f 5 g 1");
}

#[test]
fn get_tells_rank_and_values() {
    let (_server, mut c) = start();
    seven(&mut c);
    c.script(&[("ZLB.GET b a", "[[0 9]]"), ("ZLB.GET b g nobody c g", "[[6 1] nil [2 7] [6 1]]")]);
}

#[test]
fn three_ways_to_count_equals() {
    let (_server, mut c) = start();
    seven(&mut c);
    for (member, plain, competition, dense) in
        [("a", 0, 0, 0), ("b", 1, 1, 1), ("c", 2, 1, 1), ("d", 3, 1, 1), ("e", 4, 4, 2), ("f", 5, 4, 2), ("g", 6, 6, 3)]
    {
        c.script(&[
            (format!("ZLB.RANK b {member}"), plain.to_string()),
            (format!("ZLB.RANK b {member} COMPETITION"), competition.to_string()),
            (format!("ZLB.RANK b {member} dense"), dense.to_string()),
        ]);
    }
    c.script(&[
        ("ZLB.RANK b nobody", "nil"),
        ("ZLB.RANK b nobody DENSE", "nil"),
        ("ZLB.RANK b a DENSE COMPETITION", "!ERR syntax error"),
        ("ZLB.RANK b a DENSE DENSE", "!ERR syntax error"),
        ("ZLB.RANK b a LOOSE", "!ERR syntax error"),
        ("ZLB.RANK b a 1", "!ERR syntax error"),
    ]);
}

#[test]
fn range_takes_indexes_as_zrange_does() {
    let (_server, mut c) = start();
    seven(&mut c);
    // A plain sorted set with the same members in the same order.
    c.run("ZADD z 0 a 1 b 2 c 3 d 4 e 5 f 6 g");
    let indexes = [i64::MIN, -8, -7, -6, -2, -1, 0, 1, 5, 6, 7, 8, i64::MAX];
    for start in indexes {
        for stop in indexes {
            for rev in ["", " REV"] {
                let plain = c.reply(&format!("ZRANGE z {start} {stop}{rev}"));
                c.script(&[(format!("ZLB.RANGE b {start} {stop}{rev}"), plain)]);
            }
        }
    }
    c.script(&[
        ("ZLB.RANGE b 2 4 WITHVALUES", "[['c' 7] ['d' 7] ['e' 5]]"),
        ("ZLB.RANGE b 0 1 withvalues rev", "[['g' 1] ['f' 5]]"),
        ("ZLB.RANGE b 0 x", "!ERR value is not an integer"),
        ("ZLB.RANGE b 0 9223372036854775808", "!ERR value is not an integer"),
        ("ZLB.RANGE b 0 1 REV REV", "!ERR syntax error"),
        ("ZLB.RANGE b 0 1 WITHSCORES", "!ERR syntax error"),
        ("ZLB.RANGE b 0 1 2", "!ERR syntax error"),
    ]);
}

#[test]
fn replies_have_one_shape_in_both_protocols() {
    let (server, mut c) = start();
    seven(&mut c);
    for mut client in [c, server.resp3()] {
        client.script(&[
            ("ZLB.RANGE b 0 1", "['a' 'b']"),
            ("ZLB.RANGE b 0 1 WITHVALUES", "[['a' 9] ['b' 7]]"),
            ("ZLB.AROUND b b 1 WITHVALUES", "[['a' 9] ['b' 7] ['c' 7]]"),
            ("ZLB.AROUND b b 1", "['a' 'b' 'c']"),
            ("ZLB.AROUND b nobody 1", "nil"),
            ("ZLB.GET b a nobody", "[[0 9] nil]"),
            ("ZLB.SET b a 9", "0"),
            ("ZLB.INCR b a x 0", "[9]"),
        ]);
    }
}

#[test]
fn around_is_cut_at_the_edges() {
    let (_server, mut c) = start();
    seven(&mut c);
    c.script(&[
        ("ZLB.AROUND b a 2", "['a' 'b' 'c']"),
        ("ZLB.AROUND b f 9223372036854775807", "['a' 'b' 'c' 'd' 'e' 'f' 'g']"),
        ("ZLB.AROUND b d -1", "!ERR value is out of range, must not be negative"),
        ("ZLB.AROUND b d 1.5", "!ERR value is not an integer"),
        ("ZLB.AROUND b d 1 REV", "!ERR syntax error"),
    ]);
}

#[test]
fn rankof_is_where_a_newcomer_would_stand() {
    let (_server, mut c) = start();
    seven(&mut c);
    let before = c.trace("b");
    c.script(&[
        ("ZLB.RANKOF b 10", "0"),
        ("ZLB.RANKOF b 7", "4"),
        ("ZLB.RANKOF b -9223372036854775808", "7"),
        ("ZLB.RANKOF b 7 7", "!ERR syntax error"),
        ("ZLB.RANKOF b 7.0", "!ERR value is not an integer"),
    ]);
    assert_eq!(c.trace("b"), before);
    c.run("ZLB.SET b new 7");
    c.script(&[("ZLB.RANK b new", "4")]);
}
