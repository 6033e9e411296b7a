//! TTL: when a job expires, how a claim passes over expired jobs, and how they are dropped.
//!
//! A ready or delayed job expires when its TTL ends. The upkeep, which runs in the background, then drops the job. But
//! a recurring job stays, and waits for its next occurrence. Until the upkeep acts, the expired job still counts as
//! ready or delayed, and PEEK lists it. But no claim gets the job, and it does not delay the other jobs of an ORDERED
//! group. If the clock steps back before the upkeep has dropped the job, the job is no longer expired, and a claim can
//! get it again.
//!
//! # How a claim passes over expired jobs
//!
//! The trees of a group ([`TreeId::OF_JOBS`]) contain all jobs of the group, but store the serving order only of the
//! jobs without a TTL. A claim finds the jobs with a TTL in separate trees ([`TreeId::OF_TTL`]):
//!
//! - `ReadyTtl` has the jobs in `Ready`, which are due whatever the clock says. It is ordered by the ends of the TTLs,
//!   so the jobs that have not expired are the last ones of the tree. A claim finds the job to serve first in O(log n).
//! - The other trees are ordered by due times, so the jobs that are due are the first ones of the tree. Each entry
//!   stores the latest end of its subtree. A claim skips a subtree if this end has passed, or if the claim has found a
//!   job that is served before all jobs of the subtree. This takes O(log n), unless the tree has expired jobs with a
//!   better priority between jobs that have not expired. Then a claim takes longer until the upkeep has dropped the
//!   expired jobs.
//!
//! A group stores a time before which no claim gets one of its jobs, and the latest end of its TTLs
//! ([`super::groups`]). So a claim skips a group whose jobs have all expired. A claim searches a group for a job that
//! has not expired only if jobs of the group have a TTL.
//!
//! # When the upkeep acts
//!
//! [`Queue::expiries`] contains the following jobs, each with the time at which the upkeep must act:
//!
//! - a ready or delayed job with a TTL: when the TTL ends,
//! - a claimed job with a TTL and attempts left: when the TTL ends, or when the lease expires, if that is later,
//! - a recurring job with a TTL that is claimed for its last attempt: when the TTL of its next occurrence ends,
//! - a job in [`TreeId::ClaimedLast`], if a push with AGAIN waits for the end of its claim: when the lease expires,
//!   because the job becomes a dead letter, and the push replaces it,
//! - a job, if a push with DECLARE waits for the end of its claim: when the lease expires, to carry out this push.

use super::Full;
use super::effect::{Effect, JobChange};
use super::items::DueEntry;
use super::node::{JobNode, Roots, State, TreeId};
use super::query::{Part, parts};
use super::tree::{self, ServingOrder};
use super::{MAX_NOW, Millis, NEVER, Queue};
use crate::base::chunks::{Chunks, NIL};
use crate::base::time;

