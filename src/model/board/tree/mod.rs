//! The order: a B+tree over (values, place among equals) that counts.
//!
//! - A *row* is a member's values as words, inline in the leaf, so that searching follows no pointers.
//! - Each member's leaf is noted next to its name ([`Names`]). From there its rank is the rows before it in the
//!   leaf plus the counts of the children before it in each ancestor: a rank compares no values at all.
//! - Among equal values the order *is* the position. A member that reaches them goes behind its equals (TIES FIRST) or
//!   before them (LAST), or where its name belongs (NAME). No sequence number has to be stored, compared, saved or
//!   replicated; it would only say what the order already says.
//! - A *head* is a row whose values differ from those of the row before it. Heads are counted like members, and the
//!   distinct tuples before a member are the heads up to and including it, less one: dense ranks in O(log n). Adding
//!   or removing a row changes at most its own headship and that of the row behind it, so the counts stay exact.
//!
//! Rows go to children, children to parents, splits and merges work alike on every level.

mod bulk;
mod edit;
mod node;

pub(super) use bulk::Loader;
use node::Node;

use super::names::Names;
use super::slab::Slab;
use crate::model::chunks::NIL;
use crate::model::relocate::Mover;

/// Bytes of words a leaf has about room for, within the bounds below.
const LEAF_BYTES: usize = 1536;
const LEAF_ROWS: (usize, usize) = (16, 128);
const INNER_ROWS: usize = 64;

/// Where a row is: a leaf and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) leaf: u32,
    pub(super) at: usize,
}

