//! Jobs that are not due again at the end of their lease, but some time after it: the order in which they come back.
//!
//! The lease of a job ends; then it waits for BACKOFF ([`Tree::Retrying`]), or, if that was the last attempt of a job with EVERY, for its
//! next occurrence ([`Tree::Recurring`]). Both moments follow from what the claim has stored and from the settings
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
use super::node::{Links, Node, RECURRENCES, RETRIES, Roots, Tree};
use super::slab::Slab;
use super::stretch::{self, ByTime};
use super::tree::{self, Item, Key, Order, key};
use super::{Millis, Queue};
use crate::model::chunks::NIL;
use crate::model::time;

/// A claimed job by when it is due again.
#[derive(Clone, Debug)]
pub(super) struct Return {
    node: Node,
    /// When the lease ends.
    deadline: Millis,
    /// The first of these of the subtree.
    first_deadline: Millis,
    job: u32,
}

impl Return {
    pub fn job(&self) -> u32 {
        self.job
    }
}

impl Item for Return {
    fn node(&self) -> &Node {
        &self.node
    }

    fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    fn hand_over(items: &mut Slab<Return>, from: u32, to: u32) {
        items[to].first_deadline = items[from].first_deadline;
    }

    fn gather(items: &mut Slab<Return>, root: u32) -> bool {
        let Links { left, right, .. } = items[root].node.links;
        let children = [left, right].into_iter().filter(|&child| child != NIL);
        let first = children.map(|child| items[child].first_deadline).fold(items[root].deadline, Millis::min);
        std::mem::replace(&mut items[root].first_deadline, first) != first
    }
}

#[derive(Clone, Debug)]
pub(super) struct Returns {
    /// In the trees of the queue and its groups.
    own: Slab<Return>,
    /// Those of jobs with a group, once more.
    grouped: Slab<Return>,
    grouped_root: u32,
}

impl Returns {
    pub fn new() -> Returns {
        Returns { own: Slab::default(), grouped: Slab::default(), grouped_root: NIL }
    }

    pub fn own(&self) -> &Slab<Return> {
        &self.own
    }

