//! The order of the members: a B+tree with counts.
//!
//! - A *row* is a member's values, each encoded as a word ([`super::value`]). Rows are stored in the leaves themselves,
//!   so a search follows no pointers. The number of a member's leaf is stored with its name ([`Names`]).
//! - A member's rank is a sum: the rows before the member in its leaf and, in each ancestor, the counts of the children
//!   before the member's own child. So a rank needs no comparisons.
//! - Members with equal values are ordered only by their places in the tree. A new member is inserted after the members
//!   with the same values (TIES FIRST), before them (LAST), or by its name (NAME). So no sequence number is stored,
//!   compared, saved or replicated.
//! - A *head* is a row whose values differ from those of the previous row. Inner nodes count members and heads. The
//!   dense rank of a member is the number of heads up to and including its row, minus one. Inserting or removing a row
//!   changes only whether this row and the next row are heads.
//!
//! Splits and merges are the same for leaves and inner nodes.

mod edit;
mod node;

use node::{Node, Total, heads, members};
use std::cmp::Ordering;

use super::names::Names;
use super::slab::Slab;
use crate::base::chunks::NIL;
use crate::base::relocate::Mover;

/// The approximate size of a full leaf's values in bytes. This size determines the maximum number of rows per leaf.
/// `LEAF_ROWS` has the bounds of this maximum.
const LEAF_BYTES: usize = 1536;
const LEAF_ROWS: (usize, usize) = (16, 128);
const INNER_ROWS: usize = 64;

/// The position of a row: a node, usually a leaf, and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) node: u32,
    pub(super) at: usize,
}

/// A cursor at a row. The cursor refers to the leaf itself, not to the leaf's number. So a move to a neighbour, which
/// is usually in the same leaf, needs no lookup of the leaf.
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
    /// The last leaf.
    last: u32,
    total: Total,
    /// The number of words (encoded values) per row: one for each dimension.
    stride: usize,
    /// The number of rows at which a leaf is split. After every change, all leaves have fewer rows.
    leaf_rows: usize,
}

/// Returns the number of rows at which an inner node is split. If a test asks for small leaves, inner nodes have the
/// same size. The number is computed, not stored, because a server can have millions of boards.
fn inner_rows(leaf_rows: usize) -> usize {
    if leaf_rows < LEAF_ROWS.0 { leaf_rows } else { INNER_ROWS }
}

impl Tree {
    pub(super) fn new(stride: usize) -> Self {
        let (least, most) = LEAF_ROWS;
        Self::with_rows(stride, (LEAF_BYTES / (8 * stride)).clamp(least, most))
    }

