//! Expiring and ordinary sorted sets side by side. Random ZEXP commands, plain commands, STORE commands, RENAME, COPY,
//! RESTORE, EXPIRE and transactions of them; restarts, crashes, reloads and promotions in between.
//!
//! The model knows of each key whether it is an expiring set, and its members. An ordinary set must always hold exactly
//! the model's members. An expiring set must hold all its live members; expired ones may be gone.

use super::Run;
use rand::Rng;
use rand::rngs::StdRng;
use redis::Value;
use std::collections::BTreeMap;
use testkit::{Client, FAR, PATIENCE, Server, after_scan, assert_same_data, command, eventually, show};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

const TAG: &str = "zeitset:expiring";

/// Stands for the members of a set that a STORE command has made in this transaction.
const UNREAD: &str = "unread";

/// A member is live in an expiring set if its score is higher. All live members of the test expire in 2100 or later.
const PAST: f64 = 1e12;

#[derive(Clone, Debug, Default, PartialEq)]
struct Set {
    is_expiring: bool,
    /// Whether an expiring set has its tag now. Plain commands may have removed it in this transaction.
    has_tag: bool,
    members: BTreeMap<String, f64>,
}

impl Set {
    fn ordinary(members: BTreeMap<String, f64>) -> Set {
        Set { members, ..Set::default() }
    }

    fn live(&self) -> BTreeMap<String, f64> {
        self.members
            .iter()
            .filter(|(_, score)| **score > PAST)
            .map(|(member, score)| (member.clone(), *score))
            .collect()
    }
}

type Model = BTreeMap<&'static str, Set>;

type Apply = dyn Fn(&mut Model, &Value);

/// A command, and what it does to the model. The function gets the command's reply.
struct Step {
    line: String,
    apply: Box<Apply>,
}

impl Step {
    fn new(line: String, apply: impl Fn(&mut Model, &Value) + 'static) -> Step {
        Step { line, apply: Box::new(apply) }
    }
}

fn is_error(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(_))
}

/// Parses `member score member score ...`, without the tag.
fn scores(reply: &Value) -> BTreeMap<String, f64> {
    let Value::Array(words) = reply else { panic!("{}", show(reply)) };
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{}", show(other)),
    };
    let pairs = words.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]).parse().expect("a score")));
    pairs.filter(|(member, _)| member != TAG).collect()
}

/// Removes what has no members: the server deletes such keys.
fn tidy(model: &mut Model) {
    model.retain(|_, set| set.has_tag || !set.members.is_empty());
}

