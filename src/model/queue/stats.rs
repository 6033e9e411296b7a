//! ZQ.STATS.

use super::field::Field;
use super::job::State;
use super::node::{CLAIMED, FALLING_DUE, TreeId};
use super::{MAX_NOW, MAX_TOKEN, Millis, NEVER, Queue};
use crate::model::chunks::NIL;

/// The counters of a queue since its creation. They are replicated, so they are equal on master and replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pushed jobs, including replacements.
    pub pushed: u64,
    /// Claims.
    pub claimed: u64,
    /// Acknowledged jobs. Each occurrence of a recurring job counts.
    pub acked: u64,
    /// NACKs.
    pub nacked: u64,
    /// Jobs removed by CANCEL.
    pub cancelled: u64,
    /// Dead letters made ready by REDRIVE.
    pub redriven: u64,
    /// Expired leases of jobs that an effect has moved since. [`Stats`] adds the other expired leases.
    pub expired_leases: u64,
    /// Pushes that replaced a job.
    pub replaced: u64,
    /// Recurring jobs (EVERY) that got their next occurrence after an ACK, or because an occurrence had expired.
    pub recurred: u64,
    /// Occurrences of recurring jobs whose last lease expired. An occurrence counts when an effect moves the job.
    /// [`Stats`] adds the occurrences of jobs that no effect has moved yet.
    pub missed: u64,
    /// Jobs removed by CLEAN.
    pub cleaned: u64,
    /// Dead letters dropped because of DEADLEN and DEADTTL.
    pub dropped: u64,
    /// Claims that ended because the job was replaced or cancelled.
    pub revoked: u64,
    /// ACKs and NACKs after the lease had expired.
    pub late: u64,
    /// Jobs, and occurrences of recurring jobs, dropped because their TTL had ended.
    pub expired: u64,
}

macro_rules! counters {
    ($($field:ident $name:literal)*) => {
        &[$(Field::plain($name, MAX_TOKEN, |counters| counters.$field, |counters, count| counters.$field = count)),*]
    };
}

impl Counters {
    /// All counters, in the order of the replies.
    pub const FIELDS: &[Field<Counters>] = counters! {
        pushed "pushed"
        claimed "claimed_total"
        acked "acked"
        nacked "nacked"
        cancelled "cancelled"
        redriven "redriven"
        expired_leases "expired_leases"
        replaced "replaced"
        recurred "recurred"
        missed "missed"
        cleaned "cleaned"
        dropped "dropped"
        revoked "revoked"
        late "late"
        expired "expired"
    };
}

/// The length of [`Queue::stored_states`].
pub const STORED_STATES: usize = 5;

/// The stats of a queue, by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Jobs that are due, even if PAUSED, CONCURRENCY or RATE prevents a claim.
    pub ready: u64,
    /// Jobs that are due later.
    pub delayed: u64,
    /// Jobs with a lease that has not expired.
    pub claimed: u64,
    /// Dead letters.
    pub dead: u64,
    /// The counters, with `expired_leases` and `missed` by the clock.
    pub totals: Counters,
    /// The due time of the ready job that has waited longest.
    pub oldest_ready: Option<Millis>,
}

impl Queue {
    /// Returns the stats. O(log n).
    pub fn stats(&self, now: Millis) -> Stats {
        let now = now.min(MAX_NOW);
        let mut totals = self.counters;
        for tree in CLAIMED {
            let ended = self.count_until(None, tree, now);
            totals.expired_leases = totals.expired_leases.saturating_add(ended);
        }
        totals.missed = totals.missed.saturating_add(self.count_until(None, TreeId::Recurring, now));
        Stats {
            ready: self.count(now, State::Ready),
            delayed: self.count(now, State::Delayed),
            claimed: self.count(now, State::Claimed),
            dead: self.count(now, State::Dead),
            totals,
            oldest_ready: self.oldest_ready(now),
        }
    }

    /// Returns two times: the first due time among the jobs that are ready whatever the clock says, and the first due
    /// time among all other jobs.
    fn first_dues(&self) -> [Option<Millis>; 2] {
        let first = |tree| match self.first(None, tree) {
            NIL => NEVER,
            slot => self.jobs[slot].node.time,
        };
        let others = FALLING_DUE.map(first).into_iter().fold(self.first_return(), Millis::min);
        [first(TreeId::Ready), others].map(|time| (time != NEVER).then_some(time))
    }

    fn oldest_ready(&self, now: Millis) -> Option<Millis> {
        let [ready, other] = self.first_dues();
        ready.into_iter().chain(other.filter(|&time| time <= now)).min()
    }

    /// Returns the number of jobs by stored state, which does not depend on the clock: ready, delayed, claimed, claimed for the last time
    /// (dead when the lease expires), dead. O(1).
    pub fn stored_states(&self) -> [u64; STORED_STATES] {
        let leased = [TreeId::Claimed, TreeId::Retrying, TreeId::Recurring].map(|tree| self.count_all(None, tree));
        let delayed = [TreeId::Delayed, TreeId::Upcoming].map(|tree| self.count_all(None, tree));
        let [ready, spent, dead] = [TreeId::Ready, TreeId::Spent, TreeId::Dead].map(|tree| self.count_all(None, tree));
        [ready, delayed.iter().sum(), leased.iter().sum(), spent, dead]
    }

    /// Returns the earliest due time in the queue. The due time of a claimed job is the time at which the job is due
    /// again. O(log n).
    pub fn first_due(&self) -> Option<Millis> {
        self.first_dues().into_iter().flatten().min()
    }
}
