//! AGAIN: pushes that wait until a claim ends. They are stored apart from the jobs, as [`notes`](super::notes) are, by the push number of
//! the job in front. A queue without such pushes has no cost for them.

use super::job::{Job, Ttl};
use super::node::TreeId;
use super::push::NewJob;
use super::{Millis, Queue};
use std::collections::BTreeMap;

/// A push that waits until the claim of the job with its id ends.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    payload: Box<[u8]>,
    group: Box<[u8]>,
    due: Millis,
    priority: i32,
    max_attempts: u32,
    every: Option<Millis>,
    ttl: Option<Millis>,
}

impl Follower {
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub fn group(&self) -> &[u8] {
        &self.group
    }

    /// Returns the job that it pushes.
    pub fn job<'a>(&'a self, id: &'a [u8]) -> NewJob<'a> {
        let Follower { ref payload, ref group, due, priority, max_attempts, every, ttl } = *self;
        NewJob { id, payload, group, due, priority, max_attempts, every, ttl }
    }

    fn bytes(&self) -> usize {
        self.payload.len() + self.group.len()
    }
}

/// All followers of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Followers {
    by_seq: BTreeMap<u64, Follower>,
    /// The length of all payloads and group names.
    bytes: usize,
}

impl Followers {
    pub fn len(&self) -> usize {
        self.by_seq.len()
    }

    /// Returns the push that waits behind a job.
    pub fn of(&self, job: &Job) -> Option<&Follower> {
        if self.by_seq.is_empty() { None } else { self.by_seq.get(&job.node.seq) }
    }

    /// Updates the push number of the job in front.
    pub fn renumber(&mut self, from: u64, to: u64) {
        if let Some(follower) = self.by_seq.remove(&from) {
            self.by_seq.insert(to, follower);
        }
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Estimates the memory in bytes.
    pub fn memory_usage(&self) -> usize {
        /// A follower, its key, and its share of a tree whose nodes are two thirds full; two allocations.
        const EACH: usize = (size_of::<Follower>() + size_of::<u64>()) * 3 / 2 + 24;
        self.by_seq.len() * EACH + self.bytes
    }
}

impl Queue {
    pub(super) fn has_follower(&self, slot: u32) -> bool {
        self.followers.of(&self.jobs[slot]).is_some()
    }

    /// Restores a push behind the job with its ID. Returns false, and does nothing, if that job cannot have one.
    pub(super) fn restore_follower(&mut self, new: &NewJob<'_>) -> bool {
        let slot = self
            .slot_of(new.id)
            .filter(|&slot| self.jobs[slot].node.tree != TreeId::Dead && !self.has_follower(slot) && new.possible());
        slot.inspect(|&slot| self.follow(slot, new)).is_some()
    }

    /// Makes a push wait behind a job, in place of any other.
    pub(super) fn follow(&mut self, slot: u32, new: &NewJob<'_>) {
        let NewJob { id: _, payload, group, due, priority, max_attempts, every, ttl } = *new;
        let follower =
            Follower { payload: payload.into(), group: group.into(), due, priority, max_attempts, every, ttl };
        self.unlink_expiry(slot);
        self.drop_follower(slot);
        self.followers.bytes += follower.bytes();
        self.followers.by_seq.insert(self.jobs[slot].node.seq, follower);
        self.link_expiry(slot);
    }

    /// Removes the push that waits behind a job. Except in [`follow`](Self::follow), the job is in no tree.
    pub(super) fn drop_follower(&mut self, slot: u32) -> Option<Follower> {
        if self.followers.by_seq.is_empty() {
            return None;
        }
        let follower = self.followers.by_seq.remove(&self.jobs[slot].node.seq);
        self.followers.bytes -= follower.as_ref().map_or(0, Follower::bytes);
        follower
    }

    /// Gives a recurring job the payload and the TTL of the push behind it. The job is in no tree.
    pub(super) fn take_on(&mut self, slot: u32) {
        if let Some(Follower { payload, ttl, .. }) = self.drop_follower(slot) {
            self.renew_body(slot, ttl.map(|ttl| Ttl::from(0, ttl)), &payload);
        }
    }
}
