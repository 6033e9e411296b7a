//! Claimed jobs that are not due at once when their lease expires.
//!
//! A job in [`TreeId::Retrying`] waits for BACKOFF after its lease. A job in [`TreeId::Recurring`] waits for its next
//! occurrence. The time at which these jobs are due again follows from the job and the settings ([`Job::back_at`]). So
//! no effect is needed when the lease expires.
//!
//! The tree of the job is ordered by deadline, as for all claimed jobs. So the job also has an entry, a [`Return`], in
//! a second tree, which is ordered by the time at which jobs are due again. The two orders differ, because of BACKOFF
//! and JITTER. A job with a group has an entry in two second trees:
//!
//! | second trees | jobs |
//! |---|---|
//! | `roots[RETRIES]`, `roots[RECURRENCES]` of the queue | jobs without a group: in `Retrying`, and in `Recurring` |
//! | `roots[RETRIES]`, `roots[RECURRENCES]` of a group | its jobs: in `Retrying`, and in `Recurring` |
//! | [`Returns::grouped_root`] | all jobs with a group, in `Retrying` or `Recurring` |
//!
//! A `Return` also stores the earliest deadline of its subtree. So a list of the jobs whose leases have expired can
//! skip the subtrees of jobs that are still claimed.

use super::job::Job;
use super::node::{JobNode, Links, RECURRENCES, RETRIES, Roots, TreeId};
use super::stretch::{self, ByTime, List};
use super::tree::{self, Item, Items, Key, ServingOrder, key};
use super::{Millis, Queue};
use crate::model::chunks::{Chunks, NIL};
use crate::model::time;

/// The entry of a job in a second tree. The time of `node` is [`Job::back_at`].
#[derive(Clone, Debug)]
pub(super) struct Return {
    pub node: JobNode,
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
    /// The entries in the trees of the queue and of the groups.
    pub own: Chunks<Return>,
    /// The entries in the tree of all jobs with a group.
    pub grouped: Chunks<Return>,
    pub grouped_root: u32,
}

impl Returns {
    pub fn new() -> Returns {
        Returns { own: Chunks::default(), grouped: Chunks::default(), grouped_root: NIL }
    }

    /// Updates the trees of a group after a change of the serving order.
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

/// The jobs of two trees are also in a second tree, in the order in which they return. Returns the index of that tree
/// in [`Roots`].
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
    /// Adds the entries of a job after it entered its tree.
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

    /// Removes the entries of a job before it leaves its tree.
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

    /// Updates the entries of a job that has moved to `slot`.
    pub(super) fn renumber_return(&mut self, slot: u32) {
        if return_tree(self.jobs[slot].node.tree).is_some() {
            let (own, grouped, _) = self.find_return(slot);
            self.returns.own[own].job = slot;
            if grouped != NIL {
                self.returns.grouped[grouped].job = slot;
            }
        }
    }

    /// Returns two entries of the job, and a tree. The first entry is the one in `own`. The second entry is the one in
    /// `grouped`, or `NIL` if the job has no group. The tree is that of the first entry, as an index in [`Roots`].
    fn find_return(&mut self, slot: u32) -> (u32, u32, usize) {
        let job = &self.jobs[slot];
        let wanted = (job.back_at(&self.settings), job.node.priority, job.node.seq);
        let (tree, is_grouped) = (return_tree(job.node.tree).unwrap_or(RETRIES), job.member() != NIL);
        let root = *self.tree_of_job(slot, tree);
        let own = find(&self.returns.own, root, wanted);
        let Returns { grouped, grouped_root, .. } = &self.returns;
        (own, if is_grouped { find(grouped, *grouped_root, wanted) } else { NIL }, tree)
    }

    /// Returns the second trees of a group, or of all groups.
    fn return_trees(&self, group: Option<&Roots>) -> [(&Chunks<Return>, u32); 3] {
        let Returns { own, grouped, grouped_root } = &self.returns;
        let (roots, others) = match group {
            None => (&self.roots, *grouped_root),
            Some(roots) => (roots, NIL),
        };
        [(own, roots[RETRIES]), (own, roots[RECURRENCES]), (grouped, others)]
    }

    /// Returns the number of jobs that are due again after their lease, of one group or of all groups. O(log n).
    pub(super) fn count_returned(&self, group: Option<&Roots>, now: Millis) -> u64 {
        self.return_trees(group).map(|(items, root)| stretch::count_until(items, root, now)).iter().sum()
    }

    /// Returns the first time at which a job is due again, which may have passed, or [`NEVER`](super::NEVER).
    pub(super) fn first_return(&self) -> Millis {
        self.return_trees(None)
            .map(|(items, root)| stretch::first_time(items, root))
            .into_iter()
            .fold(Millis::MAX, Millis::min)
    }

    /// Lists the jobs whose leases have expired and that are not yet due again, of one group or of all groups. The jobs
    /// of each list are ordered by the time at which they are due again. Each list begins after the key `behind`.
    /// O(log n) per job.
    pub(super) fn waiting_returns(&self, group: Option<&Roots>, now: Millis, behind: Option<Key>) -> [List<'_>; 3] {
        let behind = behind.max(Some((now, i32::MAX, u64::MAX)));
        self.return_trees(group).map(|(items, root)| {
            let no_lease_has_ended = |items: &Chunks<Return>, root, now| items[root].first_deadline > now;
            let returns = ByTime::skipping(items, root, behind, now, no_lease_has_ended);
            let returns = returns.filter(move |(_, it)| it.deadline <= now).map(|(_, it)| (key(&it.node), it.job));
            Box::new(returns) as List<'_>
        })
    }

    /// Lists the jobs that are due again after their lease, of one group or of all groups. The jobs of each list are
    /// ordered by the time at which they became due. Each list begins after the key `behind`.
    pub(super) fn returned(&self, group: Option<&Roots>, now: Millis, behind: Option<Key>) -> [List<'_>; 3] {
        self.return_trees(group).map(|(items, root)| {
            let returns = ByTime::of(items, root, behind).map(|(_, it)| (key(&it.node), it.job));
            Box::new(returns.take_while(move |((time, ..), _)| *time <= now)) as List<'_>
        })
    }

    /// Returns the due time of a job at `now`. If its lease has expired, the job is due again at [`Job::back_at`].
    pub(super) fn due_of(&self, slot: u32, now: Millis) -> Millis {
        self.jobs[slot].due(now, &self.settings)
    }
}

impl Job {
    /// See [`Queue::due_of`].
    pub fn due(&self, now: Millis, settings: &super::Settings) -> Millis {
        if self.is_lapsed(now) { self.back_at(settings) } else { self.node.time }
    }

    /// Returns the time at which a claimed job is due again if no command changes it. A job in [`TreeId::Spent`]
    /// becomes a dead letter at this time.
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
