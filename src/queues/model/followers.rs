//! A push behind a job waits until a claim of the job ends. With AGAIN, it is a *follower* of the job, and becomes a job
//! then. With DECLARE, it is a *declaration* ([`super::declare`]).

use super::Queue;
use super::job_data::{NewJob, Ttl};
use super::node::TreeId;

#[derive(Clone, Debug)]
pub(super) struct PushBehind {
    payload: Box<[u8]>,
    group: Box<[u8]>,
    /// The push, but with an empty ID, payload and group.
    rest: NewJob<'static>,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Follower,
    /// `is_timed`: the push has AT or DELAY. If so, a new period counts from that time.
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

    /// Restores the follower of the job with the same ID. Returns false, and does nothing, if there is no such job or no
    /// push can wait behind it.
    pub(super) fn restore_follower(&mut self, new: &NewJob<'_>) -> bool {
        let can_wait = |slot: u32| self.jobs[slot].node.tree != TreeId::Dead && !self.has_push_behind(slot);
        let slot = self.slot_of(new.id).filter(|&slot| can_wait(slot) && new.possible());
        slot.inspect(|&slot| self.wait_behind(slot, new, Kind::Follower)).is_some()
    }

    /// Carries out a push with AGAIN of a claimed job. If a declaration waits behind the job, replaces the payload and
    /// the TTL of the declaration with those of the push.
    pub(super) fn push_behind(&mut self, slot: u32, new: &NewJob<'_>) {
        match self.take_behind(slot) {
            Some(push) if push.kind != Kind::Follower => {
                let declared = NewJob { payload: new.payload, ttl: new.ttl, ..push.job(b"") };
                self.wait_behind(slot, &declared, push.kind);
            }
            _ => self.wait_behind(slot, new, Kind::Follower),
        }
    }

    /// Makes a push wait behind a job. If another push waits behind the job, replaces that push.
    pub(super) fn wait_behind(&mut self, slot: u32, new: &NewJob<'_>, kind: Kind) {
        self.unlink_expiry(slot);
        self.set_behind(slot, Some(PushBehind::of(new, kind).into()));
        self.link_expiry(slot);
    }

    /// Removes and returns the push that waits behind a job. The job must be in a tree.
    pub(super) fn take_behind(&mut self, slot: u32) -> Option<Box<PushBehind>> {
        if !self.has_push_behind(slot) {
            return None;
        }
        self.unlink_expiry(slot);
        let push = self.set_behind(slot, None);
        self.link_expiry(slot);
        push
    }

    /// Removes and returns the follower of a job. The job must be in no tree.
    pub(super) fn take_follower(&mut self, slot: u32) -> Option<Box<PushBehind>> {
        if self.has_follower(slot) { self.set_behind(slot, None) } else { None }
    }

    /// Removes and returns the declaration that waits behind a job. The job must be in no tree.
    pub(super) fn take_declaration(&mut self, slot: u32) -> Option<Box<PushBehind>> {
        if self.has_declaration(slot) { self.set_behind(slot, None) } else { None }
    }

    fn set_behind(&mut self, slot: u32, push: Option<Box<PushBehind>>) -> Option<Box<PushBehind>> {
        self.followers -= u32::from(self.has_follower(slot));
        let old = self.edit_job(slot, |job| job.change_rare(|rare| std::mem::replace(&mut rare.behind, push)));
        self.followers += u32::from(self.has_follower(slot));
        old
    }

    /// If a push with AGAIN waits behind a recurring job, moves the payload and the TTL of the push to the job. Removes
    /// the text of PROGRESS, which belongs to the old payload. The job must be in no tree.
    pub(super) fn carry_out_follower(&mut self, slot: u32) {
        if let Some(push) = self.take_follower(slot) {
            self.clear_progress(slot);
            self.count_replaced_push();
            self.set_payload_and_ttl(slot, push.rest.ttl.map(|ttl| Ttl::from(0, ttl)), &push.payload);
        }
    }
}
