//! ZQ.CLAIM.

use super::effect::{Change, Effect};
use super::job::{NIL, Place};
use super::{MAX_NOW, MAX_TIME, MAX_TOKEN, Millis, Queue, stretch, tree};

/// Tokens a queue may hand out for each ms of its life, on average, before a queue of the same name made after a DEL
/// could repeat one.
const TOKENS_PER_MS: u64 = 1000;

/// One job claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed<'a> {
    /// The job's id.
    pub id: &'a [u8],
    /// The job's payload.
    pub payload: &'a [u8],
    /// Higher than every token before it in this queue.
    pub token: u64,
    /// 1 for the first delivery.
    pub attempt: u32,
    /// When the lease ends.
    pub deadline: Millis,
}

/// What a claim got.
#[derive(Clone, Debug)]
pub struct Claims<'a> {
    at: Millis,
    /// The jobs, best first; empty when nothing is to be had.
    pub jobs: Vec<Claimed<'a>>,
    settled_rate: bool,
}

impl<'a> Claims<'a> {
    /// What to replicate. There may be an effect although no job was claimed: after a step back of the clock, an empty
    /// claim settles that no unit of RATE is held longer than a window, so that [`Queue::next_wake`] holds.
    pub fn effects(&self) -> impl Iterator<Item = Effect<'a>> {
        let settled = self.settled_rate.then_some(Change::SettleRate);
        let claims = self.jobs.iter().map(|job| Change::Claim { id: job.id, token: job.token, deadline: job.deadline });
        let at = self.at;
        settled.into_iter().chain(claims).map(move |change| Effect { at, change })
    }
}

impl Queue {
    /// Claims up to `count` ready jobs, best first, until `deadline` (brought to `now + 1` at least). As many as PAUSED,
    /// CONCURRENCY and RATE allow. O(log n) for each job.
    pub fn claim(&mut self, now: Millis, deadline: Millis, count: u64) -> Claims<'_> {
        let now = now.min(MAX_NOW);
        let deadline = deadline.clamp(now + 1, MAX_TIME);
        let mut slots = Vec::new();
        for _ in 0..self.claimable(now).min(count) {
            // A lease just given lies ahead, so no job is met twice.
            let slot = self.best_ready(now);
            if slot == NIL {
                break;
            }
            self.lease(slot, now, self.next_token(now), deadline);
            slots.push(slot);
        }
        // A claim that got something has settled the log on its way.
        let rate = self.settings.rate;
        let unsettled = rate.filter(|&rate| self.rate_log.unsettled(rate, now));
        if let Some(rate) = unsettled {
            self.rate_log.settle(rate, now);
        }
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
        Claims { at: now, jobs: jobs.collect(), settled_rate: unsettled.is_some() }
    }

    /// How many jobs [`claim`](Self::claim) would give now: wake no more clients than that. O(log n).
    pub fn claimable(&self, now: Millis) -> u64 {
        let now = now.min(MAX_NOW);
        if self.settings.paused {
            return 0;
        }
        let ready = self.count(now, super::State::Ready);
        let tokens = MAX_TOKEN - self.last_token;
        ready.min(self.free_leases(now)).min(self.free_units(now)).min(tokens)
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
    fn best_ready(&self, now: Millis) -> u32 {
        let order = self.order();
        let ready = tree::best(&self.jobs, self.root(Place::Ready));
        [Place::Scheduled, Place::Leased]
            .into_iter()
            .map(|place| stretch::best_until(&self.jobs, self.root(place), now, order))
            .fold(ready, |a, b| order.better(&self.jobs, a, b))
    }

    /// Tokens count up from the time of the first claim, so that they go on growing when a queue is deleted and made
    /// anew: a worker that slept through it does not hold a token of the new one.
    fn next_token(&self, now: Millis) -> u64 {
        match self.last_token {
            0 => now.saturating_mul(TOKENS_PER_MS).clamp(1, MAX_TOKEN / 2),
            last => last + 1,
        }
    }
}
