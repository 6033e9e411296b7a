//! ZLB.CREATE and ZLB.INFO: the schema of a board.

use testkit::start;

#[test]
fn dimensions_are_descending_integers_unless_they_say_otherwise() {
    let (server, mut c) = start();
    c.script(&[
        ("ZLB.CREATE b DIM gold DIM time ASC FLOAT DIM Gold INT ASC DIM x FLOAT", "+OK"),
        (
            "ZLB.INFO b",
            "['members' 0 'distinct' 0 'ties' 'first' 'keep' nil 'dimensions' [\
             ['name' 'gold' 'direction' 'desc' 'type' 'int'] ['name' 'time' 'direction' 'asc' 'type' 'float'] \
             ['name' 'Gold' 'direction' 'asc' 'type' 'int'] ['name' 'x' 'direction' 'desc' 'type' 'float']]]",
        ),
        ("zlb.create c keep 9223372036854775807 dim a desc int ties name", "+OK"),
    ]);
    server.resp3().script(&[(
        "ZLB.INFO c",
        "{'members': 0 'distinct': 0 'ties': 'name' 'keep': 9223372036854775807 'dimensions': \
         [{'name': 'a' 'direction': 'desc' 'type': 'int'}]}",
    )]);
}

#[test]
fn a_dimension_may_have_any_name() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZLB.CREATE b DIM DIM DIM ASC ASC DIM 7 DIM \"\" DIM keep", "+OK"),
        ("ZLB.INCR b m DIM 1 ASC 2 7 3 \"\" 4 keep 5", "[1 2 3 4 5]"),
        ("ZLB.INCR b m dim 1", "!ERR no such dimension"),
    ]);
}

#[test]
fn one_to_sixty_four_dimensions() {
    let (_server, mut c) = start();
    let dimensions = |n: usize| (0..n).map(|i| format!(" DIM d{i}")).collect::<String>();
    for n in [1, 2, 63, 64] {
        let values = "7 ".repeat(n);
        c.script(&[
            (format!("ZLB.CREATE b{n}{}", dimensions(n)), "+OK".to_owned()),
            (format!("ZLB.SET b{n} x {values} y {values}"), "2".to_owned()),
            (format!("ZLB.INCR b{n} y d{} 1", n - 1), format!("[{}8]", "7 ".repeat(n - 1))),
            (format!("ZLB.RANGE b{n} 0 -1"), "['y' 'x']".to_owned()),
            (format!("ZLB.GET b{n} x"), format!("[[1 {}]]", values.trim_end())),
        ]);
    }
    c.script(&[(format!("ZLB.CREATE k{}", dimensions(65)), "!ERR leaderboard must have 1 to 64 dimensions")]);
}

#[test]
fn what_makes_no_board_makes_no_key() {
    let (_server, mut c) = start();
    let before = c.trace("k");
    for (rest, error) in [
        ("", "!ERR wrong number of arguments"),
        ("DIM", "!ERR wrong number of arguments"),
        ("KEEP 5", "!ERR leaderboard must have 1 to 64 dimensions"),
        ("DIM a DIM", "!ERR syntax error"),
        ("DIM a FOO", "!ERR syntax error"),
        ("DIM a 5", "!ERR syntax error"),
        ("ASC DIM a", "!ERR syntax error"),
        ("DIM a ASC DESC", "!ERR syntax error"),
        ("DIM a ASC ASC", "!ERR syntax error"),
        ("DIM a INT FLOAT", "!ERR syntax error"),
        ("DIM a KEEP 5 ASC", "!ERR syntax error"),
        ("DIM a TIES", "!ERR syntax error"),
        ("DIM a TIES SOME", "!ERR syntax error"),
        ("DIM a TIES FIRST TIES FIRST", "!ERR syntax error"),
        ("DIM a KEEP", "!ERR syntax error"),
        ("DIM a KEEP 5 KEEP 5", "!ERR syntax error"),
        ("DIM a KEEP 0", "!ERR value is out of range"),
        ("DIM a KEEP -1", "!ERR value is out of range"),
        ("DIM a KEEP many", "!ERR value is not an integer"),
        ("DIM a KEEP 9223372036854775808", "!ERR value is not an integer"),
        ("DIM a DIM b DIM a", "!ERR duplicate dimension name"),
    ] {
        c.script(&[(format!("ZLB.CREATE k {rest}"), error)]);
    }
    assert_eq!(c.trace("k"), before);
}

#[test]
fn nothing_is_created_twice() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM a KEEP 3");
    c.run("ZLB.SET b m 5");
    c.run("SET s text");
    let before = (c.trace("b"), c.trace("s"));
    c.script(&[
        // The same schema as above, in another notation.
        ("ZLB.CREATE b DIM a KEEP 3", "+OK"),
        ("zlb.create b DIM a desc INT keep 3 ties first", "+OK"),
        ("ZLB.CREATE b DIM other KEEP 3", "!BUSYKEY key holds a leaderboard with another schema"),
        ("ZLB.CREATE b DIM a ASC KEEP 3", "!BUSYKEY "),
        ("ZLB.CREATE b DIM a FLOAT KEEP 3", "!BUSYKEY "),
        ("ZLB.CREATE b DIM a DIM c KEEP 3", "!BUSYKEY "),
        ("ZLB.CREATE b DIM a KEEP 4", "!BUSYKEY "),
        ("ZLB.CREATE b DIM a", "!BUSYKEY "),
        ("ZLB.CREATE b DIM a KEEP 3 TIES LAST", "!BUSYKEY "),
        ("ZLB.CREATE s DIM a", "!WRONGTYPE "),
    ]);
    assert_eq!((c.trace("b"), c.trace("s")), before);
}