    /// Creates an empty tree. A leaf is split when it has `leaf_rows` rows, at least 4.
    pub(super) fn with_rows(stride: usize, leaf_rows: usize) -> Self {
        let mut nodes = Slab::default();
        let root = nodes.insert(Node::default());
        Tree { nodes, root, last: root, total: 0, stride, leaf_rows }
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
            if let Some(totals) = &mut node.totals {
                mover.vec(totals);
            }
        }
    }

    pub(super) fn len(&self) -> u32 {
        members(self.total)
    }

    /// Returns the number of distinct tuples of values.
    pub(super) fn distinct(&self) -> u32 {
        heads(self.total)
    }

    pub(super) fn words(&self, position: Position) -> &[u64] {
        self.nodes[position.node].row(position.at, self.stride)
    }

    pub(super) fn id(&self, position: Position) -> u32 {
        self.nodes[position.node].ids[position.at]
    }

    pub(super) fn position_of(&self, id: u32, names: &Names) -> Position {
        let leaf = names.leaf(id);
        Position { node: leaf, at: self.nodes[leaf].position(id) }
    }

    /// Returns the ID of the member at `position`. In an inner node, this is the first member below the child at
    /// `position`. O(1) in a leaf, O(log n) in an inner node.
    pub(super) fn member(&self, position: Position) -> u32 {
        let node = &self.nodes[position.node];
        let id = node.ids[position.at];
        if node.is_leaf() { id } else { self.member(Position { node: id, at: 0 }) }
    }

    /// Returns the position at which to insert a row with the values `words`. The position can be the end of a leaf. If
    /// a row already has these values, `before` gets that row's position, in a leaf or an inner node, and returns
    /// whether that row precedes the new row. O(log n).
    pub(super) fn seek(&self, words: &[u64], before: impl Fn(Position) -> bool) -> Position {
        let mut node = self.root;
        loop {
            let at = self.seek_in(node, words, &before);
            if self.nodes[node].is_leaf() {
                return Position { node, at };
            }
            node = self.nodes[node].ids[at.saturating_sub(1)];
        }
    }

    /// Searches one node. Returns the index at which to insert a row with the values `words`. `before` is called as in
    /// [`seek`](Self::seek).
    fn seek_in(&self, node_id: u32, words: &[u64], before: impl Fn(Position) -> bool) -> usize {
        let node = &self.nodes[node_id];
        let (mut low, mut high) = (0, node.len());
        while low < high {
            let at = low.midpoint(high);
            let precedes = match node.row(at, self.stride).cmp(words) {
                Ordering::Less => true,
                Ordering::Equal => before(Position { node: node_id, at }),
                Ordering::Greater => false,
            };
            if precedes {
                low = at + 1;
            } else {
                high = at;
            }
        }
        low
    }

    /// Returns the rank of a row: the number of rows before it. O(log n).
    pub(super) fn rank(&self, position: Position) -> u64 {
        u64::from(members(self.total_before(position.node))) + position.at as u64
    }

    /// Returns how many distinct tuples of values are better than the row at `position`. O(log n).
    pub(super) fn dense_rank(&self, position: Position) -> u64 {
        let before = heads(self.total_before(position.node));
        u64::from((before + self.heads_of(position.node, position.at + 1)).saturating_sub(1))
    }

    /// Returns the total number of members and heads in the leaves before `leaf`.
    fn total_before(&self, leaf: u32) -> Total {
        let (mut total, mut node) = (0, leaf);
        loop {
            let parent_id = self.nodes[node].parent;
            if parent_id == NIL {
                return total;
            }
            let parent = &self.nodes[parent_id];
            if let Some(totals) = &parent.totals {
                total += totals[..parent.position(node)].iter().sum::<Total>();
            }
            node = parent_id;
        }
    }

    /// Returns how many of the first `rows` rows of a leaf are heads (rows whose values differ from those of the
    /// previous row).
    fn heads_of(&self, leaf: u32, rows: usize) -> u32 {
        if rows == 0 {
            return 0;
        }
        let first = self.cursor(Position { node: leaf, at: 0 });
        let is_head = first.before().is_none_or(|before| before.words() != first.words());
        u32::from(is_head) + self.nodes[leaf].heads_within(1..rows, self.stride)
    }

    /// Returns the position of the row with this rank, which must be below `len`. O(log n).
    pub(super) fn at_rank(&self, rank: u64) -> Position {
        let mut rest = rank;
        let mut node_id = self.root;
        loop {
            let node = &self.nodes[node_id];
            let Some(totals) = &node.totals else {
                return Position { node: node_id, at: rest as usize };
            };
            let mut slot = 0;
            while slot + 1 < node.len() && rest >= u64::from(members(totals[slot])) {
                rest -= u64::from(members(totals[slot]));
                slot += 1;
            }
            node_id = node.ids[slot];
        }
    }

    /// Returns a cursor at `position`, which must not be the end of a leaf.
    pub(super) fn cursor(&self, position: Position) -> Cursor<'_> {
        Cursor { tree: self, leaf: &self.nodes[position.node], at: position.at }
    }

    /// Returns the position of the last row. The tree must not be empty.
    pub(super) fn last(&self) -> Position {
        Position { node: self.last, at: self.nodes[self.last].len().saturating_sub(1) }
    }

    /// Whether a row inserted at `position` would be the last.
    pub(super) fn is_end(&self, position: Position) -> bool {
        position.node == self.last && position.at == self.nodes[position.node].len()
    }

    pub(super) fn allocations(&self) -> usize {
        2 * self.nodes.len()
    }

    /// Returns the allocated bytes, estimated from `samples` nodes. If `samples` is 0, reads all nodes.
    pub(super) fn bytes(&self, samples: usize) -> usize {
        self.nodes.bytes(samples, Node::bytes)
    }
}

#[cfg(test)]
mod tests;
