//! The settings of ZQ.CONFIG.

use super::field::{Field, Notation};
use super::rate::Rate;
use super::tree::ServingOrder;
use super::{MAX_TIME, Millis};
use crate::base::sparse::Off;

/// The settings of a queue. If a number is 0, the setting is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// MAXATTEMPTS: the maximum number of attempts, if the push does not set it. A change does not affect jobs in the
    /// queue.
    pub max_attempts: u32,
    /// BACKOFF, in ms: how long a job waits after its first failure. If a lease expires, the value at the time of the
    /// claim counts.
    pub backoff_base: Millis,
    /// BACKOFF, in ms: the maximum wait after a failure, before JITTER is added.
    pub backoff_max: Millis,
    /// AGING: the wait, in ms, that counts as much as one step of priority.
    pub aging: Millis,
    /// MAXLEN: the maximum number of jobs, without dead letters.
    pub maxlen: u64,
    /// CONCURRENCY: the maximum number of leases.
    pub concurrency: u64,
    /// RATE: at most `limit` claims in any `window`. A limit or window of 0 is the same as `None`.
    pub rate: Option<Rate>,
    /// PAUSED: no job can be claimed.
    pub paused: bool,
    /// GROUPCONCURRENCY: the maximum number of leases per group.
    pub group_concurrency: u64,
    /// GROUPRATE: at most `limit` claims per group in any `window`. A limit or window of 0 is the same as `None`.
    pub group_rate: Option<Rate>,
    /// ORDERED: the jobs of a group are served in the order of push numbers, one at a time.
    pub ordered: bool,
    /// JITTER: BACKOFF grows by a random part of at most this percentage, 0 ..= 100.
    pub jitter: u32,
    /// DEADLEN: the maximum number of dead letters.
    pub deadlen: u64,
    /// DEADTTL, in ms: how long the queue keeps a dead letter.
    pub deadttl: Millis,
}

impl Off for Settings {
    const OFF: &'static Settings = &Settings {
        max_attempts: 0,
        backoff_base: 0,
        backoff_max: 0,
        aging: 0,
        maxlen: 0,
        concurrency: 0,
        rate: None,
        paused: false,
        group_concurrency: 0,
        group_rate: None,
        ordered: false,
        jitter: 0,
        deadlen: 0,
        deadttl: 0,
    };
}

type Get = fn(&Settings) -> u64;
type Set = fn(&mut Settings, u64);

const fn setting(
    option: &'static str,
    name: &'static str,
    notation: Notation,
    most: u64,
    get: Get,
    set: Set,
) -> Field<Settings> {
    Field { name, option, notation, most, get, set }
}

fn limit(rate: Option<Rate>) -> u64 {
    rate.map_or(0, |rate| rate.limit)
}

/// The highest value of a setting that limits the number of jobs, leases or claims.
const MAX_NUMBER: u64 = (1 << 53) - 1;

fn window(rate: Option<Rate>) -> Millis {
    rate.map_or(0, |rate| rate.window)
}

fn of(rate: &mut Option<Rate>) -> &mut Rate {
    rate.get_or_insert_default()
}

