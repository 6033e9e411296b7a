//! Tests of generated numbers: IDs and jitter.

use super::super::MAX_COUNT;
use super::super::ids::AutoId;
use super::super::settings::scramble;

#[test]
fn ids_grow_whatever_the_clock_does_and_never_run_out() {
    let id = |ms, seq| AutoId { ms, seq };
    for (before, now, next) in [
        (id(5, 7), 6, id(6, 0)),
        (id(5, 7), 5, id(5, 8)),
        (id(5, 7), 4, id(5, 8)),
        (id(5, MAX_COUNT - 1), 5, id(5, MAX_COUNT)),
        (id(5, MAX_COUNT), 5, id(6, 0)),
        (id(5, MAX_COUNT), 9, id(9, 0)),
    ] {
        assert_eq!(before.next(now), next, "{before:?} at {now}");
        assert!(before.next(now) > before && before.next(now).possible());
    }
}

/// Jitter must be the same on each server and in each version. The expected values are the first two numbers of
/// SplitMix64 with the seed 0.
#[test]
fn jitter_is_that_of_splitmix64() {
    assert_eq!(scramble(0), 0xe220_a839_7b1d_cdaf);
    assert_eq!(scramble(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
}
