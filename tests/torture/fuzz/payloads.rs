//! RESTORE of damaged values of the module's types. The server returns an error, or accepts a value that works, can be
//! saved and loaded, and is equal on a replica. The memory in use is proportional to the input.

use super::Run;
use super::words::hostile;
use rand::rngs::StdRng;
use rand::{Rng, seq::IndexedRandom};
use redis::Value;
use testkit::{Client, Payload, Server, assert_same_data, show, show_bytes};

/// A part of a value that a module has saved. Strings are not compressed (`rdbcompression no`). See `disguised` for
/// strings that the server stores as numbers.
#[derive(Clone)]
enum Token {
    Number(u64),
    Bytes(Vec<u8>),
}

const NUMBER: u8 = 2;
const STRING: u8 = 5;

/// Writes a length as in RDB files.
fn length(number: u64, to: &mut Vec<u8>) {
    match number {
        0..64 => to.push(number as u8),
        64..16_384 => to.extend([0x40 | (number >> 8) as u8, number as u8]),
        16_384..=0xFFFF_FFFF => {
            to.push(0x80);
            to.extend((number as u32).to_be_bytes());
        }
        _ => {
            to.push(0x81);
            to.extend(number.to_be_bytes());
        }
    }
}

fn read_length(from: &mut &[u8]) -> u64 {
    let first = take(from, 1)[0];
    match first >> 6 {
        0 => first.into(),
        1 => u64::from(first & 0x3F) << 8 | u64::from(take(from, 1)[0]),
        _ if first == 0x80 => u32::from_be_bytes(take(from, 4).try_into().expect("four bytes")).into(),
        _ if first == 0x81 => u64::from_be_bytes(take(from, 8).try_into().expect("eight bytes")),
        _ => panic!("not a length: {first:02x}"),
    }
}

fn take<'b>(from: &mut &'b [u8], count: usize) -> &'b [u8] {
    let (head, rest) = from.split_at(count);
    *from = rest;
    head
}

fn tokens(mut body: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    loop {
        match read_length(&mut body) as u8 {
            NUMBER => tokens.push(Token::Number(read_length(&mut body))),
            STRING => tokens.push(Token::Bytes(match body[0] {
                0xC0..=0xC2 => disguised(&mut body),
                _ => {
                    let count = read_length(&mut body) as usize;
                    take(&mut body, count).to_vec()
                }
            })),
            0 => return tokens,
            opcode => panic!("opcode {opcode}"),
        }
    }
}

/// Reads a string that looks like a number, which RDB files store as a number.
fn disguised(from: &mut &[u8]) -> Vec<u8> {
    let kind = take(from, 1)[0];
    let bytes = take(from, 1 << (kind & 3));
    let number = match *bytes {
        [a] => i32::from(a as i8),
        [a, b] => i32::from(i16::from_le_bytes([a, b])),
        _ => i32::from_le_bytes(bytes.try_into().expect("four bytes")),
    };
    number.to_string().into_bytes()
}

fn body(tokens: &[Token]) -> Vec<u8> {
    let mut body = Vec::new();
    for token in tokens {
        match token {
            Token::Number(number) => {
                body.push(NUMBER);
                length(*number, &mut body);
            }
            Token::Bytes(bytes) => {
                body.push(STRING);
                length(bytes.len() as u64, &mut body);
                body.extend(bytes);
            }
        }
    }
    body.push(0);
    body
}

