//! Strings that begin like a limit, with content that no command of the module wrote. Every ZRL command replies, an
//! error changes no key, no string becomes too large, and a replica has the same data.

use super::Run;
use rand::rngs::StdRng;
use rand::{Rng, seq::IndexedRandom};
use redis::Value;
use testkit::{Client, Server, assert_same_data, show_bytes};

const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    5,
    1_000_000_000_000_000_000,
    4_102_444_799_999,
    4_102_444_800_000,
    4_102_444_800_001,
    4_102_448_400_000,
    9_007_199_254_740_990,
    9_007_199_254_740_991,
    9_007_199_254_740_992,
    u64::MAX - 1,
    u64::MAX,
];

const WORDS: [&str; 16] = [
    "fixed:",
    "leaky:",
    "sliding:",
    ":",
    "/",
    "!",
    "+",
    "-",
    "0",
    "00",
    " ",
    "x",
    "%s%n",
    "\0",
    "18446744073709551616",
    "1e9",
];

/// Returns the slots of a ring, usually with increasing times.
fn ring(random: &mut StdRng) -> Vec<u8> {
    let mut slots: Vec<_> = (0..random.random_range(0..12))
        .map(|_| {
            let near = 4_102_444_800_000 + random.random_range(0..5);
            let mut number = || if random.random() { near } else { *NUMBERS.choose(random).expect("numbers") };
            (number(), number())
        })
        .collect();
    if random.random_ratio(4, 5) {
        slots.sort_unstable();
        slots.dedup_by_key(|slot| slot.0);
    }
    if random.random_ratio(3, 4) {
        let mut taken = *NUMBERS.choose(random).expect("numbers");
        for slot in &mut slots {
            taken = taken.wrapping_add(random.random_range(0..3));
            slot.1 = taken;
        }
    }
    if !slots.is_empty() {
        let seam = random.random_range(0..slots.len());
        slots.rotate_left(seam);
    }
    let mut text = b"sliding:".to_vec();
    slots.iter().for_each(|(at, taken)| text.extend([at.to_le_bytes(), taken.to_le_bytes()].concat()));
    text
}

fn words(random: &mut StdRng) -> Vec<u8> {
    let mut text = WORDS.choose(random).expect("words").as_bytes().to_vec();
    for _ in 0..random.random_range(0..9) {
        match random.random() {
            true => text.extend(NUMBERS.choose(random).expect("numbers").to_string().bytes()),
            false => text.extend(WORDS.choose(random).expect("words").bytes()),
        }
    }
    text
}

/// Creates a limit with ZRL commands, and returns its string.
fn genuine(random: &mut StdRng, c: &mut Client) -> Vec<u8> {
    let call =
        ["ZRL.CHECK k 9 100w", "ZRL.CHECK k 9 100w COST 2 FIXED", "ZRL.CHECK k 9 100w LEAKY", "ZRL.THROTTLE k 9 9 99"];
    c.run("DEL k");
    let line = call.choose(random).expect("calls");
    for _ in 0..random.random_range(1..4) {
        c.run(line);
    }
    let Value::BulkString(text) = c.run("GET k") else { panic!("{line} leaves a string") };
    text
}

fn text(random: &mut StdRng, c: &mut Client) -> Vec<u8> {
    let mut text = match random.random_range(0..5) {
        0..3 => ring(random),
        3 => words(random),
        _ => genuine(random, c),
    };
    // Truncates, extends or damages the string.
    match random.random_range(0..6) {
        0 => text.truncate(random.random_range(0..=text.len())),
        1 => text.extend((0..random.random_range(1..20)).map(|_| random.random::<u8>())),
        2 if !text.is_empty() => {
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..text.len());
                text[at] = random.random();
            }
        }
        _ => {}
    }
    text
}

const READS: [&str; 7] = [
    "ZRL.INFO k",
    "ZRL.PEEK k 5 1w",
    "ZRL.PEEK k 5 1w EXACT COST 3",
    "ZRL.PEEK k 5 1w LEAKY COST 3",
    "ZRL.PEEK k 9007199254740991 9007199000000s FIXED COST 9007199254740991",
    "ZRL.PEEK k 9007199254740991 1ms COST 9007199254740991",
    "ZEXP.CARD k",
];