    /// Refreshes the trees of a group, after the order has changed.
    pub fn rerank(&mut self, roots: &Roots, order: Order) {
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
fn return_tree(tree: Tree) -> Option<usize> {
    match tree {
        Tree::Retrying => Some(RETRIES),
        Tree::Recurring => Some(RECURRENCES),
        _ => None,
    }
}

fn find(items: &Slab<Return>, mut root: u32, wanted: Key) -> u32 {
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
        let node = Node { time, links: Links::ALONE, best: NIL, high: [0; 3], ..job.node };
        let is_grouped = job.member() != NIL;
        let it = Return { node, deadline, first_deadline: deadline, job: slot };
        let order = self.order();
        if is_grouped {
            let returns = &mut self.returns;
            let entry = returns.grouped.insert(it.clone());
            returns.grouped_root = tree::insert(&mut returns.grouped, returns.grouped_root, entry, Order::default());
        }
        let entry = self.returns.own.insert(it);
        let root = *self.tree_of_job(slot, tree);
        *self.tree_of_job(slot, tree) = tree::insert(&mut self.returns.own, root, entry, order);
        self.jobs[slot].set_returning(true);
    }

    /// Takes a job out. To be called before anything changes from which it follows when the job is due again.
    pub(super) fn unlink_return(&mut self, slot: u32) {
        if !self.jobs[slot].is_returning() {
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
            *root = tree::remove(items, *root, grouped, Order::default());
            if let Some(from) = items.remove(grouped) {
                *root = tree::renumber(items, *root, from, grouped);
            }
        }
        self.jobs[slot].set_returning(false);
    }

    /// A job has moved into another slot.
    pub(super) fn renumber_return(&mut self, slot: u32) {
        if self.jobs[slot].is_returning() {
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

    /// All trees of returns: those of the jobs without a group, and that of the others.
    fn return_trees(&self) -> [(&Slab<Return>, u32); 3] {
        let Returns { own, grouped, grouped_root } = &self.returns;
        [(own, self.roots[RETRIES]), (own, self.roots[RECURRENCES]), (grouped, *grouped_root)]
    }

    /// How many jobs have come back since their lease ended. O(log n).
    pub(super) fn count_returned(&self, now: Millis) -> u64 {
        self.return_trees().into_iter().map(|(items, root)| stretch::count_until(items, root, now)).sum()
    }

    /// The same of one group.
    pub(super) fn count_returned_of(&self, roots: &Roots, now: Millis) -> u64 {
        [RETRIES, RECURRENCES].map(|tree| stretch::count_until(&self.returns.own, roots[tree], now)).iter().sum()
    }

    /// The first job to come back, and when, by time; it may have done so.
    pub(super) fn first_return(&self) -> Option<(Key, u32)> {
        let firsts = self.return_trees().map(|(items, root)| (items, tree::first(items, root)));
        let firsts = firsts.into_iter().filter(|&(_, first)| first != NIL);
        firsts.map(|(items, first)| (key(&items[first].node), items[first].job)).min()
    }

    /// When the next job comes back that is in a group without a name.
    pub(super) fn next_return(&self, now: Millis) -> Option<Millis> {
        let trees = [RETRIES, RECURRENCES].map(|tree| self.roots[tree]);
        trees.into_iter().filter_map(|root| stretch::next_after(&self.returns.own, root, now)).min()
    }

    /// The jobs that wait although their lease has ended, by when they come back; only those behind a certain one. O(log n) for each.
    pub(super) fn waiting_returns(&self, now: Millis, behind: Option<Key>) -> impl Iterator<Item = (Key, u32)> {
        let [a, b, c] = self.return_trees().map(|(items, root)| Waiting::new(items, root, now, behind));
        stretch::merge_keyed(a, stretch::merge_keyed(b, c))
    }

    /// The jobs that have come back since their lease ended, by when they did; only those behind a certain one.
    pub(super) fn returned(&self, now: Millis, behind: Option<Key>) -> impl Iterator<Item = (Key, u32)> {
        let [a, b, c] = self.return_trees().map(|(items, root)| {
            let returns = ByTime::of(items, root, behind);
            returns.map(|(_, it)| (key(&it.node), it.job)).take_while(move |((time, ..), _)| *time <= now)
        });
        stretch::merge_keyed(a, stretch::merge_keyed(b, c))
    }

    /// The end of its lease is not what a job waits for any more: when it is due, by the clock.
    pub(super) fn due_of(&self, slot: u32, now: Millis) -> Millis {
        let job = &self.jobs[slot];
        if job.is_lapsed(now) { job.back_at(&self.settings) } else { job.node.time }
    }

    #[cfg(test)]
    pub(super) fn check_returns(&self, seen: &[u32]) {
        let expected: Vec<u32> =
            seen.iter().copied().filter(|&slot| return_tree(self.jobs[slot].node.tree).is_some()).collect();
        assert_eq!(self.returns.own.len(), expected.len());
        let mut found = Vec::new();
        for roots in self.all_roots() {
            for tree in [RETRIES, RECURRENCES] {
                self.check_return_tree(&self.returns.own, roots[tree], self.order(), Some(tree), &mut found);
            }
        }
        found.sort_unstable();
        let mut sorted = expected.clone();
        sorted.sort_unstable();
        assert_eq!(found, sorted);
        let mut grouped = Vec::new();
        let Returns { grouped: items, grouped_root, .. } = &self.returns;
        self.check_return_tree(items, *grouped_root, Order::default(), None, &mut grouped);
        grouped.sort_unstable();
        let with_group = |&slot: &u32| self.jobs[slot].member() != NIL;
        assert_eq!(grouped, sorted.into_iter().filter(with_group).collect::<Vec<_>>());
        assert_eq!(items.len(), grouped.len());
        for &slot in seen {
            let job = &self.jobs[slot];
            assert_eq!(job.is_returning(), return_tree(job.node.tree).is_some());
        }
    }

    #[cfg(test)]
    fn check_return_tree(
        &self,
        items: &Slab<Return>,
        root: u32,
        order: Order,
        tree: Option<usize>,
        found: &mut Vec<u32>,
    ) {
        let all: Vec<u32> = ByTime::all(items, root).map(|(entry, _)| entry).collect();
        assert!(all.is_sorted_by_key(|&entry| key(&items[entry].node)));
        for entry in all {
            let it = &items[entry];
            let job = &self.jobs[it.job];
            let due = job.back_at(&self.settings);
            assert_eq!(key(&it.node), (due, job.node.priority, job.node.seq));
            assert_eq!((it.deadline, it.node.tree), (job.node.time, job.node.tree));
            assert!(tree.is_none_or(|tree| return_tree(it.node.tree) == Some(tree)));
            let Links { left, right, .. } = it.node.links;
            let children = || [left, right].into_iter().filter(|&child| child != NIL);
            let first = children().map(|child| items[child].first_deadline).min();
            assert_eq!(it.first_deadline, first.unwrap_or(it.deadline).min(it.deadline));
            let best = children().fold(entry, |best, child| order.better(items, best, tree::best(items, child)));
            assert_eq!(it.node.best, best);
            found.push(it.job);
        }
    }
}

impl Job {
    /// When a claimed job is due again if nobody finishes it. For one whose last attempt this is, and which has no next occurrence, that is when it
    /// dies.
    pub fn back_at(&self, settings: &super::Settings) -> Millis {
        let deadline = self.node.time;
        match (self.node.tree, &self.recurrence) {
            (Tree::Retrying, _) => {
                let wait = settings.jittered_backoff(self.attempts, self.token);
                time::after_at_most(deadline, wait)
            }
            (Tree::Recurring, Some(recurrence)) => recurrence.next(deadline),
            _ => deadline,
        }
    }
}

/// The entries of a tree whose lease has ended and that have not come back.
struct Waiting<'a> {
    items: &'a Slab<Return>,
    now: Millis,
    path: Vec<u32>,
}

impl<'a> Waiting<'a> {
    fn new(items: &'a Slab<Return>, mut root: u32, now: Millis, behind: Option<Key>) -> Self {
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

impl Iterator for Waiting<'_> {
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
