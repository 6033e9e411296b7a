//! Due entries: additional entries of jobs, in trees of their own. These trees find the jobs that must wait after a
//! lease has expired, and the jobs with a TTL ([`super::expiry`]).
//!
//! A job in [`TreeId::ClaimedBackoff`] waits for BACKOFF after its lease. A job in [`TreeId::ClaimedRecurring`] waits
//! for its next occurrence. A claim stores the delay that BACKOFF will cause, so the data of the job determine when it
//! is due again ([`Job::due_again_at`]). Nothing needs to be changed or replicated when the lease expires.
//!
//! Like all trees of claimed jobs, these two trees are ordered by deadline. But the jobs are due again in another
//! order, for example because BACKOFF delays one job longer than another. So each job in one of these two trees also
//! has a [`DueEntry`] in a second tree ([`TreeId::OF_DUE_ENTRIES`]), which is ordered by the time at which jobs are due
//! again. A job with a group has two such entries: one in a tree of its group, and one in a tree of all groups.

use super::groups::root_mut;
use super::items::DueEntry;
use super::job::Job;
use super::node::{HAS_TTL, JobNode, TreeId};
use super::tree::{self, Item, ServingOrder};
use super::{Millis, Queue};
use crate::base::chunks::{Chunks, NIL};
use crate::base::time;

impl Queue {
    /// Adds the due entries ([`DueEntry`]) of a job. Must be called after the job was added to its own tree.
    pub(super) fn link_due_entry(&mut self, slot: u32) {
        if !self.has_entries(slot) {
            return;
        }
        for (tree, of_all_groups) in self.entries(slot) {
            let entry = self.due_entry(slot, tree, of_all_groups);
            let entry = self.due_entries.push(entry);
            self.change_due_entry_tree(entry, |due_entries, root, order| tree::insert(due_entries, root, entry, order));
        }
    }

    /// Removes the due entries ([`DueEntry`]) of a job. Must be called before the job is removed from its own tree.
    pub(super) fn unlink_due_entry(&mut self, slot: u32) {
        if !self.has_entries(slot) {
            return;
        }
        for (tree, of_all_groups) in self.entries(slot) {
            let entry = self.find_due_entry(slot, tree, of_all_groups);
            self.change_due_entry_tree(entry, |due_entries, root, order| tree::remove(due_entries, root, entry, order));
            if let Some(from) = self.due_entries.remove(entry) {
                self.change_due_entry_tree(entry, |due_entries, root, _| {
                    tree::renumber(due_entries, root, from, entry)
                });
            }
        }
    }

    /// After a job has moved to another place in memory, stores its new `slot` in its due entries ([`DueEntry`]).
    pub(super) fn renumber_due_entries(&mut self, slot: u32) {
        if !self.has_entries(slot) {
            return;
        }
        for (tree, of_all_groups) in self.entries(slot) {
            let entry = self.find_due_entry(slot, tree, of_all_groups);
            self.due_entries[entry].job = slot;
        }
    }

    fn has_entries(&self, slot: u32) -> bool {
        let node = &self.jobs[slot].node;
        !node.is_candidate() || node.tree.second().is_some()
    }

    /// Lists the due entries that a job needs: the tree and the [`DueEntry::of_all_groups`] of each entry.
    pub(super) fn entries(&self, slot: u32) -> impl Iterator<Item = (TreeId, bool)> + use<> {
        let job = &self.jobs[slot];
        let tree = job.node.tree;
        let second = tree.second().map(|tree| (tree, false));
        let of_all_groups = tree.second().filter(|_| job.member() != NIL).map(|tree| (tree, true));
        let of_ttl = if job.node.is_candidate() { None } else { tree.of_ttl().map(|tree| (tree, false)) };
        [second, of_all_groups, of_ttl].into_iter().flatten()
    }

    fn due_entry(&self, slot: u32, tree: TreeId, of_all_groups: bool) -> DueEntry {
        let job = &self.jobs[slot];
        let is_of_ttl = TreeId::OF_TTL.contains(&tree);
        let due = job.due_again_at();
        let mut node = JobNode { tree, ..JobNode::new((due, job.node.priority, job.node.seq)) };
        let end = if is_of_ttl { self.end_of_ttl(slot) } else { job.node.time };
        if !is_of_ttl {
            node.high[2] = job.node.high[2] & HAS_TTL;
        }
        DueEntry { node, end, bound: end, job: slot, of_all_groups }
    }

    fn find_due_entry(&mut self, slot: u32, tree: TreeId, of_all_groups: bool) -> u32 {
        let wanted = self.due_entry(slot, tree, of_all_groups).key();
        let member = (!of_all_groups).then_some(self.jobs[slot].member());
        let root = *root_mut(&mut self.roots, self.groups.as_deref_mut(), member, tree);
        tree::find(&*self.due_entries, root, wanted)
    }

    /// Changes the tree that contains a due entry. `change` gets the root of the tree and returns the new root.
    fn change_due_entry_tree(
        &mut self,
        entry: u32,
        change: impl FnOnce(&mut Chunks<DueEntry>, u32, ServingOrder) -> u32,
    ) {
        let DueEntry { job, of_all_groups, node: JobNode { tree, .. }, .. } = self.due_entries[entry];
        let order = if of_all_groups { ServingOrder::default() } else { self.order() };
        let member = (!of_all_groups).then(|| self.jobs[job].member());
        let root = root_mut(&mut self.roots, self.groups.as_deref_mut(), member, tree);
        *root = change(&mut self.due_entries, *root, order);
    }
}

impl Job {
    /// Returns the time of a job at `now`: the due time of a ready or delayed job, the deadline of a claimed job, or
    /// the time at which a dead letter became one. If the lease has expired, the due time is
    /// [`due_again_at`](Job::due_again_at).
    pub fn due(&self, now: Millis) -> Millis {
        if self.is_lease_expired(now) { self.due_again_at() } else { self.node.time }
    }

    /// Returns the time at which a claimed job is due again if no command changes it. A job in [`TreeId::ClaimedLast`]
    /// becomes a dead letter at this time.
    pub fn due_again_at(&self) -> Millis {
        let deadline = self.node.time;
        match (self.node.tree, self.recurrence()) {
            (TreeId::ClaimedBackoff, _) => time::after_at_most(deadline, self.backoff()),
            (TreeId::ClaimedRecurring, Some(recurrence)) => recurrence.next(deadline),
            _ => deadline,
        }
    }
}
