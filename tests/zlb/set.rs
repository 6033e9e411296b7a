//! ZLB.SET, ZLB.INCR and ZLB.REM: changes of members.

use testkit::start;

#[test]
fn the_reply_counts_new_members() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM x DIM y");
    c.script(&[
        ("ZLB.SET b a 1 1", "1"),
        ("ZLB.SET b a 2 2", "0"),
        ("ZLB.SET b a 3 3 b 1 1 c 1 1", "2"),
        ("ZLB.SET b d 1 1 d 2 2", "1"),
        ("ZLB.GET b d", "[[1 2 2]]"),
        ("ZLB.REM b a a nobody d", "2"),
        ("ZLB.CARD b", "2"),
    ]);
}

#[test]
fn nx_xx_and_best() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM points DIM seconds ASC");
    c.script(&[
        ("ZLB.SET b NX a 5 60 b 5 50", "2"),
        ("ZLB.SET b nx a 9 1 c 1 1", "1"),
        ("ZLB.SET b XX c 2 2 d 9 9", "0"),
        ("ZLB.RANGE b 0 -1 WITHVALUES", "[['b' 5 50] ['a' 5 60] ['c' 2 2]]"),
        // The better tuple is the one that comes first on the board: more points, or the same number in less time.
        ("ZLB.SET b BEST a 5 61 b 4 1 c 2 1", "0"),
        ("ZLB.RANGE b 0 -1 WITHVALUES", "[['b' 5 50] ['a' 5 60] ['c' 2 1]]"),
        ("ZLB.SET b BEST NX a 9 1 e 1 1", "1"),
        ("ZLB.SET b XX BEST a 6 99 f 9 9", "0"),
        ("ZLB.RANGE b 0 -1 WITHVALUES", "[['a' 6 99] ['b' 5 50] ['c' 2 1] ['e' 1 1]]"),
    ]);
}

#[test]
fn members_may_be_named_like_options() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE one DIM x");
    c.script(&[
        ("ZLB.SET one NX 5", "1"),
        ("ZLB.SET one best 6 XX 7", "2"),
        ("ZLB.SET one NX NX 9 nx 1", "1"),
        ("ZLB.SET one NX BEST best 9", "0"),
        ("ZLB.SET one BEST best 9", "0"),
        ("ZLB.RANGE one 0 -1 WITHVALUES", "[['best' 9] ['XX' 7] ['NX' 5] ['nx' 1]]"),
        ("ZLB.SET one NX XX best 1", "!ERR syntax error"),
        ("ZLB.SET one NX NX best 1", "!ERR syntax error"),
        ("ZLB.SET one NX BEST BEST best 1", "!ERR syntax error"),
    ]);
    c.run("ZLB.CREATE two DIM x DIM y");
    c.script(&[
        ("ZLB.SET two NX 1 1", "1"),
        ("ZLB.SET two NX NX 2 2", "0"),
        ("ZLB.SET two BEST NX BEST 2 2", "1"),
        ("ZLB.RANGE two 0 -1", "['BEST' 'NX']"),
        ("ZLB.SET two NX XX a 1 1", "!ERR syntax error"),
        ("ZLB.SET two NX XX BEST a 1 1", "!ERR syntax error"),
        ("ZLB.SET two XX XX a 1 1", "!ERR syntax error"),
    ]);
}

