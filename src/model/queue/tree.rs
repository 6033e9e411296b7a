//! The order of jobs by time, in which the best job of any stretch of time is found without looking at the others.
//!
//! A weight-balanced tree (Nievergelt and Reingold 1973; the parameters of Hirai and Yamamoto 2011), linked through its items. Every
//! item knows of its subtree how many items it holds, which both balances the tree and counts, and which of them is to be *served* first.
//! The tree is keyed by `(time, priority, seq)`. So for any `now`
//!
//! - how many jobs have `time <= now` is one walk down the tree, and
//! - the best of them is the best of the O(log n) subtrees to the left of that walk.
//!
//! That is why nothing has to be promoted when it falls due, and why a million jobs due at one instant, or a clock
//! that steps back, are nothing special.
//!
//! The depth is below 2.5 × log2(n), at most 80, so recursion is safe.

use super::Millis;
use super::node::{JobNode, Links};
use crate::model::chunks::NIL;
use std::ops::IndexMut;

/// A subtree may weigh at most this many times its sibling.
const DELTA: u64 = 3;
/// Below this ratio of inner to outer grandchild one rotation does.
const GAMMA: u64 = 2;

/// What trees are made of.
pub(super) trait Item: Sized + 'static {
    fn node(&self) -> &JobNode;
    fn node_mut(&mut self) -> &mut JobNode;

    /// Whether items are served from any tree of this type.
    const SERVED: bool = true;

    /// Returns whether items are served from the tree that this one is in. Where none are, no item keeps the best one of its subtree.
    fn is_served(&self) -> bool {
        Self::SERVED
    }

    /// Finds out from the children what else `root` knows about its subtree. Returns whether that has changed.
    fn gather(_items: &mut impl Items<Self>, _root: u32) -> bool {
        false
    }
}

/// Where items are, by their numbers.
pub(super) trait Items<T>: IndexMut<u32, Output = T> {}

impl<T, I: IndexMut<u32, Output = T>> Items<T> for I {}

/// The serving order: rank, then due time, then order of push; or nothing but the order of push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServingOrder {
    /// What one step of priority is worth in ms of waiting; 0: priority comes before all waiting.
    pub aging: Millis,
    /// ORDERED.
    pub by_push: bool,
}

/// Sorts jobs in the order they are served.
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

    /// Whether `a` is served before `b`: the comparison of their ranks, without what most queues do not need of it.
    fn is_before(self, a: &JobNode, b: &JobNode) -> bool {
        if self.by_push {
            a.seq < b.seq
        } else if self.aging == 0 {
            (a.priority, a.time, a.seq) < (b.priority, b.time, b.seq)
        } else {
            self.rank(a) < self.rank(b)
        }
    }

    /// Of two jobs, either of which may be `NIL`, the one to be served first.
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

/// The order inside a tree of jobs: time, priority, push number. Jobs of one time come in serving order, whatever the aging is.
pub(super) type Key = (Millis, i32, u64);

