//! What ZQ.CONFIG sets.

use super::rate::Rate;
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
}

impl Settings {
    /// How long a job waits after being given back following its `attempt`-th delivery: min(max, base × 2^(attempt-1)).
    pub fn backoff(&self, attempt: u32) -> Millis {
        let doublings = attempt.saturating_sub(1).min(63);
        let wait = u128::from(self.backoff_base) << doublings;
        wait.min(u128::from(self.backoff_max)) as Millis
    }

    /// The nearest settings within the ranges.
    pub(super) fn normal(mut self) -> Self {
        for duration in [&mut self.backoff_base, &mut self.backoff_max, &mut self.aging] {
            *duration = (*duration).min(MAX_TIME);
        }
        self.maxlen = self.maxlen.min(MAX_TIME);
        self.concurrency = self.concurrency.min(MAX_TIME);
        self.rate = self.rate.and_then(|Rate { limit, window }| {
            (limit > 0 && window > 0).then_some(Rate { limit: limit.min(MAX_TIME), window: window.min(MAX_TIME) })
        });
        self
    }
}
