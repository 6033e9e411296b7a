//! Queries about the jobs of a tree: all jobs, the jobs up to a time, or the jobs after that time. Counting these jobs,
//! or finding the job to serve first, takes O(log n). Listing them takes O(log n) per job.

use super::Millis;
use super::items::{DueEntry, Member};
use super::job::Job;
use super::node::{JobNode, Links, OrderKey, State, TreeId, key};
use super::tree::{self, Item, Rank, ServingOrder};
use crate::base::chunks::{Chunks, NIL};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Index;

/// Which items of a tree a query considers: all items, those with `time <= now`, or those with `time > now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    All,
    Until,
    After,
}

/// Returns the trees with jobs in a state, and the part of each tree that contains these jobs. For [`State::Delayed`],
/// the parts of `BackoffDue` and `RecurringDue` also contain claimed jobs.
pub(super) fn parts(state: State) -> &'static [(TreeId, Part)] {
    match state {
        State::Ready => &[
            (TreeId::Ready, Part::All),
            (TreeId::Delayed, Part::Until),
            (TreeId::Claimed, Part::Until),
            (TreeId::Upcoming, Part::Until),
            (TreeId::BackoffDue, Part::Until),
            (TreeId::RecurringDue, Part::Until),
        ],
        State::Delayed => &[
            (TreeId::Delayed, Part::After),
            (TreeId::Upcoming, Part::After),
            (TreeId::BackoffDue, Part::After),
            (TreeId::RecurringDue, Part::After),
        ],
        State::Claimed => &[
            (TreeId::Claimed, Part::After),
            (TreeId::ClaimedLast, Part::After),
            (TreeId::ClaimedBackoff, Part::After),
            (TreeId::ClaimedRecurring, Part::After),
        ],
        State::Dead => &[(TreeId::Dead, Part::All), (TreeId::ClaimedLast, Part::Until)],
    }
}

/// A tree whose items are jobs or refer to jobs.
#[derive(Clone, Copy)]
pub(super) struct JobTree<'a> {
    pub items: JobItems<'a>,
    pub root: u32,
}

#[derive(Clone, Copy)]
pub(super) enum JobItems<'a> {
    Jobs(&'a Chunks<Job>),
    Members(&'a Chunks<Member>),
    DueEntries(&'a Chunks<DueEntry>),
}

/// Binds `$items` to the items of a [`JobTree`], whatever their type, and evaluates `$result`.
macro_rules! read {
    ($tree:expr, |$items:ident| $result:expr) => {
        match $tree.items {
            JobItems::Jobs($items) => $result,
            JobItems::Members($items) => $result,
            JobItems::DueEntries($items) => $result,
        }
    };
}

impl<'a> JobTree<'a> {
    fn node(self, number: u32) -> &'a JobNode {
        read!(self, |items| items[number].node())
    }

    /// Returns the slot of an item's job. `number` is the item's index in `items`.
    fn job(self, number: u32) -> u32 {
        read!(self, |items| items[number].job(number))
    }

    pub fn count(self, part: Part, now: Millis) -> u64 {
        let all = || u64::from(read!(self, |items| tree::size(items, self.root)));
        let until = || read!(self, |items| count_until(items, self.root, now));
        match part {
            Part::All => all(),
            Part::Until => until(),
            Part::After => all() - until(),
        }
    }

    /// Returns the first item's key and job.
    pub fn first(self) -> Option<(OrderKey, u32)> {
        let first = read!(self, |items| tree::first(items, self.root));
        (first != NIL).then(|| (key(self.node(first)), self.job(first)))
    }

    /// Returns the first time in the tree for which `pred` is true. If `pred` is true for a time, it must be true for
    /// all later times. Calls `pred` O(log n) times.
    pub fn first_where(self, pred: impl Fn(Millis) -> bool) -> Option<Millis> {
        let (mut root, mut first) = (self.root, None);
        while root != NIL {
            let JobNode { time, links, .. } = *self.node(root);
            if pred(time) {
                first = Some(time);
                root = links.left;
            } else {
                root = links.right;
            }
        }
        first
    }

    /// Returns the first time, not before `from`, of a [candidate](JobNode::is_candidate) whose push number is below
    /// `before`. The tree must store the order of ORDERED. O(log n).
    pub fn first_pushed(self, from: Millis, before: u64) -> Option<Millis> {
        let first = read!(self, |items| first_pushed(items, self.root, from, before));
        (first != NIL).then(|| self.node(first).time)
    }

    /// Finds the [candidate](JobNode::is_candidate) to serve first. For [`Part::Until`], considers only items with
    /// `time <= now`. For any other part, considers all items. Returns the item's node and its job.
    pub fn best(self, part: Part, now: Millis, order: ServingOrder) -> Option<(&'a JobNode, u32)> {
        let best = match part {
            Part::Until => read!(self, |items| best_until(items, self.root, now, order)),
            _ => read!(self, |items| tree::best(items, self.root)),
        };
        (best != NIL).then(|| (self.node(best), self.job(best)))
    }

    /// Lists the key and the job of each item in a part of this tree, in the order of the keys. The list begins after
    /// the key `behind`, which need not be the key of an item. In a tree of [`TreeId::OF_DUE_ENTRIES`], [`Part::After`]
    /// leaves out the jobs whose leases have not expired.
    pub fn list(self, part: Part, now: Millis, behind: Option<OrderKey>) -> List<'a> {
        let behind = if part == Part::After { behind.max(Some((now, i32::MAX, u64::MAX))) } else { behind };
        let is_in = move |&((time, ..), _): &(OrderKey, u32)| part != Part::Until || time <= now;
        if let (JobItems::DueEntries(items), Part::After) = (self.items, part) {
            let due_entries = ByTime::with_leases_until(items, self.root, behind, now);
            let due_entries = due_entries.filter(move |(_, it)| it.end <= now);
            return Box::new(due_entries.map(|(_, it)| (key(it.node()), it.job)));
        }
        read!(self, |items| {
            let listed = ByTime::of(items, self.root, behind).map(|(n, item)| (key(item.node()), item.job(n)));
            Box::new(listed.take_while(is_in))
        })
    }
}

