use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

#[test]
fn up_to_its_capacity_a_sketch_is_exact() {
    let mut sketch = Sketch::new();
    for key in 0..CAPACITY {
        (0..=key).for_each(|_| sketch.add(0, key.to_string().as_bytes(), 7));
    }
    let top = sketch.top();
    assert_eq!(top.len(), CAPACITY);
    for (counter, expected) in top.iter().zip((0..CAPACITY).rev()) {
        assert_eq!((&counter.key[..], counter.count), (expected.to_string().as_bytes(), expected as u64 + 1));
    }
}

#[test]
fn databases_are_told_apart_and_long_names_are_not_counted() {
    let mut sketch = Sketch::new();
    sketch.add(0, b"k", 1);
    sketch.add(1, b"k", 2);
    sketch.add(0, &[b'x'; MAX_NAME + 1], 3);
    let seen: Vec<_> = sketch.top().iter().map(|counter| (counter.database, counter.count)).collect();
    assert_eq!(seen.len(), 2);
    sketch.clear();
    assert!(sketch.top().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// No count is less than its key's number of denials. After `n` denials in total, no count is too high by more than
    /// `n / CAPACITY`, or by more than its `error`. Every key with more than `n / CAPACITY` denials has a counter.
    #[test]
    fn counts_are_bounded_from_both_sides(
        keys in prop::collection::vec(prop_oneof![0_u32..20, 0_u32..400, 0_u32..100_000], 1..20_000),
    ) {
        let (mut sketch, mut exact) = (Sketch::new(), HashMap::new());
        for key in &keys {
            sketch.add(0, key.to_string().as_bytes(), 0);
            *exact.entry(*key).or_insert(0_u64) += 1;
        }
        let slack = keys.len() as u64 / CAPACITY as u64;
        let counters: HashMap<&[u8], &Counter> = sketch.top().iter().map(|&counter| (&counter.key[..], counter)).collect();
        for (&key, &count) in &exact {
            match counters.get(key.to_string().as_bytes()) {
                Some(seen) => {
                    prop_assert!((count..=count + slack).contains(&seen.count));
                    prop_assert!((seen.count - seen.error..=seen.count).contains(&count));
                }
                None => prop_assert!(count <= slack),
            }
        }
        prop_assert!(sketch.counters.len() <= CAPACITY && sketch.places.len() == sketch.counters.len());
    }
}
