//! A tree of jobs, ordered by time. Among all jobs up to a time, the tree also finds the job to serve first.
//!
//! The tree is weight-balanced (Nievergelt and Reingold 1973, with the parameters of Hirai and Yamamoto 2011). The key
//! is `(time, priority, seq)`. The links are in the items. Each item stores *aggregates* of its subtree: the size, the
//! *best* item, which is the one to serve first, and the *bounds*, which depend on the type of the items. For example,
//! an item of [`due_entries`](super::due_entries) stores the earliest deadline, or the latest end of a TTL, of its
//! subtree.
//!
//! One walk down the tree splits the items with `time <= now` into O(log n) items and whole subtrees. The aggregates of
//! these items and subtrees give the number of all items, and the best item. So no job has to move when it becomes due.
//!
//! The depth is below 2.5 × log2(n), at most 80, so recursion is safe.

use super::Millis;
use super::node::{JobNode, Links, OrderKey, key};
use crate::base::chunks::NIL;
use smallvec::SmallVec;
use std::ops::IndexMut;

/// The maximum ratio of the weights of two siblings.
const DELTA: u64 = 3;
/// A single rotation suffices if the inner grandchild's weight is less than `GAMMA` times the outer grandchild's
/// weight. Otherwise, a double rotation is needed.
const GAMMA: u64 = 2;

/// An item of a tree: a `Job`, a `Group`, a `Member` or a `DueEntry`.
pub(super) trait Item: Sized + 'static {
    fn node(&self) -> &JobNode;
    fn node_mut(&mut self) -> &mut JobNode;

    /// Returns the key by which a tree orders this item.
    fn key(&self) -> OrderKey {
        key(self.node())
    }

    /// Returns the slot of this item's job. `number` is the item's index in [`Items`].
    fn job(&self, number: u32) -> u32 {
        number
    }

    /// Returns the earliest deadline of the subtree, or 0 if items of this type do not store it.
    fn first_deadline(&self) -> Millis {
        0
    }

    /// Whether trees with items of this type can store the serving order.
    const SERVED: bool = true;

    /// Whether the tree of this item stores the serving order: each item stores which item of its subtree is served
    /// first.
    fn is_served(&self) -> bool {
        Self::SERVED
    }

    /// Updates the *bounds*: what `root` stores of its subtree in addition to the size and the best item, for example
    /// the earliest deadline. Reads only `root` and its children. Returns whether the bounds changed.
    fn update_bounds(_items: &mut impl Items<Self>, _root: u32) -> bool {
        false
    }
}

pub(super) trait Items<T>: IndexMut<u32, Output = T> {}

impl<T, I: IndexMut<u32, Output = T>> Items<T> for I {}

/// The order in which claims take ready jobs: by priority, due time and push number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServingOrder {
    /// AGING: waiting for `aging` ms counts as much as one step of priority. If 0, priority always comes first.
    pub aging: Millis,
    /// ORDERED: push numbers alone determine the order.
    pub by_push: bool,
    /// Whether claims take the items in the order of their keys, because all items of the tree have the same priority.
    pub by_key: bool,
}

pub(super) type Rank = (i128, Millis, u64);

impl ServingOrder {
    pub fn rank(self, node: &JobNode) -> Rank {
        if self.by_push {
            return (0, 0, node.seq);
        }
        let rank = if self.aging == 0 {
            i128::from(node.priority)
        } else {
            i128::from(node.time) + i128::from(node.priority) * i128::from(self.aging)
        };
        (rank, node.time, node.seq)
    }

    /// Whether `a` is served before `b`. For most queues, this function is faster than a comparison of ranks.
    pub fn is_before(self, a: &JobNode, b: &JobNode) -> bool {
        if self.by_push {
            a.seq < b.seq
        } else if self.aging == 0 {
            (a.priority, a.time, a.seq) < (b.priority, b.time, b.seq)
        } else {
            self.rank(a) < self.rank(b)
        }
    }

    /// Of two jobs, returns the job to serve first. Each argument may be `NIL`.
    pub fn better<T: Item>(self, jobs: &impl Items<T>, a: u32, b: u32) -> u32 {
        if a == NIL || a == b {
            b
        } else if b == NIL || self.is_before(jobs[a].node(), jobs[b].node()) {
            a
        } else {
            b
        }
    }
}

fn links<T: Item>(items: &impl Items<T>, root: u32) -> Links {
    items[root].node().links
}

fn links_mut<T: Item>(items: &mut impl Items<T>, root: u32) -> &mut Links {
    &mut items[root].node_mut().links
}

pub(super) fn size<T: Item>(items: &impl Items<T>, root: u32) -> u32 {
    if root == NIL { 0 } else { links(items, root).size }
}

/// Returns the item of a tree that is served first, or `NIL` if the tree has no [candidate](JobNode::is_candidate). The
/// tree must store the serving order.
pub(super) fn best<T: Item>(items: &impl Items<T>, root: u32) -> u32 {
    debug_assert!(root == NIL || items[root].is_served(), "the tree stores no serving order");
    if root == NIL { NIL } else { items[root].node().best }
}

