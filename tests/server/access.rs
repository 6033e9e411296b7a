//! The rights of users: access control lists, memory limits and read-only replicas. The tests try every command of the
//! module: alone, in a transaction and in a script.

use super::described::{categories, flags_and_categories};
use crate::server::surface::{COMMANDS, ours};
use redis::Value;
use testkit::{Client, Server, start};

/// Commands that write and also need the right to read, because their replies contain old data. ZPOPMIN, INCR and LMPOP
/// need both rights, too. ZADD, EXPIRE and ZREM need only the right to write.
const WRITE_AND_TELL: [&str; 9] = [
    "zexp.pop",
    "zrl.check",
    "zrl.mcheck",
    "zrl.throttle",
    "zq.claim",
    "zq.config",
    "zq.apply",
    "zlb.incr",
    "zlb.merge",
];

/// Creates the keys for all calls of the table, with this prefix.
fn fill(c: &mut Client, prefix: &str) {
    for (_, _, call, _) in COMMANDS {
        c.run(&call.replace("a:", prefix));
    }
    c.run(&format!("ZQ.PUSH {prefix}queue job ID waits"));
    c.run(&format!("ZQ.PUSH {prefix}other-queue job ID waits"));
    c.run(&format!("ZEXP.ADD {prefix}set 1h x"));
    c.run(&format!("ZLB.SET {prefix}board x 1"));
}

/// Returns the keys of a call, as COMMAND GETKEYS reports them.
fn keys_of(c: &mut Client, call: &str) -> Vec<String> {
    c.strings(&format!("COMMAND GETKEYS {call}"))
}

/// Runs a command in a script, and returns its result.
fn in_a_script(c: &mut Client, call: &str) -> Result<Value, String> {
    let mut eval = redis::cmd("EVAL");
    eval.arg("return redis.call(unpack(ARGV))").arg(0);
    call.split(' ').for_each(|word| {
        eval.arg(word);
    });
    c.try_call(&eval)
}

#[test]
fn no_command_reaches_a_key_outside_the_pattern_of_a_user() {
    let (server, mut c) = start();
    fill(&mut c, "b:");
    c.run("ACL SETUSER ann on nopass ~a:* +@all");
    let before = c.reply("DEBUG DIGEST");
    let mut ann = server.client();
    ann.run("AUTH ann any");
    for (name, _, call, _) in COMMANDS {
        // If one key of a call is outside the user's pattern, the call is refused, whatever the key's position.
        let keys = keys_of(&mut c, call);
        assert!(!keys.is_empty(), "{name}");
        for (place, key) in keys.iter().enumerate() {
            let words =
                call.split(' ').map(|word| if word == key { word.replace("a:", "b:") } else { word.to_owned() });
            let foreign = words.collect::<Vec<_>>().join(" ");
            ann.script(&[(&*foreign, "!NOPERM"), ("MULTI", "+OK"), (&*foreign, "!NOPERM"), ("EXEC", "!EXECABORT")]);
            let answer = in_a_script(&mut ann, &foreign);
            let refused = answer.as_ref().is_err_and(|error| {
                ["NOPERM", "can't access", "No permissions"].iter().any(|word| error.contains(word))
            });
            assert!(refused, "{foreign}, key {place}: {answer:?}");
        }
    }
    assert_eq!(c.reply("DEBUG DIGEST"), before);
    // With her own keys, ann may run all commands, also in a script.
    for (_, _, call, _) in COMMANDS {
        ann.run(call);
        if call.starts_with("ZLB.CREATE") {
            c.run("DEL a:board");
        }
        in_a_script(&mut ann, call).unwrap_or_else(|error| panic!("{call}: {error}"));
    }
}

#[test]
fn users_that_may_only_read_or_only_write_can_use_only_the_commands_that_do() {
    let (server, mut c) = start();
    fill(&mut c, "a:");
    for (user, rights) in [("reader", "%R~a:*"), ("writer", "%W~a:*"), ("both", "%R~a:* %W~a:*")] {
        c.run(&format!("ACL SETUSER {user} on nopass {rights} +@all"));
    }
    for (name, flags, call, _) in COMMANDS {
        let reads = flags.contains(&"readonly") || WRITE_AND_TELL.contains(name);
        let writes = flags.contains(&"write");
        for (user, may) in [("reader", !writes), ("writer", !reads), ("both", true)] {
            // ACL DRYRUN does not execute the call, so calls do not affect each other.
            let says = c.string(&format!("ACL DRYRUN {user} {call}"));
            assert_eq!(says == "OK", may, "{user}: {call}: {says}");
        }
    }
    let mut reader = server.client();
    reader.run("AUTH reader any");
    for (_, flags, call, _) in ours() {
        if flags.contains(&"readonly") {
            reader.run(call);
        } else {
            reader.script(&[(call, "!NOPERM")]);
        }
    }
}

