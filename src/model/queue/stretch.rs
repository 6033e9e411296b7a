//! Questions about a stretch of time: all jobs of a tree up to `now`, or after it.
//!
//! Nothing here changes anything. Counting and finding the best are O(log n); listing is O(log n) for each job listed.

use super::Millis;
use super::node::Links;
use super::slab::Slab;
use super::tree::{self, Item, Key, Order, Rank};
use crate::model::chunks::NIL;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A tree cut at `now` gives single nodes and whole subtrees, all of whose times are `<= now`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Node(u32),
    Tree(u32),
}

/// Calls `visit` with the O(log n) pieces that make up everything with `time <= now`.
fn cut<T: Item>(jobs: &Slab<T>, mut root: u32, now: Millis, mut visit: impl FnMut(Piece)) {
    while root != NIL {
        let node = jobs[root].node();
        if node.time <= now {
            visit(Piece::Node(root));
            if node.links.left != NIL {
                visit(Piece::Tree(node.links.left));
            }
            root = node.links.right;
        } else {
            root = node.links.left;
        }
    }
}

/// How many jobs of the tree have `time <= now`. O(log n).
pub(super) fn count_until<T: Item>(jobs: &Slab<T>, root: u32, now: Millis) -> u64 {
    let mut count = 0;
    cut(jobs, root, now, |piece| match piece {
        Piece::Node(_) => count += 1,
        Piece::Tree(root) => count += u64::from(tree::size(jobs, root)),
    });
    count
}

/// How many jobs of the tree have `time > now`. O(log n).
pub(super) fn count_after<T: Item>(jobs: &Slab<T>, root: u32, now: Millis) -> u64 {
    u64::from(tree::size(jobs, root)) - count_until(jobs, root, now)
}

/// The job with `time <= now` that is served first, or `NIL`. O(log n).
pub(super) fn best_until<T: Item>(jobs: &Slab<T>, root: u32, now: Millis, order: Order) -> u32 {
    let mut best = NIL;
    cut(jobs, root, now, |piece| {
        let candidate = match piece {
            Piece::Node(slot) => slot,
            Piece::Tree(root) => tree::best(jobs, root),
        };
        best = order.better(jobs, best, candidate);
    });
    best
}

/// The earliest time in the tree that is `> now`. O(log n).
pub(super) fn next_after<T: Item>(jobs: &Slab<T>, mut root: u32, now: Millis) -> Option<Millis> {
    let mut next = None;
    while root != NIL {
        let node = jobs[root].node();
        if node.time > now {
            next = Some(node.time);
            root = node.links.left;
        } else {
            root = node.links.right;
        }
    }
    next
}

/// The time of the `number`-th latest job of the tree, if there are that many. O(log n).
pub(super) fn latest<T: Item>(jobs: &Slab<T>, mut root: u32, mut number: u64) -> Option<Millis> {
    while root != NIL && number > 0 {
        let Links { left, right, .. } = jobs[root].node().links;
        let later = u64::from(tree::size(jobs, right));
        if number == later + 1 {
            return Some(jobs[root].node().time);
        }
        root = if number <= later { right } else { left };
        number = if number <= later { number } else { number - later - 1 };
    }
    None
}

#[cfg(test)]
thread_local! {
    /// Jobs that were listed, and trees that were taken apart for it.
    pub(super) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The jobs of one tree by time.
pub(super) struct ByTime<'a, T> {
    jobs: &'a Slab<T>,
    /// The nodes still to be given whose right subtrees are still to be gone through, earliest on top.
    path: Vec<u32>,
}

impl<'a, T: Item> ByTime<'a, T> {
    pub fn all(jobs: &'a Slab<T>, root: u32) -> Self {
        Self::of(jobs, root, None)
    }

    /// All jobs, or only those behind a key, which need not be one of this tree.
    pub fn of(jobs: &'a Slab<T>, mut root: u32, behind: Option<Key>) -> Self {
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

/// Two listings by time as one.
pub(super) fn merge<'a, T: Item + 'a>(
    a: impl Iterator<Item = (u32, &'a T)>,
    b: impl Iterator<Item = (u32, &'a T)>,
) -> impl Iterator<Item = (u32, &'a T)> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some((_, x)), Some((_, y))) if tree::key(y.node()) < tree::key(x.node()) => b.next(),
        (Some(_), _) => a.next(),
        _ => b.next(),
    })
}

/// Two lists by their keys as one.
pub(super) fn merge_keyed<K: Ord, V>(
    a: impl Iterator<Item = (K, V)>,
    b: impl Iterator<Item = (K, V)>,
) -> impl Iterator<Item = (K, V)> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some((x, _)), Some((y, _))) if y < x => b.next(),
        (Some(_), _) => a.next(),
        _ => b.next(),
    })
}

/// Jobs of several trees in serving order: a heap of pieces, each worth its best job. The best piece is either a
/// single job, which is next, or a tree, which is taken apart.
pub(super) struct ByRank<'a, T> {
    jobs: &'a Slab<T>,
    order: Order,
    pieces: BinaryHeap<Reverse<(Rank, Piece)>>,
}

impl<'a, T: Item> ByRank<'a, T> {
    pub fn new(jobs: &'a Slab<T>, order: Order) -> Self {
        Self { jobs, order, pieces: BinaryHeap::new() }
    }

    /// Adds a whole tree.
    pub fn all(mut self, root: u32) -> Self {
        self.push(Piece::Tree(root));
        self
    }

    /// Adds the jobs of a tree with `time <= now`.
    pub fn until(mut self, root: u32, now: Millis) -> Self {
        cut(self.jobs, root, now, |piece| self.push(piece));
        self
    }

    fn push(&mut self, piece: Piece) {
        let best = match piece {
            Piece::Node(slot) => slot,
            Piece::Tree(root) => tree::best(self.jobs, root),
        };
        if best != NIL {
            let rank = self.order.rank(self.jobs[best].node());
            self.pieces.push(Reverse((rank, piece)));
        }
    }
}

impl<'a, T: Item> Iterator for ByRank<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            let Reverse((_, piece)) = self.pieces.pop()?;
            #[cfg(test)]
            STEPS.set(STEPS.get() + 1);
            match piece {
                Piece::Node(slot) => return Some(&self.jobs[slot]),
                Piece::Tree(root) => {
                    let Links { left, right, .. } = self.jobs[root].node().links;
                    self.push(Piece::Node(root));
                    self.push(Piece::Tree(left));
                    self.push(Piece::Tree(right));
                }
            }
        }
    }
}
