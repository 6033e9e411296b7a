//! The place of a job: its slot (index in [`Queue::jobs`]), and its entries in the index of IDs, in the trees and in
//! its group.

use super::extras::OwnedExtras;
use super::groups::root_mut;
use super::job::Job;
use super::job_data::Extras;
use super::node::{Roots, TreeId};
use super::tree::{self, ServingOrder};
use super::{Millis, Queue};
use crate::base::chunks::Chunks;
use crate::base::index::Index;

/// A queue with more jobs than this uses an index, until it has fewer than half as many. Without an index, a search
/// reads all jobs. Many applications have a queue for each user, with few jobs.
const FEW: u32 = 8;

/// The result of a search for an ID.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// The slot of the job with this ID, if there is one.
    pub slot: Option<u32>,
    /// The hash of the ID, if the search has computed it.
    pub hash: Option<u32>,
}

impl Queue {
    pub(super) fn find(&self, id: &[u8]) -> Found {
        let is = |slot| self.jobs[slot].id() == id;
        if self.index.is_empty() {
            return Found { slot: (0..self.len() as u32).find(|&slot| is(slot)), hash: None };
        }
        let hash = Index::hash(id);
        Found { slot: self.index.find(hash, is), hash: Some(hash) }
    }

    pub(super) fn slot_of(&self, id: &[u8]) -> Option<u32> {
        self.find(id).slot
    }

    fn hash_of(&self, slot: u32) -> u32 {
        Index::hash(self.jobs[slot].id())
    }

    /// Adds a job. Its ID and its push number must be new. `hash` is the hash of the ID, if it is known.
    pub(super) fn insert(&mut self, job: Job, hash: Option<u32>, group: &[u8], tree: TreeId, extras: Extras<'_>) {
        self.owned_bytes += job.owned_bytes();
        let time = job.node.time;
        let slot = self.jobs.push(job);
        if !self.index.is_empty() {
            self.index.insert(hash.unwrap_or_else(|| self.hash_of(slot)), slot);
        } else if slot >= FEW {
            (0..=slot).for_each(|slot| self.index.insert(self.hash_of(slot), slot));
        }
        self.join_group(slot, group);
        // The times of an ORDERED group, which `link` updates, depend on the extras.
        if !extras.is_nothing() {
            self.edit_extras(slot, |owned| owned.set(extras));
        }
        self.link(slot, tree, time);
    }

    /// Removes a job, and the push that waits for the end of its claim (AGAIN, DECLARE). The job in the last slot moves
    /// to the free slot, so slots that the caller has stored become invalid.
    pub(super) fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        self.followers -= u32::from(self.has_follower(slot));
        self.owned_bytes -= self.jobs[slot].owned_bytes();
        self.leave_group(slot);
        if self.len() as u32 <= FEW / 2 {
            self.index = Index::default();
        }
        let is_indexed = !self.index.is_empty();
        if is_indexed {
            self.index.remove(self.hash_of(slot), slot);
        }
        if let Some(from) = self.jobs.remove(slot) {
            if is_indexed {
                self.index.renumber(self.hash_of(slot), from, slot);
            }
            self.renumber_member(slot);
            self.renumber_due_entries(slot);
            self.renumber_expiry(from, slot);
            self.change_tree(slot, |jobs, root, _| tree::renumber(jobs, root, from, slot));
        }
    }

    /// Adds a job to a tree. The job must be in no tree.
    pub(super) fn link(&mut self, slot: u32, tree: TreeId, time: Millis) {
        let node = &mut self.jobs[slot].node;
        (node.tree, node.time) = (tree, time);
        if node.priority != 0 {
            self.priorities.add(node.priority);
        }
        self.change_tree(slot, |jobs, root, order| tree::insert(jobs, root, slot, order));
        self.link_member(slot);
        self.link_due_entry(slot);
        self.link_expiry(slot);
        self.update_group_times_of(self.jobs[slot].member());
    }

    pub(super) fn unlink(&mut self, slot: u32) {
        self.unlink_due_entry(slot);
        self.unlink_expiry(slot);
        self.change_tree(slot, |jobs, root, order| tree::remove(jobs, root, slot, order));
        self.unlink_member(slot);
        let priority = self.jobs[slot].node.priority;
        if priority != 0 {
            self.priorities.remove(priority);
        }
    }

    /// Changes the tree that contains a job. `change` gets the root of the tree and returns the new root.
    fn change_tree(&mut self, slot: u32, change: impl FnOnce(&mut Chunks<Job>, u32, ServingOrder) -> u32) {
        let order = ServingOrder { by_key: self.is_served_by_key(), ..self.order() };
        let job = &self.jobs[slot];
        let root = root_mut(&mut self.roots, self.groups.as_deref_mut(), Some(job.member()), job.node.tree);
        *root = change(&mut self.jobs, *root, order);
    }

    /// Changes a job without moving it in its trees.
    pub(super) fn edit_job<R>(&mut self, slot: u32, edit: impl FnOnce(&mut Job) -> R) -> R {
        let job = &mut self.jobs[slot];
        self.owned_bytes -= job.owned_bytes();
        let result = edit(job);
        self.owned_bytes += job.owned_bytes();
        result
    }

    /// Changes the extras of a job: its optional texts and times.
    pub(super) fn edit_extras(&mut self, slot: u32, edit: impl FnOnce(&mut OwnedExtras)) {
        self.edit_job(slot, |job| job.change_rare(|rare| edit(&mut rare.extras)));
    }

    /// Updates the trees of a group after a change of the serving order. O(n).
    pub(super) fn rerank(&mut self, roots: Roots, order: ServingOrder) {
        roots.of_jobs().for_each(|root| tree::rerank(&mut self.jobs, root, order));
        if let Some(entries) = self.due_entries.get_mut() {
            TreeId::OF_DUE_ENTRIES.into_iter().for_each(|tree| tree::rerank(entries, roots[tree], order));
        }
    }
}
