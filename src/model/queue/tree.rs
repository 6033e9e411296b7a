//! The order of jobs by time, in which the best job of any stretch of time is found without looking at the others.
//!
//! A weight-balanced tree (Nievergelt and Reingold 1973; the parameters of Hirai and Yamamoto 2011), keyed by
//! `(time, priority, seq)`, linked through the jobs. Every node knows two things about its subtree: how many jobs it
//! holds, which both balances the tree and counts by the clock, and which of them is to be *served* first. So for any
//! `now`
//!
//! - how many jobs have `time <= now` is one walk down the tree, and
//! - the best of them is the best of the O(log n) subtrees to the left of that walk.
//!
//! That is why nothing has to be promoted when it falls due, and why a million jobs due at one instant, or a clock
//! that steps back, are nothing special.
//!
//! The depth is below 2.5 × log2(n), at most 80, so recursion is safe.

use super::Millis;
use super::job::{NIL, Node};
use super::slab::Slab;
use std::cmp::Ordering;

/// A subtree may weigh at most this many times its sibling.
const DELTA: u64 = 3;
/// Below this ratio of inner to outer grandchild one rotation does.
const GAMMA: u64 = 2;

/// The serving order: rank, then due time, then order of push.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    /// What one step of priority is worth in ms of waiting; 0: priority comes before all waiting.
    pub aging: Millis,
}

/// Sorts jobs in the order they are served.
pub(super) type Rank = (i128, Millis, u64);

impl Order {
    pub fn rank(self, node: &Node) -> Rank {
        let rank = if self.aging == 0 {
            i128::from(node.priority)
        } else {
            i128::from(node.time) + i128::from(node.priority) * i128::from(self.aging)
        };
        (rank, node.time, node.seq)
    }

    /// Of two jobs, either of which may be `NIL`, the one to be served first.
    pub fn better(self, jobs: &Slab, a: u32, b: u32) -> u32 {
        if a == NIL || a == b {
            b
        } else if b == NIL || self.rank(&jobs[a].node) < self.rank(&jobs[b].node) {
            a
        } else {
            b
        }
    }
}

/// The order inside a tree. Jobs of one time come in serving order, whatever the aging is.
pub(super) fn by_time(a: &Node, b: &Node) -> Ordering {
    (a.time, a.priority, a.seq).cmp(&(b.time, b.priority, b.seq))
}

pub(super) fn size(jobs: &Slab, root: u32) -> u32 {
    if root == NIL { 0 } else { jobs[root].node.size }
}

pub(super) fn best(jobs: &Slab, root: u32) -> u32 {
    if root == NIL { NIL } else { jobs[root].node.best }
}

fn weight(jobs: &Slab, root: u32) -> u64 {
    u64::from(size(jobs, root)) + 1
}

/// Recomputes what `root` knows about its subtree from its children.
fn update(jobs: &mut Slab, root: u32, order: Order) {
    let Node { left, right, .. } = jobs[root].node;
    let children = order.better(jobs, best(jobs, left), best(jobs, right));
    let best = order.better(jobs, root, children);
    let size = size(jobs, left) + size(jobs, right) + 1;
    let node = &mut jobs[root].node;
    node.best = best;
    node.size = size;
}

/// Puts the job into the tree and returns the new root. O(log n).
pub(super) fn insert(jobs: &mut Slab, root: u32, slot: u32, order: Order) -> u32 {
    if root == NIL {
        let node = &mut jobs[slot].node;
        (node.left, node.right, node.size, node.best) = (NIL, NIL, 1, slot);
        return slot;
    }
    let Node { left, right, best, .. } = jobs[root].node;
    if by_time(&jobs[slot].node, &jobs[root].node).is_lt() {
        jobs[root].node.left = insert(jobs, left, slot, order);
    } else {
        jobs[root].node.right = insert(jobs, right, slot, order);
    }
    let best = order.better(jobs, slot, best);
    let node = &mut jobs[root].node;
    node.best = best;
    node.size += 1;
    balance(jobs, root, order)
}

