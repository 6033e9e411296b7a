//! What the server believes a waiting client to wait for: a key of the client's own, in the slot of the keys it really waits for.
//!
//! The server asks every client of a key when that key is signalled or created. With thousands of workers at one queue that is a
//! pause. So each client waits for a name of its own, under which the module can have it asked alone. The server goes by the slot of
//! that name when it redirects a waiting client (`MOVED`), so it must be the slot of the queue.

use super::Client;

/// The name for a client that waits for `key`.
///
/// The slot of a key is that of its hash tag, if it has one: what stands between its first `{` and the next `}`, if that is not empty.
/// So the name carries this tag, or the whole key as a tag. A key without a tag that contains a `}`, and the empty key, cannot be put
/// between braces: their own name has to do, and the server asks all their clients.
pub fn name(client: Client, key: &[u8]) -> Vec<u8> {
    let tag = tag(key).unwrap_or(key);
    if tag.is_empty() || tag.contains(&b'}') {
        return key.to_vec();
    }
    let number = format!("zeitset:waiting:{client}:");
    [number.as_bytes(), b"{", tag, b"}"].concat()
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|&byte| byte == b'{')? + 1;
    let length = key[start..].iter().position(|&byte| byte == b'}')?;
    (length > 0).then(|| &key[start..start + length])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the cluster specification has it: CRC16 (XMODEM) of the hash tag or of the whole key, modulo 16,384.
    fn slot(key: &[u8]) -> u16 {
        let open = key.iter().position(|&byte| byte == b'{');
        let hashed = open
            .and_then(|open| {
                let close = key.iter().enumerate().skip(open + 1).find(|&(_, &byte)| byte == b'}')?.0;
                (close > open + 1).then(|| &key[open + 1..close])
            })
            .unwrap_or(key);
        let crc = hashed.iter().fold(0_u16, |crc, &byte| {
            (0..8)
                .fold(crc ^ u16::from(byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
        });
        crc % 16_384
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(name(7, b"jobs"), b"zeitset:waiting:7:{jobs}");
        assert_eq!(name(7, b"a{jobs}b"), b"zeitset:waiting:7:{jobs}");
        assert_eq!(name(7, b"a{}b"), b"a{}b");
    }

    proptest! {
        #[test]
        fn a_name_lies_in_the_slot_of_its_key(client: u64, key in r"[{}a-c]{0,8}") {
            prop_assert_eq!(slot(&name(client, key.as_bytes())), slot(key.as_bytes()));
        }

        #[test]
        fn clients_of_a_key_have_names_of_their_own(client: u64, other: u64, key in r"[a-c{]{1,8}") {
            prop_assume!(client != other);
            prop_assert_ne!(name(client, key.as_bytes()), name(other, key.as_bytes()));
        }
    }
}
