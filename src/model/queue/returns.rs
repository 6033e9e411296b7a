//! Jobs that are not due again at the end of their lease, but some time after it: the order in which they come back.
//!
//! The lease of a job ends; then it waits for BACKOFF ([`TreeId::Retrying`]), or, if that was the last attempt of a job with EVERY, for its
//! next occurrence ([`TreeId::Recurring`]). Both moments follow from what the claim has stored and from the settings
//! ([`Job::back_at`]), so that nothing happens here either when time passes. Such a job has two moments that matter, and stands in two
//! orders: its own tree has it by the end of the lease, as it has every claimed job, and a tree of `Return`s by the
//! moment at which it is due again. No other job is in such a tree or pays for it.
//!
//! | trees | whose jobs |
//! |---|---|
//! | `roots[RETRIES]`, `roots[RECURRENCES]` of the queue and of each group | of that group, by tree |
//! | [`Returns::grouped_root`] | all jobs with a group |
//!
//! A `Return` also knows the first end of a lease in its subtree, so that jobs whose leases have ended are listed without a look
//! at those that are still claimed.

use super::job::Job;
use super::node::{JobNode, Links, RECURRENCES, RETRIES, Roots, TreeId};
use super::stretch::{self, ByTime, List};
use super::tree::{self, Item, Items, Key, ServingOrder, key};
use super::{Millis, Queue};
use crate::model::chunks::{Chunks, NIL};
use crate::model::time;

/// A claimed job by when it is due again.
#[derive(Clone, Debug)]
pub(super) struct Return {
    pub node: JobNode,
    /// When the lease ends.
    pub deadline: Millis,
    /// The first of these of the subtree.
    pub first_deadline: Millis,
    pub job: u32,
}

impl Return {
    pub fn job(&self) -> u32 {
        self.job
    }
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
    /// In the trees of the queue and its groups.
    pub own: Chunks<Return>,
    /// Those of jobs with a group, once more.
    pub grouped: Chunks<Return>,
    pub grouped_root: u32,
}

impl Returns {
    pub fn new() -> Returns {
        Returns { own: Chunks::default(), grouped: Chunks::default(), grouped_root: NIL }
    }

    pub fn own(&self) -> &Chunks<Return> {
        &self.own
    }

    /// Refreshes the trees of a group, after the order has changed.
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

/// The tree of returns for jobs in a tree, if they have one.
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
    /// Enters a job that has just come into its tree.
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

    /// Takes a job out that is about to leave its tree.
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

    /// A job has moved into another slot.
    pub(super) fn renumber_return(&mut self, slot: u32) {
        if return_tree(self.jobs[slot].node.tree).is_some() {
            let (own, grouped, _) = self.find_return(slot);
            self.returns.own[own].job = slot;
            if grouped != NIL {
                self.returns.grouped[grouped].job = slot;
            }
        }
    }

    /// The entries of a job, and the tree that the first of them is in.
    fn find_return(&mut self, slot: u32) -> (u32, u32, usize) {
        let job = &self.jobs[slot];
        let wanted = (job.back_at(&self.settings), job.node.priority, job.node.seq);
        let (tree, is_grouped) = (return_tree(job.node.tree).unwrap_or(RETRIES), job.member() != NIL);
        let root = *self.tree_of_job(slot, tree);
        let own = find(&self.returns.own, root, wanted);
        let Returns { grouped, grouped_root, .. } = &self.returns;
        (own, if is_grouped { find(grouped, *grouped_root, wanted) } else { NIL }, tree)
    }

    /// The trees of returns of a group, or all: those of the jobs without a group, and that of the others.
    fn return_trees(&self, group: Option<&Roots>) -> [(&Chunks<Return>, u32); 3] {
        let Returns { own, grouped, grouped_root } = &self.returns;
        let (roots, others) = match group {
            None => (&self.roots, *grouped_root),
            Some(roots) => (roots, NIL),
        };
        [(own, roots[RETRIES]), (own, roots[RECURRENCES]), (grouped, others)]
    }

    /// How many jobs, of a group or of all, have come back since their lease ended. O(log n).
    pub(super) fn count_returned(&self, group: Option<&Roots>, now: Millis) -> u64 {
        self.return_trees(group).map(|(items, root)| stretch::count_until(items, root, now)).iter().sum()
    }

    /// When the first job comes back; it may have done so. [`NEVER`](super::NEVER): there is none.
    pub(super) fn first_return(&self) -> Millis {
        self.return_trees(None)
            .map(|(items, root)| stretch::first_time(items, root))
            .into_iter()
            .fold(Millis::MAX, Millis::min)
    }

    /// The jobs of a group, or all, that wait although their lease has ended, by when they come back; only those behind a certain one.
    /// O(log n) for each.
    pub(super) fn waiting_returns(&self, group: Option<&Roots>, now: Millis, behind: Option<Key>) -> [List<'_>; 3] {
        self.return_trees(group).map(|(items, root)| Box::new(Delays::new(items, root, now, behind)) as List<'_>)
    }

    /// The jobs of a group, or all, that have come back since their lease ended, by when they did; only those behind a certain one.
    pub(super) fn returned(&self, group: Option<&Roots>, now: Millis, behind: Option<Key>) -> [List<'_>; 3] {
        self.return_trees(group).map(|(items, root)| {
            let returns = ByTime::of(items, root, behind).map(|(_, it)| (key(&it.node), it.job));
            Box::new(returns.take_while(move |((time, ..), _)| *time <= now)) as List<'_>
        })
    }

    /// When the job is due, by the clock: after its lease has ended, when it comes back.
    pub(super) fn due_of(&self, slot: u32, now: Millis) -> Millis {
        let job = &self.jobs[slot];
        if job.is_lapsed(now) { job.back_at(&self.settings) } else { job.node.time }
    }
}

impl Job {
    /// When a claimed job is due again if nobody finishes it. For one whose last attempt this is, and which has no next occurrence, that is when it
    /// dies.
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

/// The entries of a tree whose lease has ended and that have not come back.
struct Delays<'a> {
    items: &'a Chunks<Return>,
    now: Millis,
    path: Vec<u32>,
}

impl<'a> Delays<'a> {
    fn new(items: &'a Chunks<Return>, mut root: u32, now: Millis, behind: Option<Key>) -> Self {
        let mut path = Vec::new();
        while root != NIL && items[root].first_deadline <= now {
            let node = &items[root].node;
            let is_behind = node.time > now && behind.is_none_or(|behind| behind < key(node));
            if is_behind {
                path.push(root);
                root = node.links.left;
            } else {
                root = node.links.right;
            }
        }
        Self { items, now, path }
    }
}

impl Iterator for Delays<'_> {
    type Item = (Key, u32);

    fn next(&mut self) -> Option<(Key, u32)> {
        loop {
            let entry = self.path.pop()?;
            let it = &self.items[entry];
            let mut root = it.node.links.right;
            while root != NIL && self.items[root].first_deadline <= self.now {
                self.path.push(root);
                root = self.items[root].node.links.left;
            }
            if it.deadline <= self.now {
                return Some((key(&it.node), it.job));
            }
        }
    }
}
