//! ZRL.TOP: the most denied keys.

use redis::Value;
use testkit::{Server, start};

#[test]
fn those_denied_most_come_first() {
    let (_server, mut c) = start();
    c.script(&[("ZRL.TOP", "[]")]);
    let before = c.now();
    for (key, denied) in [("seldom", 1), ("often", 5), ("never", 0), ("sometimes", 3)] {
        (0..=denied).for_each(|_| drop(c.run(&format!("ZRL.CHECK {key} 1 30d FIXED"))));
    }
    let top = c.reply("ZRL.TOP");
    let shown: Vec<_> = top.split('\'').skip(1).step_by(2).collect();
    assert_eq!(shown, ["often", "sometimes", "seldom"], "{top}");
    assert!(top.starts_with("[['often' 5 ") && top.contains("['sometimes' 3 "), "{top}");
    let since: i64 = top.split(' ').nth(2).and_then(|word| word.parse().ok()).expect("a time");
    assert!((before..=c.now()).contains(&since));
    assert!(top.ends_with(" 0]]"), "counts are exact while there is room: {top}");
    assert_eq!(c.reply("ZRL.TOP COUNT 1").matches('\'').count(), 2);
    assert_eq!(c.reply("ZRL.TOP COUNT 2 RESET").matches('\'').count(), 4);
    c.script(&[
        ("ZRL.TOP", "[]"),
        ("ZRL.TOP COUNT 0", "!ERR "),
        ("ZRL.TOP COUNT", "!ERR syntax error"),
        ("ZRL.TOP RESET RESET", "!ERR syntax error"),
        ("ZRL.TOP 5", "!ERR syntax error"),
    ]);
}

#[test]
fn every_command_that_denies_counts_the_keys_that_refused() {
    let (_server, mut c) = start();
    c.run("ZRL.CHECK full 1 30d");
    c.run("ZRL.MCHECK 2 full free 1 30d 9 30d");
    c.run("ZRL.THROTTLE cell 0 1 3600");
    c.run("ZRL.THROTTLE cell 0 1 3600");
    c.run("ZRL.CHECK forced 1 30d COST 2 FORCE");
    let top = c.reply("ZRL.TOP");
    for key in ["full", "cell"] {
        assert!(top.contains(&format!("['{key}' 1 ")), "{key}: {top}");
    }
    assert!(!top.contains("free") && !top.contains("forced"), "{top}");
}

/// If a key takes over another key's counter, the other key's count becomes its error.
#[test]
fn the_true_count_lies_between_the_count_and_the_count_less_its_error() {
    let (_server, mut c) = start();
    for key in 0..300 {
        (0..3).for_each(|_| drop(c.run(&format!("ZRL.CHECK k{key} 1 30d COST 2"))));
    }
    let Value::Array(top) = c.run("ZRL.TOP COUNT 1000") else { panic!("no array") };
    assert_eq!(top.len(), 256);
    let mut inexact = 0;
    for entry in &top {
        let Value::Array(fields) = entry else { panic!("{entry:?}") };
        let [_, Value::Int(denied), Value::Int(_), Value::Int(error)] = fields[..] else { panic!("{entry:?}") };
        assert!((denied - error..=denied).contains(&3), "{entry:?}");
        inexact += i32::from(error > 0);
    }
    assert_eq!(inexact, 44, "those beyond the 256");
}

#[test]
fn it_shows_only_keys_of_the_database_that_the_caller_may_read() {
    let (server, mut c) = start();
    for key in ["a:1", "b:1"] {
        (0..2).for_each(|_| drop(c.run(&format!("ZRL.CHECK {key} 1 30d"))));
    }
    c.run("SELECT 1");
    c.script(&[("ZRL.TOP", "[]")]);
    c.run("SELECT 0");
    c.run("ACL SETUSER ann on nopass ~a:* +@all");
    c.run("ACL SETUSER bob on nopass %W~* %R~b:* +@all");
    for (user, sees, hidden) in [("ann", "a:1", "b:1"), ("bob", "b:1", "a:1")] {
        let mut client = server.client();
        client.run(&format!("AUTH {user} any"));
        let top = client.reply("ZRL.TOP");
        assert!(top.contains(sees) && !top.contains(hidden), "{user}: {top}");
    }
    // In a script, the reply is empty.
    let reply = c.call(redis::cmd("EVAL").arg("return #redis.call('ZRL.TOP')").arg(0));
    assert_eq!(reply, redis::Value::Int(0));
}

/// RESET clears counts of other clients, so the ACL treats it as a write. A replica has its own counts, and is
/// read-only.
#[test]
fn reset_needs_the_right_to_write_limits_and_works_on_a_replica() {
    let (server, mut c) = start();
    (0..2).for_each(|_| drop(c.run("ZRL.CHECK k 1 30d")));
    c.run("ACL SETUSER reader on nopass ~* -@all +zrl.top +zrl.peek +eval");
    c.run("ACL SETUSER limiter on nopass ~* -@all +zrl.top +zrl.check");
    c.run("ACL SETUSER tenant on nopass ~a:* +@all");
    let [mut reader, mut limiter, mut tenant] = [(); 3].map(|()| server.client());
    tenant.run("AUTH tenant any");
    tenant.script(&[("ZRL.TOP RESET", "!NOPERM ")]);
    reader.run("AUTH reader any");
    limiter.run("AUTH limiter any");
    reader.script(&[("ZRL.TOP RESET", "!NOPERM "), ("ZRL.TOP COUNT 1 RESET", "!NOPERM ")]);
    assert!(reader.try_call(redis::cmd("EVAL").arg("return redis.call('ZRL.TOP','RESET')").arg(0)).is_err());
    for client in [&mut reader, &mut c, &mut limiter] {
        assert!(client.reply("ZRL.TOP").starts_with("[['k' 1 "));
    }
    assert!(limiter.reply("ZRL.TOP RESET").starts_with("[['k' 1 "));
    c.script(&[("ZRL.TOP", "[]")]);
    let replica = Server::builder().replica_of(&server);
    replica.client().script(&[("ZRL.TOP RESET", "[]")]);
}
