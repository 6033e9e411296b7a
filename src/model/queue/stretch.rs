//! Questions about a stretch of time: all jobs of a tree up to `now`, or after it.
//!
//! Nothing here changes anything. Counting and finding the best are O(log n); listing is O(log n) for each job listed.

use super::job::Job;
use super::node::{FALLING_DUE, Links, RECURRENCES, RETRIES, Roots, TreeId};
use super::returns::Return;
use super::tree::{self, Item, Key, Rank, ServingOrder};
use super::{Millis, NEVER};
use crate::model::chunks::{Chunks, NIL};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A tree cut at `now` gives single nodes and whole subtrees, all of whose times are `<= now`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    JobNode(u32),
    TreeId(u32),
}

/// Calls `visit` with the O(log n) pieces that make up everything with `time <= now`.
fn cut<T: Item>(jobs: &Chunks<T>, mut root: u32, now: Millis, mut visit: impl FnMut(Piece)) {
    while root != NIL {
        let node = jobs[root].node();
        if node.time <= now {
            visit(Piece::JobNode(root));
            if node.links.left != NIL {
                visit(Piece::TreeId(node.links.left));
            }
            root = node.links.right;
        } else {
            root = node.links.left;
        }
    }
}

/// How many jobs of the tree have `time <= now`. O(log n).
pub(super) fn count_until<T: Item>(jobs: &Chunks<T>, root: u32, now: Millis) -> u64 {
    let mut count = 0;
    cut(jobs, root, now, |piece| match piece {
        Piece::JobNode(_) => count += 1,
        Piece::TreeId(root) => count += u64::from(tree::size(jobs, root)),
    });
    count
}

/// How many jobs of the tree have `time > now`. O(log n).
pub(super) fn count_after<T: Item>(jobs: &Chunks<T>, root: u32, now: Millis) -> u64 {
    u64::from(tree::size(jobs, root)) - count_until(jobs, root, now)
}

/// The job with `time <= now` that is served first, or `NIL`. O(log n).
pub(super) fn best_until<T: Item>(jobs: &Chunks<T>, root: u32, now: Millis, order: ServingOrder) -> u32 {
    let mut best = NIL;
    cut(jobs, root, now, |piece| {
        let candidate = match piece {
            Piece::JobNode(slot) => slot,
            Piece::TreeId(root) => tree::best(jobs, root),
        };
        best = order.better(jobs, best, candidate);
    });
    best
}

/// The first time in the tree for which `holds` is true, as it then is for all later ones. O(log n) questions.
pub(super) fn first_where<T: Item>(jobs: &Chunks<T>, mut root: u32, holds: impl Fn(Millis) -> bool) -> Option<Millis> {
    let mut first = None;
    while root != NIL {
        let node = jobs[root].node();
        if holds(node.time) {
            first = Some(node.time);
            root = node.links.left;
        } else {
            root = node.links.right;
        }
    }
    first
}

/// The first time in the tree, or [`NEVER`].
pub(super) fn first_time<T: Item>(jobs: &Chunks<T>, root: u32) -> Millis {
    let first = tree::first(jobs, root);
    if first == NIL { NEVER } else { jobs[first].node().time }
}

#[cfg(test)]
thread_local! {
    /// Jobs that were listed, and trees that were taken apart for it.
    pub(super) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The jobs of one tree by time.
pub(super) struct ByTime<'a, T> {
    jobs: &'a Chunks<T>,
    /// The nodes still to be given whose right subtrees are still to be gone through, earliest on top.
    path: Vec<u32>,
}

impl<'a, T: Item> ByTime<'a, T> {
    pub fn all(jobs: &'a Chunks<T>, root: u32) -> Self {
        Self::of(jobs, root, None)
    }