fn step(random: &mut StdRng) -> Step {
    let key = KEYS[random.random_range(0..KEYS.len())];
    let other = KEYS[random.random_range(0..KEYS.len())];
    let to = KEYS[random.random_range(0..KEYS.len())];
    let member = format!("m{}", random.random_range(0..8));
    let future = FAR + random.random_range(0..100_000);
    let score = if random.random_bool(0.4) { random.random_range(1..1_000_000) } else { future };
    match random.random_range(0..100) {
        0..=24 => Step::new(format!("ZEXP.ADD {key} AT {future}ms {member}"), move |model, reply| {
            if !is_error(reply) {
                let set = model.entry(key).or_insert(Set { is_expiring: true, ..Set::default() });
                assert!(set.is_expiring, "ZEXP.ADD to an ordinary set");
                set.members.insert(member.clone(), future as f64);
                set.has_tag = true;
            } else {
                assert!(!model[key].is_expiring, "{}", show(reply));
            }
        }),
        25..=39 => Step::new(format!("ZADD {key} {score} {member}"), move |model, _| {
            model.entry(key).or_default().members.insert(member.clone(), score as f64);
        }),
        40..=44 => Step::new(format!("ZEXP.REM {key} {member}"), move |model, reply| {
            if let (false, Some(set)) = (is_error(reply), model.get_mut(key)) {
                assert!(set.is_expiring);
                if set.members.get(&member).is_some_and(|score| *score > PAST) {
                    set.members.remove(&member);
                    set.has_tag = !set.members.is_empty();
                }
            }
        }),
        45..=49 => Step::new(format!("ZREM {key} {member}"), move |model, _| {
            model.get_mut(key).map(|set| set.members.remove(&member));
        }),
        50..=56 => {
            let pop = ["ZPOPMIN", "ZPOPMIN", "ZPOPMAX"][random.random_range(0..3)];
            Step::new(format!("{pop} {key} {}", random.random_range(1..3)), move |model, reply| {
                let Some(set) = model.get_mut(key) else { return };
                set.members.retain(|member, _| !scores(reply).contains_key(member));
                set.has_tag &= !show(reply).contains(TAG);
            })
        }
        57..=59 => Step::new(format!("ZREMRANGEBYSCORE {key} -inf 1000000"), move |model, _| {
            if let Some(set) = model.get_mut(key) {
                set.members.retain(|_, score| *score > 1e6);
                set.has_tag = false;
            }
        }),
        60..=67 => {
            let how = match random.random_range(0..5) {
                0 => format!("ZUNIONSTORE {to} 2 {key} {other} AGGREGATE MAX"),
                1 => format!("ZINTERSTORE {to} 2 {key} {other} AGGREGATE MIN"),
                2 => format!("ZDIFFSTORE {to} 2 {key} {other}"),
                3 => format!("ZUNIONSTORE {to} 2 {key} {other} WEIGHTS 0 -1"),
                _ => format!("ZRANGESTORE {to} {key} 0 3"),
            };
            // `run` reads the result in the same turn.
            Step::new(how, move |model, reply| {
                model.remove(to);
                if *reply != Value::Int(0) {
                    model.insert(to, Set::ordinary(BTreeMap::from([(UNREAD.to_string(), f64::INFINITY)])));
                }
            })
        }
        68..=76 => Step::new(format!("RENAME {key} {to}"), move |model, reply| {
            if !is_error(reply) {
                let set = model.remove(key).expect("a key");
                model.insert(to, set);
            }
        }),
        77..=82 => Step::new(format!("COPY {key} {to} REPLACE"), move |model, reply| {
            if *reply == Value::Int(1) {
                model.insert(to, model[key].clone());
            }
        }),
        83..=87 => Step::new(format!("EXPIRE {key} {}", random.random_range(100_000..1_000_000)), |_, _| {}),
        88..=89 => Step::new(format!("PERSIST {key}"), |_, _| {}),
        90..=92 => Step::new(format!("ZREM {key} {TAG}"), move |model, reply| {
            if let (Value::Int(1), Some(set)) = (reply, model.get_mut(key)) {
                (set.is_expiring, set.has_tag) = (false, false);
            }
        }),
        93..=96 => Step::new(format!("ZEXP.ADOPT {key} FORCE"), move |model, reply| {
            if let (false, Some(set)) = (is_error(reply), model.get_mut(key)) {
                (set.is_expiring, set.has_tag) = (true, true);
            }
        }),
        _ => Step::new(format!("DEL {key}"), move |model, _| drop(model.remove(key))),
    }
}

/// Whether a transaction may hold this step after the others. The model does not follow two cases. A copy of a set whose
/// tag was just removed is ordinary. A copy of an expiring set is ordinary, too, if a STORE command has just made the
/// same set of it.
fn fits(batch: &[Step], step: &Step) -> bool {
    let is_any = |words: &[&str]| batch.iter().any(|step| words.iter().any(|word| step.line.contains(word)));
    let [is_copy, is_removal] = ["COPY", "ZREM "].map(|word| step.line.starts_with(word));
    !(is_any(&["ZPOPM", "ZREMRANGE"]) && (is_copy || is_removal) || is_any(&["STORE"]) && is_copy)
}

