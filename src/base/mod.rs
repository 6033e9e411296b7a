//! Pure functions and types that several families of commands use. The functions take the time as a parameter (`now`).
//! Nothing here needs a server, does I/O, reads a clock or uses `unsafe`, so plain unit and property tests cover all of
//! it.

pub mod alarm;
pub mod chunks;
pub mod db_key;
pub mod index;
pub mod packed;
pub mod random;
pub mod relocate;
pub mod sparse;
pub mod stream;
pub mod time;

/// Returns a number from an environment variable, for tests.
#[cfg(test)]
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} takes a number")))
}

/// Returns how many random sequences of operations a test runs: the value of `ZEITSET_SEEDS`, or `few` if this variable
/// is not set.
#[cfg(test)]
pub fn histories(few: u32) -> u32 {
    number("ZEITSET_SEEDS").map_or(few, |number| u32::try_from(number).expect("fewer"))
}

/// Returns the configuration for fuzzing parsers. The inputs are always the same, unless PROPTEST_RNG_SEED sets a seed
/// or PROPTEST_CASES sets the number of inputs.
#[cfg(test)]
pub fn fuzzing() -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 20_000;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(20_261_121);
    }
    config
}

/// Generates bytes for tests of parsers, mostly characters that occur in numbers and times.
#[cfg(test)]
pub fn any_text() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let byte = prop_oneof![8 => proptest::sample::select(b"0123456789".to_vec()), 3 => proptest::sample::select(b"+-.:/eEmshdw_ \0\n".to_vec()), 1 => any::<u8>()];
    proptest::collection::vec(byte, 0..26)
}