fn damage(random: &mut StdRng, payload: &Payload) -> Vec<u8> {
    let mut tokens = tokens(&payload.body);
    for _ in 0..random.random_range(0..4) {
        if tokens.is_empty() {
            break;
        }
        let (at, other) = (random.random_range(0..tokens.len()), random.random_range(0..tokens.len()));
        match (random.random_range(0..8), &mut tokens[at]) {
            (0, _) => drop(tokens.remove(at)),
            (1, token) => {
                let token = token.clone();
                tokens.insert(at, token);
            }
            (2, _) => tokens.swap(at, other),
            (3, Token::Bytes(bytes)) => *bytes = hostile(random),
            (4..6, Token::Bytes(bytes)) if !bytes.is_empty() => {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
            (_, Token::Bytes(bytes)) => bytes.truncate(bytes.len() / 2),
            (_, Token::Number(number)) => *number = number_like(random, *number),
        }
    }
    let mut body = body(&tokens);
    if random.random_ratio(1, 3) {
        for _ in 0..random.random_range(1..3) {
            let at = random.random_range(0..body.len());
            match random.random_range(0..3) {
                0 => body[at] = random.random(),
                1 => body.truncate(at.max(1)),
                _ => body.insert(at, random.random()),
            }
        }
    }
    body
}

fn number_like(random: &mut StdRng, number: u64) -> u64 {
    const HOSTILE: [u64; 16] = [
        0,
        1,
        2,
        3,
        4,
        63,
        64,
        u32::MAX as u64,
        1 << 32,
        (1 << 53) - 1,
        1 << 53,
        1 << 62,
        (1 << 62) + 1,
        i64::MAX as u64,
        1 << 63,
        u64::MAX,
    ];
    match random.random_range(0..4) {
        0 => number.wrapping_add(1),
        1 => number.wrapping_sub(1),
        _ => *HOSTILE.choose(random).expect("numbers"),
    }
}

fn plant(c: &mut Client) -> Vec<Payload> {
    c.run_all([
        "CONFIG SET rdbcompression no",
        "ZQ.CONFIG queue MAXATTEMPTS 3 BACKOFF 10 100 AGING 5 MAXLEN 50 CONCURRENCY 9 RATE 200 1w",
        "ZQ.PUSH queue payload ID leased",
        "ZQ.PUSH queue payload ID dead MAXATTEMPTS 1",
        "ZQ.CLAIM 1 queue LEASE 1w COUNT 2",
        "ZQ.PUSH queue 12345 ID 77",
        "ZQ.PUSH queue x DELAY 1w EVERY 1d PRIORITY -5",
        "ZQ.PUSH queue x",
        "ZQ.CONFIG empty PAUSED yes",
        "ZLB.CREATE board DIM x DIM y ASC TIES LAST KEEP 40",
        "ZLB.CREATE floats DIM x FLOAT TIES NAME",
        "ZLB.SET floats a 0.5 b 1e300 c -0.25",
    ]);
    c.run_all((0..30).map(|n| format!("ZLB.SET board member:{n} {} {n}", n % 4)));
    ["queue", "empty", "board", "floats"].map(|key| Payload::of(c, key)).into()
}

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => panic!("{}", show(&other)),
    }
}

fn digest(c: &mut Client) -> String {
    c.reply("DEBUG DIGEST-VALUE r")
}

/// Saves and loads the value. It must stay equal.
fn reload(c: &mut Client) {
    let (payload, before) = (Payload::of(c, "r"), digest(c));
    assert!(payload.restore(c, "r", &payload.body), "what it saves can be loaded: {}", show_bytes(&payload.body));
    assert_eq!(digest(c), before);
    c.run("MEMORY USAGE r");
    c.run("COPY r copy REPLACE");
    c.run("UNLINK copy");
}

/// Calls all commands on a queue, beginning with reads. A call may be invalid for the queue, but must get a reply.
fn use_queue(c: &mut Client) {
    c.run("ZQ.STATS r");
    c.run("ZQ.CONFIG r");
    for state in ["", "READY", "DELAYED", "CLAIMED", "DEAD"] {
        for job in array(c.run(&format!("ZQ.PEEK r {state} COUNT 100"))) {
            let id = array(job).remove(0);
            let Value::BulkString(id) = id else { panic!("an id is a string") };
            assert_ne!(c.call(redis::cmd("ZQ.GET").arg("r").arg(&id)), Value::Nil, "a job that is listed is there");
        }
    }
    reload(c);
    for job in array(c.run("ZQ.CLAIM 1 r LEASE 1w COUNT 3")).into_iter().map(array) {
        let [_, Value::BulkString(id), Value::Int(token), ..] = &job[..] else { panic!("a job: {job:?}") };
        match token % 3 {
            0 => c.call(redis::cmd("ZQ.ACK").arg("r").arg(id).arg(token)),
            1 => c.call(redis::cmd("ZQ.NACK").arg("r").arg(id).arg(token)),
            _ => c.call(redis::cmd("ZQ.EXTEND").arg("r").arg("1w").arg(id).arg(token)),
        };
    }
    for line in
        ["ZQ.PUSH r x", "ZQ.PUSH r x ID leased REPLACE", "ZQ.REDRIVE r", "ZQ.RESCHEDULE r 77", "ZQ.CANCEL r 77 dead"]
    {
        let reply = c.reply(line);
        assert!(!reply.contains("internal error") && !reply.contains("lost"), "{line}: {reply}");
    }
    c.run("ZQ.CONFIG r PAUSED no RATE 5 1w AGING 1w");
    c.run("ZQ.CLAIM 1 r LEASE 1w COUNT 3");
    reload(c);
}