impl Queue {
    /// Whether the TTL of a waiting job (ready or delayed) has ended.
    pub(super) fn is_expired(&self, slot: u32, at: Millis) -> bool {
        let job = &self.jobs[slot];
        job.expires(at).is_some_and(|expires| expires <= at)
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
            (TreeId::ClaimedRecurring, Some(ttl)) => time::after_at_most(job.due_again_at(), ttl.ttl),
            (_, Some(ttl)) => ttl.expires,
        }
    }

    /// If the upkeep must act on a job, adds the job to [`Queue::expiries`]. Must be called after the job has moved to
    /// another tree, and after the push that waits behind the job ([`super::followers`]) has changed.
    pub(super) fn link_expiry(&mut self, slot: u32) {
        let expiry = self.expiry(slot);
        if expiry != NEVER {
            self.expiries.insert((expiry, slot));
        }
    }

    /// Removes a job from [`Queue::expiries`], the jobs on which the upkeep must act. Must be called before the job
    /// moves to another tree, and before the push that waits behind the job ([`super::followers`]) changes.
    pub(super) fn unlink_expiry(&mut self, slot: u32) {
        if !self.expiries.is_empty() {
            let expiry = self.expiry(slot);
            self.expiries.remove(&(expiry, slot));
        }
    }

    /// Updates a job's entry in [`Queue::expiries`] after the job has moved from the slot `from` to `slot`.
    pub(super) fn renumber_expiry(&mut self, from: u32, slot: u32) {
        if !self.expiries.is_empty() {
            let expiry = self.expiry(slot);
            if self.expiries.remove(&(expiry, from)) {
                self.expiries.insert((expiry, slot));
            }
        }
    }

    /// Returns the time at which a job's TTL ends. If the job will wait for its next occurrence when its lease expires,
    /// returns the end of that occurrence's TTL. The job must have a TTL.
    pub(super) fn end_of_ttl(&self, slot: u32) -> Millis {
        let job = &self.jobs[slot];
        let ttl = job.ttl().unwrap_or_default();
        match job.node.tree {
            TreeId::ClaimedRecurring => time::after_at_most(job.due_again_at(), ttl.ttl),
            _ => ttl.expires,
        }
    }

    /// Of the jobs in a tree of [`TreeId::OF_TTL`], returns the job to serve first, or `None`. Considers only jobs that
    /// have not expired at `now`, and whose due time is not after `due`.
    pub(super) fn best_with_ttl(&self, root: u32, now: Millis, due: Millis) -> Option<(&JobNode, u32)> {
        let (items, order) = (&*self.due_entries, self.order());
        let best = if root != NIL && items[root].node.tree == TreeId::ReadyTtl {
            best_of_ready(items, root, now, order)
        } else {
            best_of_waiting(items, root, (now, due), order, NIL)
        };
        (best != NIL).then(|| (&items[best].node, items[best].job))
    }

    /// Returns the time at which the last job that a claim could get from a group has expired. From this time on, no
    /// claim gets a job of the group until a command changes the group. Returns [`NEVER`] if there is no such time.
    pub(super) fn closes_at(&self, roots: &Roots) -> Millis {
        let has_candidate = |&(id, _): &(TreeId, Part)| self.tree(roots, id).best(Part::All, 0, self.order()).is_some();
        if !roots.have_ttl() || parts(State::Ready).iter().any(has_candidate) {
            return NEVER;
        }
        let ends = TreeId::OF_TTL.map(|id| match (id, roots[id]) {
            (_, NIL) => 0,
            (TreeId::ReadyTtl, root) => self.due_entries[tree::last(&*self.due_entries, root)].end,
            (_, root) => self.due_entries[root].bound,
        });
        ends.into_iter().max().unwrap_or(NEVER)
    }

    /// Drops expired jobs. Also carries out pushes that wait for the end of a claim, if the lease of the claim has
    /// expired: a push with AGAIN replaces a job without an attempt left, and a push with DECLARE changes the job. Acts
    /// on at most `most` jobs, and returns their number. O(log n) per job.
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
    /// [`Full`] if the queue would refuse the push even without the job. In this case, the job stays, because a push
    /// that returns an error must change nothing.
    pub fn drop_if_expired(&mut self, now: Millis, id: &[u8], mut sink: impl FnMut(&Effect<'_>)) -> Result<(), Full> {
        let at = now.min(MAX_NOW);
        if let Some(slot) = self.slot_of(id).filter(|&slot| self.is_expired(slot, at)) {
            // An expired job with EVERY stays in the queue, and a push that waits behind an expired job takes its
            // place. In these cases, a push with the same ID adds no job.
            let would_grow = self.jobs[slot].recurrence().is_none() && !self.has_push_behind(slot);
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

fn best_of_ready(items: &Chunks<DueEntry>, mut root: u32, now: Millis, order: ServingOrder) -> u32 {
    let mut best = NIL;
    while root != NIL {
        let DueEntry { ref node, end, .. } = items[root];
        if end > now {
            best = order.better(items, best, order.better(items, root, tree::best(items, node.links.right)));
            root = node.links.left;
        } else {
            root = node.links.right;
        }
    }
    best
}

/// Returns the job to serve first: the job `found`, or a job in the subtree `root`. In the subtree, considers only jobs
/// that have not expired at `now`, and whose due time is not after `due`.
fn best_of_waiting(
    items: &Chunks<DueEntry>,
    mut root: u32,
    (now, due): (Millis, Millis),
    order: ServingOrder,
    found: u32,
) -> u32 {
    // If an item is not due, the items to its right are not due either. They are most of the tree if claims have taken
    // the due jobs.
    while root != NIL && items[root].node.time > due {
        root = items[root].node.links.left;
    }
    #[cfg(test)]
    super::query::STEPS.set(super::query::STEPS.get() + 1);
    let first = tree::best(items, root);
    if root == NIL || items[root].bound <= now || order.better(items, found, first) == found {
        return found;
    }
    let is_claimable = |it: &DueEntry| it.end > now && it.node.time <= due;
    if is_claimable(&items[first]) {
        return first;
    }
    let DueEntry { ref node, .. } = items[root];
    let (left, right) = (node.links.left, node.links.right);
    let found = if items[root].end > now { order.better(items, found, root) } else { found };
    let is_right_first =
        order.better(items, tree::best(items, left), tree::best(items, right)) == tree::best(items, right);
    let children = if is_right_first { [right, left] } else { [left, right] };
    children.into_iter().fold(found, |found, child| best_of_waiting(items, child, (now, due), order, found))
}
