//! Random input: commands ([`commands`]), payloads of RESTORE ([`payloads`]), sorted sets ([`sorted_sets`], [`mixed_sets`]),
//! strings ([`strings`]).
//!
//! `make test` runs a fixed number of inputs from a fixed seed. With FUZZ_SECONDS=600, as in `make torture`, each test
//! runs for 600 s from a new seed. `FUZZ_SEED` sets the seed. Each test prints its seed, also in the message of a
//! failure. `FUZZ_ROUNDS` sets the number of inputs, for slow servers.

mod commands;
mod mixed_sets;
mod payloads;
mod sorted_sets;
mod strings;
mod words;

use rand::SeedableRng;
use rand::rngs::StdRng;
use std::time::{Duration, Instant};

const SEED: u64 = 20_261_121;

/// A test's random numbers, and how many inputs it has run and will run.
pub struct Run {
    pub random: StdRng,
    name: &'static str,
    seed: u64,
    done: u64,
    rounds: u64,
    until: Option<Instant>,
}

impl Run {
    /// Creates a run of `rounds` inputs, or as many as `FUZZ_SECONDS` allows.
    pub fn new(name: &'static str, rounds: u64) -> Run {
        let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let seconds = number("FUZZ_SECONDS");
        let seed = number("FUZZ_SEED").unwrap_or_else(|| if seconds.is_some() { rand::random() } else { SEED });
        eprintln!("{name}: FUZZ_SEED={seed}");
        let rounds = number("FUZZ_ROUNDS").unwrap_or(rounds);
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        Run { random: StdRng::seed_from_u64(seed), name, seed, done: 0, rounds, until }
    }

    /// Whether there is another input.
    pub fn goes_on(&mut self) -> bool {
        let goes_on = match self.until {
            Some(until) => Instant::now() < until,
            None => self.done < self.rounds,
        };
        self.done += u64::from(goes_on);
        goes_on
    }

    /// Returns the test, the seed and the number of the input, for the message of a failure.
    pub fn here(&self) -> String {
        format!("{}, FUZZ_SEED={}, input {}", self.name, self.seed, self.done)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        eprintln!("{}", self.here());
    }
}
