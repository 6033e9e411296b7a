//! Tests of lookups and of the sizes of the shards.

use super::*;
use std::collections::HashMap;

#[test]
fn finds_exactly_what_was_filed_through_growth_and_removal() {
    let mut index = Index::default();
    let mut filed = HashMap::new();
    let mut seed = 1u64;
    for round in 0..20_000u32 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let hash = ((seed >> 33) as u32) & 0xFFF; // few distinct hashes, for long runs and full collisions
        if seed >> 60 < 9 || filed.is_empty() {
            index.insert(hash, round);
            filed.insert(round, hash);
        } else {
            let (&id, &hash) = filed.iter().next().unwrap();
            index.remove(hash, id);
            filed.remove(&id);
        }
        if round % 500 == 0 {
            for (&id, &hash) in &filed {
                assert_eq!(index.find(hash, |i| i == id), Some(id));
            }
        }
    }
    for (id, hash) in filed {
        assert_eq!(index.find(hash, |i| i == id), Some(id));
        index.remove(hash, id);
        assert_eq!(index.find(hash, |i| i == id), None);
    }
    assert_eq!((index.len, index.bytes()), (0, 0));
}

/// The time to grow or split a shard depends on the number of its entries. So every shard must stay small. The memory
/// must shrink with the number of entries.
#[test]
fn no_shard_grows_large_and_memory_follows_the_entries() {
    const ENTRIES: u32 = 20_000;
    let mut index = Index::default();
    let assert_fits = |index: &Index| {
        for shard in &index.shards {
            let (slots, used) = (shard.slots.len(), shard.used as usize);
            assert!(used <= 8 * SHARD, "{used} entries in one shard of {SHARD} on average");
            assert!(index.shards.len() <= 1 + 2 * index.len.div_ceil(SHARD), "{} entries", index.len);
            assert!(slots <= 2 * Shard::room_for(used), "{slots} slots for {used}");
            assert!(shard.entries().is_sorted() && shard.entries().count() == used);
        }
        assert!(index.shards.iter().all(|shard| shard.slots.capacity() == shard.slots.len()));
    };
    for id in 0..ENTRIES {
        index.insert(spread(id), id);
        if id % 1000 == 0 {
            assert_fits(&index);
        }
    }
    assert!(index.relocations() >= ENTRIES as usize / SHARD);
    for id in 0..ENTRIES - 1 {
        index.remove(spread(id), id);
        if id % 1000 == 0 {
            assert_fits(&index);
        }
    }
    assert_eq!(index.find(spread(ENTRIES - 1), |id| id == ENTRIES - 1), Some(ENTRIES - 1));
}

/// Returns a hash that depends only on the ID. The hashes are evenly distributed.
fn spread(id: u32) -> u32 {
    let mixed = (id ^ id >> 16).wrapping_mul(0x45d9_f3b5);
    mixed ^ mixed >> 15
}