fn weight<T: Item>(items: &impl Items<T>, root: u32) -> u64 {
    u64::from(size(items, root)) + 1
}

/// Updates the aggregates that `root` stores of its subtree, except the size. Returns whether the ancestors need an
/// update.
fn update_best_and_bounds<T: Item>(items: &mut impl Items<T>, root: u32, order: ServingOrder) -> bool {
    if !T::SERVED || !items[root].is_served() {
        return T::update_bounds(items, root);
    }
    let Links { left, right, .. } = links(items, root);
    let mut new = best(items, left);
    if new == NIL || !order.by_key {
        new = order.better(items, new, best(items, right));
        if items[root].node().is_candidate() {
            new = order.better(items, root, new);
        }
    }
    let old = std::mem::replace(&mut items[root].node_mut().best, new);
    T::update_bounds(items, root) || new != old
}

/// Updates the aggregates of `root` after an item was added to its subtree. Does the same as
/// [`update_best_and_bounds`], at a lower cost. `candidate` is the item, or `NIL` if it is no candidate. Returns
/// whether the ancestors need an update.
fn update_after_insert<T: Item>(items: &mut impl Items<T>, root: u32, candidate: u32, order: ServingOrder) -> bool {
    if !T::SERVED {
        return T::update_bounds(items, root);
    }
    let best = items[root].node().best;
    let is_better = items[root].is_served() && order.better(items, candidate, best) != best;
    if is_better {
        items[root].node_mut().best = candidate;
    }
    T::update_bounds(items, root) || is_better
}

/// Inserts an item. Returns the new root. O(log n).
pub(super) fn insert<T: Item>(items: &mut impl Items<T>, root: u32, slot: u32, order: ServingOrder) -> u32 {
    *links_mut(items, slot) = Links::ALONE;
    update_best_and_bounds(items, slot, order);
    let candidate = if items[slot].node().is_candidate() { slot } else { NIL };
    let mut path = Path::new();
    descend(items, root, slot, &mut path);
    climb(items, &path, slot, 1, order, |items, root| update_after_insert(items, root, candidate, order))
}

/// Removes an item from the tree. Returns the new root. O(log n).
pub(super) fn remove<T: Item>(items: &mut impl Items<T>, root: u32, slot: u32, order: ServingOrder) -> u32 {
    debug_assert_eq!(find(items, root, items[slot].key()), slot, "the item is in the tree");
    let mut path = Path::new();
    descend(items, root, slot, &mut path);
    let Links { left, right, .. } = links(items, slot);
    let joined = join(items, left, right, order);
    climb(items, &path, joined, u32::MAX, order, |items, root| {
        let was_best = T::SERVED && items[root].node().best == slot;
        if was_best { update_best_and_bounds(items, root, order) } else { T::update_bounds(items, root) }
    })
}

/// The nodes from the root to an item, without the item. The flag of a node tells whether the item is on the left side
/// of this node. The caller of [`descend`] owns the path, because it is large, and a move would copy it.
type Path = SmallVec<[(u32, bool); 64]>;

/// Appends to `path` the nodes above the item `slot`. If the item is not in the tree, appends the nodes above its place.
fn descend<T: Item>(items: &impl Items<T>, mut root: u32, slot: u32, path: &mut Path) {
    let wanted = items[slot].key();
    while root != slot && root != NIL {
        let item = &items[root];
        let is_left = wanted < item.key();
        path.push((root, is_left));
        let Links { left, right, .. } = item.node().links;
        root = if is_left { left } else { right };
    }
}

/// Puts the subtree `child` at the end of `path`. Adds `change` to the sizes of the nodes on the path, and balances
/// these nodes. `update` updates the other aggregates of a node, and returns whether the nodes above need an update.
/// Returns the new root.
fn climb<T: Item, I: Items<T>>(
    items: &mut I,
    path: &Path,
    mut child: u32,
    change: u32,
    order: ServingOrder,
    update: impl Fn(&mut I, u32) -> bool,
) -> u32 {
    let (mut has_changed, mut near) = (true, weight(items, child));
    for &(root, is_left) in path.iter().rev() {
        let links = links_mut(items, root);
        *links.child(is_left) = child;
        links.size = links.size.wrapping_add(change);
        let whole = u64::from(links.size) + 1;
        has_changed = has_changed && update(items, root);
        child = balance(items, root, is_left, (near, whole - near), order);
        near = whole;
    }
    child
}

/// Joins the two children of a removed item. Returns the new root.
fn join<T: Item>(items: &mut impl Items<T>, left: u32, right: u32, order: ServingOrder) -> u32 {
    if left == NIL {
        return right;
    }
    if right == NIL {
        return left;
    }
    // The new root comes from the heavier side, so at most one rotation is needed.
    let (root, left, right) = if size(items, left) > size(items, right) {
        let root = last(items, left);
        (root, remove(items, left, root, order), right)
    } else {
        let root = first(items, right);
        (root, left, remove(items, right, root, order))
    };
    let links = links_mut(items, root);
    (links.left, links.right) = (left, right);
    update_all(items, root, order);
    balance(items, root, true, (weight(items, left), weight(items, right)), order)
}

