//! The effects of a change on transactions, scripts, WATCH, client-side caches, events and replicas.

use super::read::READS;
use testkit::{FAR, NEVER, Server, Stream, plant, start};

/// Calls on the set of `sample` that change nothing.
const IDLE: [&str; 13] = [
    "ZEXP.ADD k NX 5m a 5m never",
    "ZEXP.ADD k XX 5m absent",
    "ZEXP.ADD k GT 5m a",
    "ZEXP.ADD k CAP 2 5m absent",
    "ZEXP.ADD k AT 1 absent",
    "ZEXP.ADD k AT 4102444800000ms a",
    "ZEXP.EXPIRE k 5m absent",
    "ZEXP.EXPIRE k GT 5m a never",
    "ZEXP.PERSIST k never absent",
    "ZEXP.REM k absent",
    "ZEXP.POP k 0",
    "ZEXP.ADOPT k",
    "ZEXP.EXPIRE k AT 4102444800000ms a",
];

/// Calls on the set of `sample` that change something.
const BUSY: [&str; 8] = [
    "ZEXP.ADD k 5m new",
    "ZEXP.ADD k 5m a",
    "ZEXP.ADD k LT AT 1 a",
    "ZEXP.EXPIRE k 5m a",
    "ZEXP.EXPIRE k AT 1 a",
    "ZEXP.PERSIST k a",
    "ZEXP.REM k a",
    "ZEXP.POP k",
];

fn sample(c: &mut testkit::Client) {
    plant(c, "k", &[("a", FAR), ("never", NEVER)]);
}

/// Returns all calls, each with whether it changes something.
fn calls() -> impl Iterator<Item = (&'static str, bool)> {
    let idle = IDLE.iter().chain(&READS).map(|line| (*line, false));
    idle.chain(BUSY.iter().map(|line| (*line, true)))
}

#[test]
fn watch_is_broken_by_changes_and_by_nothing_else() {
    let (server, mut c) = start();
    let mut watcher = server.client();
    for (line, changes) in calls() {
        sample(&mut c);
        watcher.script(&[("WATCH k", "+OK")]);
        c.run(line);
        watcher.script(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", if changes { "nil" } else { "[+PONG]" })]);
    }
}

#[test]
fn client_side_caches_hear_of_changes_and_of_nothing_else() {
    let (server, mut c) = start();
    let mut cache = server.resp3();
    cache.run("CLIENT TRACKING ON");
    for (line, changes) in calls() {
        sample(&mut c);
        // The client caches the reply of a ZEXP command.
        cache.run("ZEXP.MEMBERS k");
        cache.pushes();
        c.run(line);
        let expected: &[&str] = if changes { &[">[Invalidate ['k']]"] } else { &[] };
        assert_eq!(cache.pushes(), expected, "{line}");
    }
}

#[test]
fn what_changes_nothing_is_not_replicated_and_not_dirty() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    for (line, changes) in calls() {
        sample(&mut c);
        stream.take();
        let before = c.trace("k");
        c.run(line);
        let after = c.trace("k");
        let replicated = stream.take();
        assert_eq!(after != before, changes, "{line}");
        assert_eq!(!replicated.is_empty(), changes, "{line}: {replicated:?}");
    }
}

