//! Pushes that wait *behind* a job: such a push has the ID of a claimed job, and waits until the claim ends. After the
//! claim, a push with AGAIN (a *follower*) becomes a job, or the next run of a recurring job. A push with DECLARE (a
//! *declaration*) changes the job ([`super::declare`]).

use super::Queue;
use super::job_data::{NewJob, Ttl};
use super::node::TreeId;

#[derive(Clone, Debug)]
pub(super) struct PushBehind {
    payload: Box<[u8]>,
    group: Box<[u8]>,
    /// The other arguments of the push. The ID, the payload and the group are empty here.
    rest: NewJob<'static>,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Follower,
    /// A push with DECLARE. `is_timed`: the push has AT or DELAY, and a new period counts from that time.
    Declaration {
        is_timed: bool,
    },
}

impl PushBehind {
    pub fn of(new: &NewJob<'_>, kind: Kind) -> PushBehind {
        let NewJob { payload, group, due, priority, max_attempts, every, ttl, .. } = *new;
        let rest = NewJob { id: b"", payload: b"", group: b"", due, priority, max_attempts, every, ttl };
        PushBehind { payload: payload.into(), group: group.into(), rest, kind }
    }

    pub fn owned_bytes(&self) -> usize {
        self.payload.len() + self.group.len()
    }

    pub fn job<'a>(&'a self, id: &'a [u8]) -> NewJob<'a> {
        NewJob { id, payload: &self.payload, group: &self.group, ..self.rest }
    }
}

impl Queue {
    pub(super) fn has_follower(&self, slot: u32) -> bool {
        self.jobs[slot].follower().is_some()
    }

    pub(super) fn has_declaration(&self, slot: u32) -> bool {
        self.jobs[slot].declaration().is_some()
    }

    pub(super) fn has_push_behind(&self, slot: u32) -> bool {
        self.jobs[slot].behind().is_some()
    }

    /// Restores a push with AGAIN that waits for the end of a claim of the job with the same ID. Returns false, and
    /// does nothing, if there is no such job, or the push cannot wait for it.
    pub(super) fn restore_follower(&mut self, new: &NewJob<'_>) -> bool {
        let can_wait = |slot: u32| self.jobs[slot].node.tree != TreeId::Dead && !self.has_push_behind(slot);
        let slot = self.slot_of(new.id).filter(|&slot| can_wait(slot) && new.possible());
        slot.inspect(|&slot| self.wait_behind(slot, new, Kind::Follower)).is_some()
    }

    /// Makes a push with AGAIN wait until the claim of the job ends. But if a push with DECLARE waits already, only
    /// that push goes on waiting, with the payload and the TTL of the push with AGAIN.
    pub(super) fn push_behind(&mut self, slot: u32, new: &NewJob<'_>) {
        match self.take_behind(slot) {
            Some(push) if push.kind != Kind::Follower => {
                let declared = NewJob { payload: new.payload, ttl: new.ttl, ..push.job(b"") };
                self.wait_behind(slot, &declared, push.kind);
            }
            _ => self.wait_behind(slot, new, Kind::Follower),
        }
    }

    /// Makes a push (AGAIN, DECLARE) wait until the claim of a job ends. Replaces an earlier push that waits.
    pub(super) fn wait_behind(&mut self, slot: u32, new: &NewJob<'_>, kind: Kind) {
        self.unlink_expiry(slot);
        self.set_behind(slot, Some(PushBehind::of(new, kind).into()));
        self.link_expiry(slot);
    }

    /// Removes and returns the push (AGAIN, DECLARE) that waits for the end of a job's claim. The job must be in a
    /// tree.
    pub(super) fn take_behind(&mut self, slot: u32) -> Option<Box<PushBehind>> {
        if !self.has_push_behind(slot) {
            return None;
        }
        self.unlink_expiry(slot);
        let push = self.set_behind(slot, None);
        self.link_expiry(slot);
        push
    }

    /// Removes and returns the push with AGAIN that waits for the end of a job's claim. The job must be in no tree.
    pub(super) fn take_follower(&mut self, slot: u32) -> Option<Box<PushBehind>> {
        if self.has_follower(slot) { self.set_behind(slot, None) } else { None }
    }

    /// Removes and returns the push with DECLARE that waits for the end of a job's claim. The job must be in no tree.
    pub(super) fn take_declaration(&mut self, slot: u32) -> Option<Box<PushBehind>> {
        if self.has_declaration(slot) { self.set_behind(slot, None) } else { None }
    }

    fn set_behind(&mut self, slot: u32, push: Option<Box<PushBehind>>) -> Option<Box<PushBehind>> {
        self.followers -= u32::from(self.has_follower(slot));
        let old = self.edit_job(slot, |job| job.change_rare(|rare| std::mem::replace(&mut rare.behind, push)));
        self.followers += u32::from(self.has_follower(slot));
        old
    }

    /// If a push with AGAIN waits for the end of a recurring job's claim, moves the payload and the TTL of the push to
    /// the job. Removes the text of PROGRESS, which belongs to the old payload. The job must be in no tree.
    pub(super) fn carry_out_follower(&mut self, slot: u32) {
        if let Some(push) = self.take_follower(slot) {
            self.clear_progress(slot);
            self.count_replaced_push();
            self.set_payload_and_ttl(slot, push.rest.ttl.map(|ttl| Ttl::from(0, ttl)), &push.payload);
        }
    }
}
