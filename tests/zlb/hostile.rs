//! RESTORE of arbitrary bytes returns an error or a valid board. It never crashes or hangs.

use testkit::{Client, Payload, crc64, start};

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
fn false_lengths_allocate_little_memory() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE one DIM x");
    c.run("ZLB.SET one a 1");
    let payload = Payload::of(&mut c, "one");
    // The opcode 2 precedes a number. The opcode 5 precedes a string. The number of members precedes the only block.
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
