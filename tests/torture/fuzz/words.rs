//! Calls generated from COMMAND DOCS: mostly well-formed, with sensible or hostile values.

use crate::server::described::{Arg, Command};
use rand::rngs::StdRng;
use rand::{Rng, seq::IndexedRandom};
use testkit::{Client, effects};

/// Keys of every kind. [`plant`] creates their initial content.
pub const KEYS: [&str; 16] = [
    "set", "set2", "limit", "limit2", "leaky", "queue", "queue2", "board", "board2", "zset", "string", "list", "hash",
    "stream", "missing", "missing2",
];

/// Numbers, times and strings that are at or beyond a limit, or malformed.
const HOSTILE: [&[u8]; 54] = [
    b"",
    b"0",
    b"-0",
    b"-1",
    b"1",
    b"2",
    b"7",
    b"100",
    b"4294967295",
    b"4294967296",
    b"-2147483649",
    b"2147483648",
    b"9007199254740991",
    b"9007199254740992",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1e308",
    b"1e400",
    b"-1e400",
    b"5e-324",
    b"1e-400",
    b"nan",
    b"inf",
    b"-inf",
    b"+inf",
    b"0x10",
    b" 1",
    b"1 ",
    b"+1",
    b"01",
    b"1.5",
    b"0.0000000000001",
    b"1w",
    b"9007199254740991ms",
    b"99999999999999999999w",
    b"1ms",
    b"-1s",
    b"\0",
    b"a\0b",
    b"\n",
    b"\r\n+OK\r\n",
    b"%s%n%d%p",
    b"\xff\xfe",
    b"KEEPKEEPKEEPKEEPKEEP",
    b"NX",
    b"AT",
    b"BLOCK",
    b"*3\r\n$1\r\n",
    b"(1",
    b"[",
];

/// Generates a call: the words of a command, mostly well-formed.
pub fn call(random: &mut StdRng, command: &Command) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let keys = random.random_range(1..4);
    arguments_of(random, &command.arguments, (keys, family(&command.name)), &mut words);
    if random.random_ratio(1, 3) {
        damage(random, &mut words);
    }
    words.insert(0, command.name.clone().into_bytes());
    words
}

fn arguments_of(random: &mut StdRng, arguments: &[Arg], (keys, family): (usize, &[&str]), words: &mut Vec<Vec<u8>>) {
    let counted = arguments.iter().any(|argument| argument.name == "numkeys");
    for arg in arguments {
        if arg.optional && random.random_ratio(2, 3) {
            continue;
        }
        let of_each_key = counted && (arg.kind == "key" || arg.kind == "block");
        let times = match arg.multiple {
            true if of_each_key => keys,
            true if arg.name == "effect" => 1,
            true => random.random_range(1..4),
            false => 1,
        };
        for _ in 0..times {
            if let Some(token) = &arg.token {
                words.push(if random.random_ratio(1, 4) { token.to_lowercase() } else { token.clone() }.into_bytes());
            }
            match arg.kind.as_str() {
                "pure-token" => {}
                "oneof" => {
                    let part = arg.parts.choose(random).expect("parts");
                    arguments_of(random, std::slice::from_ref(part), (keys, family), words);
                }
                "block" => arguments_of(random, &arg.parts, (keys, family), words),
                "key" if random.random_ratio(4, 5) => {
                    words.push(family.choose(random).expect("keys").as_bytes().to_vec())
                }
                "key" => words.push(key(random)),
                _ if arg.name == "numkeys" => words.push(keys.to_string().into_bytes()),
                _ if arg.name == "effect" => effect(random, family, words),
                _ => words.push(value(random, &arg.name)),
            }
        }
    }
}

/// Returns the keys of the command's family.
fn family(command: &str) -> &'static [&'static str] {
    match command.split_once('.') {
        Some(("ZEXP", _)) => &["set", "set2", "missing"],
        Some(("ZRL", _)) => &["limit", "limit2", "leaky", "missing"],
        Some(("ZQ", _)) => &["queue", "queue2", "missing2"],
        _ => &["board", "board2", "missing2"],
    }
}

fn key(random: &mut StdRng) -> Vec<u8> {
    match random.random_ratio(1, 60) {
        true => hostile(random),
        false => KEYS.choose(random).expect("keys").as_bytes().to_vec(),
    }
}

/// Generates a value for an argument of this name, usually a sensible one.
fn value(random: &mut StdRng, name: &str) -> Vec<u8> {
    if random.random_ratio(1, 8) {
        return hostile(random);
    }
    let small = |random: &mut StdRng, from: i64, to: i64| random.random_range(from..to).to_string();
    let one_of = |random: &mut StdRng, words: &[&str]| words.choose(random).expect("words").to_string();
    let word = match name {
        "member" => format!("m{}", random.random_range(0..12)),
        "id" => format!("j{}", random.random_range(0..12)),
        "token" => {
            // Real tokens are large, as they follow the clock. Some jobs of `plant` have small ones.
            small(random, 0, 40)
        }
        "dim" => one_of(random, &["x", "y", "z"]),
        "name" => format!("d{}", random.random_range(0..80)),
        "value" | "by" => small(random, -5, 6),
        "payload" => "payload".repeat(random.random_range(0..4)),
        "instant" | "charged_until_ms" | "unix-time-milliseconds" => {
            one_of(random, &["4102444800", "4102444800000", "4102444800000ms", "0", "1", "4102444800001"])
        }
        "ttl" | "window" | "lease" | "duration" | "delay" | "base" | "max" | "aging" | "period" | "timeout" => {
            one_of(random, &["1w", "100d", "3000h", "7d", "700000", "1000000s", "4102444800"])
        }
        "priority" | "start" | "stop" | "offset" => small(random, -5, 6),
        _ => small(random, 0, 20),
    };
    word.into_bytes()
}

