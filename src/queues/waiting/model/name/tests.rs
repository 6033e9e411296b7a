//! Tests of [`name`]. The returned name must be in the same cluster slot as the key.

use super::*;
use proptest::prelude::*;

/// Returns the slot of a key as the cluster specification defines it: CRC16 (XMODEM) of the hash tag or of the whole
/// key, modulo 16,384.
fn slot(key: &[u8]) -> u16 {
    let open = key.iter().position(|&byte| byte == b'{');
    let hashed = open
        .and_then(|open| {
            let close = key.iter().enumerate().skip(open + 1).find(|&(_, &byte)| byte == b'}')?.0;
            (close > open + 1).then(|| &key[open + 1..close])
        })
        .unwrap_or(key);
    let crc = hashed.iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    });
    crc % 16_384
}

#[test]
fn slots_are_those_of_the_specification() {
    assert_eq!(slot(b"123456789"), 0x31c3);
    assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
    assert_eq!(block_name(7, b"jobs"), b"zeitset:waiting:7:{jobs}");
    assert_eq!(block_name(7, b"a{jobs}b"), b"zeitset:waiting:7:{jobs}");
    assert_eq!(block_name(7, b"a{}b"), b"a{}b");
}

proptest! {
    #[test]
    fn a_name_lies_in_the_slot_of_its_key(client: u64, key in r"[{}a-c]{0,8}") {
        prop_assert_eq!(slot(&block_name(client, key.as_bytes())), slot(key.as_bytes()));
    }

    #[test]
    fn clients_of_a_key_have_names_of_their_own(client: u64, other: u64, key in r"[a-c{]{1,8}") {
        prop_assume!(client != other);
        prop_assert_ne!(block_name(client, key.as_bytes()), block_name(other, key.as_bytes()));
    }
}
