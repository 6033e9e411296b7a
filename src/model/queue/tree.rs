//! The order of jobs by time, in which the best job of any stretch of time is found without looking at the others.
//!
//! A weight-balanced tree (Nievergelt and Reingold 1973; the parameters of Hirai and Yamamoto 2011), linked through its items. Every
//! item knows two things about its subtree: how many items it holds, which both balances the tree and counts, and something that
//! depends on what it is ([`Nodes::refresh`]). A tree of jobs is keyed by `(time, priority, seq)`, and its jobs know which job of
//! their subtree is to be *served* first. So for any `now`
//!
//! - how many jobs have `time <= now` is one walk down the tree, and
//! - the best of them is the best of the O(log n) subtrees to the left of that walk.
//!
//! That is why nothing has to be promoted when it falls due, and why a million jobs due at one instant, or a clock
//! that steps back, are nothing special.
//!
//! The depth is below 2.5 × log2(n), at most 80, so recursion is safe.

use super::Millis;
use super::node::{Links, Node};
use super::slab::Slab;
use crate::model::chunks::NIL;

/// A subtree may weigh at most this many times its sibling.
const DELTA: u64 = 3;
/// Below this ratio of inner to outer grandchild one rotation does.
const GAMMA: u64 = 2;

/// What trees are made of: items in slots.
pub(super) trait Nodes {
    /// What decides on what an item knows about its subtree.
    type Order: Copy;
    /// The order of the tree; no two items of one are equal.
    type Key: Copy + Ord;

    fn key(&self, slot: u32) -> Self::Key;

    fn links(&self, slot: u32) -> Links;
    fn links_mut(&mut self, slot: u32) -> &mut Links;

    /// Finds out from the children what `root` knows about its subtree. `false`: it is what it knew before, so it is not news to those
    /// above it either.
    fn refresh(&mut self, root: u32, order: Self::Order) -> bool;

    /// The same, when `slot` has come into the subtree and nothing else has changed.
    fn entered(&mut self, root: u32, _slot: u32, order: Self::Order) -> bool {
        self.refresh(root, order)
    }

    /// The same, when `slot` has left the subtree and nothing else has changed.
    fn departed(&mut self, root: u32, _slot: u32, order: Self::Order) -> bool {
        self.refresh(root, order)
    }

    /// `to` knows of its subtree from now on what `from` knows of its own.
    fn pass_on(&mut self, from: u32, to: u32);

    /// What `at` knows of `from` is true of `to` now.
    fn renamed(&mut self, _at: u32, _from: u32, _to: u32) {}
}

/// An item that holds the node of a job.
pub(super) trait Item {
    fn node(&self) -> &Node;
    fn node_mut(&mut self) -> &mut Node;

    /// Whether anything is served from its tree. Where nothing is, nobody asks for the best item of a subtree, and nobody keeps it.
    fn is_served(&self) -> bool {
        true
    }

    /// [`Nodes::pass_on`], of what else an item knows about its subtree.
    fn hand_over(_items: &mut Slab<Self>, _from: u32, _to: u32)
    where
        Self: Sized,
    {
    }

    /// Finds out what else an item knows about its subtree; whether that is news.
    fn gather(_items: &mut Slab<Self>, _root: u32) -> bool
    where
        Self: Sized,
    {
        false
    }
}

impl<T: Item> Nodes for Slab<T> {
    type Order = Order;
    type Key = Key;

    fn key(&self, slot: u32) -> Key {
        key(self[slot].node())
    }

    fn links(&self, slot: u32) -> Links {
        self[slot].node().links
    }

    fn links_mut(&mut self, slot: u32) -> &mut Links {
        &mut self[slot].node_mut().links
    }

    fn refresh(&mut self, root: u32, order: Order) -> bool {
        if !self[root].is_served() {
            return T::gather(self, root);
        }
        let Links { left, right, .. } = self.links(root);
        let children = order.better(self, best(self, left), best(self, right));
        let best = order.better(self, root, children);
        let was = std::mem::replace(&mut self[root].node_mut().best, best);
        T::gather(self, root) || best != was
    }

    fn entered(&mut self, root: u32, slot: u32, order: Order) -> bool {
        let best = self[root].node().best;
        let is_better = self[root].is_served() && order.better(self, slot, best) != best;
        if is_better {
            self[root].node_mut().best = slot;
        }
        T::gather(self, root) || is_better
    }

    fn departed(&mut self, root: u32, slot: u32, order: Order) -> bool {
        if self[root].node().best == slot { self.refresh(root, order) } else { T::gather(self, root) }
    }

    fn pass_on(&mut self, from: u32, to: u32) {
        self[to].node_mut().best = self[from].node().best;
        T::hand_over(self, from, to);
    }

    fn renamed(&mut self, at: u32, from: u32, to: u32) {
        let best = &mut self[at].node_mut().best;
        if *best == from {
            *best = to;
        }
    }
}

/// The serving order: rank, then due time, then order of push; or nothing but the order of push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// What one step of priority is worth in ms of waiting; 0: priority comes before all waiting.
    pub aging: Millis,
    /// ORDERED.
    pub by_push: bool,
}