fn use_board(c: &mut Client) {
    c.run("ZLB.INFO r");
    let card = c.int("ZLB.CARD r");
    let members = array(c.run("ZLB.RANGE r 0 -1"));
    assert_eq!(members.len() as i64, card);
    for (rank, member) in members.iter().enumerate().take(40) {
        let Value::BulkString(member) = member else { panic!("a member is a string") };
        assert_eq!(c.call(redis::cmd("ZLB.RANK").arg("r").arg(member)), Value::Int(rank as i64));
        for ties in ["DENSE", "COMPETITION"] {
            c.call(redis::cmd("ZLB.RANK").arg("r").arg(member).arg(ties));
        }
        c.call(redis::cmd("ZLB.AROUND").arg("r").arg(member).arg(3).arg("WITHVALUES"));
        let row = array(c.call(redis::cmd("ZLB.GET").arg("r").arg(member))).remove(0);
        let mut set = redis::cmd("ZLB.SET");
        set.arg("r").arg(member);
        for value in &array(row)[1..] {
            match value {
                Value::Int(value) => set.arg(value),
                Value::BulkString(value) => set.arg(value),
                Value::Double(value) => set.arg(value),
                other => panic!("a value: {}", show(other)),
            };
        }
        assert_eq!(c.call(&set), Value::Int(0), "its own values change nothing");
    }
    reload(c);
    for member in members.iter().step_by(2) {
        let Value::BulkString(member) = member else { panic!("a member is a string") };
        assert_eq!(c.call(redis::cmd("ZLB.REM").arg("r").arg(member)), Value::Int(1));
    }
    reload(c);
}

#[test]
fn what_restore_takes_works_and_what_it_refuses_costs_nothing() {
    let mut run = Run::new("payloads", 1500);
    let server = Server::builder().config("appendonly yes").start();
    let replica = Server::builder().config("rdbcompression no").replica_of(&server);
    let mut c = server.client();
    let payloads = plant(&mut c);
    for payload in &payloads {
        assert!(payload.restore(&mut c, "r", &body(&tokens(&payload.body))), "the format is understood");
    }
    let used = c.info_number("memory", "used_memory");
    c.run("CONFIG RESETSTAT");
    let mut taken = 0;
    while run.goes_on() {
        let payload = payloads.choose(&mut run.random).expect("payloads");
        let body = damage(&mut run.random, payload);
        c.run("DEL r");
        if payload.restore(&mut c, "r", &body) {
            taken += 1;
            match c.string("TYPE r").as_str() {
                "zeitqueue" => use_queue(&mut c),
                _ => use_board(&mut c),
            }
            if taken % 100 == 0 {
                replica.wait_for_sync(&server);
                assert_same_data(&mut c, &mut replica.client());
            }
        } else {
            assert_eq!(c.int("EXISTS r"), 0, "{}", run.here());
        }
    }
    eprintln!("{taken} payloads taken");
    assert!(taken > 0);
    // No input is larger than a few megabytes. The server's buffers for an input have about the same size.
    let peak = c.info_number("memory", "used_memory_peak");
    assert!(peak < used + (96 << 20), "{} bytes at the peak, {}", peak - used, run.here());
}