/// Updates all aggregates that `root` stores of its subtree.
fn update_all<T: Item>(items: &mut impl Items<T>, root: u32, order: ServingOrder) {
    let Links { left, right, .. } = links(items, root);
    links_mut(items, root).size = size(items, left) + size(items, right) + 1;
    update_best_and_bounds(items, root, order);
}

/// Balances a tree after one of its children gained or lost items. `is_left` says which child. `near` is the weight of
/// this child, and `far` is the weight of the other child: with both weights, the function reads the children only if
/// it rotates. Returns the new root.
#[inline]
fn balance<T: Item>(
    items: &mut impl Items<T>,
    root: u32,
    is_left: bool,
    (near, far): (u64, u64),
    order: ServingOrder,
) -> u32 {
    if near <= DELTA * far && far <= DELTA * near {
        return root;
    }
    rebalance(items, root, is_left != (near > far), order)
}

fn rebalance<T: Item>(items: &mut impl Items<T>, root: u32, is_right_heavy: bool, order: ServingOrder) -> u32 {
    let Links { left, right, .. } = links(items, root);
    let heavy = if is_right_heavy { right } else { left };
    let Links { left: inner, right: outer, .. } = links(items, heavy);
    let (inner, outer) = if is_right_heavy { (inner, outer) } else { (outer, inner) };
    if weight(items, inner) >= GAMMA * weight(items, outer) {
        let up = rotate(items, heavy, !is_right_heavy, order);
        *links_mut(items, root).child(!is_right_heavy) = up;
    }
    rotate(items, root, is_right_heavy, order)
}

/// Rotates to the left or to the right: replaces `root` with one of its children. Returns this child.
fn rotate<T: Item>(items: &mut impl Items<T>, root: u32, is_left: bool, order: ServingOrder) -> u32 {
    let mut lowered = links(items, root);
    let up = *lowered.child(!is_left);
    let raised = links_mut(items, up);
    raised.size = lowered.size;
    let inner = std::mem::replace(raised.child(is_left), root);
    *links_mut(items, root).child(!is_left) = inner;
    // The subtree of `up` now has the same items as the subtree of `root` before.
    items[up].node_mut().best = items[root].node().best;
    update_all(items, root, order);
    T::update_bounds(items, up);
    up
}

/// Updates all subtrees after a change of the serving order. O(n).
pub(super) fn rerank<T: Item>(items: &mut impl Items<T>, root: u32, order: ServingOrder) {
    if root != NIL {
        let Links { left, right, .. } = links(items, root);
        rerank(items, left, order);
        rerank(items, right, order);
        update_best_and_bounds(items, root, order);
    }
}

/// Updates the bounds ([`Item::update_bounds`]) of an item and of the nodes above it, after the item changed. The item
/// must be in the tree, and its key must be the same as before. O(log n).
pub(super) fn update_path<T: Item>(items: &mut impl Items<T>, root: u32, slot: u32) {
    let mut path = Path::new();
    descend(items, root, slot, &mut path);
    let mut above = path.iter().rev();
    let _ = T::update_bounds(items, slot) && above.all(|&(root, _)| T::update_bounds(items, root));
}

/// Replaces all references to slot `from` with `to`, after the item has moved. Returns the new root. O(log n).
pub(super) fn renumber<T: Item>(items: &mut impl Items<T>, root: u32, from: u32, to: u32) -> u32 {
    let wanted = items[to].key();
    let rename = |number: &mut u32| {
        if *number == from {
            *number = to;
        }
    };
    let (mut at, mut new_root) = (root, root);
    rename(&mut new_root);
    while at != from && at != NIL {
        let is_left = wanted < items[at].key();
        let node = items[at].node_mut();
        rename(&mut node.best);
        let child = node.links.child(is_left);
        at = *child;
        rename(child);
    }
    rename(&mut items[to].node_mut().best);
    new_root
}

/// Returns the item with this key, or `NIL`.
pub(super) fn find<T: Item>(items: &impl Items<T>, mut root: u32, wanted: OrderKey) -> u32 {
    while root != NIL {
        let node = items[root].node();
        root = match wanted.cmp(&items[root].key()) {
            std::cmp::Ordering::Less => node.links.left,
            std::cmp::Ordering::Equal => return root,
            std::cmp::Ordering::Greater => node.links.right,
        };
    }
    NIL
}

pub(super) fn first<T: Item>(items: &impl Items<T>, mut root: u32) -> u32 {
    while root != NIL && links(items, root).left != NIL {
        root = links(items, root).left;
    }
    root
}

pub(super) fn last<T: Item>(items: &impl Items<T>, mut root: u32) -> u32 {
    while root != NIL && links(items, root).right != NIL {
        root = links(items, root).right;
    }
    root
}

#[cfg(test)]
mod tests;
