//! The order of the members: a B+tree with counts.
//!
//! - A *row* is a member's values as words. Rows are stored in the leaves themselves, so a search follows no pointers.
//!   The number of a member's leaf is stored with its name ([`Names`]).
//! - A member's rank is the number of rows before it in its leaf, plus the counts of the children before it in each
//!   ancestor. So a rank needs no comparisons.
//! - Members with equal values are ordered only by their places in the tree. A member with the same values is inserted
//!   after its equals (TIES FIRST), before them (LAST), or by its name (NAME). So no sequence number is stored,
//!   compared, saved or replicated.
//! - A *head* is a row whose values differ from those of the previous row. Inner nodes count heads like members. The
//!   dense rank of a member is the number of heads up to and including its row, minus one. Inserting or removing a row
//!   changes only whether this row and the next row are heads.
//!
//! Splits and merges are the same for leaves and inner nodes.

mod bulk;
mod edit;
mod node;

use node::Node;

use super::names::Names;
use super::slab::Slab;
use crate::model::chunks::NIL;
use crate::model::relocate::Mover;

/// The approximate number of bytes of words per leaf. `LEAF_ROWS` limits the number of rows.
const LEAF_BYTES: usize = 1536;
const LEAF_ROWS: (usize, usize) = (16, 128);
const INNER_ROWS: usize = 64;

/// The position of a row: a leaf and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) leaf: u32,
    pub(super) at: usize,
}

/// A cursor at a row. It refers to the leaf itself, because most neighbours of a row are in the same leaf.
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

    pub(super) fn after(self) -> Option<Self> {
        if self.at + 1 < self.leaf.len() {
            return Some(Cursor { at: self.at + 1, ..self });
        }
        (self.leaf.next != NIL).then(|| Cursor { leaf: &self.tree.nodes[self.leaf.next], at: 0, ..self })
    }

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
    /// The number of words per row: one for each dimension.
    stride: usize,
    /// The number of rows at which a node is split. After every change, all nodes have fewer rows.
    leaf_rows: usize,
    inner_rows: usize,
}

impl Tree {
    pub(super) fn new(stride: usize) -> Self {
        let (least, most) = LEAF_ROWS;
        Self::with_rows(stride, (LEAF_BYTES / (8 * stride)).clamp(least, most), INNER_ROWS)
    }

    /// Creates an empty tree. A node is split when it gets this number of rows, which must be at least 4.
    pub(super) fn with_rows(stride: usize, leaf_rows: usize, inner_rows: usize) -> Self {
        let mut nodes = Slab::new();
        let root = nodes.insert(Node::default());
        Tree { nodes, root, first: root, last: root, len: 0, heads: 0, stride, leaf_rows, inner_rows }
    }

    pub(super) fn relocations(&mut self) -> usize {
        self.nodes.chunks_mut().len()
    }

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

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn distinct(&self) -> u32 {
        self.heads
    }

    pub(super) fn words(&self, position: Position) -> &[u64] {
        self.nodes[position.leaf].row(position.at, self.stride)
    }

    pub(super) fn id(&self, position: Position) -> u32 {
        self.nodes[position.leaf].ids[position.at]
    }

    pub(super) fn position_of(&self, id: u32, names: &Names) -> Position {
        let leaf = names.leaf(id);
        Position { leaf, at: self.nodes[leaf].position(id) }
    }

    /// Returns the position of the first row for which `before` is false, possibly the end of a leaf. `before` gets a
    /// member's words and ID. It must be true for all rows before the position. O(log n).
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

    /// Returns the rank of a row: the number of rows before it. O(log n).
    pub(super) fn rank(&self, position: Position) -> u64 {
        let mut rank = position.at as u64;
        self.climb(position.leaf, |inner, slot| {
            rank += u64::from(inner.counts[..slot].iter().sum::<u32>());
        });
        rank
    }

    /// Returns the number of distinct tuples that are better than the row at `position`. O(log n).
    pub(super) fn dense_rank(&self, position: Position) -> u64 {
        let leaf = &self.nodes[position.leaf];
        let first = u32::from(self.starts_with_head(position.leaf));
        let mut heads = u64::from(first + leaf.heads_within(1..position.at + 1, self.stride));
        self.climb(position.leaf, |inner, slot| {
            heads += u64::from(inner.heads[..slot].iter().sum::<u32>());
        });
        heads.saturating_sub(1)
    }

    /// Calls `visit` for each ancestor of `node`, from the bottom up, with the index of the child that contains `node`.
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

    /// Whether the first row of a leaf differs from the previous row.
    fn starts_with_head(&self, leaf: u32) -> bool {
        let node = &self.nodes[leaf];
        if node.len() == 0 || node.prev == NIL {
            return node.len() > 0;
        }
        let prev = &self.nodes[node.prev];
        node.row(0, self.stride) != prev.row(prev.len() - 1, self.stride)
    }

    /// Returns the position of the row with this rank, which must be below `len`. O(log n), and O(1) for the best row,
    /// because most clients read the top of a board.
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

    /// Returns a cursor at `position`, which must not be the end of a leaf.
    pub(super) fn cursor(&self, position: Position) -> Cursor<'_> {
        Cursor { tree: self, leaf: &self.nodes[position.leaf], at: position.at }
    }

    /// Returns the position of the last row. The tree must not be empty.
    pub(super) fn last(&self) -> Position {
        Position { leaf: self.last, at: self.nodes[self.last].len().saturating_sub(1) }
    }

    /// Whether a row inserted at `position` would be the last.
    pub(super) fn is_end(&self, position: Position) -> bool {
        position.leaf == self.last && position.at == self.nodes[position.leaf].len()
    }

    pub(super) fn allocations(&self) -> usize {
        2 * self.nodes.len()
    }

    /// Returns the allocated bytes, estimated from `samples` nodes (0: all).
    pub(super) fn bytes(&self, samples: usize) -> usize {
        self.nodes.bytes() + super::footprint::scaled(&self.nodes, samples, Node::bytes)
    }
}

#[cfg(test)]
mod check;