/// Of two jobs, returns the job to serve first, with its node.
pub(super) fn better<'a>(order: ServingOrder, a: (&'a JobNode, u32), b: (&'a JobNode, u32)) -> (&'a JobNode, u32) {
    if order.is_before(b.0, a.0) { b } else { a }
}

/// A part of a tree: an item alone, or a whole subtree.
#[derive(Clone, Copy)]
enum Piece {
    One(u32),
    Subtree(u32),
}

/// Splits the items with `time <= now` into O(log n) single items and subtrees, and calls `visit` for each.
fn cut<T: Item>(items: &Chunks<T>, mut root: u32, now: Millis, mut visit: impl FnMut(Piece)) {
    while root != NIL {
        let node = items[root].node();
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

fn first_pushed<T: Item>(items: &Chunks<T>, root: u32, from: Millis, before: u64) -> u32 {
    let best = tree::best(items, root);
    if best == NIL || items[best].node().seq >= before {
        return NIL;
    }
    let JobNode { time, seq, links, .. } = items[root].node();
    if *time >= from {
        let found = first_pushed(items, links.left, from, before);
        if found != NIL {
            return found;
        }
        if *seq < before && items[root].node().is_candidate() {
            return root;
        }
    }
    first_pushed(items, links.right, from, before)
}

/// Returns the item that is served first in a [`Piece`], or `NIL` if no item is a [candidate](JobNode::is_candidate).
fn candidate<T: Item>(items: &Chunks<T>, piece: Piece) -> u32 {
    match piece {
        Piece::One(number) if items[number].node().is_candidate() => number,
        Piece::One(_) => NIL,
        Piece::Subtree(root) => tree::best(items, root),
    }
}

fn count_until<T: Item>(items: &Chunks<T>, root: u32, now: Millis) -> u64 {
    let mut count = 0;
    cut(items, root, now, |piece| match piece {
        Piece::One(_) => count += 1,
        Piece::Subtree(root) => count += u64::from(tree::size(items, root)),
    });
    count
}

/// Of the items with `time <= now`, returns the item to serve first, or `NIL`.
fn best_until<T: Item>(items: &Chunks<T>, root: u32, now: Millis, order: ServingOrder) -> u32 {
    let mut best = NIL;
    cut(items, root, now, |piece| {
        best = order.better(items, best, candidate(items, piece));
    });
    best
}

#[cfg(test)]
thread_local! {
    pub(super) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Lists the items of a tree in the order of their keys.
pub(super) struct ByTime<'a, I> {
    items: &'a I,
    /// A stack of items that are still to be listed, with the next item on top. After each item, the iterator lists the
    /// item's right subtree.
    path: Vec<u32>,
    /// The iterator skips subtrees whose first deadline is later than this time.
    leases_until: Millis,
}

impl<'a, T: Item, I: Index<u32, Output = T>> ByTime<'a, I> {
    /// Lists the items after the key `behind`. If `behind` is `None`, lists all items.
    pub fn of(items: &'a I, root: u32, behind: Option<OrderKey>) -> Self {
        Self::with_leases_until(items, root, behind, Millis::MAX)
    }

    /// Does the same as [`of`](Self::of), but skips subtrees in which all deadlines are later than `now`.
    fn with_leases_until(items: &'a I, root: u32, behind: Option<OrderKey>, now: Millis) -> Self {
        let mut it = Self { items, path: Vec::new(), leases_until: now };
        it.descend(root, behind);
        it
    }

    fn descend(&mut self, mut root: u32, behind: Option<OrderKey>) {
        while root != NIL && self.items[root].first_deadline() <= self.leases_until {
            let node = self.items[root].node();
            root = if behind.is_none_or(|behind| behind < self.items[root].key()) {
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

/// Jobs in the order of their [`OrderKey`]. The number is the job's slot.
pub(super) type List<'a> = Box<dyn Iterator<Item = (OrderKey, u32)> + 'a>;

pub(super) fn merge<'a>(lists: impl Iterator<Item = List<'a>>) -> List<'a> {
    let mut lists: Vec<_> = lists.map(Iterator::peekable).collect();
    Box::new(std::iter::from_fn(move || {
        let heads = lists.iter_mut().enumerate().filter_map(|(at, list)| Some((list.peek()?.0, at)));
        let (_, first) = heads.min()?;
        lists[first].next()
    }))
}

/// Lists the jobs of several trees in serving order. A *piece* is an item or a subtree. Each step takes the piece whose
/// best job is served first. If this piece is an item, the step lists its job. If it is a subtree, the step splits it
/// into its root and two smaller subtrees.
pub(super) struct ByRank<'a> {
    order: ServingOrder,
    /// The items and subtrees that are still to be listed.
    pieces: BinaryHeap<Ranked<'a>>,
}

/// An item or a subtree, with the rank of its job that is served first. A lower rank is served earlier.
struct Ranked<'a> {
    rank: Rank,
    tree: JobTree<'a>,
    piece: Piece,
}

impl Ord for Ranked<'_> {
    /// Reversed, because a [`BinaryHeap`] returns its greatest element first, and the lowest rank must come first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank)
    }
}

