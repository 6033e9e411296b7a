//! ZQ.CLAIM takes ready jobs in serving order, and gives each a lease and a token.

use super::effect::{Change, Effect, JobChange};
use super::job_data::MAX_WORKER;
use super::node::{JobNode, Roots, State, TreeId};
use super::query::{better, parts};
use super::{MAX_COUNT, MAX_NOW, MAX_TIME, Micros, Millis, Queue, Settings};
use crate::base::chunks::NIL;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed<'a> {
    pub id: &'a [u8],
    pub payload: &'a [u8],
    /// The token that ACK and NACK of this claim need. It is greater than all earlier tokens of this queue, and at
    /// least the clock in microseconds.
    pub token: u64,
    /// The number of this attempt: 1 for the first attempt.
    pub attempt: u32,
    pub deadline: Millis,
}

impl Queue {
    /// Claims up to `count` ready jobs in serving order. PAUSED, CONCURRENCY and RATE can reduce this number. The
    /// leases expire at `deadline`, or at `now + 1` if `deadline` is earlier. `clock` is the current time in
    /// microseconds, and `now` is this time in milliseconds. `worker` is the worker's name, or empty. The function
    /// passes each change to `sink` as an effect. O(log n) per job.
    ///
    /// RATE limits the claims per window: each claim takes a unit, which becomes available again one window later. If
    /// the clock was set back, a unit would stay taken for longer. A claim shortens this time, even if the claim gets
    /// no job, and passes the effect to `sink` too.
    ///
    /// # Tokens
    ///
    /// A token is the clock in microseconds. If the clock has not passed the previous token, the new token is the
    /// previous one plus one. So tokens grow as long as the queue keeps its state.
    ///
    /// A crash, a failover, a RESTORE of an older value or a DEL can lose the last tokens. The next claim can repeat a
    /// lost token only if this token is ahead of the clock. Tokens run ahead of the clock only if a claim takes less than
    /// one microsecond per job. Measured: 3 us for one job, and 1.5 us per job for 100,000 jobs (release build on Redis
    /// 7.0.15, two busy cores). On a faster server, with 0.75 us per job, a claim of 100,000 jobs would take 75 ms, and
    /// its last token would be 25 ms ahead of the clock. A restart or a failover takes longer than that, so the first
    /// claim after it repeats no token.
    ///
    /// A token can occur twice in three cases:
    ///
    /// - a RESTORE of an older value, or a DEL, right after a claim of very many jobs,
    /// - the queue loses state, and the clock is set back,
    /// - a failover to a server whose clock is so far behind that it has not yet reached the last token.
    pub fn claim<'a>(
        &'a mut self,
        clock: Micros,
        deadline: Millis,
        count: u64,
        worker: &[u8],
        mut sink: impl FnMut(&Effect<'_>),
    ) -> Vec<Claimed<'a>> {
        let worker = &worker[..worker.len().min(MAX_WORKER)];
        let now = (clock / 1000).min(MAX_NOW);
        let deadline = deadline.clamp(now + 1, MAX_TIME);
        let mut slots = Vec::new();
        for _ in 0..self.free(now).min(count) {
            // A job with a new lease is not ready, so the loop does not meet a job twice.
            let slot = self.next_to_claim(now, &mut sink);
            if slot == NIL {
                break;
            }
            let token = self.next_token(clock);
            self.carry_out(slot, now, JobChange::Claim { token, deadline, worker }, &mut sink);
            slots.push(slot);
        }
        self.settle_if_needed(now, sink);
        let jobs = slots.iter().map(|&slot| {
            let job = &self.jobs[slot];
            Claimed {
                id: job.id(),
                payload: job.payload(),
                token: job.token,
                attempt: job.attempts,
                deadline: job.node.time,
            }
        });
        jobs.collect()
    }

    /// Returns the maximum number of jobs that a claim may take at `now`. PAUSED, CONCURRENCY and RATE limit this
    /// number. So do the tokens: the last token must not exceed [`MAX_COUNT`].
    pub(super) fn free(&self, now: Millis) -> u64 {
        let Settings { paused, concurrency, rate, .. } = *self.settings;
        if paused {
            return 0;
        }
        let leases = match concurrency {
            0 => u64::MAX,
            most => most.saturating_sub(self.count(now, State::Claimed)),
        };
        let units = rate.map_or(u64::MAX, |rate| self.rate_log.free(rate, now));
        leases.min(units).min(MAX_COUNT - self.last_token)
    }

    /// Whether a unit of RATE or GROUPRATE would stay taken for longer than one window from `now`. If so, a claim must
    /// run even if it can get no job, because the claim limits this time to one window. O(1).
    pub fn needs_settling(&self, now: Millis) -> bool {
        let now = now.min(MAX_NOW);
        let Settings { rate, group_rate, .. } = *self.settings;
        let of_groups = |rate| self.groups.as_ref().is_some_and(|groups| groups.needs_settling(rate, now));
        rate.is_some_and(|rate| self.rate_log.needs_settling(rate, now)) || group_rate.is_some_and(of_groups)
    }

    /// Limits the time for which the units of RATE stay taken to one window from `at`. Does the same for the units of
    /// GROUPRATE, but only of a limited number of groups. Removes units that are available again from the logs. Returns
    /// the number of changed groups.
    pub(super) fn settle_rates(&mut self, at: Millis) -> usize {
        if let Some(rate) = self.settings.rate {
            self.rate_log.settle(rate, at);
        }
        self.settle_groups(at)
    }

    /// Returns the ready job to serve first, or `NIL`. Skips expired jobs, and groups that allow no claim at `now`.
    pub(super) fn best_ready(&self, now: Millis) -> u32 {
        match &self.groups {
            None => self.best_of(&self.roots, now),
            Some(groups) => self.best_in_turn(groups, now),
        }
    }

    /// Whether a push with DECLARE waits behind the job that a claim at `now` would take. The claim first carries out
    /// this push, which can make the job unclaimable. O(1) unless a push waits or a TTL has ended, otherwise O(log n).
    pub fn is_declaration_due(&self, now: Millis) -> bool {
        let now = now.min(MAX_NOW);
        let may_be = self.expiries.first().is_some_and(|&(expiry, _)| expiry <= now) && self.free(now) > 0;
        let slot = if may_be { self.best_ready(now) } else { NIL };
        slot != NIL && self.has_declaration(slot)
    }

    /// Carries out the pushes with DECLARE that wait behind the jobs which a claim at `now` would take, until the claim
    /// would take a job without such a push. Also does what a claim does if [`needs_settling`](Self::needs_settling).
    pub fn prepare_claim(&mut self, now: Millis, mut sink: impl FnMut(&Effect<'_>)) {
        let now = now.min(MAX_NOW);
        self.next_to_claim(now, &mut sink);
        self.settle_if_needed(now, sink);
    }

    fn settle_if_needed(&mut self, now: Millis, mut sink: impl FnMut(&Effect<'_>)) {
        if self.needs_settling(now) {
            self.settle_rates(now);
            sink(&Effect { at: now, change: Change::SettleRates });
        }
    }

    /// Returns the ready job to serve first, or `NIL`. If a push with DECLARE has waited for the end of this job's last
    /// claim, carries out this push and searches again, because DECLARE can change the serving order.
    fn next_to_claim(&mut self, now: Millis, sink: &mut impl FnMut(&Effect<'_>)) -> u32 {
        loop {
            let slot = self.best_ready(now);
            if slot == NIL || !self.has_declaration(slot) {
                return slot;
            }
            self.carry_out(slot, now, JobChange::Follow, &mut *sink);
        }
    }

    /// Returns the first ready job of one group in serving order, or `NIL`. Skips expired jobs.
    pub(super) fn best_of(&self, roots: &Roots, now: Millis) -> u32 {
        let order = self.order();
        let bests = parts(State::Ready).iter().filter_map(|&(id, part)| self.tree(roots, id).best(part, now, order));
        let best = bests.reduce(|a, b| better(order, a, b));
        let best = if roots.have_ttl() { self.best_among_ttl(roots, &TreeId::OF_TTL, now, now, best) } else { best };
        best.map_or(NIL, |(_, slot)| slot)
    }

    /// Returns the job to serve first: the job `found`, or the best job of one of the `trees`
    /// ([`best_with_ttl`](Self::best_with_ttl)).
    pub(super) fn best_among_ttl<'a>(
        &'a self,
        roots: &Roots,
        trees: &[TreeId],
        now: Millis,
        due: Millis,
        found: Option<(&'a JobNode, u32)>,
    ) -> Option<(&'a JobNode, u32)> {
        let with_ttl = trees.iter().filter_map(|&id| self.best_with_ttl(roots[id], now, due));
        found.into_iter().chain(with_ttl).reduce(|a, b| better(self.order(), a, b))
    }

    /// Returns the next token. If `clock` is above `MAX_COUNT / 2`, uses `MAX_COUNT / 2` instead. So even a wrong clock
    /// leaves at least half of the tokens for later claims.
    fn next_token(&self, clock: Micros) -> u64 {
        clock.clamp(1, MAX_COUNT / 2).max(self.last_token + 1)
    }
}
