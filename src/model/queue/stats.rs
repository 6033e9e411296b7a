//! ZQ.STATS.

use super::field::Field;
use super::job::State;
use super::node::{CLAIMED, FALLING_DUE, TreeId};
use super::{MAX_NOW, MAX_TOKEN, Millis, NEVER, Queue};
use crate::model::chunks::NIL;

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
    /// Pushes that took the place of a job.
    pub replaced: u64,
    /// Jobs that were scheduled again (EVERY) after an ACK, or because an occurrence had expired.
    pub recurred: u64,
    /// Occurrences of a job with EVERY that ran out of attempts, counted when their job was next touched. [`Stats`] adds the others.
    pub missed: u64,
    /// Jobs removed by CLEAN.
    pub cleaned: u64,
    /// Dead letters that went because of DEADLEN and DEADTTL.
    pub dropped: u64,
    /// Claims that ended because the job was replaced or cancelled.
    pub revoked: u64,
    /// ACKs and NACKs that came after their lease had ended.
    pub late: u64,
    /// Jobs, and occurrences of recurring ones, that went because their TTL was over.
    pub expired: u64,
}

macro_rules! counters {
    ($($field:ident $name:literal)*) => {
        &[$(Field::plain($name, MAX_TOKEN, |counters| counters.$field, |counters, count| counters.$field = count)),*]
    };
}

impl Counters {
    /// All counters, in the order in which replies show them.
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

/// How many numbers [`Queue::stored_states`] has.
pub const STORED_STATES: usize = 5;

/// The stats of a queue by the clock.
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
    /// Totals, with `expired_leases` and `missed` as of now.
    pub totals: Counters,
    /// The due time of the ready job that has been due the longest.
    pub oldest_ready: Option<Millis>,
}

impl Queue {
    /// The stats of the queue. O(log n).
    pub fn stats(&self, now: Millis) -> Stats {
        let now = now.min(MAX_NOW);
        let mut totals = self.counters;
        for tree in CLAIMED {
            let ended = self.count_until(tree, now);
            totals.expired_leases = totals.expired_leases.saturating_add(ended);
        }
        totals.missed = totals.missed.saturating_add(self.count_until(TreeId::Recurring, now));
        Stats {
            ready: self.count(now, State::Ready),
            delayed: self.count(now, State::Delayed),
            claimed: self.count(now, State::Claimed),
            dead: self.count(now, State::Dead),
            totals,
            oldest_ready: self.oldest_ready(now),
        }
    }

    /// When the first job is due of those that are ready whatever the clock says, and of the others that wait or come back.
    fn first_dues(&self) -> [Option<Millis>; 2] {
        let first = |tree| match self.first(tree) {
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

    /// Jobs by their stored state, which the clock does not change: ready, delayed, claimed, claimed for the last time (dead when
    /// the lease ends), dead. O(1).
    pub fn stored_states(&self) -> [u64; STORED_STATES] {
        let leased = [TreeId::Claimed, TreeId::Retrying, TreeId::Recurring].map(|tree| self.count_all(tree));
        let delayed = [TreeId::Delayed, TreeId::Upcoming].map(|tree| self.count_all(tree));
        let [ready, spent, dead] = [TreeId::Ready, TreeId::Spent, TreeId::Dead].map(|tree| self.count_all(tree));
        [ready, delayed.iter().sum(), leased.iter().sum(), spent, dead]
    }

    /// The first moment at which a job is due that is there: the due time of a waiting one, or when a claimed one is due again. O(log n).
    pub fn first_due(&self) -> Option<Millis> {
        self.first_dues().into_iter().flatten().min()
    }
}
