//! Sorted sets with the tag of expiring sets, or with the TTL that version 0.3 used instead, and with content that no
//! command of the module wrote. Every ZEXP command replies, and a replica has the same data.

use super::Run;
use rand::rngs::StdRng;
use rand::{Rng, seq::IndexedRandom};
use redis::Value;
use testkit::{
    Client, Payload, Server, TAG, assert_agree, assert_drained, assert_same_data, crc64, show_bytes, start_pair,
};

const MEMBERS: [&[u8]; 14] = [
    b"",
    b"0",
    b"1",
    b"0:1",
    b"0:2",
    b"-1:2",
    b":",
    b"a",
    b"b",
    b"new",
    b"%s%n",
    b"\0",
    b"18446744073709551615",
    b"9007199254740991",
];

const SCORES: [&str; 26] = [
    "0",
    "-0",
    "-1",
    "0.5",
    "1",
    "1e-300",
    "1e300",
    "-1e300",
    "inf",
    "-inf",
    "4102444800000",
    "4102444800000.25",
    "4102444800001",
    "4102444799999.999",
    "4102444860000",
    "9007199254740991",
    "9007199254740990",
    "9007199254740992",
    "9007199254740993",
    "18446744073709551615",
    "8796093022208",
    "8796093022207.999",
    "1.7976931348623157e308",
    "5e-324",
    "nan",
    "4102444800000x",
];

/// Returns the payload of a sorted set as a listpack. Members and scores are stored as strings. The server accepts any
/// string.
fn payload(entries: &[(&[u8], &str)], tail: &[u8]) -> Vec<u8> {
    let mut list = vec![0; 6];
    for text in entries.iter().flat_map(|(member, score)| [*member, score.as_bytes()]) {
        assert!(text.len() < 64, "short strings have a head of one byte");
        list.push(0x80 | text.len() as u8);
        list.extend(text);
        list.push(1 + text.len() as u8);
    }
    list.push(0xFF);
    let length = list.len() as u32;
    list[..4].copy_from_slice(&length.to_le_bytes());
    list[4..6].copy_from_slice(&(2 * entries.len() as u16).to_le_bytes());
    // The type 17 is a sorted set as a listpack. The length follows in 14 bits.
    let mut bytes = vec![17, 0x40 | (list.len() >> 8) as u8, list.len() as u8];
    bytes.extend(list);
    bytes.extend(tail);
    bytes.extend(crc64(&bytes).to_le_bytes());
    bytes
}

fn entries<'e>(random: &mut StdRng) -> Vec<(&'e [u8], &'e str)> {
    let mut entries: Vec<(&[u8], &str)> = Vec::new();
    for _ in 0..random.random_range(1..6) {
        let member = MEMBERS.choose(random).expect("members");
        if entries.iter().all(|(other, _)| other != member) {
            entries.push((member, SCORES.choose(random).expect("scores")));
        }
    }
    // The members are usually in the order of their scores.
    if random.random_ratio(5, 6) {
        let value = |text: &str| text.parse::<f64>().unwrap_or(0.0);
        entries.sort_by(|a, b| value(a.1).total_cmp(&value(b.1)));
    }
    if random.random_ratio(3, 4) {
        let is_first = random.random_ratio(9, 10);
        let at = if is_first { 0 } else { random.random_range(0..=entries.len()) };
        let score = if random.random_ratio(9, 10) { "-inf" } else { SCORES.choose(random).expect("scores") };
        entries.insert(at, (TAG.as_bytes(), score));
    }
    entries
}

/// Returns the TTL of a set of version 0.3, or one close to it.
fn ttl(random: &mut StdRng, highest: &str) -> u64 {
    let highest = highest.parse::<f64>().ok().filter(|score| (0.0..9.007_199_254_740_992e15).contains(score));
    let Some(highest) = highest else { return random.random_range(0..2) * 4_102_444_800_000 };
    let last = highest.ceil() as u64;
    if random.random_ratio(3, 4) { last + 47_111 } else { last + random.random_range(0..100_000) }
}

const READS: &[&str] = &[
    "ZEXP.CARD k",
    "ZEXP.TTL k 0 1 0:2 a",
    "ZEXP.PTTL k 0 1 0:2 a",
    "ZEXP.ISMEMBER k 0",
    "ZEXP.MISMEMBER k 0 a",
    "ZEXP.MEMBERS k WITHPTTL",
    "ZEXP.MEMBERS k WITHIN 1w LIMIT 1 2",
    "ZEXP.RANDMEMBER k 3",
    "ZEXP.RANDMEMBER k -5",
];

const WRITES: &[&str] = &[
    "ZEXP.ADD k 1w a",
    "ZEXP.ADD k GT CH 100w 0 1w b",
    "ZEXP.ADD k CAP 2 1w new",
    "ZEXP.ADD k CAP 3 AT 1 0 1 a 4102444800000 new",
    "ZEXP.EXPIRE k LT AT 4102444800 0 1 0:2",
    "ZEXP.PERSIST k 0 a",
    "ZEXP.REM k 0 a",
    "ZEXP.POP k 2",
    "ZEXP.ADOPT k",
    "ZEXP.ADOPT k UNIT s PLUS 1w FORCE",
    "ZRL.CHECK k 5 1w",
];