    /// All jobs, or only those behind a key, which need not be one of this tree.
    pub fn of(jobs: &'a Chunks<T>, mut root: u32, behind: Option<Key>) -> Self {
        let mut it = Self { jobs, path: Vec::new() };
        let Some(behind) = behind else {
            it.descend(root);
            return it;
        };
        while root != NIL {
            let node = jobs[root].node();
            if behind < tree::key(node) {
                it.path.push(root);
                root = node.links.left;
            } else {
                root = node.links.right;
            }
        }
        it
    }

    fn descend(&mut self, mut root: u32) {
        while root != NIL {
            self.path.push(root);
            root = self.jobs[root].node().links.left;
        }
    }
}

impl<'a, T: Item> Iterator for ByTime<'a, T> {
    type Item = (u32, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        let slot = self.path.pop()?;
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        let job = &self.jobs[slot];
        self.descend(job.node().links.right);
        Some((slot, job))
    }
}

/// Jobs, by a key.
pub(super) type List<'a> = Box<dyn Iterator<Item = (Key, u32)> + 'a>;

/// Lists by their keys as one.
pub(super) fn merge(lists: Vec<List<'_>>) -> List<'_> {
    let mut lists: Vec<_> = lists.into_iter().map(Iterator::peekable).collect();
    Box::new(std::iter::from_fn(move || {
        let heads = lists.iter_mut().enumerate().filter_map(|(at, list)| Some((list.peek()?.0, at)));
        let (_, first) = heads.min()?;
        lists[first].next()
    }))
}

/// Jobs of several trees in serving order: a heap of pieces, each worth its best job. The best piece is either a
/// single job, which is next, or a tree, which is taken apart.
pub(super) struct ByRank<'a> {
    jobs: &'a Chunks<Job>,
    returns: &'a Chunks<Return>,
    order: ServingOrder,
    /// Of jobs; of returns, if that is true.
    pieces: BinaryHeap<Reverse<(Rank, bool, Piece)>>,
}

impl<'a> ByRank<'a> {
    /// The jobs that are ready in the trees of a group.
    pub fn ready(
        jobs: &'a Chunks<Job>,
        returns: &'a Chunks<Return>,
        roots: &Roots,
        order: ServingOrder,
        now: Millis,
    ) -> Self {
        let mut it = Self { jobs, returns, order, pieces: BinaryHeap::new() };
        it.push(false, Piece::TreeId(roots[TreeId::Ready as usize]));
        for tree in FALLING_DUE {
            cut(jobs, roots[tree as usize], now, |piece| it.push(false, piece));
        }
        for tree in [RETRIES, RECURRENCES] {
            cut(returns, roots[tree], now, |piece| it.push(true, piece));
        }
        it
    }

    fn push(&mut self, of_returns: bool, piece: Piece) {
        let rank = if of_returns { rank(self.returns, piece, self.order) } else { rank(self.jobs, piece, self.order) };
        self.pieces.extend(rank.map(|rank| Reverse((rank, of_returns, piece))));
    }
}

fn rank<T: Item>(items: &Chunks<T>, piece: Piece, order: ServingOrder) -> Option<Rank> {
    let best = match piece {
        Piece::JobNode(slot) => slot,
        Piece::TreeId(root) => tree::best(items, root),
    };
    (best != NIL).then(|| order.rank(items[best].node()))
}

impl<'a> Iterator for ByRank<'a> {
    type Item = &'a Job;

    fn next(&mut self) -> Option<&'a Job> {
        loop {
            let Reverse((_, of_returns, piece)) = self.pieces.pop()?;
            #[cfg(test)]
            STEPS.set(STEPS.get() + 1);
            match piece {
                Piece::JobNode(slot) => {
                    return Some(&self.jobs[if of_returns { self.returns[slot].job } else { slot }]);
                }
                Piece::TreeId(root) => {
                    let node = if of_returns { self.returns[root].node() } else { self.jobs[root].node() };
                    let Links { left, right, .. } = node.links;
                    for piece in [Piece::JobNode(root), Piece::TreeId(left), Piece::TreeId(right)] {
                        self.push(of_returns, piece);
                    }
                }
            }
        }
    }
}