impl Settings {
    #[rustfmt::skip]
    pub const FIELDS: &[Field<Settings>] = &[
        setting("MAXATTEMPTS", "max_attempts", Notation::Number, u32::MAX as u64, |s| s.max_attempts.into(), |s, n| s.max_attempts = n as u32),
        setting("BACKOFF", "backoff_base_ms", Notation::Millis, MAX_TIME, |s| s.backoff_base, |s, n| s.backoff_base = n),
        setting("BACKOFF", "backoff_max_ms", Notation::Millis, MAX_TIME, |s| s.backoff_max, |s, n| s.backoff_max = n),
        setting("AGING", "aging_ms", Notation::Millis, MAX_TIME, |s| s.aging, |s, n| s.aging = n),
        setting("MAXLEN", "maxlen", Notation::Number, MAX_NUMBER, |s| s.maxlen, |s, n| s.maxlen = n),
        setting("CONCURRENCY", "concurrency", Notation::Number, MAX_NUMBER, |s| s.concurrency, |s, n| s.concurrency = n),
        setting("RATE", "rate_limit", Notation::Number, MAX_NUMBER, |s| limit(s.rate), |s, n| of(&mut s.rate).limit = n),
        setting("RATE", "rate_window_ms", Notation::Millis, MAX_TIME, |s| window(s.rate), |s, n| of(&mut s.rate).window = n),
        setting("GROUPCONCURRENCY", "groupconcurrency", Notation::Number, MAX_NUMBER, |s| s.group_concurrency, |s, n| s.group_concurrency = n),
        setting("GROUPRATE", "grouprate_limit", Notation::Number, MAX_NUMBER, |s| limit(s.group_rate), |s, n| of(&mut s.group_rate).limit = n),
        setting("GROUPRATE", "grouprate_window_ms", Notation::Millis, MAX_TIME, |s| window(s.group_rate), |s, n| of(&mut s.group_rate).window = n),
        setting("ORDERED", "ordered", Notation::Switch, 1, |s| s.ordered.into(), |s, n| s.ordered = n > 0),
        setting("PAUSED", "paused", Notation::Switch, 1, |s| s.paused.into(), |s, n| s.paused = n > 0),
        setting("JITTER", "jitter", Notation::Number, 100, |s| s.jitter.into(), |s, n| s.jitter = n as u32),
        setting("DEADLEN", "deadlen", Notation::Number, MAX_NUMBER, |s| s.deadlen, |s, n| s.deadlen = n),
        setting("DEADTTL", "deadttl_ms", Notation::Millis, MAX_TIME, |s| s.deadttl, |s, n| s.deadttl = n),
    ];

    /// Returns how long a job waits after its failed attempt number `attempt`: min(max, base × 2^(attempt-1)).
    pub fn backoff(&self, attempt: u32) -> Millis {
        let doublings = attempt.saturating_sub(1).min(63);
        let wait = u128::from(self.backoff_base) << doublings;
        wait.min(u128::from(self.backoff_max)) as Millis
    }

    /// Returns the backoff of an attempt plus its jitter (JITTER). The jitter is a hash of the token, so every replica
    /// computes the same delay.
    pub fn jittered_backoff(&self, attempt: u32, token: u64) -> Millis {
        let wait = if self.backoff_base == 0 { 0 } else { self.backoff(attempt) };
        if wait == 0 || self.jitter == 0 {
            return wait;
        }
        let most = u128::from(wait) * u128::from(self.jitter) / 100;
        let share = (most * u128::from(scramble(token) >> 32)) >> 32;
        wait.saturating_add(share as Millis).min(MAX_TIME)
    }

    /// Clamps all numbers to their ranges. A rate without a limit or a window becomes `None`.
    pub fn normal(mut self) -> Self {
        for field in Self::FIELDS {
            let value = (field.get)(&self).min(field.most);
            (field.set)(&mut self, value);
        }
        for rate in [&mut self.rate, &mut self.group_rate] {
            *rate = rate.filter(|rate| rate.limit > 0 && rate.window > 0);
        }
        self
    }

    /// Returns the settings that determine when a claim can get a job of a group.
    pub(super) fn of_groups(&self) -> (u64, Option<Rate>, ServingOrder) {
        (self.group_concurrency, self.group_rate, self.order())
    }

    /// Whether a setting needs [`Groups`](super::groups::Groups).
    pub(super) fn concern_groups(&self) -> bool {
        self.group_concurrency > 0 || self.group_rate.is_some() || self.ordered
    }

    pub(super) fn order(&self) -> ServingOrder {
        ServingOrder { aging: self.aging, by_push: self.ordered, by_key: false }
    }
}

/// Spreads close numbers over all 64 bits (the finalizer of SplitMix64, Steele et al. 2014).
pub(super) fn scramble(number: u64) -> u64 {
    let x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