/// The commands by which a change may reach replicas and the AOF: the server's own commands that do not read the clock.
const NATIVE: [&str; 10] =
    ["MULTI", "EXEC", "ZADD", "ZREM", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE", "PEXPIREAT", "PERSIST", "DEL", "UNLINK"];

#[test]
fn replicas_get_native_commands_with_absolute_times() {
    let (server, mut c) = start();
    let replica = Server::builder().plain().replica_of(&server);
    let mut stream = Stream::attach(&server);
    let mut r = replica.client();
    for line in BUSY {
        sample(&mut c);
        stream.take();
        c.run(line);
        let replicated = stream.take();
        for command in &replicated {
            let words: Vec<_> = command.split(' ').collect();
            assert!(NATIVE.contains(&words[0]), "{line} replicates {command}");
            if words[0] == "ZADD" {
                let score: i64 = words[words.len() - 2].parse().expect("an integer score");
                assert!(score > 1_700_000_000_000, "{line} replicates {command}");
            }
        }
        replica.wait_for_sync(&server);
        for look in ["DUMP k", "PEXPIRETIME k", "ZRANGE k 0 -1 WITHSCORES"] {
            assert_eq!(r.reply(look), c.reply(look), "{line}: {look}");
        }
    }
}

#[test]
fn adoption_replicates_its_effect() {
    let (server, mut c) = start();
    let replica = Server::builder().plain().replica_of(&server);
    // Without this, the sweeper could delete the expired member between the two reads below.
    c.run("CONFIG SET zeitset.sweep no");
    for n in 0..500 {
        c.run(&format!("ZADD k {} m{n}", FAR / 1000 + n));
    }
    c.run("ZADD k 1000 dead");
    c.script(&[("ZEXP.ADOPT k UNIT s PLUS 5m", "500")]);
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    assert_eq!(r.int("PEXPIRETIME k"), c.int("PEXPIRETIME k"));
    assert_eq!(r.scores("k"), c.scores("k"));
}

#[test]
fn standard_events_tell_what_happened() {
    let server = Server::builder().config("notify-keyspace-events KEA").start();
    let mut c = server.client();
    let mut listener = server.resp3();
    listener.psubscribe("__keyevent@0__:*");
    for (line, event) in [
        ("ZEXP.ADD k 5m new", "zadd"),
        ("ZEXP.ADD k 5m a", "zadd"),
        ("ZEXP.EXPIRE k 5m a", "zadd"),
        ("ZEXP.PERSIST k a", "zadd"),
        ("ZEXP.ADD k AT 1 a", "zrem"),
        ("ZEXP.EXPIRE k AT 1 a", "zrem"),
        ("ZEXP.REM k a", "zrem"),
        ("ZEXP.POP k", "zrem"),
        ("ZEXP.REM k a never", "del"),
        ("ZEXP.POP k 5", "del"),
    ] {
        sample(&mut c);
        listener.pushes();
        c.run(line);
        let heard = listener.pushes();
        let told = |event: &str| {
            let channel = format!("'__keyevent@0__:{event}' 'k'");
            heard.iter().filter(|push| push.contains(&channel)).count()
        };
        assert_eq!(told(event), 1, "{line}: {heard:?}");
        if event == "del" {
            assert_eq!(told("zrem"), 1, "{line}: {heard:?}");
        }
    }
}

#[test]
fn no_event_without_a_change() {
    let server = Server::builder().config("notify-keyspace-events KEA").start();
    let mut c = server.client();
    sample(&mut c);
    let mut listener = server.resp3();
    listener.psubscribe("__key*__:*");
    for line in IDLE.iter().chain(&READS) {
        c.run(line);
        assert_eq!(listener.pushes(), [""; 0], "{line}");
    }
}

#[test]
fn calls_work_in_transactions() {
    let (_server, mut c) = start();
    c.script(&[
        ("MULTI", "+OK"),
        ("ZEXP.ADD k CAP 1 5m a", "+QUEUED"),
        ("ZEXP.ADD k CAP 1 5m b", "+QUEUED"),
        ("ZEXP.CARD k", "+QUEUED"),
        ("ZEXP.ADD k 0 b", "+QUEUED"),
        ("ZEXP.POP k", "+QUEUED"),
        ("ZEXP.CARD k", "+QUEUED"),
    ]);
    let reply = c.reply("EXEC");
    assert!(reply.starts_with("[1 nil 1 !ERR "), "{reply}");
    assert!(reply.ends_with(" 'a' 0]"), "{reply}");
}

#[test]
fn calls_work_in_scripts() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    let script = "local n = redis.call('ZEXP.ADD', KEYS[1], '5m', 'a', '5m', 'b') \
                  local refused = redis.call('ZEXP.ADD', KEYS[1], 'CAP', '2', '5m', 'c') \
                  local bad = redis.pcall('ZEXP.ADD', KEYS[1], '0', 'c') \
                  local all = redis.call('ZEXP.MEMBERS', KEYS[1]) \
                  return {n, refused == false, bad.err ~= nil, all, redis.call('ZEXP.CARD', KEYS[1])}";
    let reply = c.call(redis::cmd("EVAL").arg(script).arg(1).arg("k"));
    assert_eq!(testkit::show(&reply), "[2 1 1 ['a' 'b'] 2]");
    let replicated = stream.take();
    assert!(replicated.iter().all(|line| !line.contains("ZEXP") && !line.contains("EVAL")), "{replicated:?}");
    // EVAL_RO allows only reads.
    let reply = c.call(redis::cmd("EVAL_RO").arg("return redis.call('ZEXP.CARD', KEYS[1])").arg(1).arg("k"));
    assert_eq!(reply, redis::Value::Int(2));
}