/// Runs one to four steps, and compares all keys with the model.
fn run(c: &mut Client, model: &mut Model, random: &mut StdRng) -> String {
    let mut batch = vec![step(random)];
    let in_transaction = random.random_bool(0.5);
    for _ in 0..if in_transaction { random.random_range(0..4) } else { 0 } {
        let next = step(random);
        if fits(&batch, &next) {
            batch.push(next);
        }
    }
    let reads = KEYS.map(|key| command(&format!("ZRANGE {key} 0 -1 WITHSCORES")));
    let mut all = vec![command("MULTI")];
    all.extend(batch.iter().map(|step| command(&step.line)));
    all.extend(reads);
    all.push(command("EXEC"));
    let said = batch.iter().map(|step| step.line.as_str()).collect::<Vec<_>>().join(" | ");
    let replies = match c.burst(&all).pop() {
        Some(Value::Array(replies)) => replies,
        other => panic!("{said}: {other:?}"),
    };
    let (replies, now) = replies.split_at(batch.len());
    for (step, reply) in batch.iter().zip(replies) {
        (step.apply)(model, reply);
        tidy(model);
    }
    for (key, now) in KEYS.iter().zip(now) {
        let now = scores(now);
        match model.get(key) {
            Some(set) if set.members.contains_key(UNREAD) => {}
            Some(set) if !set.is_expiring => assert_eq!(now, set.members, "{key}: {said}"),
            Some(set) => {
                let live: BTreeMap<_, _> =
                    now.iter().filter(|(_, score)| **score > PAST).map(|(m, s)| (m.clone(), *s)).collect();
                assert_eq!(live, set.live(), "{key}: {said}");
                assert!(now.iter().all(|(member, score)| set.members.get(member) == Some(score)), "{key}: {said}");
            }
            None => assert!(now.is_empty(), "{key}: {said}: {now:?}"),
        }
    }
    // What a STORE command has made is known now.
    for (key, now) in KEYS.iter().zip(now) {
        if model.get(key).is_some_and(|set| set.members.contains_key(UNREAD)) {
            let members = scores(now);
            model.insert(key, Set { members, ..model[key] });
        }
    }
    tidy(model);
    said
}

/// Waits until every expiring set has its tag and no expired member, and no other set has a tag. Then compares what the
/// commands say.
fn compare(c: &mut Client, model: &mut Model, said: &str) {
    for (key, set) in model.iter_mut() {
        if set.is_expiring {
            set.members = set.live();
            set.has_tag = !set.members.is_empty();
        }
        let (members, tag) = match (set.is_expiring, set.members.len()) {
            (true, 0) => (0, "nil"),
            (true, live) => (live + 1, "'-inf'"),
            (false, all) => (all, "nil"),
        };
        let settled = format!("[{members} {tag}]");
        eventually(PATIENCE, &format!("{key} is {settled} after {said}"), || {
            c.run_all(["MULTI", &format!("ZCARD {key}"), &format!("ZSCORE {key} {TAG}")]);
            c.reply("EXEC") == settled
        });
        let reply = c.reply(&format!("ZEXP.MEMBERS {key}"));
        if set.is_expiring || set.members.is_empty() {
            let mut live: Vec<_> = set.members.iter().collect();
            live.sort_by(|one, other| one.1.total_cmp(other.1).then_with(|| one.0.cmp(other.0)));
            let names: Vec<_> = live.iter().map(|(member, _)| format!("'{member}'")).collect();
            assert_eq!(reply, format!("[{}]", names.join(" ")), "{key}: {said}");
        } else {
            assert!(reply.starts_with("!NOTEXPIRING "), "{key}: {said}: {reply}");
        }
    }
    tidy(model);
}

/// What happens to the server between the steps. Returns the server that is the master now, and its replica.
fn disturb(mut master: Server, mut replica: Server, c: &mut Client, random: &mut StdRng) -> (Server, Server) {
    match random.random_range(0..5) {
        0 => drop(c.run("DEBUG RELOAD")),
        1 => master.restart(),
        2 => master.crash_and_restart(),
        3 => c.rewrite_aof(),
        _ => {
            replica.wait_for_sync(&master);
            replica.client().run("REPLICAOF NO ONE");
            std::mem::swap(&mut master, &mut replica);
        }
    }
    replica.follow(&master);
    // Until the scan has found a set, plain commands may remove its tag for good.
    after_scan(&mut master.client());
    (master, replica)
}

#[test]
fn expiring_and_ordinary_sets_stay_what_they_are() {
    let mut run_ = Run::new("mixed sets", 400);
    let mut master = Server::builder().config("appendonly yes\nappendfsync always").start();
    let mut replica = Server::builder().config("appendonly yes\nappendfsync always").start();
    replica.follow(&master);
    let mut c = master.client();
    let mut model = Model::new();
    while run_.goes_on() {
        let said = run(&mut c, &mut model, &mut run_.random);
        compare(&mut c, &mut model, &format!("{said} ({})", run_.here()));
        if run_.random.random_bool(0.03) {
            (master, replica) = disturb(master, replica, &mut c, &mut run_.random);
            c = master.client();
            compare(&mut c, &mut model, &format!("a disturbance ({})", run_.here()));
        }
        if run_.random.random_bool(0.05) {
            replica.wait_for_sync(&master);
            assert_same_data(&mut c, &mut replica.client());
        }
    }
}
