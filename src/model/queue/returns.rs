//! Claimed jobs that are not due at once when their lease expires.
//!
//! When the lease of a job expires, the job waits for BACKOFF ([`TreeId::Retrying`]). If that was the last attempt of a
//! job with EVERY, the job waits for its next occurrence ([`TreeId::Recurring`]). The time at which it is due again
//! follows from the job and the settings ([`Job::back_at`]), so no effect is needed when the lease expires. But such a
//! job has two times, so it is in two trees. Its own tree orders the jobs by the deadline of the lease, as for all
//! claimed jobs. A tree of [`Return`]s orders them by the time at which they are due again. The two orders differ:
//! because of attempts and jitter, a job whose lease expires later may be due again earlier. Other jobs have no
//! `Return`.
//!
//! | trees | jobs |
//! |---|---|
//! | `roots[RETRIES]`, `roots[RECURRENCES]` of the queue and of each group | the jobs of the group, or the queue's jobs without a group, by tree |
//! | [`Returns::grouped_root`] | all jobs with a group |
//!
//! A `Return` also stores the earliest deadline of its subtree. So a list of the jobs whose leases have expired skips
//! subtrees in which all jobs are still claimed.

use super::job::Job;
use super::node::{JobNode, Links, RECURRENCES, RETRIES, Roots, TreeId};
use super::stretch::{self, ByTime, List};
use super::tree::{self, Item, Items, Key, ServingOrder, key};
use super::{Millis, Queue};
use crate::model::chunks::{Chunks, NIL};
use crate::model::time;

/// The item of a claimed job in a tree that is ordered by the time at which jobs are due again.
#[derive(Clone, Debug)]
pub(super) struct Return {
    pub node: JobNode,
    /// When the lease expires.
    pub deadline: Millis,
    /// The earliest deadline of the subtree.
    pub first_deadline: Millis,
    pub job: u32,
}

impl Item for Return {
    fn node(&self) -> &JobNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut JobNode {
        &mut self.node
    }

    fn gather(items: &mut impl Items<Return>, root: u32) -> bool {
        let Links { left, right, .. } = items[root].node.links;
        let children = [left, right].into_iter().filter(|&child| child != NIL);
        let first = children.map(|child| items[child].first_deadline).fold(items[root].deadline, Millis::min);
        std::mem::replace(&mut items[root].first_deadline, first) != first
    }
}

#[derive(Clone, Debug)]
pub(super) struct Returns {
    /// The items of the trees of the queue and its groups.
    pub own: Chunks<Return>,
    /// A second item for each job with a group.
    pub grouped: Chunks<Return>,
    pub grouped_root: u32,
}

impl Returns {
    pub fn new() -> Returns {
        Returns { own: Chunks::default(), grouped: Chunks::default(), grouped_root: NIL }
    }

    /// Updates the trees of a group after the order of serving changed.
    pub fn rerank(&mut self, roots: &Roots, order: ServingOrder) {
        for tree in [RETRIES, RECURRENCES] {
            tree::rerank(&mut self.own, roots[tree], order);
        }
    }

    pub fn bytes(&self) -> usize {
        self.own.bytes() + self.grouped.bytes()
    }

    pub fn chunks_mut(&mut self) -> impl Iterator<Item = &mut Vec<Return>> {
        self.own.chunks_mut().iter_mut().chain(self.grouped.chunks_mut())
    }
}

/// Returns the tree of returns that belongs to a tree, if there is one.
pub(super) fn return_tree(tree: TreeId) -> Option<usize> {
    match tree {
        TreeId::Retrying => Some(RETRIES),
        TreeId::Recurring => Some(RECURRENCES),
        _ => None,
    }
}

fn find(items: &Chunks<Return>, mut root: u32, wanted: Key) -> u32 {
    while root != NIL {
        let node = &items[root].node;
        root = match wanted.cmp(&key(node)) {
            std::cmp::Ordering::Less => node.links.left,
            std::cmp::Ordering::Equal => return root,
            std::cmp::Ordering::Greater => node.links.right,
        };
    }
    NIL
}

impl Queue {
    /// Adds a job to its trees of returns after it entered its own tree.
    pub(super) fn link_return(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        let Some(tree) = return_tree(job.node.tree) else { return };
        let deadline = job.node.time;
        let time = job.back_at(&self.settings);
        let node = JobNode { time, links: Links::ALONE, best: NIL, high: [0; 3], ..job.node };
        let is_grouped = job.member() != NIL;
        let it = Return { node, deadline, first_deadline: deadline, job: slot };
        let order = self.order();
        if is_grouped {
            let returns = &mut self.returns;
            let entry = returns.grouped.push(it.clone());
            returns.grouped_root =
                tree::insert(&mut returns.grouped, returns.grouped_root, entry, ServingOrder::default());
        }
        let entry = self.returns.own.push(it);
        let root = *self.tree_of_job(slot, tree);
        *self.tree_of_job(slot, tree) = tree::insert(&mut self.returns.own, root, entry, order);
    }

