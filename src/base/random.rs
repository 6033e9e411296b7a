//! Fast random numbers: xoshiro256++ (D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators",
//! 2021). The server's own generator computes a hash per call, which takes longer than looking up a member of a set.

use std::array;
use std::hash::{BuildHasher, RandomState};

/// A generator of random numbers. It is not suitable for cryptography.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// Returns a generator with a new random seed.
    pub fn new() -> Random {
        let keys = RandomState::new();
        Random(array::from_fn(|word| keys.hash_one(word)))
    }

    fn next(&mut self) -> u64 {
        let Random([a, b, c, d]) = self;
        let next = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        next
    }

    /// Returns a random number below `bound`, which must not be 0. The distribution is uniform to one part in 2^64 /
    /// bound (D. Lemire, "Fast random integer generation in an interval", 2019).
    pub fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.next()) * u128::from(bound);
        u64::try_from(scaled >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The expected numbers were computed by the reference implementation, from the state 1, 2, 3, 4.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut random = Random([1, 2, 3, 4]);
        let numbers: Vec<_> = (0..5).map(|_| random.next()).collect();
        assert_eq!(
            numbers,
            [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386, 9_228_616_714_210_784_205]
        );
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut random = Random([7; 4]);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[usize::try_from(random.below(10)).unwrap()] += 1);
        // Five standard deviations are 475.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 475), "{counts:?}");
        assert_eq!(random.below(1), 0);
        let seeds: HashSet<_> = (0..1000).map(|_| Random::new().next()).collect();
        assert_eq!(seeds.len(), 1000, "each generator has its own seed");
    }
}
