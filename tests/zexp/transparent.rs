//! The effects of a change on transactions, scripts, WATCH, client-side caches, events and replicas.

use super::read::READS;
use testkit::{Dataset, FAR, NEVER, Server, Stream, Witness, plant, start};

/// Calls on a set of `a` and `never`, each with the events that tell what it did. Calls without events change nothing.
const CALLS: [(&str, &[&str]); 23] = [
    ("ZEXP.ADD k NX 5m a 5m never", &[]),
    ("ZEXP.ADD k XX 5m absent", &[]),
    ("ZEXP.ADD k GT 5m a", &[]),
    ("ZEXP.ADD k CAP 2 5m absent", &[]),
    ("ZEXP.ADD k AT 1 absent", &[]),
    ("ZEXP.ADD k AT 4102444800000ms a", &[]),
    ("ZEXP.EXPIRE k 5m absent", &[]),
    ("ZEXP.EXPIRE k GT 5m a never", &[]),
    ("ZEXP.EXPIRE k AT 4102444800000ms a", &[]),
    ("ZEXP.PERSIST k never absent", &[]),
    ("ZEXP.REM k absent", &[]),
    ("ZEXP.POP k 0", &[]),
    ("ZEXP.ADOPT k", &[]),
    ("ZEXP.ADD k 5m new", &["zadd k"]),
    ("ZEXP.ADD k 5m a", &["zadd k"]),
    ("ZEXP.ADD k LT AT 1 a", &["zrem k"]),
    ("ZEXP.EXPIRE k 5m a", &["zadd k"]),
    ("ZEXP.EXPIRE k AT 1 a", &["zrem k"]),
    ("ZEXP.PERSIST k a", &["zadd k"]),
    ("ZEXP.REM k a", &["zrem k"]),
    ("ZEXP.POP k", &["zrem k"]),
    ("ZEXP.REM k a never", &["zrem k", "del k"]),
    ("ZEXP.POP k 5", &["zrem k", "del k"]),
];

/// A replica without the module gets each change as one native command with absolute times.
#[test]
fn all_observers_learn_of_changes_and_of_nothing_else() {
    let (server, mut c) = start();
    let replica = Server::builder().plain().replica_of(&server);
    let mut witness = Witness::of(&server, "k", "ZEXP.MEMBERS k");
    for (line, events) in CALLS.into_iter().chain(READS.map(|line| (line, &[][..]))) {
        plant(&mut c, "k", &[("a", FAR), ("never", NEVER)]);
        let told = witness.call(&mut c, line);
        assert_eq!(told.events, events, "{line}");
        assert!(told.commands.len() <= 1, "{line} replicates {:?}", told.commands);
        for command in &told.commands {
            let words: Vec<_> = command.split(' ').collect();
            assert!(["ZADD", "ZREM"].contains(&words[0]), "{line} replicates {command}");
            if words[0] == "ZADD" {
                let score: i64 = words[words.len() - 2].parse().expect("an integer score");
                assert!(score > 1_700_000_000_000, "{line} replicates {command}");
            }
        }
        replica.wait_for_sync(&server);
        assert_eq!(Dataset::of(&mut replica.client()), Dataset::of(&mut c), "{line}");
    }
}

#[test]
fn calls_work_in_transactions_and_scripts() {
    let (server, mut c) = start();
    c.script(&[
        ("MULTI", "+OK"),
        ("ZEXP.ADD t CAP 1 5m a", "+QUEUED"),
        ("ZEXP.ADD t CAP 1 5m b", "+QUEUED"),
        ("ZEXP.CARD t", "+QUEUED"),
        ("ZEXP.ADD t 0 b", "+QUEUED"),
        ("ZEXP.POP t", "+QUEUED"),
        ("ZEXP.CARD t", "+QUEUED"),
    ]);
    let reply = c.reply("EXEC");
    assert!(reply.starts_with("[1 nil 1 !ERR ") && reply.ends_with(" 'a' 0]"), "{reply}");
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