#[test]
fn categories_are_those_of_the_nearest_commands_of_the_server() {
    let (_server, mut c) = start();
    let nearest = [
        ("zexp.add", "zadd"),
        ("zexp.rem", "zrem"),
        ("zexp.card", "zcard"),
        ("zexp.members", "zrange"),
        ("zexp.pop", "zpopmin"),
        ("zexp.randmember", "zrandmember"),
        ("zrl.check", "incr"),
        ("zq.claim", "bzpopmin"),
        ("zlb.range", "zrange"),
        ("zlb.rank", "zscore"),
    ];
    let of = |c: &mut Client, name: &str| flags_and_categories(c, name).1;
    if c.info("server")["redis_version"].starts_with("7.0.") {
        // Before Redis 7.2, a module cannot set the categories of its commands.
        assert!(ours().all(|(name, ..)| of(&mut c, name).is_empty()));
        return;
    }
    for (name, theirs) in nearest {
        // Keys of some families have another type than those of the nearest command.
        let types = ["@string", "@sortedset"].map(str::to_owned);
        let of = |name| of(&mut c, name).into_iter().filter(|category| !types.contains(category)).collect::<Vec<_>>();
        let [ours, theirs] = [name, theirs].map(of);
        assert_eq!(ours, theirs, "{name}");
    }
    for (name, flags, ..) in ours() {
        assert_eq!(of(&mut c, name), categories(name, flags), "{name}");
    }
    // Users can be defined by these categories.
    c.run("ACL SETUSER guest on nopass ~* -@all +@read");
    c.run("ACL SETUSER clerk on nopass ~* +@all -@blocking -@slow");
    for (name, flags, call, _) in ours() {
        for (user, may) in
            [("guest", flags.contains(&"readonly")), ("clerk", flags.contains(&"fast") && !flags.contains(&"blocking"))]
        {
            let says = c.string(&format!("ACL DRYRUN {user} {call}"));
            assert_eq!(says == "OK", may, "{user}: {name}: {says}");
        }
    }
}

#[test]
fn a_full_server_refuses_what_would_need_memory_and_nothing_else() {
    let (_server, mut c) = start();
    fill(&mut c, "a:");
    c.run("CONFIG SET maxmemory 1");
    let before = c.reply("DEBUG DIGEST");
    for (_, flags, call, _) in COMMANDS {
        if flags.contains(&"denyoom") {
            c.script(&[(*call, "!OOM "), ("MULTI", "+OK"), (*call, "!OOM "), ("EXEC", "!EXECABORT")]);
            let answer = in_a_script(&mut c, call);
            assert!(answer.as_ref().is_err_and(|error| error.starts_with("OOM ")), "{call}: {answer:?}");
        }
    }
    assert_eq!(c.reply("DEBUG DIGEST"), before);
    for (_, flags, call, _) in COMMANDS {
        if !flags.contains(&"denyoom") {
            c.run(call);
            // (In a transaction, the full server refuses even its own commands.)
            in_a_script(&mut c, call).unwrap_or_else(|error| panic!("{call}: {error}"));
        }
    }
}

#[test]
fn a_replica_serves_readonly_commands_refuses_writes_and_deletes_nothing() {
    let (server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    fill(&mut c, "a:");
    c.run("ZEXP.ADD a:set 1ms dead");
    c.run("ZQ.PUSH a:queue job ID due DELAY 1ms");
    let replica = Server::builder().replica_of(&server);
    let mut r = replica.client();
    let later = c.now() + 5;
    c.wait_until(later);
    let before = r.reply("DEBUG DIGEST");
    for (_, flags, call, _) in COMMANDS {
        if flags.contains(&"readonly") {
            r.run(call);
            in_a_script(&mut r, call).unwrap_or_else(|error| panic!("{call}: {error}"));
        } else {
            r.script(&[(*call, "!READONLY "), ("MULTI", "+OK"), (*call, "!READONLY "), ("EXEC", "!EXECABORT")]);
            let answer = in_a_script(&mut r, call);
            assert!(answer.as_ref().is_err_and(|error| error.starts_with("READONLY ")), "{call}: {answer:?}");
        }
    }
    assert_eq!(r.reply("DEBUG DIGEST"), before);
    assert_eq!(c.reply("DEBUG DIGEST"), before);
}

/// Like RESTORE, ZQ.APPLY and ZLB.APPLY bypass checks that other commands make, such as `maxmemory`.
#[test]
fn effects_are_carried_out_for_those_alone_who_may_restore() {
    let (server, mut c) = start();
    fill(&mut c, "a:");
    c.run("ACL SETUSER app on nopass ~* +@all -@dangerous");
    c.run("ACL SETUSER mover on nopass ~* -@all +restore +eval +zq.apply +zlb.apply");
    let (mut app, mut mover) = (server.client(), server.client());
    app.run("AUTH app any");
    mover.run("AUTH mover any");
    let before = c.reply("DEBUG DIGEST");
    for call in
        ["ZQ.APPLY a:queue 1 PUSH new x 1 0 0 0", "ZLB.APPLY a:board SET new 7", "ZQ.APPLY a:new 1 PUSH new x 1 0 0 0"]
    {
        app.script(&[(call, "!NOPERM ")]);
        let answer = in_a_script(&mut app, call);
        assert!(answer.is_err(), "{call}: {answer:?}");
        assert_eq!(c.reply("DEBUG DIGEST"), before, "{call}");
    }
    for call in ["ZQ.APPLY a:queue 1 PUSH new x 1 0 0 0", "ZLB.APPLY a:board SET new 7"] {
        mover.script(&[(call, "1")]);
        in_a_script(&mut mover, call).unwrap_or_else(|error| panic!("{call}: {error}"));
        in_a_script(&mut c, call).unwrap_or_else(|error| panic!("{call}: {error}"));
    }
}