/// Sorts jobs in the order they are served.
pub(super) type Rank = (i128, Millis, u64);

impl Order {
    pub fn rank(self, node: &Node) -> Rank {
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
    fn is_before(self, a: &Node, b: &Node) -> bool {
        if self.by_push {
            a.seq < b.seq
        } else if self.aging == 0 {
            (a.priority, a.time, a.seq) < (b.priority, b.time, b.seq)
        } else {
            self.rank(a) < self.rank(b)
        }
    }

    /// Of two jobs, either of which may be `NIL`, the one to be served first.
    pub fn better<T: Item>(self, jobs: &Slab<T>, a: u32, b: u32) -> u32 {
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

pub(super) fn key(node: &Node) -> Key {
    (node.time, node.priority, node.seq)
}

pub(super) fn size(nodes: &impl Nodes, root: u32) -> u32 {
    if root == NIL { 0 } else { nodes.links(root).size }
}

/// Of a tree from which something is served.
pub(super) fn best<T: Item>(jobs: &Slab<T>, root: u32) -> u32 {
    debug_assert!(root == NIL || jobs[root].is_served(), "nobody keeps it");
    if root == NIL { NIL } else { jobs[root].node().best }
}

fn weight(nodes: &impl Nodes, root: u32) -> u64 {
    u64::from(size(nodes, root)) + 1
}

fn resize(nodes: &mut impl Nodes, root: u32) {
    let Links { left, right, .. } = nodes.links(root);
    nodes.links_mut(root).size = size(nodes, left) + size(nodes, right) + 1;
}

/// Recomputes all that `root` knows about its subtree from its children.
fn update<N: Nodes>(nodes: &mut N, root: u32, order: N::Order) {
    resize(nodes, root);
    nodes.refresh(root, order);
}

/// Puts the item into the tree and returns the new root. O(log n).
pub(super) fn insert<N: Nodes>(nodes: &mut N, root: u32, slot: u32, order: N::Order) -> u32 {
    *nodes.links_mut(slot) = Links::ALONE;
    nodes.refresh(slot, order);
    let key = nodes.key(slot);
    put(nodes, root, (slot, key), order, &mut true)
}

/// `is_news`: whether those above have to know.
fn put<N: Nodes>(nodes: &mut N, root: u32, item: (u32, N::Key), order: N::Order, is_news: &mut bool) -> u32 {
    let (slot, key) = item;
    if root == NIL {
        return slot;
    }
    let Links { left, right, .. } = nodes.links(root);
    let is_left = key < nodes.key(root);
    let child = put(nodes, if is_left { left } else { right }, item, order, is_news);
    let links = nodes.links_mut(root);
    *(if is_left { &mut links.left } else { &mut links.right }) = child;
    links.size += 1;
    *is_news = *is_news && nodes.entered(root, slot, order);
    balance(nodes, root, child, order)
}

/// Takes the item, which is in the tree, out of it, and returns the new root. O(log n).
pub(super) fn remove<N: Nodes>(nodes: &mut N, root: u32, slot: u32, order: N::Order) -> u32 {
    let key = nodes.key(slot);
    take(nodes, root, (slot, key), order, &mut true)
}

/// `is_news`: as above.
fn take<N: Nodes>(nodes: &mut N, root: u32, item: (u32, N::Key), order: N::Order, is_news: &mut bool) -> u32 {
    let (slot, key) = item;
    debug_assert_ne!(root, NIL, "what is taken out is there");
    if root == NIL {
        return NIL;
    }
    let Links { left, right, .. } = nodes.links(root);
    if root == slot {
        return join(nodes, left, right, order);
    }
    let is_left = key < nodes.key(root);
    let child = take(nodes, if is_left { left } else { right }, item, order, is_news);
    let links = nodes.links_mut(root);
    *(if is_left { &mut links.left } else { &mut links.right }) = child;
    links.size -= 1;
    *is_news = *is_news && nodes.departed(root, slot, order);
    balance(nodes, root, child, order)
}

/// Two trees that were siblings, as one.
fn join<N: Nodes>(nodes: &mut N, left: u32, right: u32, order: N::Order) -> u32 {
    if left == NIL {
        return right;
    }
    if right == NIL {
        return left;
    }
    // The new root comes from the heavier side, so that no more than one rotation can be needed.
    let (root, left, right) = if size(nodes, left) > size(nodes, right) {
        let root = last(nodes, left);
        (root, remove(nodes, left, root, order), right)
    } else {
        let root = first(nodes, right);
        (root, left, remove(nodes, right, root, order))
    };
    let links = nodes.links_mut(root);
    (links.left, links.right) = (left, right);
    update(nodes, root, order);
    balance(nodes, root, left, order)
}

/// Balances a tree, one `child` of which has become larger or smaller by an item. The other one is not looked at unless it has to
/// move: in a large tree it lies in memory that nothing else has touched.
fn balance<N: Nodes>(nodes: &mut N, root: u32, child: u32, order: N::Order) -> u32 {
    let Links { left, right, size } = nodes.links(root);
    let near = weight(nodes, child);
    let far = u64::from(size) + 1 - near;
    if near <= DELTA * far && far <= DELTA * near {
        return root;
    }
    if (child == right) == (near > far) {
        let Links { left: inner, right: outer, .. } = nodes.links(right);
        if weight(nodes, inner) >= GAMMA * weight(nodes, outer) {
            nodes.links_mut(root).right = rotate_right(nodes, right, order);
        }
        rotate_left(nodes, root, order)
    } else {
        let Links { left: outer, right: inner, .. } = nodes.links(left);
        if weight(nodes, inner) >= GAMMA * weight(nodes, outer) {
            nodes.links_mut(root).left = rotate_left(nodes, left, order);
        }
        rotate_right(nodes, root, order)
    }
}

fn rotate_left<N: Nodes>(nodes: &mut N, root: u32, order: N::Order) -> u32 {
    let up = nodes.links(root).right;
    nodes.links_mut(root).right = nodes.links(up).left;
    nodes.links_mut(up).left = root;
    succeed(nodes, root, up, order);
    up
}

fn rotate_right<N: Nodes>(nodes: &mut N, root: u32, order: N::Order) -> u32 {
    let up = nodes.links(root).left;
    nodes.links_mut(root).left = nodes.links(up).right;
    nodes.links_mut(up).right = root;
    succeed(nodes, root, up, order);
    up
}

/// `up` stands above `root` now, with the same items below as were below `root`.
fn succeed<N: Nodes>(nodes: &mut N, root: u32, up: u32, order: N::Order) {
    nodes.links_mut(up).size = nodes.links(root).size;
    nodes.pass_on(root, up);
    update(nodes, root, order);
}

/// Refreshes every subtree, after the order has changed. O(n).
pub(super) fn rerank<N: Nodes>(nodes: &mut N, root: u32, order: N::Order) {
    if root != NIL {
        let Links { left, right, .. } = nodes.links(root);
        rerank(nodes, left, order);
        rerank(nodes, right, order);
        nodes.refresh(root, order);
    }
}

/// What the item itself holds has changed, but for its key, and with it what those above it know, if it is news to them. O(log n).
/// The answer: whether it is news to those above `root`.
pub(super) fn changed<N: Nodes>(nodes: &mut N, root: u32, slot: u32, order: N::Order) -> bool {
    if root != slot {
        if root == NIL {
            return false;
        }
        let Links { left, right, .. } = nodes.links(root);
        let child = if nodes.key(slot) < nodes.key(root) { left } else { right };
        if !changed(nodes, child, slot, order) {
            return false;
        }
    }
    nodes.refresh(root, order)
}

/// The item of slot `from` stands in slot `to` now. Whoever knew it there knows it here; returns the root. O(log n).
pub(super) fn renumber<N: Nodes>(nodes: &mut N, root: u32, from: u32, to: u32) -> u32 {
    let key = nodes.key(to);
    let mut at = root;
    while at != from && at != NIL {
        nodes.renamed(at, from, to);
        let is_left = key < nodes.key(at);
        let links = nodes.links_mut(at);
        let child = if is_left { &mut links.left } else { &mut links.right };
        at = *child;
        if at == from {
            *child = to;
        }
    }
    nodes.renamed(to, from, to);
    if root == from { to } else { root }
}

/// The first item of a tree, or `NIL`.
pub(super) fn first(nodes: &impl Nodes, mut root: u32) -> u32 {
    while root != NIL && nodes.links(root).left != NIL {
        root = nodes.links(root).left;
    }
    root
}

/// The last item of a tree, or `NIL`.
pub(super) fn last(nodes: &impl Nodes, mut root: u32) -> u32 {
    while root != NIL && nodes.links(root).right != NIL {
        root = nodes.links(root).right;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::queue::node::Tree;
    use proptest::prelude::*;

    fn any_node() -> impl Strategy<Value = Node> {
        let of = |(time, priority, seq)| Node {
            time,
            seq,
            priority,
            links: Links::ALONE,
            best: NIL,
            tree: Tree::Ready,
            high: [0; 3],
        };
        // Few values, so that many are equal, and those at the ends of their ranges.
        let time = prop_oneof![0..4_u64, Just(1 << 53), 1_700_000_000_000..1_700_000_000_004_u64];
        let priority = prop_oneof![-2..3_i32, Just(i32::MIN), Just(i32::MAX)];
        (time, priority, 0..4_u64).prop_map(of)
    }

    proptest! {
        #[test]
        fn who_is_served_first_is_who_has_the_lower_rank(
            a in any_node(),
            b in any_node(),
            aging in prop_oneof![Just(0), 1..3_u64, Just(1 << 53)],
            by_push in any::<bool>(),
        ) {
            let order = Order { aging, by_push };
            prop_assert_eq!(order.is_before(&a, &b), order.rank(&a) < order.rank(&b));
        }
    }
}
