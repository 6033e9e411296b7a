//! Tests that compare chunks with a `Vec`, and tests of their memory.

use super::*;
use proptest::prelude::*;

fn held(chunks: &Chunks<u64>) -> usize {
    let room: usize = chunks.chunks.iter().map(Vec::capacity).sum();
    room * size_of::<u64>() + chunks.chunks.capacity() * size_of::<Vec<u64>>()
}

#[test]
fn chunks_stay_where_they_are() {
    let mut chunks = Chunks::default();
    let numbers = 0..10 * CHUNK as u64;
    numbers.clone().take(CHUNK + 1).for_each(|item| assert_eq!(u64::from(chunks.push(item)), item));
    let first: *const u64 = &raw const chunks[0];
    numbers.skip(CHUNK + 1).for_each(|item| assert_eq!(u64::from(chunks.push(item)), item));
    assert!(std::ptr::eq(first, &raw const chunks[0]));
}

#[test]
fn a_few_items_take_a_few_slots() {
    let mut chunks = Chunks::default();
    assert_eq!(chunks.bytes(), 0);
    chunks.push(1_u64);
    assert!(chunks.bytes() <= 2 * size_of::<u64>() + 4 * size_of::<Vec<u64>>(), "{}", chunks.bytes());
    assert_eq!(chunks.pop(), Some(1));
    assert_eq!((chunks.bytes(), chunks.pop()), (0, None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares the chunks with a `Vec`: items and indexes. Also checks the counted bytes and the capacity.
    #[test]
    fn it_is_a_vec_that_gives_memory_back(runs in prop::collection::vec((any::<bool>(), 1..400_u64), 1..20)) {
        let (mut chunks, mut plain) = (Chunks::default(), Vec::new());
        for (is_push, count) in runs {
            for item in 0..count {
                if is_push {
                    prop_assert_eq!(chunks.push(item) as usize, plain.len());
                    plain.push(item);
                } else {
                    prop_assert_eq!(chunks.pop(), plain.pop());
                }
            }
            prop_assert_eq!(chunks.len(), plain.len());
            for (number, item) in plain.iter().enumerate() {
                prop_assert_eq!(&chunks[number as u32], item);
            }
            prop_assert_eq!(chunks.bytes(), held(&chunks));
            let room = chunks.chunks.iter().map(Vec::capacity).sum::<usize>();
            prop_assert!(room <= 4 * plain.len().max(1) && room <= plain.len() + 2 * CHUNK, "{} for {}", room, plain.len());
        }
    }
}