    /// Removes a job from its trees of returns before it leaves its own tree.
    pub(super) fn unlink_return(&mut self, slot: u32) {
        if return_tree(self.jobs[slot].node.tree).is_none() {
            return;
        }
        let (own, grouped, tree) = self.find_return(slot);
        let order = self.order();
        let root = *self.tree_of_job(slot, tree);
        *self.tree_of_job(slot, tree) = tree::remove(&mut self.returns.own, root, own, order);
        if let Some(from) = self.returns.own.remove(own) {
            let moved = &self.returns.own[own];
            let (job, tree) = (moved.job, return_tree(moved.node.tree));
            if let Some(tree) = tree {
                let root = *self.tree_of_job(job, tree);
                *self.tree_of_job(job, tree) = tree::renumber(&mut self.returns.own, root, from, own);
            }
        }
        let Returns { grouped: items, grouped_root: root, .. } = &mut self.returns;
        if grouped != NIL {
            *root = tree::remove(items, *root, grouped, ServingOrder::default());
            if let Some(from) = items.remove(grouped) {
                *root = tree::renumber(items, *root, from, grouped);
            }
        }
    }

    /// Updates the slot in the returns of a job that has moved.
    pub(super) fn renumber_return(&mut self, slot: u32) {
        if return_tree(self.jobs[slot].node.tree).is_some() {
            let (own, grouped, _) = self.find_return(slot);
            self.returns.own[own].job = slot;
            if grouped != NIL {
                self.returns.grouped[grouped].job = slot;
            }
        }
    }

    /// Returns the job's item in `own`, its item in `grouped` or `NIL`, and the tree that contains the first item.
    fn find_return(&mut self, slot: u32) -> (u32, u32, usize) {
        let job = &self.jobs[slot];
        let wanted = (job.back_at(&self.settings), job.node.priority, job.node.seq);
        let (tree, is_grouped) = (return_tree(job.node.tree).unwrap_or(RETRIES), job.member() != NIL);
        let root = *self.tree_of_job(slot, tree);
        let own = find(&self.returns.own, root, wanted);
        let Returns { grouped, grouped_root, .. } = &self.returns;
        (own, if is_grouped { find(grouped, *grouped_root, wanted) } else { NIL }, tree)
    }

    /// Returns the trees of returns of a group. For all jobs, returns the two trees of the jobs without a group, and
    /// the tree of the jobs with a group.
    fn return_trees(&self, group: Option<&Roots>) -> [(&Chunks<Return>, u32); 3] {
        let Returns { own, grouped, grouped_root } = &self.returns;
        let (roots, others) = match group {
            None => (&self.roots, *grouped_root),
            Some(roots) => (roots, NIL),
        };
        [(own, roots[RETRIES]), (own, roots[RECURRENCES]), (grouped, others)]
    }

    /// Returns how many jobs, of a group or in all, are due again after their lease. O(log n).
    pub(super) fn count_returned(&self, group: Option<&Roots>, now: Millis) -> u64 {
        self.return_trees(group).map(|(items, root)| stretch::count_until(items, root, now)).iter().sum()
    }

    /// Returns the earliest time at which a job is due again, which may be in the past. Returns [`NEVER`](super::NEVER)
    /// if there is no such job.
    pub(super) fn first_return(&self) -> Millis {
        self.return_trees(None)
            .map(|(items, root)| stretch::first_time(items, root))
            .into_iter()
            .fold(Millis::MAX, Millis::min)
    }

    /// Lists the jobs, of a group or all, whose lease has expired and that are not due again yet. The jobs are in the
    /// order of the times at which they are due again. Lists only jobs after `behind`. O(log n) for each.
    pub(super) fn waiting_returns(&self, group: Option<&Roots>, now: Millis, behind: Option<Key>) -> [List<'_>; 3] {
        let behind = behind.max(Some((now, i32::MAX, u64::MAX)));
        self.return_trees(group).map(|(items, root)| {
            let no_lease_has_ended = |items: &Chunks<Return>, root, now| items[root].first_deadline > now;
            let returns = ByTime::skipping(items, root, behind, now, no_lease_has_ended);
            let returns = returns.filter(move |(_, it)| it.deadline <= now).map(|(_, it)| (key(&it.node), it.job));
            Box::new(returns) as List<'_>
        })
    }

    /// Lists the jobs, of a group or all, that are due again after their lease. The jobs are in the order of the times
    /// at which they became due. Lists only jobs after `behind`.
    pub(super) fn returned(&self, group: Option<&Roots>, now: Millis, behind: Option<Key>) -> [List<'_>; 3] {
        self.return_trees(group).map(|(items, root)| {
            let returns = ByTime::of(items, root, behind).map(|(_, it)| (key(&it.node), it.job));
            Box::new(returns.take_while(move |((time, ..), _)| *time <= now)) as List<'_>
        })
    }

    /// Returns when the job is due. If its lease has expired, this is the time at which the job is due again.
    pub(super) fn due_of(&self, slot: u32, now: Millis) -> Millis {
        let job = &self.jobs[slot];
        if job.is_lapsed(now) { job.back_at(&self.settings) } else { job.node.time }
    }
}

impl Job {
    /// Returns when a claimed job is due again if no command changes it. A job in [`TreeId::Spent`] dies at this time.
    pub fn back_at(&self, settings: &super::Settings) -> Millis {
        let deadline = self.node.time;
        match (self.node.tree, self.recurrence()) {
            (TreeId::Retrying, _) => {
                let wait = settings.jittered_backoff(self.attempts, self.token);
                time::after_at_most(deadline, wait)
            }
            (TreeId::Recurring, Some(recurrence)) => recurrence.next(deadline),
            _ => deadline,
        }
    }
}