/// Takes the job out of the tree and returns the new root. O(log n).
pub(super) fn remove(jobs: &mut Slab, root: u32, slot: u32, order: Order) -> u32 {
    if root == NIL {
        return NIL;
    }
    let Node { left, right, .. } = jobs[root].node;
    if root == slot {
        return join(jobs, left, right, order);
    }
    if by_time(&jobs[slot].node, &jobs[root].node).is_lt() {
        jobs[root].node.left = remove(jobs, left, slot, order);
    } else {
        jobs[root].node.right = remove(jobs, right, slot, order);
    }
    if jobs[root].node.best == slot {
        update(jobs, root, order);
    } else {
        let Node { left, right, .. } = jobs[root].node;
        jobs[root].node.size = size(jobs, left) + size(jobs, right) + 1;
    }
    balance(jobs, root, order)
}

/// Two trees that were siblings, as one.
fn join(jobs: &mut Slab, left: u32, right: u32, order: Order) -> u32 {
    if left == NIL {
        return right;
    }
    if right == NIL {
        return left;
    }
    // The new root comes from the heavier side, so that no more than one rotation can be needed.
    let (root, left, right) = if size(jobs, left) > size(jobs, right) {
        let root = last(jobs, left);
        (root, remove(jobs, left, root, order), right)
    } else {
        let root = first(jobs, right);
        (root, left, remove(jobs, right, root, order))
    };
    let node = &mut jobs[root].node;
    (node.left, node.right) = (left, right);
    update(jobs, root, order);
    balance(jobs, root, order)
}

fn balance(jobs: &mut Slab, root: u32, order: Order) -> u32 {
    let Node { left, right, .. } = jobs[root].node;
    let (light, heavy) = (weight(jobs, left), weight(jobs, right));
    if heavy > DELTA * light {
        let Node { left: inner, right: outer, .. } = jobs[right].node;
        if weight(jobs, inner) >= GAMMA * weight(jobs, outer) {
            jobs[root].node.right = rotate_right(jobs, right, order);
        }
        rotate_left(jobs, root, order)
    } else if light > DELTA * heavy {
        let Node { left: outer, right: inner, .. } = jobs[left].node;
        if weight(jobs, inner) >= GAMMA * weight(jobs, outer) {
            jobs[root].node.left = rotate_left(jobs, left, order);
        }
        rotate_right(jobs, root, order)
    } else {
        root
    }
}

fn rotate_left(jobs: &mut Slab, root: u32, order: Order) -> u32 {
    let up = jobs[root].node.right;
    jobs[root].node.right = jobs[up].node.left;
    jobs[up].node.left = root;
    update(jobs, root, order);
    update(jobs, up, order);
    up
}

fn rotate_right(jobs: &mut Slab, root: u32, order: Order) -> u32 {
    let up = jobs[root].node.left;
    jobs[root].node.left = jobs[up].node.right;
    jobs[up].node.right = root;
    update(jobs, root, order);
    update(jobs, up, order);
    up
}

/// Finds the best of every subtree again, after the serving order has changed. O(n).
pub(super) fn rerank(jobs: &mut Slab, root: u32, order: Order) {
    if root != NIL {
        let Node { left, right, .. } = jobs[root].node;
        rerank(jobs, left, order);
        rerank(jobs, right, order);
        update(jobs, root, order);
    }
}

/// The earliest job of a tree, or `NIL`.
pub(super) fn first(jobs: &Slab, mut root: u32) -> u32 {
    while root != NIL && jobs[root].node.left != NIL {
        root = jobs[root].node.left;
    }
    root
}

fn last(jobs: &Slab, mut root: u32) -> u32 {
    while root != NIL && jobs[root].node.right != NIL {
        root = jobs[root].node.right;
    }
    root
}