const WRITES: [&str; 16] = [
    "ZRL.CHECK k 5 1w",
    "ZRL.CHECK k 5 1ms",
    "ZRL.CHECK k 5 1w COST 9 FORCE",
    "ZRL.CHECK k 1000000 5000w COST 7 PRECISION 1d",
    "ZRL.CHECK k 9007199254740991 1w COST 9007199254740991 EXACT",
    "ZRL.CHECK k 9007199254740991 1w COST 9007199254740991 FORCE",
    "ZRL.CHECK k 5 1w COST 3 LEAKY",
    "ZRL.CHECK k 9007199254740991 9007199000000s COST 9007199254740991 LEAKY FORCE",
    "ZRL.CHECK k 100000 1w COST 9 FIXED",
    "ZRL.CHECK k 9007199254740991 1ms COST 9007199254740991 FIXED FORCE",
    "ZRL.MCHECK 2 k other 5 1w 9 2w",
    "ZRL.REFUND k 2 AT 4102444800000ms",
    "ZRL.REFUND k 9007199254740991 AT 9007199254740991ms",
    "ZRL.REFUND k 1 AT 4102444800001ms",
    "ZRL.THROTTLE k 15 30 60 2",
    "ZRL.THROTTLE k 9007199254740990 9007199254740991 9007199254740 1",
];

fn exercise(random: &mut StdRng, c: &mut Client, of: &str) {
    let writes: Vec<_> = WRITES.choose_multiple(random, 5).collect();
    for line in READS.iter().chain(writes) {
        // With a window of 1 ms, the key would expire soon. It must not expire between the two reads.
        if (0..60_000).contains(&c.int("PTTL k")) {
            c.run("PERSIST k");
        }
        let before = c.trace("k");
        let length = c.int("STRLEN k");
        let reply = c.reply(line);
        assert!(!reply.contains("internal error") && !reply.contains("connection lost"), "{line} on {of}: {reply}");
        if reply.starts_with('!') || READS.contains(line) {
            assert_eq!(c.trace("k"), before, "{line} on {of}: {reply}");
        }
        assert!(c.int("STRLEN k") <= 2 * length + 200, "{line} on {of}: {reply}");
        if line.starts_with("ZRL.INFO") {
            // The times in ZRL.INFO come from the slots and may be any numbers.
            continue;
        }
        let fields = reply.trim_matches(['[', ']']).split(' ').map(|field| field.parse::<i128>());
        for (at, field) in fields.enumerate().filter_map(|(at, field)| Some((at, field.ok()?))) {
            // The remaining units are negative if the limit has a debt.
            let is_rest = if line.starts_with("ZRL.MCHECK") { at % 6 == 3 } else { at == 2 };
            let lowest = if is_rest { -9_007_199_254_740_991 } else { -1 };
            assert!((lowest..=9_007_199_254_740_991).contains(&field), "{line} on {of}: {reply}");
        }
    }
}

#[test]
fn a_string_that_only_looks_like_a_limit_breaks_nothing() {
    let mut run = Run::new("strings", 1000);
    let server = Server::builder().config("appendonly yes").start();
    let replica = Server::builder().replica_of(&server);
    let mut c = server.client();
    let mut taken = 0;
    while run.goes_on() {
        let text = text(&mut run.random, &mut c);
        let mut set = redis::cmd("SET");
        set.arg("k").arg(&text);
        match run.random.random_range(0..4) {
            0 => drop(set.arg("PXAT").arg(*NUMBERS[5..10].choose(&mut run.random).expect("moments"))),
            1 => drop(set.arg("PX").arg(run.random.random_range(60_000..1_000_000))),
            _ => {}
        }
        c.run("DEL k other");
        c.call(&set);
        if run.random.random_ratio(1, 4) {
            let Value::BulkString(dump) = c.run("DUMP k") else { continue };
            c.call(redis::cmd("RESTORE").arg("k").arg(0).arg(dump).arg("REPLACE"));
        }
        taken += u32::from(!c.reply("ZRL.INFO k").starts_with('!'));
        let of = format!("{}, {}", show_bytes(&text), run.here());
        exercise(&mut run.random, &mut c, &of);
        if run.random.random_ratio(1, 100) {
            replica.wait_for_sync(&server);
            assert_same_data(&mut c, &mut replica.client());
        }
    }
    eprintln!("{taken} strings taken");
    assert!(taken > 0);
}