impl PartialOrd for Ranked<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Ranked<'_> {}

/// Where a list of jobs in serving order begins: behind the job with this rank. To get there, the list may skip at most
/// `most` jobs, including this job.
#[derive(Clone, Copy)]
pub(super) struct Behind {
    pub rank: Rank,
    pub most: usize,
}

impl<'a> ByRank<'a> {
    pub fn of(trees: impl Iterator<Item = (JobTree<'a>, Part)>, now: Millis, order: ServingOrder) -> Self {
        Self::behind(trees, now, order, None).expect("nothing comes before")
    }

    /// Lists the jobs that are served after a rank. Skips the other jobs without sorting them. Returns `None` if there
    /// are more than [`Behind::most`] jobs to skip.
    pub fn behind(
        trees: impl Iterator<Item = (JobTree<'a>, Part)>,
        now: Millis,
        order: ServingOrder,
        mut behind: Option<Behind>,
    ) -> Option<Self> {
        let mut pieces = Vec::new();
        for (tree, part) in trees {
            let now = if part == Part::All { Millis::MAX } else { now };
            let mut fits = true;
            read!(tree, |items| cut(items, tree.root, now, |piece| {
                fits = fits && collect(tree, piece, order, &mut behind, &mut pieces);
            }));
            if !fits {
                return None;
            }
        }
        Some(Self { order, pieces: pieces.into() })
    }
}

/// Adds to `pieces` those parts of `piece` whose jobs are served after the rank of `behind`. Returns false if there are
/// more than [`Behind::most`] jobs to skip.
fn collect<'a>(
    tree: JobTree<'a>,
    piece: Piece,
    order: ServingOrder,
    behind: &mut Option<Behind>,
    pieces: &mut Vec<Ranked<'a>>,
) -> bool {
    let best = read!(tree, |items| candidate(items, piece));
    if best == NIL {
        return true;
    }
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
    let rank = order.rank(tree.node(best));
    let passed = match behind {
        Some(behind) if rank <= behind.rank => behind,
        _ => {
            pieces.push(Ranked { rank, tree, piece });
            return true;
        }
    };
    match piece {
        Piece::One(_) if passed.most == 0 => false,
        Piece::One(_) => {
            passed.most -= 1;
            true
        }
        Piece::Subtree(root) => split(tree, root).into_iter().all(|piece| collect(tree, piece, order, behind, pieces)),
    }
}

fn split(tree: JobTree<'_>, root: u32) -> [Piece; 3] {
    let Links { left, right, .. } = tree.node(root).links;
    [Piece::One(root), Piece::Subtree(left), Piece::Subtree(right)]
}

impl Iterator for ByRank<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            let Ranked { tree, piece, .. } = self.pieces.pop()?;
            #[cfg(test)]
            STEPS.set(STEPS.get() + 1);
            match piece {
                Piece::One(number) => return Some(tree.job(number)),
                Piece::Subtree(root) => {
                    for piece in split(tree, root) {
                        let best = read!(tree, |items| candidate(items, piece));
                        if best != NIL {
                            self.pieces.push(Ranked { rank: self.order.rank(tree.node(best)), tree, piece });
                        }
                    }
                }
            }
        }
    }
}
