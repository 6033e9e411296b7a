//! AGAIN: if a job is claimed, a push with the same ID waits behind that claim. Such a push is a *follower* of the job.
//! When the claim ends, the follower becomes a job.

use super::Queue;
use super::job::Job;
use super::node::TreeId;
use super::record::{NewJob, Ttl};

#[derive(Clone, Debug)]
pub(super) struct Follower {
    payload: Box<[u8]>,
    group: Box<[u8]>,
    /// The push, but with an empty ID, payload and group.
    rest: NewJob<'static>,
}

impl Follower {
    pub fn of(new: &NewJob<'_>) -> Follower {
        let NewJob { payload, group, due, priority, max_attempts, every, ttl, .. } = *new;
        let rest = NewJob { id: b"", payload: b"", group: b"", due, priority, max_attempts, every, ttl };
        Follower { payload: payload.into(), group: group.into(), rest }
    }

    pub fn owned_bytes(&self) -> usize {
        self.payload.len() + self.group.len()
    }

    pub fn job<'a>(&'a self, id: &'a [u8]) -> NewJob<'a> {
        NewJob { id, payload: &self.payload, group: &self.group, ..self.rest }
    }
}

impl Queue {
    pub(super) fn follower<'a>(&'a self, job: &'a Job) -> Option<NewJob<'a>> {
        self.followers.get(&job.node.seq).map(|follower| follower.job(job.id()))
    }

    pub(super) fn has_follower(&self, slot: u32) -> bool {
        self.followers.contains_key(&self.jobs[slot].node.seq)
    }

    /// Whether a push waits behind the job: one with AGAIN, or a declaration.
    pub(super) fn has_push_behind(&self, slot: u32) -> bool {
        self.has_follower(slot) || self.has_declaration(slot)
    }

    /// Restores the push that waits behind the job with the same ID. Returns false, and does nothing, if there is no
    /// such job or no push can wait behind it.
    pub(super) fn restore_follower(&mut self, new: &NewJob<'_>) -> bool {
        let slot = self
            .slot_of(new.id)
            .filter(|&slot| self.jobs[slot].node.tree != TreeId::Dead && !self.has_follower(slot) && new.possible())
            .filter(|&slot| !self.has_declaration(slot));
        slot.inspect(|&slot| self.follow(slot, new)).is_some()
    }

    /// Carries out a push with AGAIN of a claimed job. If a declaration waits behind the job, replaces the payload and
    /// the TTL of the declaration with those of the push.
    pub(super) fn push_behind(&mut self, slot: u32, new: &NewJob<'_>) {
        let Some(declaration) = self.take_declaration(slot) else { return self.follow(slot, new) };
        let declared = NewJob { payload: new.payload, ttl: new.ttl, ..declaration.push.job(b"") };
        self.declare_behind(slot, &declared, declaration.is_timed);
    }

    /// Makes a push wait behind a job. If another push waits behind the job, replaces that push.
    pub(super) fn follow(&mut self, slot: u32, new: &NewJob<'_>) {
        self.unlink_expiry(slot);
        let follower = Follower::of(new);
        self.drop_follower(slot);
        self.owned_bytes += follower.owned_bytes();
        self.followers.insert(self.jobs[slot].node.seq, follower);
        self.link_expiry(slot);
    }

    /// Removes and returns the push that waits behind a job. The job must be in a tree.
    pub(super) fn take_follower(&mut self, slot: u32) -> Option<Follower> {
        if !self.has_follower(slot) {
            return None;
        }
        self.unlink_expiry(slot);
        let follower = self.drop_follower(slot);
        self.link_expiry(slot);
        follower
    }

    /// Removes and returns the push that waits behind a job. The job must be in no tree.
    pub(super) fn drop_follower(&mut self, slot: u32) -> Option<Follower> {
        let follower = self.followers.remove(&self.jobs[slot].node.seq)?;
        self.owned_bytes -= follower.owned_bytes();
        Some(follower)
    }

    /// If a push with AGAIN waits behind a recurring job, moves the payload and the TTL of the push to the job. Removes
    /// the text of PROGRESS, which belongs to the old payload. The job must be in no tree.
    pub(super) fn take_on(&mut self, slot: u32) {
        if let Some(Follower { payload, rest, .. }) = self.drop_follower(slot) {
            self.forget_progress(slot);
            self.count_replaced_push();
            self.renew_body(slot, rest.ttl.map(|ttl| Ttl::from(0, ttl)), &payload);
        }
    }
}
