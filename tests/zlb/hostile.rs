//! RESTORE of arbitrary bytes returns an error or a valid board. It never crashes or hangs.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redis::Value;
use testkit::{Client, Payload, crc64, start};

/// Checks that an accepted value is a board that works, and that it can be saved and loaded.
fn check(c: &mut Client) {
    let card = c.int("ZLB.CARD r");
    let members = c.run("ZLB.RANGE r 0 -1");
    let Value::Array(members) = members else { panic!("{members:?}") };
    assert_eq!(members.len() as i64, card);
    for (rank, member) in members.iter().enumerate() {
        let Value::BulkString(member) = member else { panic!("{member:?}") };
        assert_eq!(c.call(redis::cmd("ZLB.RANK").arg("r").arg(member)), Value::Int(rank as i64));
    }
    let digest = c.reply("DEBUG DIGEST-VALUE r");
    let payload = Payload::of(c, "r");
    assert!(payload.restore(c, "r", &payload.body));
    assert_eq!(c.reply("DEBUG DIGEST-VALUE r"), digest);
    for member in members {
        let Value::BulkString(member) = member else { panic!("{member:?}") };
        assert_eq!(c.call(redis::cmd("ZLB.REM").arg("r").arg(member)), Value::Int(1));
    }
    c.script(&[("ZLB.CARD r", "0")]);
}

fn plant(c: &mut Client) -> [Payload; 3] {
    c.run("ZLB.CREATE ints DIM x DIM y ASC KEEP 9");
    c.run("ZLB.SET ints a 5 -5 b 5 -5 cc 9223372036854775807 0 ddd -9223372036854775808 1 e 0 0");
    c.run("ZLB.CREATE floats DIM x FLOAT DIM y ASC FLOAT TIES NAME");
    c.run("ZLB.SET floats a 0.5 1e300 b 0.5 1e300 c -1.5 0");
    // This board has several blocks of members.
    c.run("ZLB.CREATE large DIM x TIES LAST");
    for n in 0..800 {
        c.run(&format!("ZLB.SET large member:{n:06} {}", n % 50));
    }
    ["ints", "floats", "large"].map(|key| Payload::of(c, key))
}

#[test]
fn every_byte_may_be_another() {
    let (_server, mut c) = start();
    let [ints, floats, _] = plant(&mut c);
    let mut taken = 0;
    for payload in [ints, floats] {
        for at in 0..payload.body.len() {
            for value in
                [0, 1, 2, 3, 4, 5, 0x40, 0x7F, 0x80, 0x81, 0xC3, 0xFF, payload.body[at] ^ 1, payload.body[at] ^ 0x10]
            {
                let mut body = payload.body.clone();
                body[at] = value;
                if payload.restore(&mut c, "r", &body) {
                    taken += 1;
                    check(&mut c);
                }
            }
        }
    }
    // Some changes are valid, such as another letter in a name.
    assert!(taken > 0);
}

#[test]
fn a_payload_may_be_cut_or_stretched_anywhere() {
    let (_server, mut c) = start();
    for payload in plant(&mut c) {
        let step = 1 + payload.body.len() / 500;
        for at in (0..payload.body.len()).step_by(step) {
            // If a byte or two are missing, the server reads on into the version and the checksum. So such a payload
            // may still be a valid board.
            let cut = &payload.body[..at];
            let stretched = [cut, &payload.body[at / 2..]].concat();
            for body in [cut, &stretched] {
                if payload.restore(&mut c, "r", body) {
                    check(&mut c);
                }
            }
        }
    }
}

#[test]
fn random_damage() {
    let (_server, mut c) = start();
    let payloads = plant(&mut c);
    let mut random = StdRng::seed_from_u64(20_240_811);
    for round in 0..3000 {
        let payload = &payloads[round % 3];
        let mut body = payload.body.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..body.len());
            match random.random_range(0..4) {
                0 => body[at] = random.random(),
                1 => body[at] ^= 1 << random.random_range(0..8),
                2 => drop(body.remove(at)),
                _ => body.insert(at, random.random()),
            }
        }
        if payload.restore(&mut c, "r", &body) {
            check(&mut c);
        }
    }
    c.script(&[("PING", "+PONG")]);
}

/// Lengths in a payload: 2 GiB, 4 GiB, nearly 2^63 and 16 KiB, in the server's encoding.
const CLAIMS: [&[u8]; 4] =
    [&[0x80, 0x7F, 0xFF, 0xFF, 0xFF], &[0x81, 0, 0, 0, 1, 0, 0, 0, 0], &[0x81; 9], &[0x7F, 0xFF]];

/// The maximum memory that the module may allocate for a payload of a few bytes.
const BOUND: i64 = 64 << 20;

fn peak(c: &mut Client) -> i64 {
    c.info_number("memory", "used_memory_peak")
}

/// A small payload that claims to be a huge board must not cause a large allocation.
#[test]
fn lengths_are_not_believed() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE one DIM x");
    c.run("ZLB.SET one a 1");
    let payload = Payload::of(&mut c, "one");
    // The opcode 2 precedes a number, and the opcode 5 a string. The number of members precedes the only block.
    let block = payload.body.len() - 1 - 1 - 3 - 1;
    assert_eq!(payload.body[block - 2..block + 2], [2, 1, 5, 3], "{:02x?}", payload.body);
    let used = c.info_number("memory", "used_memory");
    for claim in CLAIMS {
        let body = [&payload.body[..block - 1], claim, &payload.body[block..]].concat();
        assert!(!payload.restore(&mut c, "r", &body));
    }
    assert!(peak(&mut c) < used + BOUND, "the number of members");
    // The server itself reads strings, and some versions of it trust their length.
    c.run("SET string 1234567890123456");
    let string = Payload::of(&mut c, "string");
    for claim in CLAIMS {
        let mut dump = [&[0], claim, b"abc", &string.tail[..]].concat();
        dump.extend(crc64(&dump).to_le_bytes());
        assert!(c.try_call(redis::cmd("RESTORE").arg("r").arg(0).arg(dump)).is_err());
    }
    let of_the_server = peak(&mut c);
    for claim in CLAIMS {
        let body = [&payload.body[..block + 1], claim, &payload.body[block + 2..]].concat();
        assert!(!payload.restore(&mut c, "r", &body));
    }
    assert!(peak(&mut c) < of_the_server + BOUND, "the length of a string");
}
