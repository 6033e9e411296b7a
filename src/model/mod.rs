//! What the commands compute, without a server: pure functions and types in which `now` is always a parameter.
//! Nothing here does I/O, reads a clock or uses `unsafe`, so all of it is tested by plain unit and property tests.

pub mod alarm;
pub mod board;
pub mod chunks;
pub mod limit;
pub mod marker;
pub mod place;
pub mod queue;
pub mod random;
pub mod relocate;
pub mod stream;
pub mod time;
pub mod tracking;
pub mod waiting;

/// What the tests are told by a variable of the environment.
#[cfg(test)]
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} takes a number")))
}

/// How many random histories a test takes: few while you work, more where `ZEITSET_SEEDS` says so (.ci/run, `make torture`).
#[cfg(test)]
pub fn histories(few: u32) -> u32 {
    number("ZEITSET_SEEDS").map_or(few, |number| u32::try_from(number).expect("fewer"))
}

/// How parsers are fed anything: always the same inputs, unless PROPTEST_RNG_SEED sets another seed, or PROPTEST_CASES a number.
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

/// Bytes that parsers look at: mostly those that mean something to one of them.
#[cfg(test)]
pub fn any_text() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let byte = prop_oneof![8 => proptest::sample::select(b"0123456789".to_vec()), 3 => proptest::sample::select(b"+-.:/eEmshdw_ \0\n".to_vec()), 1 => any::<u8>()];
    proptest::collection::vec(byte, 0..26)
}
