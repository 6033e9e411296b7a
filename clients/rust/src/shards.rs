//! The shard of a job, and the slot of a key.

use crate::error::Error;

const MOST: u16 = 1024;

/// CRC-16 (XMODEM), as Redis Cluster computes it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

/// Returns the slot of a key. If the key has a hash tag, only the tag counts.
#[cfg(feature = "worker")]
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % 16_384
}

/// Returns the number of a job's shard. `name` is the job's group, or its ID if it has no group.
pub(crate) fn shard_of(name: &str, shards: usize) -> usize {
    usize::from(crc16(name.as_bytes())) % shards
}

/// Returns the key of a queue, or the keys of its shards.
pub(crate) fn keys_of(name: &str, shards: Option<u16>) -> Result<Vec<String>, Error> {
    match shards {
        None => Ok(vec![name.to_owned()]),
        Some(shards) if !(1..=MOST).contains(&shards) => {
            Err(Error::Argument(format!("shards must be a number from 1 to {MOST}, not {shards}")))
        }
        Some(_) if name.contains(['{', '}']) => {
            Err(Error::Argument(format!("the name of a queue with shards must not contain braces: {name}")))
        }
        Some(shards) => Ok((0..shards).map(|at| format!("{{{name}:{at}}}")).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_in_the_shards_of_all_libraries() {
        let cases: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../cases/shard.json")).expect("the table of cases");
        assert!(cases.len() > 20);
        for case in cases {
            // A number that is no u16 is an error of the compiler here.
            let shards = case["shards"].as_u64().and_then(|shards| u16::try_from(shards).ok()).unwrap_or(0);
            let keys = keys_of(case["queue"].as_str().expect("a name"), Some(shards));
            let Some(key) = case["key"].as_str() else {
                assert!(keys.is_err(), "{case}");
                continue;
            };
            let keys = keys.expect("keys");
            let name = case["group"].as_str().filter(|group| !group.is_empty()).or(case["id"].as_str()).expect("an ID");
            assert_eq!(keys[shard_of(name, keys.len())], key, "{case}");
        }
    }

    #[cfg(feature = "worker")]
    #[test]
    fn only_the_hash_tag_of_a_key_counts() {
        assert_eq!(slot_of("123456789"), 12739);
        assert_eq!(slot_of("{123456789}:x"), 12739);
        assert_eq!(slot_of("foo{}{bar}"), 8363);
        assert_eq!(slot_of("foo{{bar}}zap"), slot_of("{bar"));
    }
}
