//! What the server knows of the ZLB commands: flags, keys, access rules.

use redis::Value;
use testkit::{Server, start};

/// Name, flags, a call that works on a board `a:b` of one dimension `x`.
const COMMANDS: [(&str, &[&str], &str); 15] = [
    ("zlb.create", &["write", "denyoom", "fast"], "ZLB.CREATE a:new DIM x"),
    ("zlb.set", &["write", "denyoom", "fast"], "ZLB.SET a:b NX BEST m 5"),
    ("zlb.incr", &["write", "denyoom", "fast"], "ZLB.INCR a:b m x 1"),
    ("zlb.rem", &["write", "fast"], "ZLB.REM a:b m n"),
    ("zlb.apply", &["write"], "ZLB.APPLY a:b SET m 5"),
    ("zlb.merge", &["write", "denyoom"], "ZLB.MERGE a:sum 2 a:b a:c BEST"),
    ("zlb.remrange", &["write"], "ZLB.REMRANGE a:b 5 -1"),
    ("zlb.clear", &["write", "fast"], "ZLB.CLEAR a:b"),
    ("zlb.get", &["readonly", "fast"], "ZLB.GET a:b m n"),
    ("zlb.rank", &["readonly", "fast"], "ZLB.RANK a:b m DENSE"),
    ("zlb.rankof", &["readonly", "fast"], "ZLB.RANKOF a:b 5"),
    ("zlb.range", &["readonly"], "ZLB.RANGE a:b 0 -1"),
    ("zlb.around", &["readonly"], "ZLB.AROUND a:b m 2"),
    ("zlb.card", &["readonly", "fast"], "ZLB.CARD a:b"),
    ("zlb.info", &["readonly", "fast"], "ZLB.INFO a:b"),
];

fn is_readonly(flags: &[&str]) -> bool {
    flags.contains(&"readonly")
}

#[test]
fn flags_and_keys() {
    let (_server, mut c) = start();
    for (name, flags, call) in COMMANDS {
        let Value::Array(info) = c.run(&format!("COMMAND INFO {name}")) else { panic!("{name}") };
        let Value::Array(fields) = &info[0] else { panic!("{name} is no command") };
        let has = testkit::show(&fields[2]);
        for flag in ["write", "readonly", "denyoom", "fast"] {
            assert_eq!(has.contains(&format!("+{flag}")), flags.contains(&flag), "{name}: {flag}, has {has}");
        }
        let keys: Vec<_> = call.split(' ').filter(|word| word.contains(':')).map(|key| format!("'{key}'")).collect();
        c.script(&[(format!("COMMAND GETKEYS {call}"), format!("[{}]", keys.join(" ")))]);
    }
}

#[test]
fn incr_needs_the_right_to_read() {
    let (server, mut c) = start();
    c.run("ZLB.CREATE a:b DIM x");
    c.run("ACL SETUSER writer on nopass %W~a:* +@all");
    let mut writer = server.client();
    writer.run("AUTH writer any");
    writer.script(&[
        ("ZLB.SET a:b m 5", "1"),
        ("ZLB.INCR a:b m x 1", "!NOPERM "),
        ("ZLB.GET a:b m", "!NOPERM "),
        ("ZLB.REM a:b m", "1"),
    ]);
}

#[test]
fn users_reach_only_their_boards() {
    let (server, mut c) = start();
    c.run("ZLB.CREATE a:b DIM x");
    c.run("ZLB.CREATE b:b DIM x");
    c.run("ACL SETUSER ann on nopass ~a:* +@all");
    c.run("ACL SETUSER reader on nopass %R~a:* +@all");
    let (mut ann, mut reader) = (server.client(), server.client());
    ann.run("AUTH ann any");
    reader.run("AUTH reader any");
    for (_, flags, call) in COMMANDS {
        if is_readonly(flags) {
            reader.run(call);
        } else {
            reader.script(&[(call, "!NOPERM ")]);
        }
        ann.script(&[(call.replace("a:", "b:"), "!NOPERM ")]);
        ann.run(call);
    }
}

#[test]
fn a_replica_and_a_full_server() {
    let (server, mut c) = start();
    c.run("ZLB.CREATE a:b DIM x");
    c.run("ZLB.SET a:b m 5");
    let replica = Server::builder().replica_of(&server);
    let mut r = replica.client();
    c.run("CONFIG SET maxmemory 1");
    for (_, flags, call) in COMMANDS {
        if is_readonly(flags) {
            r.run(call);
        } else {
            r.script(&[(call, "!READONLY ")]);
        }
        if flags.contains(&"denyoom") {
            c.script(&[(call, "!OOM ")]);
        } else {
            c.run(call);
        }
    }
}