#[test]
fn an_error_changes_nothing() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM i DIM f FLOAT");
    c.run("ZLB.SET b m 5 0.5");
    let before = c.trace("b");
    c.script(&[
        ("ZLB.SET b m 1", "!ERR syntax error"),
        ("ZLB.SET b m 1 1 1", "!ERR syntax error"),
        ("ZLB.SET b n 1 1 m 1", "!ERR syntax error"),
        ("ZLB.SET b FOO m 1 1", "!ERR syntax error"),
        ("ZLB.SET b NX BEST", "!ERR syntax error"),
        ("ZLB.SET b n 1 1 m 1.0 1", "!ERR value is not an integer or out of range"),
        ("ZLB.SET b n 1 1 m +1 1", "!ERR value is not an integer or out of range"),
        ("ZLB.SET b n 1 1 m 01 1", "!ERR value is not an integer or out of range"),
        ("ZLB.SET b n 1 1 m 0x1 1", "!ERR value is not an integer or out of range"),
        ("ZLB.SET b n 1 1 m 9223372036854775808 1", "!ERR value is not an integer or out of range"),
        ("ZLB.SET b n 1 1 m 1 nan", "!ERR value is not a valid float"),
        ("ZLB.SET b n 1 1 m 1 inf", "!ERR value is not a valid float"),
        ("ZLB.SET b n 1 1 m 1 +1", "!ERR value is not a valid float"),
        ("ZLB.SET b n 1 1 m 1 1e309", "!ERR value is not a valid float"),
        ("ZLB.SET b n 1 1 m 1 0x1p3", "!ERR value is not a valid float"),
        ("ZLB.SET b n 1 1 m 1 \"\"", "!ERR value is not a valid float"),
        ("ZLB.INCR b m i", "!ERR wrong number of arguments"),
        ("ZLB.INCR b m i 1 f", "!ERR syntax error"),
        ("ZLB.INCR b m i 1 g 1", "!ERR no such dimension"),
        ("ZLB.INCR b m i 1 I 1", "!ERR no such dimension"),
        ("ZLB.INCR b m i 1 f x", "!ERR value is not a valid float"),
        ("ZLB.INCR b m f 1 i 0.5", "!ERR value is not an integer or out of range"),
        ("ZLB.INCR b m f 1 i 9223372036854775803", "!ERR increment or decrement would overflow"),
        ("ZLB.INCR b m i 9223372036854775802 i 1 i -9", "!ERR increment or decrement would overflow"),
        ("ZLB.INCR b m f 1.7e308 f 1.7e308", "!ERR increment would produce NaN or Infinity"),
    ]);
    assert_eq!(c.trace("b"), before);
}

#[test]
fn floats_are_replied_as_they_were_meant() {
    let (server, mut c) = start();
    let mut c3 = server.resp3();
    c.run("ZLB.CREATE b DIM x ASC FLOAT");
    for (given, shown) in [
        ("0.1", "0.1"),
        ("-0", "0"),
        ("3", "3"),
        ("1e3", "1000"),
        (".5", "0.5"),
        ("-1.25E-2", "-0.0125"),
        ("1e+300", "1e+300"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("0.30000000000000004", "0.30000000000000004"),
    ] {
        c.run(&format!("ZLB.SET b m {given}"));
        c.script(&[("ZLB.GET b m", format!("[[0 '{shown}']]"))]);
        let number: f64 = shown.parse().expect("a number");
        c3.script(&[("ZLB.GET b m", format!("[[0 ,{number}]]"))]);
    }
    c.script(&[
        ("ZLB.SET b m 0.1", "0"),
        ("ZLB.INCR b m x 0.2", "['0.30000000000000004']"),
        ("ZLB.INCR b new x -1.5", "['-1.5']"),
        ("ZLB.RANGE b 0 -1 WITHVALUES", "[['new' '-1.5'] ['m' '0.30000000000000004']]"),
    ]);
    c3.script(&[("ZLB.INCR b m x 0.25", "[,0.55]"), ("ZLB.AROUND b new 0 WITHVALUES", "[['new' ,-1.5]]")]);
}

#[test]
fn members_are_bytes() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM x TIES NAME");
    let names: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a\r\nb", b"%s%n", b"\xff\xfe"];
    for name in names {
        assert_eq!(c.call(redis::cmd("ZLB.SET").arg("b").arg(name).arg(1)), redis::Value::Int(1));
    }
    c.script(&[("ZLB.RANGE b 0 -1", "['' '\\x00' '\\x00\\x00' '%s%n' 'a\\x0d\\x0ab' '\\xff\\xfe']")]);
    let long = vec![b'x'; 1 << 20];
    c.call(redis::cmd("ZLB.SET").arg("b").arg(&long).arg(2));
    assert_eq!(c.call(redis::cmd("ZLB.RANK").arg("b").arg(&long)), redis::Value::Int(0));
    assert_eq!(c.call(redis::cmd("ZLB.REM").arg("b").arg(&long).arg(names[3])), redis::Value::Int(2));
    c.script(&[("ZLB.CARD b", "5")]);
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
