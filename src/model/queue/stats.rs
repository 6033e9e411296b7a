//! ZQ.STATS.

use super::further::Field;
use super::job::State;
use super::node::{CLAIMED, FALLING_DUE, Tree};
use super::{MAX_NOW, MAX_TOKEN, Millis, Queue};
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
    /// ACKs after which the job was scheduled again (EVERY).
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
}

impl Counters {
    /// The counters that came with format 2. Tags of settings are below 100.
    pub const FURTHER: &[Field<Counters>] = &[
        Field { tag: 100, name: "replaced", most: MAX_TOKEN, get: |c| c.replaced, set: |c, value| c.replaced = value },
        Field { tag: 101, name: "recurred", most: MAX_TOKEN, get: |c| c.recurred, set: |c, value| c.recurred = value },
        Field { tag: 102, name: "missed", most: MAX_TOKEN, get: |c| c.missed, set: |c, value| c.missed = value },
        Field { tag: 103, name: "cleaned", most: MAX_TOKEN, get: |c| c.cleaned, set: |c, value| c.cleaned = value },
        Field { tag: 104, name: "dropped", most: MAX_TOKEN, get: |c| c.dropped, set: |c, value| c.dropped = value },
        Field { tag: 105, name: "revoked", most: MAX_TOKEN, get: |c| c.revoked, set: |c, value| c.revoked = value },
        Field { tag: 106, name: "late", most: MAX_TOKEN, get: |c| c.late, set: |c, value| c.late = value },
    ];
}

/// How many numbers [`Queue::stored_states`] has.
pub const STORED_STATES: usize = 5;

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
    /// Totals, with `expired_leases` and `missed` as of now.
    pub totals: Counters,
    /// The due time of the ready job that has been due the longest.
    pub oldest_ready: Option<Millis>,
}

impl Queue {
    /// The figures of the queue. O(log n).
    pub fn stats(&self, now: Millis) -> Stats {
        let now = now.min(MAX_NOW);
        let mut totals = self.counters;
        for tree in CLAIMED {
            let ended = self.count_until(tree, now);
            totals.expired_leases = totals.expired_leases.saturating_add(ended);
        }
        totals.missed = totals.missed.saturating_add(self.count_until(Tree::Recurring, now));
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
        let first = |tree| {
            let slot = self.first(tree);
            (slot != NIL).then(|| self.jobs[slot].node.time)
        };
        let past = |tree| first(tree).filter(|&time| time <= now);
        let firsts = FALLING_DUE.map(past).into_iter().chain([first(Tree::Ready)]);
        let returned = self.first_return().map(|((time, ..), _)| time).filter(|&time| time <= now);
        firsts.flatten().chain(returned).min()
    }

    /// Jobs by their stored state, which the clock does not change: ready, delayed, claimed, claimed for the last time (dead when
    /// the lease ends), dead. O(1).
    pub fn stored_states(&self) -> [u64; STORED_STATES] {
        let leased = [Tree::Leased, Tree::Retrying, Tree::Recurring].map(|tree| self.count_all(tree));
        let delayed = [Tree::Scheduled, Tree::Upcoming].map(|tree| self.count_all(tree));
        let [ready, spent, dead] = [Tree::Ready, Tree::Spent, Tree::Dead].map(|tree| self.count_all(tree));
        [ready, delayed.iter().sum(), leased.iter().sum(), spent, dead]
    }

    /// The first moment at which a job is due that is there: the due time of a waiting one, or when a claimed one is due again. O(log n).
    pub fn first_due(&self) -> Option<Millis> {
        let trees = FALLING_DUE.into_iter().chain([Tree::Ready]);
        let times =
            trees.map(|tree| self.first(tree)).filter(|&slot| slot != NIL).map(|slot| self.jobs[slot].node.time);
        times.chain(self.first_return().map(|((time, ..), _)| time)).min()
    }
}
