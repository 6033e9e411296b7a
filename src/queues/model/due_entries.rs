//! Claimed jobs that are not due at once when their lease expires.
//!
//! A job in [`TreeId::ClaimedBackoff`] waits for BACKOFF after its lease. A job in [`TreeId::ClaimedRecurring`] waits
//! for its next occurrence. The time at which these jobs are due again follows from the job and the settings
//! ([`Job::back_at`]). So no effect is needed when the lease expires.
//!
//! Like all trees of claimed jobs, these two trees are ordered by deadline. But BACKOFF and JITTER can change the order
//! in which jobs are due again. So each job in the two trees also has an entry, a [`DueEntry`], in a second tree
//! ([`TreeId::OF_DUE_ENTRIES`]). The second tree is ordered by the time at which jobs are due again. A job with a group
//! has two entries: in a tree of its group, and in a tree of all groups.

use super::groups::root_mut;
use super::items::DueEntry;
use super::job::Job;
use super::node::{JobNode, TreeId};
use super::tree::{self, ServingOrder};
use super::{Millis, Queue, Settings};
use crate::base::chunks::{Chunks, NIL};
use crate::base::time;

impl Queue {
    /// Adds a job's [`DueEntry`] entries. Does nothing if the job's tree has no [second tree](TreeId::second). Must be
    /// called after the job entered its own tree.
    pub(super) fn link_due_entry(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        let Some(tree) = job.node.tree.second() else { return };
        let (time, deadline) = (job.back_at(&self.settings), job.node.time);
        let node = JobNode { tree, ..JobNode::new((time, job.node.priority, job.node.seq)) };
        for &of_all_groups in self.entries(slot) {
            let node = node.clone();
            let entry =
                self.due_entries.push(DueEntry { node, deadline, first_deadline: deadline, job: slot, of_all_groups });
            self.change_due_entry_tree(entry, |due_entries, root, order| tree::insert(due_entries, root, entry, order));
        }
    }

    /// Removes a job's [`DueEntry`] entries. Must be called before the job is removed from its tree of claimed jobs.
    pub(super) fn unlink_due_entry(&mut self, slot: u32) {
        for &of_all_groups in self.entries(slot) {
            let entry = self.find_due_entry(slot, of_all_groups);
            self.change_due_entry_tree(entry, |due_entries, root, order| tree::remove(due_entries, root, entry, order));
            if let Some(from) = self.due_entries.remove(entry) {
                self.change_due_entry_tree(entry, |due_entries, root, _| {
                    tree::renumber(due_entries, root, from, entry)
                });
            }
        }
    }

    /// Updates a job's [`DueEntry`] entries after the job has moved to `slot`.
    pub(super) fn renumber_due_entries(&mut self, slot: u32) {
        for &of_all_groups in self.entries(slot) {
            let entry = self.find_due_entry(slot, of_all_groups);
            self.due_entries[entry].job = slot;
        }
    }

    /// Returns a list with one element for each [`DueEntry`] that a job needs. The element is the entry's value of
    /// [`DueEntry::of_all_groups`].
    fn entries(&self, slot: u32) -> &'static [bool] {
        let job = &self.jobs[slot];
        match (job.node.tree.second(), job.member()) {
            (None, _) => &[],
            (Some(_), NIL) => &[false],
            (Some(_), _) => &[false, true],
        }
    }

    fn find_due_entry(&mut self, slot: u32, of_all_groups: bool) -> u32 {
        let job = &self.jobs[slot];
        let tree = job.node.tree.second().unwrap_or(TreeId::BackoffDue);
        let member = (!of_all_groups).then_some(job.member());
        let wanted = (job.back_at(&self.settings), job.node.priority, job.node.seq);
        let root = *root_mut(&mut self.roots, self.groups.as_deref_mut(), member, tree);
        tree::find(&self.due_entries, root, wanted)
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

    /// Returns the due time of a job at `now`. If the job's lease has expired, this is [`Job::back_at`].
    pub(super) fn due_of(&self, slot: u32, now: Millis) -> Millis {
        self.jobs[slot].due(now, &self.settings)
    }
}

impl Job {
    /// See [`Queue::due_of`].
    pub fn due(&self, now: Millis, settings: &Settings) -> Millis {
        if self.is_lease_expired(now) { self.back_at(settings) } else { self.node.time }
    }

    /// Returns the time at which a claimed job is due again if no command changes it. A job in [`TreeId::ClaimedLast`]
    /// becomes a dead letter at this time.
    pub fn back_at(&self, settings: &Settings) -> Millis {
        let deadline = self.node.time;
        match (self.node.tree, self.recurrence()) {
            (TreeId::ClaimedBackoff, _) => {
                let wait = settings.jittered_backoff(self.attempts, self.token);
                time::after_at_most(deadline, wait)
            }
            (TreeId::ClaimedRecurring, Some(recurrence)) => recurrence.next(deadline),
            _ => deadline,
        }
    }
}