pub fn hostile(random: &mut StdRng) -> Vec<u8> {
    match random.random_range(0..200) {
        0 => vec![b'x'; 1 << 20],
        1 => vec![b'9'; 1 << 16],
        2..20 => (0..random.random_range(0..24)).map(|_| random.random()).collect(),
        _ => HOSTILE.choose(random).expect("words").to_vec(),
    }
}

/// Packed effects of ZQ.APPLY: their codes, and the kinds of their contents.
const PACKED_QUEUE_EFFECTS: [(u8, &str); 22] = [
    (0, "flag id payload instant priority count option id option"),
    (1, "id token instant payload"),
    (2, ""),
    (3, "id option"),
    (4, "id instant flag payload"),
    (5, "id flag payload"),
    (6, "id instant"),
    (7, "id"),
    (8, "id option option"),
    (9, "id"),
    (10, "id"),
    (11, "id"),
    (12, "count flag id"),
    (13, "count count count"),
    (14, "id instant"),
    (15, "id option"),
    (16, "id"),
    (17, "id payload instant priority count option id option"),
    (18, "id payload flag instant priority count count payload payload id"),
    (19, "flag id instant count"),
    (20, "id"),
    (21, "count count count count count"),
];

/// Packed effects of ZLB.APPLY on boards with two dimensions, the second of which may be FLOAT.
const PACKED_BOARD_EFFECTS: [(u8, &str); 7] = [
    (0, "one flag count two flag id flag id"),
    (1, "two nil member priority priority member priority priority"),
    (1, "one nil member priority"),
    (2, "member member"),
    (3, "count count"),
    (4, ""),
    (5, "one flag count two flag id flag id count payload"),
];

/// Writes packed effects, mostly as a master writes them.
fn pack(random: &mut StdRng, is_board: bool) -> Vec<u8> {
    let mut packed = vec![if random.random_ratio(1, 50) { random.random() } else { 1 }];
    if !is_board {
        effects::put_number(&mut packed, 4_102_444_800_000);
    }
    let all: &[(u8, &str)] = if is_board { &PACKED_BOARD_EFFECTS } else { &PACKED_QUEUE_EFFECTS };
    for _ in 0..if is_board { 1 } else { random.random_range(1..4) } {
        let (code, contents) = all.choose(random).expect("effects");
        let mut body = Vec::new();
        for kind in contents.split(' ').filter(|kind| !kind.is_empty()) {
            let small = random.random_range(0..if kind == "flag" { 3 } else { 20 });
            match kind {
                "id" | "payload" | "member" => effects::put_bytes(&mut body, &value(random, kind)),
                "instant" if random.random_ratio(7, 8) => effects::put_number(&mut body, 4_102_444_800_000 + small),
                "instant" => effects::put_number(&mut body, random.random()),
                "nil" | "one" | "two" => {
                    body.push(["nil", "one", "two"].iter().position(|it| *it == kind).expect("known") as u8)
                }
                _ if random.random_ratio(1, 20) => effects::put_number(&mut body, random.random()),
                _ => effects::put_number(&mut body, small),
            }
        }
        packed.push(*code);
        effects::put_bytes(&mut packed, &body);
    }
    if random.random_ratio(1, 6) {
        let at = random.random_range(0..packed.len());
        match random.random_range(0..3) {
            0 => packed[at] = random.random(),
            1 => packed.truncate(at),
            _ => packed.insert(at, random.random()),
        }
    }
    packed
}

/// Effects of ZQ.APPLY in words of 0.3, as names of values. The unit tests of the command generate more.
const QUEUE_EFFECTS: [&str; 25] = [
    "PUSH id payload instant priority count count",
    "PUSH id payload instant priority count count group id period count",
    "PUSHAUTO id payload instant priority count count",
    "CLAIM id token instant",
    "SETTLE",
    "ACK id",
    "AGAIN id instant",
    "RETRY id instant",
    "RETRY id instant period count anchor instant",
    "DEAD id",
    "EXTEND id instant",
    "CANCEL id",
    "MOVE id instant priority",
    "CLEAN id",
    "DROP id",
    "REVIVE id",
    "REDRIVE count",
    "CONFIGURE max_attempts count backoff_base_ms count aging_ms count",
    "CONFIGURE rate_limit count rate_window_ms count ordered count deadlen count",
    "JOB id payload ready instant priority count",
    "JOB id payload claimed instant priority count",
    "UNITS count instant",
    "TURN id",
    "TOTALS count count count count claimed_total count",
    "NONE",
];

