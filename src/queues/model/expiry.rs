//! TTL: when a job expires, and how expired jobs are dropped.
//!
//! A ready or delayed job expires when its TTL ends. A claim or the upkeep then drops the job. A recurring job is not
//! removed, but waits for its next occurrence. Until a claim or the upkeep acts, the expired job still counts as ready
//! or delayed. A claim drops only expired jobs that would be served first, at most [`DROPPED_BY_CLAIM`].
//!
//! [`Queue::expiries`] contains the following jobs, each with the time at which the upkeep must act:
//!
//! - a job with a TTL: when the TTL ends, or when the job's lease expires, if that is later,
//! - a job in [`TreeId::ClaimedLast`] with a follower (AGAIN): when the lease expires, because the job becomes a dead
//!   letter,
//! - a job with a waiting declaration (DECLARE): when the lease expires, because the job then becomes what it says.

use super::Full;
use super::effect::{Effect, JobChange};
use super::node::{State, TreeId};
use super::{MAX_NOW, Millis, NEVER, Queue};
use crate::base::chunks::NIL;
use crate::base::time;

/// The maximum number of expired jobs that a claim drops. If the queue has a million jobs in 1,000 groups, dropping 32
/// jobs takes about half a millisecond.
pub(super) const DROPPED_BY_CLAIM: usize = 32;

impl Queue {
    /// Whether the TTL of a waiting job (ready or delayed) has ended.
    pub(super) fn is_expired(&self, slot: u32, at: Millis) -> bool {
        let job = &self.jobs[slot];
        job.expires(at, &self.settings).is_some_and(|expires| expires <= at)
            && matches!(self.state_of(slot, at), State::Ready | State::Delayed)
    }

    /// Returns the time at which the upkeep must act on a job, or [`NEVER`]. Assumes that no command changes the job.
    pub(super) fn expiry(&self, slot: u32) -> Millis {
        let job = &self.jobs[slot];
        let time = job.node.time;
        match (job.node.tree, job.ttl()) {
            _ if self.has_declaration(slot) => time,
            (TreeId::ClaimedLast, _) if self.has_follower(slot) => time,
            (TreeId::ClaimedLast | TreeId::Dead, _) | (_, None) => NEVER,
            (TreeId::Claimed | TreeId::ClaimedBackoff, Some(ttl)) => ttl.expires.max(time),
            (TreeId::ClaimedRecurring, Some(ttl)) => time::after_at_most(job.back_at(&self.settings), ttl.ttl),
            (_, Some(ttl)) => ttl.expires,
        }
    }

    /// Adds a job to `expiries`. Must be called after the job has moved to another tree, and after its follower
    /// ([`super::followers`]) has changed.
    pub(super) fn link_expiry(&mut self, slot: u32) {
        let expiry = self.expiry(slot);
        if expiry != NEVER {
            self.expiries.insert((expiry, slot));
        }
    }

    /// Removes a job from `expiries`. Must be called before the job moves to another tree, and before its follower
    /// ([`super::followers`]) changes.
    pub(super) fn unlink_expiry(&mut self, slot: u32) {
        if !self.expiries.is_empty() {
            self.expiries.remove(&(self.expiry(slot), slot));
        }
    }

    /// Updates a job's entry in `expiries` after the job has moved from the slot `from` to `slot`.
    pub(super) fn renumber_expiry(&mut self, from: u32, slot: u32) {
        if !self.expiries.is_empty() {
            let expiry = self.expiry(slot);
            if self.expiries.remove(&(expiry, from)) {
                self.expiries.insert((expiry, slot));
            }
        }
    }

    /// Returns the earliest time in [`Queue::expiries`]. O(log n).
    pub(super) fn first_expiry(&self) -> Option<Millis> {
        self.expiries.first().map(|&(expiry, _)| expiry)
    }

    pub(super) fn has_expired(&self, at: Millis) -> bool {
        self.first_expiry().is_some_and(|first| first <= at)
    }

    /// Whether the next job to serve has expired. A claim must drop this job before it gets another one. O(log n).
    pub fn is_next_expired(&self, now: Millis) -> bool {
        let slot = if self.has_expired(now) { self.best_ready(now) } else { NIL };
        slot != NIL && self.is_expired(slot, now)
    }

    /// Drops up to `left` expired jobs from the front of the serving order. Subtracts their number from `left`.
    pub(super) fn drop_first(&mut self, at: Millis, left: &mut usize, sink: &mut impl FnMut(&Effect<'_>)) {
        while *left > 0 && self.has_expired(at) {
            let slot = self.best_ready(at);
            if slot == NIL || !self.is_expired(slot, at) {
                return;
            }
            self.expire(slot, at, sink);
            *left -= 1;
        }
    }

    /// Drops expired jobs. If the lease of a job's last attempt has expired, and a push of the same ID with AGAIN waits
    /// for this, the pushed job replaces the old job. Carries out declarations that wait behind an expired lease. Acts on at most `most` jobs, and returns their number.
    /// O(log n) per job.
    pub fn drop_expired(&mut self, at: Millis, most: usize, mut sink: impl FnMut(&Effect<'_>)) -> usize {
        for dropped in 0..most {
            let Some(&(expiry, slot)) = self.expiries.first() else { return dropped };
            if expiry > at {
                return dropped;
            }
            if self.jobs[slot].node.tree == TreeId::ClaimedLast || self.has_declaration(slot) {
                self.carry_out(slot, at, JobChange::Follow, &mut sink);
            } else {
                self.expire(slot, at, &mut sink);
            }
        }
        most
    }

    /// Drops the job with this ID if it has expired, so that a push can use the ID.
    ///
    /// # Errors
    ///
    /// [`Full`] if the queue would refuse the push even then. In this case, the job stays, because a push that returns
    /// an error must change nothing.
    pub fn drop_if_expired(&mut self, now: Millis, id: &[u8], mut sink: impl FnMut(&Effect<'_>)) -> Result<(), Full> {
        let at = now.min(MAX_NOW);
        if let Some(slot) = self.slot_of(id).filter(|&slot| self.is_expired(slot, at)) {
            // A job with EVERY stays in the queue, so a push of its ID adds no job.
            let would_grow = self.jobs[slot].recurrence().is_none();
            if would_grow && self.is_overfull(at) || !self.has_push_numbers() {
                return Err(Full);
            }
            self.expire(slot, at, &mut sink);
        }
        Ok(())
    }

    fn expire(&mut self, slot: u32, at: Millis, sink: &mut impl FnMut(&Effect<'_>)) {
        let next_due = self.jobs[slot].recurrence().and_then(|_| self.next_occurrence(slot, at));
        self.carry_out(slot, at, JobChange::Expire { next_due }, sink);
    }
}