pub(super) fn key(node: &JobNode) -> Key {
    (node.time, node.priority, node.seq)
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

/// Of a tree from which something is served.
pub(super) fn best<T: Item>(items: &impl Items<T>, root: u32) -> u32 {
    debug_assert!(root == NIL || items[root].is_served(), "nobody keeps it");
    if root == NIL { NIL } else { items[root].node().best }
}

fn weight<T: Item>(items: &impl Items<T>, root: u32) -> u64 {
    u64::from(size(items, root)) + 1
}

/// Finds out from the children what `root` knows about its subtree, but for its size. Returns whether that has changed: if not,
/// those above need no update.
fn refresh<T: Item>(items: &mut impl Items<T>, root: u32, order: ServingOrder) -> bool {
    if !T::SERVED || !items[root].is_served() {
        return T::gather(items, root);
    }
    let Links { left, right, .. } = links(items, root);
    let children = order.better(items, best(items, left), best(items, right));
    let best = order.better(items, root, children);
    let was = std::mem::replace(&mut items[root].node_mut().best, best);
    T::gather(items, root) || best != was
}

/// As [`refresh`], when `slot` has come into the subtree and nothing else has changed.
fn entered<T: Item>(items: &mut impl Items<T>, root: u32, slot: u32, order: ServingOrder) -> bool {
    if !T::SERVED {
        return T::gather(items, root);
    }
    let best = items[root].node().best;
    let is_better = items[root].is_served() && order.better(items, slot, best) != best;
    if is_better {
        items[root].node_mut().best = slot;
    }
    T::gather(items, root) || is_better
}

/// Puts the item into the tree and returns the new root. O(log n).
pub(super) fn insert<T: Item>(items: &mut impl Items<T>, root: u32, slot: u32, order: ServingOrder) -> u32 {
    *links_mut(items, slot) = Links::ALONE;
    refresh(items, slot, order);
    let key = key(items[slot].node());
    put(items, root, (slot, key), order, &mut true)
}

/// `has_changed`: whether those above have to know.
fn put<T: Item>(
    items: &mut impl Items<T>,
    root: u32,
    item: (u32, Key),
    order: ServingOrder,
    has_changed: &mut bool,
) -> u32 {
    let (slot, wanted) = item;
    if root == NIL {
        return slot;
    }
    let Links { left, right, .. } = links(items, root);
    let is_left = wanted < key(items[root].node());
    let child = put(items, if is_left { left } else { right }, item, order, has_changed);
    let links = links_mut(items, root);
    *(if is_left { &mut links.left } else { &mut links.right }) = child;
    links.size += 1;
    *has_changed = *has_changed && entered(items, root, slot, order);
    balance(items, root, child, order)
}

/// Takes the item, which is in the tree, out of it, and returns the new root. O(log n).
pub(super) fn remove<T: Item>(items: &mut impl Items<T>, root: u32, slot: u32, order: ServingOrder) -> u32 {
    let key = key(items[slot].node());
    take(items, root, (slot, key), order, &mut true)
}

/// `has_changed`: as above.
fn take<T: Item>(
    items: &mut impl Items<T>,
    root: u32,
    item: (u32, Key),
    order: ServingOrder,
    has_changed: &mut bool,
) -> u32 {
    let (slot, wanted) = item;
    debug_assert_ne!(root, NIL, "what is taken out is there");
    if root == NIL {
        return NIL;
    }
    let Links { left, right, .. } = links(items, root);
    if root == slot {
        return join(items, left, right, order);
    }
    let is_left = wanted < key(items[root].node());
    let child = take(items, if is_left { left } else { right }, item, order, has_changed);
    let links = links_mut(items, root);
    *(if is_left { &mut links.left } else { &mut links.right }) = child;
    links.size -= 1;
    let was_best = T::SERVED && items[root].node().best == slot;
    *has_changed = *has_changed && if was_best { refresh(items, root, order) } else { T::gather(items, root) };
    balance(items, root, child, order)
}

/// Two trees that were siblings, as one.
fn join<T: Item>(items: &mut impl Items<T>, left: u32, right: u32, order: ServingOrder) -> u32 {
    if left == NIL {
        return right;
    }
    if right == NIL {
        return left;
    }
    // The new root comes from the heavier side, so that no more than one rotation can be needed.
    let (root, left, right) = if size(items, left) > size(items, right) {
        let root = last(items, left);
        (root, remove(items, left, root, order), right)
    } else {
        let root = first(items, right);
        (root, left, remove(items, right, root, order))
    };
    let links = links_mut(items, root);
    (links.left, links.right) = (left, right);
    update(items, root, order);
    balance(items, root, left, order)
}

/// Recomputes all that `root` knows about its subtree from its children.
fn update<T: Item>(items: &mut impl Items<T>, root: u32, order: ServingOrder) {
    let Links { left, right, .. } = links(items, root);
    links_mut(items, root).size = size(items, left) + size(items, right) + 1;
    refresh(items, root, order);
}

/// Balances a tree, one `child` of which has become larger or smaller by an item. The other one is not looked at unless it has to
/// move: in a large tree it lies in memory that nothing else has touched.
fn balance<T: Item>(items: &mut impl Items<T>, root: u32, child: u32, order: ServingOrder) -> u32 {
    let Links { left, right, size } = links(items, root);
    let near = weight(items, child);
    let far = u64::from(size) + 1 - near;
    if near <= DELTA * far && far <= DELTA * near {
        return root;
    }
    let is_right_heavy = (child == right) == (near > far);
    let heavy = if is_right_heavy { right } else { left };
    let Links { left: inner, right: outer, .. } = links(items, heavy);
    let (inner, outer) = if is_right_heavy { (inner, outer) } else { (outer, inner) };
    if weight(items, inner) >= GAMMA * weight(items, outer) {
        let up = rotate(items, heavy, !is_right_heavy, order);
        let links = links_mut(items, root);
        *(if is_right_heavy { &mut links.right } else { &mut links.left }) = up;
    }
    rotate(items, root, is_right_heavy, order)
}

/// Puts a child of `root` in its place, the right one if `is_left` (a rotation to the left), and returns it.
fn rotate<T: Item>(items: &mut impl Items<T>, root: u32, is_left: bool, order: ServingOrder) -> u32 {
    let Links { left, right, size } = links(items, root);
    let up = if is_left { right } else { left };
    let raised = links_mut(items, up);
    raised.size = size;
    let inner = std::mem::replace(if is_left { &mut raised.left } else { &mut raised.right }, root);
    let lowered = links_mut(items, root);
    *(if is_left { &mut lowered.right } else { &mut lowered.left }) = inner;
    // The same items are below it as were below `root`.
    items[up].node_mut().best = items[root].node().best;
    update(items, root, order);
    T::gather(items, up);
    up
}

/// Refreshes every subtree, after the order has changed. O(n).
pub(super) fn rerank<T: Item>(items: &mut impl Items<T>, root: u32, order: ServingOrder) {
    if root != NIL {
        let Links { left, right, .. } = links(items, root);
        rerank(items, left, order);
        rerank(items, right, order);
        refresh(items, root, order);
    }
}

/// What the item itself holds has changed, but for its key: updates those above it. O(log n). Returns whether those above `root` need
/// an update. `wanted`: its key.
pub(super) fn changed<T: Item>(items: &mut impl Items<T>, root: u32, slot: u32, wanted: Key) -> bool {
    if root != slot {
        if root == NIL {
            return false;
        }
        let Links { left, right, .. } = links(items, root);
        let child = if wanted < key(items[root].node()) { left } else { right };
        if !changed(items, child, slot, wanted) {
            return false;
        }
    }
    T::gather(items, root)
}

/// The item of slot `from` stands in slot `to` now. Updates all references to it, and returns the root. O(log n).
pub(super) fn renumber<T: Item>(items: &mut impl Items<T>, root: u32, from: u32, to: u32) -> u32 {
    let wanted = key(items[to].node());
    let rename = |number: &mut u32| {
        if *number == from {
            *number = to;
        }
    };
    let (mut at, mut new_root) = (root, root);
    rename(&mut new_root);
    while at != from && at != NIL {
        let is_left = wanted < key(items[at].node());
        let node = items[at].node_mut();
        rename(&mut node.best);
        let child = if is_left { &mut node.links.left } else { &mut node.links.right };
        at = *child;
        rename(child);
    }
    rename(&mut items[to].node_mut().best);
    new_root
}

/// The first item of a tree, or `NIL`.
pub(super) fn first<T: Item>(items: &impl Items<T>, mut root: u32) -> u32 {
    while root != NIL && links(items, root).left != NIL {
        root = links(items, root).left;
    }
    root
}

/// The last item of a tree, or `NIL`.
pub(super) fn last<T: Item>(items: &impl Items<T>, mut root: u32) -> u32 {
    while root != NIL && links(items, root).right != NIL {
        root = links(items, root).right;
    }
    root
}

#[cfg(test)]
mod tests;
