//! Members may have any bytes and any length, and sets any number of members.

use redis::Value;
use testkit::{assert_tagged, cmd, pairs, show, start};

fn odd_members() -> Vec<Vec<u8>> {
    vec![
        b"".to_vec(),
        b"\0".to_vec(),
        b"a\0b".to_vec(),
        b"\r\n".to_vec(),
        b"\xff\xfe\x00\x80".to_vec(),
        b"%s%n%d".to_vec(),
        b"12345".to_vec(),
        b"-0".to_vec(),
        b"nx".to_vec(),
        vec![b'x'; 64],
        vec![b'x'; 65],
        vec![b'y'; 1 << 20],
        (0..=255).collect(),
    ]
}

#[test]
fn members_are_any_bytes() {
    let (_server, mut c) = start();
    let members = odd_members();
    let total = members.len() as i64;
    for (n, member) in (0i64..).zip(&members) {
        let args = || member.as_slice();
        assert_eq!(cmd!(c, "ZEXP.ADD", "k", "1h", args()), Value::Int(1));
        assert_eq!(cmd!(c, "ZEXP.ADD", "k", "CH", "2h", args()), Value::Int(1));
        assert_eq!(cmd!(c, "ZEXP.ISMEMBER", "k", args()), Value::Int(1));
        assert_eq!(show(&cmd!(c, "ZEXP.EXPIRE", "k", "3h", args())), "[1]");
        assert_eq!(show(&cmd!(c, "ZEXP.PERSIST", "k", args())), "[1]");
        assert_eq!(show(&cmd!(c, "ZEXP.PTTL", "k", args())), "[-1]");
        assert_eq!(cmd!(c, "ZEXP.CARD", "k"), Value::Int(n + 1));
    }
    let Value::Array(listed) = cmd!(c, "ZEXP.MEMBERS", "k") else { panic!("no array") };
    // With equal scores, members are in byte order.
    let mut expected = members.clone();
    expected.sort();
    let expected: Vec<_> = expected.into_iter().map(Value::BulkString).collect();
    assert!(listed == expected, "MEMBERS gives back the same bytes");
    assert_tagged(&mut c, "k");

    for (member, left) in members.iter().zip((0..total).rev()) {
        assert_eq!(cmd!(c, "ZEXP.REM", "k", &member[..]), Value::Int(1));
        assert_eq!(cmd!(c, "ZEXP.CARD", "k"), Value::Int(left));
    }
    assert_eq!(cmd!(c, "EXISTS", "k"), Value::Int(0));
}

#[test]
fn keys_are_any_bytes() {
    let (_server, mut c) = start();
    for key in odd_members() {
        let key = &key[..];
        assert_eq!(cmd!(c, "ZEXP.ADD", key, "1h", "a", "1h", "b"), Value::Int(2));
        assert_eq!(cmd!(c, "ZEXP.CARD", key), Value::Int(2));
        assert_eq!(show(&cmd!(c, "ZEXP.POP", key)), "'a'");
        cmd!(c, "ZREM", key, testkit::TAG);
        let error = c.try_call(redis::cmd("ZEXP.CARD").arg(key)).expect_err("an ordinary set now");
        assert!(error.starts_with("NOTEXPIRING "), "{error}");
        assert!(!error.contains(['\r', '\n', '\0']), "{error:?}");
    }
}

#[test]
fn sets_grow_beyond_the_compact_encoding_and_stay_right() {
    let (_server, mut c) = start();
    for size in [127, 128, 129, 1000] {
        c.run("DEL k");
        let names: Vec<_> = (0..size).map(|n| format!("m{n:05}")).collect();
        c.script(&[
            (format!("ZEXP.ADD k {}", pairs("1h", &names)), size.to_string()),
            ("ZEXP.CARD k".into(), size.to_string()),
            ("ZEXP.ADD k CH 2h m00000 2h m00100 2h new".into(), "3".into()),
            ("ZEXP.REM k m00001 m00101 absent".into(), "2".into()),
            ("ZEXP.MISMEMBER k m00000 m00001 m00002 new".into(), "[1 0 1 1]".into()),
            ("ZEXP.CARD k".into(), (size - 1).to_string()),
        ]);
        assert_tagged(&mut c, "k");
    }
}

/// One call may name many members, and name them again.
#[test]
fn a_hundred_thousand_members() {
    let (_server, mut c) = start();
    let names: Vec<_> = (0..20_000).map(|n| format!("0{n:05}")).collect();
    c.script(&[(format!("ZEXP.ADD k {}", pairs("1h", &names)), "20000")]);
    for block in 1..5 {
        let names: Vec<_> = (0..20_000).map(|n| format!("{block}{n:05}")).collect();
        c.script(&[(format!("ZEXP.ADD k {}", pairs(&format!("{}m", 60 + block), &names)), "20000")]);
    }
    c.script(&[
        ("ZEXP.CARD k", "100000"),
        ("ZEXP.ADD k CAP 100000 1h one-more", "nil"),
        ("ZEXP.REM k 000000 419999", "2"),
        ("ZEXP.ADD k CAP 100000 1h one-more", "1"),
        ("ZEXP.MEMBERS k LIMIT 99997 10", "['419997' '419998']"),
        ("ZEXP.CARD k", "99999"),
        ("ZEXP.REM k one-more", "1"),
    ]);
    assert!(c.strings("ZEXP.MEMBERS k LIMIT 0 19999") == names[1..], "all in byte order");
    assert_tagged(&mut c, "k");
    assert_eq!(c.strings("ZEXP.POP k 9999"), names[1..10_000]);
    let left = names[10_000..].join(" ");
    assert_eq!(c.ints(&format!("ZEXP.EXPIRE k 2h {left}")).iter().sum::<i64>(), 10_000);
    c.script(&[(format!("ZEXP.REM k {left}"), "10000"), ("ZEXP.CARD k".into(), "79999")]);
    assert_eq!(c.strings("ZEXP.POP k 80000").len(), 79_999);
    c.script(&[("EXISTS k", "0")]);
}