/// A row, from which one goes to its neighbours. It holds on to the leaf, as most neighbours are in the same one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    tree: &'a Tree,
    leaf: &'a Node,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn id(self) -> u32 {
        self.leaf.ids[self.at]
    }

    pub(super) fn words(self) -> &'a [u64] {
        self.leaf.row(self.at, self.tree.stride)
    }

    /// The row behind, if any.
    pub(super) fn after(self) -> Option<Self> {
        if self.at + 1 < self.leaf.len() {
            return Some(Cursor { at: self.at + 1, ..self });
        }
        (self.leaf.next != NIL).then(|| Cursor { leaf: &self.tree.nodes[self.leaf.next], at: 0, ..self })
    }

    /// The row before, if any.
    pub(super) fn before(self) -> Option<Self> {
        if self.at > 0 {
            return Some(Cursor { at: self.at - 1, ..self });
        }
        (self.leaf.prev != NIL).then(|| {
            let leaf = &self.tree.nodes[self.leaf.prev];
            Cursor { leaf, at: leaf.len() - 1, ..self }
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Slab<Node>,
    root: u32,
    first: u32,
    last: u32,
    len: u32,
    heads: u32,
    /// Words of a row: the number of dimensions.
    stride: usize,
    /// A node with that many rows is split; they stay below.
    leaf_rows: usize,
    inner_rows: usize,
}

impl Tree {
    /// An empty tree over rows of `stride` words, with nodes of a size that suits them.
    pub(super) fn new(stride: usize) -> Self {
        let (least, most) = LEAF_ROWS;
        Self::with_rows(stride, (LEAF_BYTES / (8 * stride)).clamp(least, most), INNER_ROWS)
    }

    /// An empty tree with a given number of rows, at least 4, at which nodes are split.
    pub(super) fn with_rows(stride: usize, leaf_rows: usize, inner_rows: usize) -> Self {
        let mut nodes = Slab::new();
        let root = nodes.insert(Node::default());
        Tree { nodes, root, first: root, last: root, len: 0, heads: 0, stride, leaf_rows, inner_rows }
    }

    /// Steps of [`relocate`](Self::relocate).
    pub(super) fn relocations(&mut self) -> usize {
        self.nodes.chunks_mut().len()
    }

    /// Has the memory of a chunk of nodes moved.
    pub(super) fn relocate(&mut self, step: usize, mover: &mut impl Mover) {
        let nodes = &mut self.nodes.chunks_mut()[step];
        mover.vec(nodes);
        for node in nodes {
            mover.vec(&mut node.ids);
            mover.vec(&mut node.words);
            if let Some(inner) = &mut node.inner {
                [&mut inner.leads, &mut inner.counts, &mut inner.heads]
                    .into_iter()
                    .for_each(|column| mover.vec(column));
            }
        }
    }

    /// Members.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Distinct tuples.
    pub(super) fn distinct(&self) -> u32 {
        self.heads
    }

    pub(super) fn words(&self, position: Position) -> &[u64] {
        self.nodes[position.leaf].row(position.at, self.stride)
    }

    pub(super) fn id(&self, position: Position) -> u32 {
        self.nodes[position.leaf].ids[position.at]
    }

    /// Where a member that is in the tree is.
    pub(super) fn position_of(&self, id: u32, names: &Names) -> Position {
        let leaf = names.leaf(id);
        Position { leaf, at: self.nodes[leaf].position(id) }
    }

    /// The first position whose row is not `before`, possibly at the end of a leaf. `before` gets the words and the id of
    /// a member, and must hold for a prefix of the order. O(log n).
    pub(super) fn seek(&self, mut before: impl FnMut(&[u64], u32) -> bool) -> Position {
        let mut node_id = self.root;
        loop {
            let node = &self.nodes[node_id];
            let at = node.partition_point(self.stride, &mut before);
            if node.is_leaf() {
                return Position { leaf: node_id, at };
            }
            node_id = node.ids[at.saturating_sub(1)];
        }
    }

    /// The rank of a row: how many are before it. O(log n).
    pub(super) fn rank(&self, position: Position) -> u64 {
        let mut rank = position.at as u64;
        self.climb(position.leaf, |inner, slot| {
            rank += u64::from(inner.counts[..slot].iter().sum::<u32>());
        });
        rank
    }

    /// Distinct tuples better than that at `position`, where a row must be. O(log n).
    pub(super) fn dense_rank(&self, position: Position) -> u64 {
        let leaf = &self.nodes[position.leaf];
        let first = u32::from(self.starts_with_head(position.leaf));
        let mut heads = u64::from(first + leaf.heads_within(1..position.at + 1, self.stride));
        self.climb(position.leaf, |inner, slot| {
            heads += u64::from(inner.heads[..slot].iter().sum::<u32>());
        });
        heads.saturating_sub(1)
    }

    /// Visits the row of each ancestor under which `node` hangs, from the bottom up.
    fn climb(&self, mut node: u32, mut visit: impl FnMut(&node::Inner, usize)) {
        loop {
            let parent = self.nodes[node].parent;
            if parent == NIL {
                return;
            }
            let slot = self.nodes[parent].position(node);
            if let Some(inner) = &self.nodes[parent].inner {
                visit(inner, slot);
            }
            node = parent;
        }
    }

    /// Whether the first row of a leaf differs from the row before it.
    fn starts_with_head(&self, leaf: u32) -> bool {
        let node = &self.nodes[leaf];
        if node.len() == 0 || node.prev == NIL {
            return node.len() > 0;
        }
        let prev = &self.nodes[node.prev];
        node.row(0, self.stride) != prev.row(prev.len() - 1, self.stride)
    }

    /// The position of the row of that rank, which must be below `len`. O(log n), and O(1) for the best: most who look
    /// at a board look at its top.
    pub(super) fn at_rank(&self, rank: u64) -> Position {
        if rank == 0 {
            return Position { leaf: self.first, at: 0 };
        }
        let mut rest = rank;
        let mut node_id = self.root;
        loop {
            let node = &self.nodes[node_id];
            let Some(inner) = &node.inner else {
                return Position { leaf: node_id, at: rest as usize };
            };
            let mut slot = 0;
            while slot + 1 < node.len() && rest >= u64::from(inner.counts[slot]) {
                rest -= u64::from(inner.counts[slot]);
                slot += 1;
            }
            node_id = node.ids[slot];
        }
    }

    /// Stands at a position where a row is.
    pub(super) fn cursor(&self, position: Position) -> Cursor<'_> {
        Cursor { tree: self, leaf: &self.nodes[position.leaf], at: position.at }
    }

    /// The last row, of a tree that has one.
    pub(super) fn last(&self) -> Position {
        Position { leaf: self.last, at: self.nodes[self.last].len().saturating_sub(1) }
    }

    /// Whether a row put at `position` would be the last.
    pub(super) fn is_end(&self, position: Position) -> bool {
        position.leaf == self.last && position.at == self.nodes[position.leaf].len()
    }

    /// Allocations held, about.
    pub(super) fn allocations(&self) -> usize {
        2 * self.nodes.len()
    }

    /// Bytes held, judged by `samples` nodes (0: by all).
    pub(super) fn bytes(&self, samples: usize) -> usize {
        self.nodes.bytes() + super::footprint::scaled(&self.nodes, samples, Node::bytes)
    }
}

#[cfg(test)]
mod check;