/// Effects of ZLB.APPLY in words of 0.3, on the boards of [`plant`], which have two dimensions.
const BOARD_EFFECTS: [&str; 9] = [
    "CREATE DIM x DIM y ASC",
    "SET member value value member value value",
    "SET member value",
    "REM member member",
    "REMRANGE start count",
    "CLEAR",
    "REPLACE version start count count count dim count payload",
    // An empty board of version 1, with the schema of the board in `plant`.
    "REPLACE 1 1 10 2 0 x 1 y 0",
    "NONE",
];

/// Generates the effects for the APPLY command of the family, packed or in words. [`damage`] makes some of them invalid.
fn effect(random: &mut StdRng, family: &[&str], words: &mut Vec<Vec<u8>>) {
    const VALUES: [&str; 11] =
        ["id", "payload", "instant", "priority", "count", "token", "member", "value", "start", "version", "dim"];
    let is_board = family.contains(&"board");
    if random.random_ratio(1, 2) {
        words.push(pack(random, is_board));
        return;
    }
    let (effects, times): (&[&str], _) = match is_board {
        true => (&BOARD_EFFECTS, 1),
        false => (&QUEUE_EFFECTS, random.random_range(1..4)),
    };
    if !is_board {
        words.push(value(random, "unix-time-milliseconds"));
    }
    for _ in 0..times {
        for word in effects.choose(random).expect("effects").split(' ') {
            words.push(if VALUES.contains(&word) { value(random, word) } else { word.as_bytes().to_vec() });
        }
    }
}

/// Removes, repeats, swaps or replaces words.
fn damage(random: &mut StdRng, words: &mut Vec<Vec<u8>>) {
    for _ in 0..random.random_range(1..3) {
        let at = random.random_range(0..=words.len());
        match random.random_range(0..6) {
            0 => words.truncate(at),
            1 => words.insert(at, hostile(random)),
            2 if at < words.len() => drop(words.remove(at)),
            3 if at < words.len() => words.insert(at, words[at].clone()),
            4 if at < words.len() => words.swap(0, at),
            5 if at < words.len() => words[at] = hostile(random),
            _ => {}
        }
    }
}

/// Fills every key.
pub fn plant(c: &mut Client) {
    c.run_all([
        "DEL set set2 limit limit2 leaky queue queue2 board board2 zset string list hash stream missing missing2",
        "ZEXP.ADD set 100w m0 101w m1 102w m2 103w m3",
        "ZEXP.ADD set2 AT 4102444800 m4 4102444801 m5",
        "ZEXP.PERSIST set2 m5",
        "ZRL.CHECK limit 20 100w COST 3",
        "ZRL.CHECK limit2 100000 100w COST 5 FIXED",
        "ZRL.CHECK leaky 10 3w COST 2 LEAKY",
        "ZQ.CONFIG queue MAXATTEMPTS 5 BACKOFF 1w 3w AGING 1d CONCURRENCY 9 RATE 100 1w",
        "ZQ.PUSH queue x ID j0",
        "ZQ.PUSH queue x ID j6 GROUP j1",
        "ZQ.PUSH queue x ID j1 DELAY 100d",
        "ZQ.PUSH queue x ID j2 EVERY 1w PRIORITY -3",
        "ZQ.APPLY queue2 0 PUSH j3 p 0 0 0 0 PUSH j4 p 0 0 1 0 PUSH j5 p 0 0 0 0 CLAIM j3 7 4102444800000 CLAIM j4 8 4102444800000 DEAD j4",
        "ZLB.CREATE board DIM x DIM y ASC TIES LAST KEEP 10",
        "ZLB.SET board m0 1 1 m1 1 2 m2 -4 0",
        "ZLB.CREATE board2 DIM x FLOAT",
        "ZLB.SET board2 m3 0.5 m4 1e300",
        "ZADD zset 1 m0 2 m1 3 m2",
        "SET string text",
        "RPUSH list a b",
        "HSET hash f v",
        "XADD stream * f v",
    ]);
}

/// Generates one of the server's own commands that changes keys.
pub fn native(random: &mut StdRng) -> Vec<Vec<u8>> {
    let (one, other) = (key(random), key(random));
    let words: [Vec<&[u8]>; 12] = [
        vec![b"PERSIST", &one],
        vec![b"EXPIREAT", &one, b"4102444800"],
        vec![b"DEL", &one],
        vec![b"RENAME", &one, &other],
        vec![b"COPY", &one, &other, b"REPLACE"],
        vec![b"ZADD", &one, b"inf", b"m9"],
        vec![b"ZADD", &one, b"-inf", b"m9"],
        vec![b"ZADD", &one, b"0.5", b"0:7"],
        vec![b"ZADD", &one, b"4102444800000", b"18446744073709551615:2"],
        vec![b"ZINCRBY", &one, b"-1e300", b"m1"],
        vec![b"ZREMRANGEBYRANK", &one, b"0", b"1"],
        vec![b"ZUNIONSTORE", &one, b"2", &one, &other],
    ];
    words.choose(random).expect("words").iter().map(|word| word.to_vec()).collect()
}
