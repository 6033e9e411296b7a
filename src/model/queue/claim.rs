//! ZQ.CLAIM.

use super::effect::{Change, Effect};
use super::expiry::DROPPED_BY_CLAIM;
use super::job::MAX_WORKER;
use super::node::{FALLING_DUE, RECURRENCES, RETRIES, Roots, TreeId};
use super::tree::Item;
use super::{MAX_NOW, MAX_TIME, MAX_TOKEN, Micros, Millis, Queue, Settings, stretch, tree};
use crate::model::chunks::NIL;

/// One job claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed<'a> {
    /// The job's id.
    pub id: &'a [u8],
    /// The job's payload.
    pub payload: &'a [u8],
    /// Higher than every token before it in this queue, and at least the clock in microseconds.
    pub token: u64,
    /// 1 for the first delivery.
    pub attempt: u32,
    /// When the lease ends.
    pub deadline: Millis,
    /// The worker that holds the job; empty if it gave no name.
    pub worker: &'a [u8],
}

impl Queue {
    /// Claims up to `count` ready jobs, best first, until `deadline` (brought to `now + 1` at least). As many as PAUSED,
    /// CONCURRENCY and RATE allow. O(log n) for each job. `clock` is `now` in microseconds. `worker`: who
    /// claims, or empty. Passes the effects to `sink`.
    ///
    /// Drops the expired jobs that would be served first, at most [`DROPPED_BY_CLAIM`].
    ///
    /// A claim that gets no job can have effects: it may have dropped expired jobs. After a step back of the clock, it settles units of RATE
    /// that are held longer than a window, because [`Queue::next_wake`] relies on that.
    ///
    /// # Tokens
    ///
    /// A token is one more than the last one, or the clock in microseconds if that is more. So tokens grow as long as the queue does
    /// not lose its memory; and when it does (a crash that loses the last second, a failover, a RESTORE of an older value, a DEL), the
    /// clock has passed every token that was handed out. That holds because a claim takes the server's only thread longer than the
    /// microsecond that its token takes: 3 us alone, 1.5 us each in a claim of 100,000 (release build on Redis 7.0.15, two busy cores).
    /// On a machine twice as fast, a claim of 100,000 would be 25 ms ahead of the clock when it ends: less than a restart or a failover
    /// takes, and what a RESTORE of an older value right after it could meet. Two things break it for good, and no number kept in
    /// the queue could help: the state is lost *and* the clock is set back, or the server that takes over has a clock that lags behind
    /// by more than the failover took.
    pub fn claim<'a>(
        &'a mut self,
        clock: Micros,
        deadline: Millis,
        count: u64,
        worker: &'a [u8],
        mut sink: impl FnMut(&Effect<'_>),
    ) -> Vec<Claimed<'a>> {
        let worker = &worker[..worker.len().min(MAX_WORKER)];
        let now = (clock / 1000).min(MAX_NOW);
        let deadline = deadline.clamp(now + 1, MAX_TIME);
        let mut slots = Vec::new();
        // Dropping a job moves others to new slots, so claimed jobs are then found by their IDs.
        let (has_expired, mut ids) = (self.has_expired(now), Vec::<Box<[u8]>>::new());
        let (most, mut to_drop) = (self.openings(now), DROPPED_BY_CLAIM);
        if most > 0 {
            self.drop_first(now, &mut to_drop, &mut sink);
        }
        for _ in 0..most.min(count) {
            self.drop_first(now, &mut to_drop, &mut sink);
            // A lease just given lies ahead, so no job is met twice.
            let slot = self.best_ready(now);
            if slot == NIL || has_expired && self.is_expired(slot, now) {
                break;
            }
            let token = self.next_token(clock);
            let change = Change::Claim { id: self.jobs[slot].id(), token, deadline, worker };
            sink(&Effect { at: now, change });
            self.change_job(slot, now, &Change::Claim { id: b"", token, deadline, worker });
            if has_expired {
                ids.push(self.jobs[slot].id().into());
            } else {
                slots.push(slot);
            }
        }
        slots.extend(ids.iter().filter_map(|id| self.slot_of(id)));
        // A claim that got something has settled the log on its way.
        let unsettled = self.has_late_units(now);
        if unsettled {
            self.settle(now);
            sink(&Effect { at: now, change: Change::SettleRate });
        }
        let jobs = slots.iter().map(|&slot| {
            let job = &self.jobs[slot];
            Claimed {
                id: job.id(),
                payload: job.payload(),
                token: job.token,
                attempt: job.attempts,
                deadline: job.node.time,
                worker,
            }
        });
        jobs.collect()
    }

    /// How many jobs [`claim`](Self::claim) would give now. With groups it may be fewer, as those have limits of their own, and behind the first one
    /// some may have expired: but one at least if this is not 0. O(log n).
    pub fn claimable(&self, now: Millis) -> u64 {
        let now = now.min(MAX_NOW);
        let most = self.openings(now);
        if most > 0 && self.is_held_up(now) { 0 } else { most }
    }

    /// The same, expired jobs included.
    pub(super) fn openings(&self, now: Millis) -> u64 {
        if self.settings.paused {
            return 0;
        }
        if self.groups.as_ref().is_some_and(|groups| groups.opens() > now) {
            return 0;
        }
        let ready = self.count(now, super::State::Ready);
        let tokens = MAX_TOKEN - self.last_token;
        ready.min(self.free_leases(now)).min(self.free_units(now)).min(tokens)
    }

    /// Whether a claim, also one of no jobs, does something without which nothing can be claimed for longer than the contract says: it drops expired
    /// jobs, and settles units of RATE or GROUPRATE that are held longer than a window, because the clock has been set back. O(log n).
    pub fn needs_settling(&self, now: Millis) -> bool {
        let now = now.min(MAX_NOW);
        self.openings(now) > 0 && self.is_held_up(now) || self.has_late_units(now)
    }

    /// Whether units are held longer than a window. O(1).
    fn has_late_units(&self, now: Millis) -> bool {
        let Settings { rate, group_rate, .. } = self.settings;
        let of_groups = |rate| self.groups.as_ref().is_some_and(|groups| groups.unsettled(rate, now));
        rate.is_some_and(|rate| self.rate_log.unsettled(rate, now)) || group_rate.is_some_and(of_groups)
    }

    /// Holds no unit of RATE longer than a window from `at`. Of as many groups as one call may deal with, holds no unit of GROUPRATE longer
    /// than a window, and forgets those that are back. Returns of how many groups.
    pub(super) fn settle(&mut self, at: Millis) -> usize {
        if let Some(rate) = self.settings.rate {
            self.rate_log.settle(rate, at);
        }
        self.settle_groups(at)
    }

    fn free_leases(&self, now: Millis) -> u64 {
        match self.settings.concurrency {
            0 => u64::MAX,
            most => most.saturating_sub(self.count(now, super::State::Claimed)),
        }
    }

    fn free_units(&self, now: Millis) -> u64 {
        let rate = self.settings.rate;
        rate.map_or(u64::MAX, |rate| self.rate_log.free(rate, now))
    }

    /// The ready job to be served first, or `NIL`.
    pub(super) fn best_ready(&self, now: Millis) -> u32 {
        match &self.groups {
            None => self.best_of(&self.roots, now),
            Some(groups) => self.best_in_turn(groups, now),
        }
    }

    /// The ready job of these trees to be served first, or `NIL`.
    pub(super) fn best_of(&self, roots: &Roots, now: Millis) -> u32 {
        let order = self.order();
        let ready = tree::best(&self.jobs, roots[TreeId::Ready as usize]);
        let best = FALLING_DUE
            .into_iter()
            .map(|tree| stretch::best_until(&self.jobs, roots[tree as usize], now, order))
            .fold(ready, |a, b| order.better(&self.jobs, a, b));
        self.or_returned(best, &[roots[RETRIES], roots[RECURRENCES]], now)
    }

    /// The job to be served first of `best` and those of the trees of returns that have come back.
    pub(super) fn or_returned(&self, best: u32, trees: &[u32], now: Millis) -> u32 {
        let (order, returns) = (self.order(), self.returns.own());
        let returned = trees
            .iter()
            .map(|&root| stretch::best_until(returns, root, now, order))
            .fold(NIL, |a, b| order.better(returns, a, b));
        if returned == NIL {
            return best;
        }
        let is_first = best == NIL || order.rank(returns[returned].node()) < order.rank(&self.jobs[best].node);
        if is_first { returns[returned].job() } else { best }
    }

    /// Half of the tokens are left to be counted up to, whatever the clock says.
    fn next_token(&self, clock: Micros) -> u64 {
        clock.clamp(1, MAX_TOKEN / 2).max(self.last_token + 1)
    }
}
