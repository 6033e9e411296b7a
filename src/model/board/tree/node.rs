//! A node of the tree: ordered rows, each with words and an ID.
//!
//! In a leaf, each row is a member. In an inner node, each row is a child node: its words are those of the *first*
//! member below the child. An inner node also has the ID of that member (`leads`), because names may break ties, and
//! the numbers of members and heads below each child. Each column is a separate vector, so that a search reads only
//! words and a sum reads only counts.

use std::ops::Range;

use crate::model::chunks::NIL;

/// The columns of inner nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Inner {
    /// The ID of the first member below each child.
    pub(super) leads: Vec<u32>,
    /// The number of members below each child.
    pub(super) counts: Vec<u32>,
    /// The number of heads below each child: rows whose values differ from those of the previous row.
    pub(super) heads: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    /// The neighbours on the same level. They may have other parents.
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) ids: Vec<u32>,
    pub(super) words: Vec<u64>,
    /// `None` in a leaf.
    pub(super) inner: Option<Box<Inner>>,
}

/// A row to insert into a node. Leaves ignore `lead`, `count` and `heads`.
pub(super) struct Row<'a> {
    pub(super) words: &'a [u64],
    pub(super) id: u32,
    pub(super) lead: u32,
    pub(super) count: u32,
    pub(super) heads: u32,
}

impl Default for Node {
    fn default() -> Self {
        Node { parent: NIL, prev: NIL, next: NIL, ids: Vec::new(), words: Vec::new(), inner: None }
    }
}

impl Node {
    pub(super) fn inner() -> Self {
        Node { inner: Some(Box::default()), ..Node::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.inner.is_none()
    }

    pub(super) fn row(&self, at: usize, stride: usize) -> &[u64] {
        &self.words[at * stride..(at + 1) * stride]
    }

    /// Returns the ID of the first member at or below row `at`.
    pub(super) fn lead(&self, at: usize) -> u32 {
        self.inner.as_ref().map_or(self.ids[at], |inner| inner.leads[at])
    }

    /// Returns the number of rows for which `before` is true. `before` gets a row's words and the ID of its first
    /// member. It must be true for a prefix of the rows.
    pub(super) fn partition_point(&self, stride: usize, mut before: impl FnMut(&[u64], u32) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if before(self.row(middle, stride), self.lead(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the index of the row with this ID, which must be present. A node's IDs take at most a few cache lines.
    pub(super) fn position(&self, id: u32) -> usize {
        self.ids.iter().position(|i| *i == id).unwrap_or(0)
    }

    /// Returns the number of heads among `rows`. The range must begin at 1 or later, because each row is compared with
    /// the previous one.
    pub(super) fn heads_within(&self, rows: Range<usize>, stride: usize) -> u32 {
        rows.filter(|&at| self.row(at, stride) != self.row(at - 1, stride)).count() as u32
    }

    /// Inserts a row before row `at`. `most` is the maximum number of rows. If the node has no spare memory, its memory
    /// grows by `most / 8` rows.
    pub(super) fn insert(&mut self, at: usize, row: &Row, most: usize) {
        let (stride, len) = (row.words.len(), self.len());
        if self.ids.capacity() == len {
            let more = step(most).min(most.saturating_sub(len)).max(1);
            self.ids.reserve_exact(more);
            self.words.reserve_exact(more * stride);
            if let Some(inner) = &mut self.inner {
                inner.leads.reserve_exact(more);
                inner.counts.reserve_exact(more);
                inner.heads.reserve_exact(more);
            }
        }
        self.ids.insert(at, row.id);
        self.words.resize((len + 1) * stride, 0);
        self.words.copy_within(at * stride..len * stride, (at + 1) * stride);
        self.words[at * stride..(at + 1) * stride].copy_from_slice(row.words);
        if let Some(inner) = &mut self.inner {
            inner.leads.insert(at, row.lead);
            inner.counts.insert(at, row.count);
            inner.heads.insert(at, row.heads);
        }
    }

    /// Moves row `at` of a leaf to position `to` and changes its words.
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
        if let Some(inner) = &mut self.inner {
            inner.leads.remove(at);
            inner.counts.remove(at);
            inner.heads.remove(at);
        }
        if self.ids.capacity() - self.len() > 2 * step(most) {
            self.fit(stride, most);
        }
    }

    /// Moves the rows from `at` to the end to a new node, which gets no neighbours.
    pub(super) fn split_off(&mut self, at: usize, stride: usize, most: usize) -> Node {
        let mut right = Node {
            parent: self.parent,
            ids: self.ids.split_off(at),
            words: self.words.split_off(at * stride),
            ..Node::default()
        };
        right.inner = self.inner.as_mut().map(|inner| {
            Box::new(Inner {
                leads: inner.leads.split_off(at),
                counts: inner.counts.split_off(at),
                heads: inner.heads.split_off(at),
            })
        });
        self.fit(stride, most);
        right
    }

    /// Appends the rows of the next node on the same level.
    pub(super) fn append(&mut self, mut right: Node, stride: usize) {
        let more = right.len();
        self.ids.reserve_exact(more);
        self.words.reserve_exact(more * stride);
        self.ids.append(&mut right.ids);
        self.words.append(&mut right.words);
        if let (Some(inner), Some(mut other)) = (&mut self.inner, right.inner) {
            inner.leads.append(&mut other.leads);
            inner.counts.append(&mut other.counts);
            inner.heads.append(&mut other.heads);
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
        if let Some(inner) = &mut self.inner {
            inner.leads.shrink_to(rows);
            inner.counts.shrink_to(rows);
            inner.heads.shrink_to(rows);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let inner = self.inner.as_ref().map_or(0, |inner| {
            let columns = inner.leads.capacity() + inner.counts.capacity() + inner.heads.capacity();
            size_of::<Inner>() + columns * size_of::<u32>()
        });
        self.ids.capacity() * size_of::<u32>() + self.words.capacity() * size_of::<u64>() + inner
    }
}

fn step(most: usize) -> usize {
    most.div_ceil(8)
}
