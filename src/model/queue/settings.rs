//! What ZQ.CONFIG sets.

use super::further::Field;
use super::rate::Rate;
use super::tree::Order;
use super::{MAX_TIME, Millis};

/// The settings of a queue. Zero means "off" throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// ATTEMPTS: deliveries before a job is dead, for jobs pushed without their own; 0: unlimited. It is fixed at the
    /// push: a later change does not touch jobs that are in.
    pub attempts: u32,
    /// BACKOFF base, ms: how long a job given back for the first time waits; 0: it is due at once.
    pub backoff_base: Millis,
    /// BACKOFF max, ms.
    pub backoff_max: Millis,
    /// AGING, ms: what one step of priority is worth in waiting; 0: priority comes before all waiting.
    pub aging: Millis,
    /// MAXLEN: jobs, dead ones not counted; 0: unlimited.
    pub maxlen: u64,
    /// CONCURRENCY: leases at once; 0: unlimited.
    pub concurrency: u64,
    /// RATE; a limit or window of 0 is the same as `None`.
    pub rate: Option<Rate>,
    /// PAUSED: nothing can be claimed.
    pub paused: bool,
    /// GROUPCONCURRENCY: leases of a group at once; 0: unlimited.
    pub group_concurrency: u64,
    /// GROUPRATE; a limit or window of 0 is the same as `None`.
    pub group_rate: Option<Rate>,
    /// ORDERED: the jobs of a group are served in the order of their pushes, one at a time.
    pub ordered: bool,
    /// JITTER, percent of a BACKOFF: up to so much is added to it at random. 0 ..= 100.
    pub jitter: u32,
    /// DEADLEN: dead letters; 0: unlimited.
    pub deadlen: u64,
    /// DEADTTL, ms: for how long a dead letter is kept; 0: until somebody takes it away.
    pub deadttl: Millis,
}

impl Settings {
    /// The settings that came with format 2 and later. With its row here, a setting is stored, replicated and shown.
    pub const FURTHER: &[Field<Settings>] = &[
        Field {
            tag: 1,
            name: "jitter",
            most: 100,
            get: |s| s.jitter.into(),
            set: |s, value| s.jitter = value.min(101) as u32,
        },
        Field { tag: 2, name: "deadlen", most: MAX_TIME, get: |s| s.deadlen, set: |s, value| s.deadlen = value },
        Field { tag: 3, name: "deadttl_ms", most: MAX_TIME, get: |s| s.deadttl, set: |s, value| s.deadttl = value },
        Field {
            tag: 4,
            name: "group_concurrency",
            most: MAX_TIME,
            get: |s| s.group_concurrency,
            set: |s, value| s.group_concurrency = value,
        },
        Field {
            tag: 5,
            name: "group_rate_limit",
            most: MAX_TIME,
            get: |s| s.group_rate.map_or(0, |rate| rate.limit),
            set: |s, limit| s.group_rate = Some(Rate { limit, window: s.group_rate.map_or(0, |rate| rate.window) }),
        },
        Field {
            tag: 6,
            name: "group_rate_window_ms",
            most: MAX_TIME,
            get: |s| s.group_rate.map_or(0, |rate| rate.window),
            set: |s, window| s.group_rate = Some(Rate { limit: s.group_rate.map_or(0, |rate| rate.limit), window }),
        },
        Field { tag: 7, name: "ordered", most: 1, get: |s| s.ordered.into(), set: |s, value| s.ordered = value > 0 },
    ];

    /// How long a job waits after being given back following its `attempt`-th delivery: min(max, base × 2^(attempt-1)).
    pub fn backoff(&self, attempt: u32) -> Millis {
        let doublings = attempt.saturating_sub(1).min(63);
        let wait = u128::from(self.backoff_base) << doublings;
        wait.min(u128::from(self.backoff_max)) as Millis
    }

    /// The backoff of an attempt, with up to JITTER percent more: how much, the token says, as good as at random, so that whoever
    /// works it out gets the same.
    pub fn jittered_backoff(&self, attempt: u32, token: u64) -> Millis {
        let wait = self.backoff(attempt);
        let most = u128::from(wait) * u128::from(self.jitter) / 100;
        let share = (most * u128::from(scramble(token) >> 32)) >> 32;
        wait.saturating_add(share as Millis)
    }

    /// The settings from which it follows how long a job waits after a failure.
    pub(super) fn backoffs(&self) -> (Millis, Millis, u32) {
        if self.backoff(1) == 0 { (0, 0, 0) } else { (self.backoff_base, self.backoff_max, self.jitter) }
    }

    /// The nearest settings within the ranges.
    pub(super) fn normal(mut self) -> Self {
        let Settings { backoff_base, backoff_max, aging, maxlen, concurrency, .. } = &mut self;
        for number in [backoff_base, backoff_max, aging, maxlen, concurrency] {
            *number = (*number).min(MAX_TIME);
        }
        for field in Self::FURTHER {
            let value = (field.get)(&self).min(field.most);
            (field.set)(&mut self, value);
        }
        for rate in [&mut self.rate, &mut self.group_rate] {
            *rate = rate.and_then(|Rate { limit, window }| {
                (limit > 0 && window > 0).then_some(Rate { limit: limit.min(MAX_TIME), window: window.min(MAX_TIME) })
            });
        }
        self
    }

    /// The settings from which it follows when a group opens.
    pub(super) fn of_groups(&self) -> (u64, Option<Rate>, Order) {
        (self.group_concurrency, self.group_rate, self.order())
    }

    /// Whether a setting of groups is on.
    pub(super) fn concern_groups(&self) -> bool {
        self.group_concurrency > 0 || self.group_rate.is_some() || self.ordered
    }

    /// The order in which the jobs of a group are served.
    pub(super) fn order(&self) -> Order {
        Order { aging: self.aging, by_push: self.ordered }
    }
}

/// Spreads numbers that lie close together over all 64 bits (the finalizer of SplitMix64, Steele et al. 2014).
fn scramble(number: u64) -> u64 {
    let x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::scramble;

    /// Jitter is the same on every server and in every version: the first two numbers of SplitMix64 that begins at 0.
    #[test]
    fn jitter_is_that_of_splitmix64() {
        assert_eq!(scramble(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(scramble(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }
}