fn exercise(random: &mut StdRng, c: &mut Client, of: &str) {
    // Calls all read commands first, then some of the write commands.
    let writes: Vec<_> = WRITES.choose_multiple(random, 5).collect();
    for line in READS.iter().chain(writes) {
        let reply = c.reply(line);
        assert!(!reply.contains("internal error") && !reply.contains("connection lost"), "{line} on {of}: {reply}");
    }
}

#[test]
fn a_sorted_set_that_only_looks_like_ours_breaks_nothing() {
    let mut run = Run::new("sorted sets", 2000);
    let server = Server::builder().config("appendonly yes").start();
    let replica = Server::builder().replica_of(&server);
    let mut c = server.client();
    c.run("ZADD zset 1 a");
    let tail = Payload::of(&mut c, "zset").tail;
    let mut taken = 0;
    while run.goes_on() {
        let entries = entries(&mut run.random);
        let ttl = ttl(&mut run.random, entries.last().expect("an entry").1);
        let of: Vec<_> = entries.iter().map(|(member, score)| format!("{score} {}", show_bytes(member))).collect();
        let of = format!("{of:?} TTL {ttl}, {}", run.here());
        c.run("DEL k");
        let bytes = payload(&entries, &tail);
        let restored = c.try_call(redis::cmd("RESTORE").arg("k").arg(ttl).arg(bytes).arg("REPLACE").arg("ABSTTL"));
        if restored == Ok(Value::Okay) {
            taken += 1;
            exercise(&mut run.random, &mut c, &of);
        }
        // If the members of a payload are not in order, or a score is not a number, the position of a new member depends
        // on the order of the additions, and the module replicates the tag before the members. A range then removes other
        // members on the replica. On a large set of this kind, a server without the module crashes.
        let place = |(member, score): &(&[u8], &str)| (score.parse::<f64>().unwrap_or(f64::NAN), member.to_vec());
        let has_order = entries.is_sorted_by(|one, next| place(one) <= place(next))
            && entries.iter().all(|(_, score)| *score != "nan");
        if run.random.random_ratio(1, 100) && has_order {
            // The sweeper may not have finished yet.
            replica.wait_for_sync(&server);
            assert_same_data(&mut c, &mut replica.client());
        }
    }
    eprintln!("{taken} sets taken");
    assert!(taken > 0);
}

/// Creates `k` as an expiring set with these members in this order.
fn restored(c: &mut Client, entries: &[(&[u8], &str)]) -> Result<Value, String> {
    c.run("ZADD zset 1 a");
    let entries = [&[(TAG.as_bytes(), "-inf")], entries].concat();
    let bytes = payload(&entries, &Payload::of(c, "zset").tail);
    c.try_call(redis::cmd("RESTORE").arg("k").arg(0).arg(bytes).arg("REPLACE"))
}

/// The members are not in the order of their scores. Regression test: ZEXP.MEMBERS took every member after the first
/// live one for live, and computed a negative time to live.
#[test]
fn members_out_of_order_show_no_dead_one() {
    let (_server, mut c) = testkit::start();
    restored(&mut c, &[(b"live", "4102444800000"), (b"dead", "1"), (b"also", "4102444800000")]).expect("a set");
    c.script(&[("ZEXP.MEMBERS k", "['live' 'also']"), ("ZEXP.PTTL k dead", "[-2]")]);
    assert!(c.strings("ZEXP.MEMBERS k WITHPTTL")[1].parse::<i64>().expect("ms") > 0);
    let drawn = c.reply("ZEXP.RANDMEMBER k 3");
    assert!(!drawn.contains("dead"), "{drawn}");
    c.script(&[("ZEXP.POP k 3", "['live' 'also']")]);
    // Here, the score of the second member is not a number.
    c.run("DEL k");
    let set = restored(&mut c, &[(b"a", "4102444800000"), (b"b", "nan"), (b"c", "1"), (b"d", "4102444800000")]);
    if set.is_err() {
        // Newer servers, such as Valkey 9.1, refuse scores that are not numbers.
        assert!(!c.is_valkey_before([9, 1, 0]) && c.reply("EXISTS k") == "0", "{set:?}");
        return;
    }
    let reply = c.reply("ZEXP.RANDMEMBER k 9");
    assert!(!reply.starts_with('!') && !reply.contains("error"), "{reply}");
}

/// Regression test: deletions were replicated as a range of scores. A range that begins at -0 does not contain a later
/// member with the score -1.
#[test]
fn members_out_of_order_are_deleted_on_the_replica_too() {
    let (server, replica, mut c) = start_pair();
    restored(&mut c, &[(b"x", "-0"), (b"y", "-1"), (b"live", "4102444800000")]).expect("a set");
    assert_drained(&mut c, "k", 1);
    assert_agree(&server, &[&replica]);
}

/// Regression test: if the last member has expired, the number of live members is taken as 0. The number of removed
/// members was subtracted from this 0.
#[test]
fn members_out_of_order_are_counted_and_never_below_zero() {
    let (_server, mut c) = testkit::start();
    c.run("CONFIG SET zeitset.sweep no");
    let dead = (c.now() - 1000).to_string();
    restored(&mut c, &[(b"live", "4102444800000"), (b"also", "4102444800000"), (b"dead", &dead)]).expect("a set");
    c.script(&[("ZEXP.ADD k CAP 5 AT 1 live 1 also 4102444800000 new", "1"), ("ZEXP.MEMBERS k", "['new']")]);
}
