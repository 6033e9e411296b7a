//! Random numbers that need not be secret. Each hasher of the standard library has a seed of its own.

use std::hash::{BuildHasher, Hasher, RandomState};

pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns 16 random characters.
#[cfg(feature = "queue")]
pub(crate) fn random_id() -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u128::from(random()) << 64 | u128::from(random());
    (0..16).map(|at| char::from(DIGITS[usize::try_from(bits >> (6 * at) & 63).unwrap_or_default()])).collect()
}
