//! ZQ.STATS.

use super::job::{NIL, Place, State};
use super::{MAX_NOW, Millis, Queue, stretch, tree};

/// What has been done to a queue since it was made. Replicated: equal on primary and replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Jobs pushed, replacements included.
    pub pushed: u64,
    /// Claims, that is deliveries.
    pub claimed: u64,
    /// Jobs finished; each occurrence of a recurring one counts.
    pub acked: u64,
    /// Jobs given back, to wait or to be dead.
    pub nacked: u64,
    /// Jobs removed by CANCEL.
    pub cancelled: u64,
    /// Dead letters made ready again.
    pub redriven: u64,
    /// Leases that had ended when their job was next touched. [`Stats`] adds those that have ended and wait for it.
    pub expired_leases: u64,
}

/// The figures of a queue by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Due, whether or not PAUSED, CONCURRENCY and RATE let a claim through.
    pub ready: u64,
    /// Due later.
    pub delayed: u64,
    /// Under a lease that has not ended.
    pub claimed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Totals, with `expired_leases` as of now.
    pub totals: Counters,
    /// The due time of the ready job that has been due the longest.
    pub oldest_ready: Option<Millis>,
}

impl Queue {
    /// The figures of the queue. O(log n).
    pub fn stats(&self, now: Millis) -> Stats {
        let now = now.min(MAX_NOW);
        let mut totals = self.counters;
        for place in [Place::Leased, Place::Spent] {
            let ended = stretch::count_until(&self.jobs, self.root(place), now);
            totals.expired_leases = totals.expired_leases.saturating_add(ended);
        }
        Stats {
            ready: self.count(now, State::Ready),
            delayed: self.count(now, State::Delayed),
            claimed: self.count(now, State::Claimed),
            dead: self.count(now, State::Dead),
            totals,
            oldest_ready: self.oldest_ready(now),
        }
    }

    fn oldest_ready(&self, now: Millis) -> Option<Millis> {
        let first = |place| {
            let slot = tree::first(&self.jobs, self.root(place));
            (slot != NIL).then(|| self.jobs[slot].node.time)
        };
        let past = |place| first(place).filter(|&time| time <= now);
        let firsts = [first(Place::Ready), past(Place::Scheduled), past(Place::Leased)];
        firsts.into_iter().flatten().min()
    }
}
