//! Queries about the jobs of a tree up to a time, or after it. A count or the best job takes O(log n). A list takes
//! O(log n) per job.

use super::job::Job;
use super::node::{FALLING_DUE, Links, RECURRENCES, RETRIES, Roots, TreeId};
use super::returns::Return;
use super::tree::{self, Item, Key, Rank, ServingOrder};
use super::{Millis, NEVER};
use crate::model::chunks::{Chunks, NIL};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Index;

/// A part of a tree: an item alone, or a whole subtree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    One(u32),
    Subtree(u32),
}

/// Splits the items with `time <= now` into O(log n) pieces, and calls `visit` for each piece.
fn cut<T: Item>(jobs: &Chunks<T>, mut root: u32, now: Millis, mut visit: impl FnMut(Piece)) {
    while root != NIL {
        let node = jobs[root].node();
        if node.time <= now {
            visit(Piece::One(root));
            if node.links.left != NIL {
                visit(Piece::Subtree(node.links.left));
            }
            root = node.links.right;
        } else {
            root = node.links.left;
        }
    }
}

/// Returns the number of jobs with `time <= now`. O(log n).
pub(super) fn count_until<T: Item>(jobs: &Chunks<T>, root: u32, now: Millis) -> u64 {
    let mut count = 0;
    cut(jobs, root, now, |piece| match piece {
        Piece::One(_) => count += 1,
        Piece::Subtree(root) => count += u64::from(tree::size(jobs, root)),
    });
    count
}

/// Returns the number of jobs with `time > now`. O(log n).
pub(super) fn count_after<T: Item>(jobs: &Chunks<T>, root: u32, now: Millis) -> u64 {
    u64::from(tree::size(jobs, root)) - count_until(jobs, root, now)
}

/// Returns the job with `time <= now` that is served first, or `NIL`. O(log n).
pub(super) fn best_until<T: Item>(jobs: &Chunks<T>, root: u32, now: Millis, order: ServingOrder) -> u32 {
    let mut best = NIL;
    cut(jobs, root, now, |piece| {
        let candidate = match piece {
            Piece::One(slot) => slot,
            Piece::Subtree(root) => tree::best(jobs, root),
        };
        best = order.better(jobs, best, candidate);
    });
    best
}

/// Returns the first time in the tree for which `holds` is true. `holds` must be true for all later times, too. Calls
/// `holds` O(log n) times.
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

/// Returns the first time in the tree, or [`NEVER`].
pub(super) fn first_time<T: Item>(jobs: &Chunks<T>, root: u32) -> Millis {
    let first = tree::first(jobs, root);
    if first == NIL { NEVER } else { jobs[first].node().time }
}

#[cfg(test)]
thread_local! {
    pub(super) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Lists the items of a tree in their order.
pub(super) struct ByTime<'a, I> {
    items: &'a I,
    /// A stack of items that are still to be listed, with the next item on top. After each item, its right subtree is
    /// listed.
    path: Vec<u32>,
    is_skipped: fn(&I, u32, Millis) -> bool,
    now: Millis,
}

impl<'a, I> ByTime<'a, I> {
    /// Lists the items after the key `behind`, or all items. `behind` need not be the key of an item.
    pub fn of<T: Item>(items: &'a I, root: u32, behind: Option<Key>) -> Self
    where
        I: Index<u32, Output = T>,
    {
        Self::skipping(items, root, behind, 0, |_, _, _| false)
    }

    /// Lists the items after the key `behind`, without the subtrees for which `is_skipped` is true at `now`.
    pub fn skipping<T: Item>(
        items: &'a I,
        root: u32,
        behind: Option<Key>,
        now: Millis,
        is_skipped: fn(&I, u32, Millis) -> bool,
    ) -> Self
    where
        I: Index<u32, Output = T>,
    {
        let mut it = Self { items, path: Vec::new(), is_skipped, now };
        it.descend(root, behind);
        it
    }

    fn descend<T: Item>(&mut self, mut root: u32, behind: Option<Key>)
    where
        I: Index<u32, Output = T>,
    {
        while root != NIL && !(self.is_skipped)(self.items, root, self.now) {
            let node = self.items[root].node();
            root = if behind.is_none_or(|behind| behind < tree::key(node)) {
                self.path.push(root);
                node.links.left
            } else {
                node.links.right
            };
        }
    }
}

impl<'a, T: Item, I: Index<u32, Output = T>> Iterator for ByTime<'a, I> {
    type Item = (u32, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.path.pop()?;
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        let item = &self.items[number];
        self.descend(item.node().links.right, None);
        Some((number, item))
    }
}

/// The keys and slots of jobs, in the order of the keys.
pub(super) type List<'a> = Box<dyn Iterator<Item = (Key, u32)> + 'a>;

pub(super) fn merge(lists: Vec<List<'_>>) -> List<'_> {
    let mut lists: Vec<_> = lists.into_iter().map(Iterator::peekable).collect();
    Box::new(std::iter::from_fn(move || {
        let heads = lists.iter_mut().enumerate().filter_map(|(at, list)| Some((list.peek()?.0, at)));
        let (_, first) = heads.min()?;
        lists[first].next()
    }))
}

/// Lists the jobs of several trees in serving order. A heap orders pieces by the rank of their best job. For each job,
/// the iterator takes the first piece from the heap. If the piece is an item, the iterator returns its job. If the
/// piece is a subtree, the iterator splits it into its root and two smaller subtrees, and continues.
pub(super) struct ByRank<'a> {
    jobs: &'a Chunks<Job>,
    returns: &'a Chunks<Return>,
    order: ServingOrder,
    /// The pieces, each with its rank. The flag tells whether a piece belongs to a tree of [`Return`]s.
    pieces: BinaryHeap<Reverse<(Rank, bool, Piece)>>,
}

impl<'a> ByRank<'a> {
    /// Lists the ready jobs of one group.
    pub fn ready(
        jobs: &'a Chunks<Job>,
        returns: &'a Chunks<Return>,
        roots: &Roots,
        order: ServingOrder,
        now: Millis,
    ) -> Self {
        let mut it = Self { jobs, returns, order, pieces: BinaryHeap::new() };
        it.push(false, Piece::Subtree(roots[TreeId::Ready as usize]));
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
        Piece::One(slot) => slot,
        Piece::Subtree(root) => tree::best(items, root),
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
                Piece::One(slot) => {
                    return Some(&self.jobs[if of_returns { self.returns[slot].job } else { slot }]);
                }
                Piece::Subtree(root) => {
                    let node = if of_returns { self.returns[root].node() } else { self.jobs[root].node() };
                    let Links { left, right, .. } = node.links;
                    for piece in [Piece::One(root), Piece::Subtree(left), Piece::Subtree(right)] {
                        self.push(of_returns, piece);
                    }
                }
            }
        }
    }
}
