use super::*;
use crate::base::{any_text, fuzzing};
use proptest::prelude::*;

#[test]
fn a_ring_begins_with_its_moment_and_one_slot() {
    let text = begin(1000, RingSlot { at: 61_000, taken: 5 }, 2);
    assert_eq!(text.len(), 40);
    assert_eq!(text[..8], *b"sliding:");
    let ring = Ring::parse(&text).unwrap();
    assert_eq!(
        (ring.len(), ring.slot(0), ring.slot(1)),
        (2, RingSlot { at: 1000, taken: 0 }, RingSlot { at: 61_000, taken: 5 })
    );
    assert_eq!(ring.usage(60_999), Ok(RingUsage { first: 1, before: 0, units: 5 }));
    assert_eq!(ring.usage(61_000), Ok(RingUsage { first: 2, before: 5, units: 0 }));
}

#[test]
fn a_string_that_was_cut_is_no_ring_unless_whole_slots_are_left() {
    let text = build(RingSlot { at: 1, taken: 0 }, (2..6).map(|at| RingSlot { at, taken: at }), 8);
    for len in 0..text.len() {
        assert_eq!(Ring::parse(&text[..len]).is_ok(), len >= 40 && len % 16 == 8, "{len}");
    }
}

/// A search by age finds the right slot, wherever the oldest slot is in the ring.
#[test]
fn slots_are_found_wherever_the_seam_is() {
    for len in 2..20 {
        for used in 2..=len {
            let mut bytes = build(
                RingSlot { at: 10, taken: 100 },
                (1..used as u64).map(|n| RingSlot { at: 10 + n, taken: 100 + n }),
                len,
            );
            for next in used as u64..3 * len as u64 {
                let ring = Ring::parse(&bytes).unwrap();
                assert_eq!(ring.newest(), RingSlot { at: 9 + next, taken: 99 + next });
                for at in 10..10 + next {
                    let found = ring.find(0, |slot| slot.at < at);
                    assert!(ring.slot(found).at >= at && (found == 0 || ring.slot(found - 1).at < at), "{at} {ring:?}");
                }
                let Patch { at, bytes: slot } = ring.replace(0, RingSlot { at: 10 + next, taken: 100 + next });
                bytes[at..at + slot.len()].copy_from_slice(&slot);
            }
        }
    }
}

proptest! {
    #![proptest_config(fuzzing())]

    #[test]
    fn no_text_makes_the_parser_panic(is_tagged in any::<bool>(), text in any_text(), more in prop::collection::vec(any::<u8>(), 0..80)) {
        let text = [if is_tagged { TAG } else { &[] }, &text, &more].concat();
        if let Ok(ring) = Ring::parse(&text) {
            prop_assert!(ring.newest().at <= time::MAX);
            if let Ok(usage) = ring.usage(1_767_225_600_000) {
                prop_assert!((1..=ring.len()).contains(&usage.first) && usage.units <= time::MAX);
            }
        }
    }
}
