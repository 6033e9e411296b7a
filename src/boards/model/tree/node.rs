//! A node of the tree: ordered rows. Each row has an ID, and words (encoded values).
//!
//! In a leaf, each row is a member. In an inner node, each row is a child node. The words of the row are the words of
//! the *first* member below the child. An inner node also has a [`Total`] for each child. Words, IDs and totals are in
//! separate vectors, so that a search reads only words and a sum reads only totals.

use std::ops::Range;

use crate::base::chunks::NIL;

/// The number of members (upper 32 bits) and the number of [heads](super) (lower 32 bits). Totals are added and
/// subtracted with wrapping arithmetic.
pub(super) type Total = u64;

/// A [`Total`] that counts one member and no heads.
pub(super) const MEMBER: Total = 1 << 32;

pub(super) fn members(total: Total) -> u32 {
    (total >> 32) as u32
}

pub(super) fn heads(total: Total) -> u32 {
    total as u32
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    /// The neighbours on the same level, which may have other parents.
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) ids: Vec<u32>,
    pub(super) words: Vec<u64>,
    /// The totals of the children. `None` in a leaf.
    #[expect(clippy::box_collection, reason = "most nodes are leaves, and a board must take little memory")]
    pub(super) totals: Option<Box<Vec<Total>>>,
}

impl Default for Node {
    fn default() -> Self {
        Node { parent: NIL, prev: NIL, next: NIL, ids: Vec::new(), words: Vec::new(), totals: None }
    }
}

impl Node {
    pub(super) fn inner() -> Self {
        Node { totals: Some(Box::default()), ..Node::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.totals.is_none()
    }

    pub(super) fn row(&self, at: usize, stride: usize) -> &[u64] {
        &self.words[at * stride..(at + 1) * stride]
    }

    /// Returns the index of the row with this ID, which must be present.
    pub(super) fn position(&self, id: u32) -> usize {
        self.ids.iter().position(|i| *i == id).unwrap_or(0)
    }

    /// Counts the heads in a range of rows. A head is a row whose values differ from those of the previous row. So the
    /// range must not include row 0, the first row of the leaf.
    pub(super) fn heads_within(&self, rows: Range<usize>, stride: usize) -> u32 {
        rows.filter(|&at| self.row(at, stride) != self.row(at - 1, stride)).count() as u32
    }

    /// Inserts a row before row `at`. Leaves ignore `total`. `most` is the maximum number of rows. If the node has no
    /// spare memory, its memory doubles, but grows by at most `most / 8` rows.
    pub(super) fn insert(&mut self, at: usize, words: &[u64], id: u32, total: Total, most: usize) {
        let (stride, len) = (words.len(), self.len());
        if self.ids.capacity() == len {
            self.reserve(step(most).min(most.saturating_sub(len)).min(len).max(1), stride);
        }
        self.ids.insert(at, id);
        self.words.resize((len + 1) * stride, 0);
        self.words.copy_within(at * stride..len * stride, (at + 1) * stride);
        self.words[at * stride..(at + 1) * stride].copy_from_slice(words);
        if let Some(totals) = &mut self.totals {
            totals.insert(at, total);
        }
    }

    fn reserve(&mut self, rows: usize, stride: usize) {
        self.ids.reserve_exact(rows);
        self.words.reserve_exact(rows * stride);
        if let Some(totals) = &mut self.totals {
            totals.reserve_exact(rows);
        }
    }

    /// Moves a member of a leaf from index `at` to index `to`, and sets the member's values to `words`.
    pub(super) fn shift(&mut self, at: usize, to: usize, words: &[u64]) {
        let stride = words.len();
        if at < to {
            self.ids[at..=to].rotate_left(1);
            self.words.copy_within((at + 1) * stride..(to + 1) * stride, at * stride);
        } else {
            self.ids[to..=at].rotate_right(1);
            self.words.copy_within(to * stride..at * stride, (to + 1) * stride);
        }
        self.words[to * stride..(to + 1) * stride].copy_from_slice(words);
    }

    pub(super) fn remove(&mut self, at: usize, stride: usize, most: usize) {
        self.ids.remove(at);
        self.words.drain(at * stride..(at + 1) * stride);
        if let Some(totals) = &mut self.totals {
            totals.remove(at);
        }
        if self.ids.capacity() - self.len() > 2 * step(most) {
            self.fit(stride, most);
        }
    }

    /// Moves the row at `at`, and all rows after it, to a new node without neighbours.
    pub(super) fn split_off(&mut self, at: usize, stride: usize, most: usize) -> Node {
        let right = Node {
            parent: self.parent,
            ids: self.ids.split_off(at),
            words: self.words.split_off(at * stride),
            totals: self.totals.as_mut().map(|totals| Box::new(totals.split_off(at))),
            ..Node::default()
        };
        self.fit(stride, most);
        right
    }

    /// Appends the rows of the next node on the same level.
    pub(super) fn append(&mut self, right: &Node, stride: usize) {
        self.reserve(right.len(), stride);
        self.ids.extend_from_slice(&right.ids);
        self.words.extend_from_slice(&right.words);
        if let (Some(totals), Some(more)) = (&mut self.totals, &right.totals) {
            totals.extend_from_slice(more);
        }
    }

    /// Frees unused memory, unless the node is nearly full.
    fn fit(&mut self, stride: usize, most: usize) {
        let rows = self.len() + step(most);
        if rows >= most {
            return; // a node that was filled by appending keeps its memory
        }
        self.ids.shrink_to(rows);
        self.words.shrink_to(rows * stride);
        if let Some(totals) = &mut self.totals {
            totals.shrink_to(rows);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let totals = self.totals.as_deref();
        let totals = totals.map_or(0, |totals| size_of_val(totals) + totals.capacity() * size_of::<Total>());
        self.ids.capacity() * size_of::<u32>() + self.words.capacity() * size_of::<u64>() + totals
    }
}

fn step(most: usize) -> usize {
    most.div_ceil(8)
}
