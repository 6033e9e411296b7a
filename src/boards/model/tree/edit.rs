//! Changes of the B+tree. In a leaf, each *row* is a member. In an inner node, each row is a child node.
//!
//! A *full* node is split in half. But if the new row is the last of the tree, the old node stays full and the new row
//! gets a node of its own. So a board that is filled in order has full leaves.
//!
//! A node that is less than a third full is merged with a sibling if the rows of both nodes fill at most three quarters
//! of a node. An empty node is removed. So the height stays O(log n). After a split or a merge, a node is far from the
//! next split or merge, so both are rare.
//!
//! Bulk loading fills the leaves first, then each level above them. O(n).

use super::super::names::Names;
use super::node::{MEMBER, Node, Total};
use super::{Position, Tree, inner_rows};
use crate::base::chunks::NIL;

impl Tree {
    /// Inserts a member at the position that [`Tree::seek`] returned. O(log n).
    pub(in super::super) fn insert(&mut self, position: Position, words: &[u64], id: u32, names: &mut Names) {
        let Position { node: leaf, at } = position;
        names.set_leaf(id, leaf);
        self.nodes[leaf].insert(at, words, id, 0, self.leaf_rows);
        self.count(position, Total::wrapping_add);
        if self.nodes[leaf].len() >= self.leaf_rows {
            self.split(leaf, at, names);
        }
    }

    /// Removes the row at `position`. The caller must remove the member from `names` or insert it elsewhere. O(log n).
    pub(in super::super) fn remove(&mut self, position: Position, names: &mut Names) {
        let Position { node: leaf, at } = position;
        self.count(position, Total::wrapping_sub);
        self.nodes[leaf].remove(at, self.stride, self.leaf_rows);
        if at == 0 {
            self.update(leaf, 0, true);
        }
        self.rebalance(leaf, names);
    }

    /// Returns the index that the row at `position` would have in its leaf if its values were `words`. Returns `None`
    /// if the row is the first or the last row of the leaf, or would become one of them. In these cases, the caller
    /// must remove the row and insert it again. `before` has the same meaning as in [`Tree::seek`].
    pub(in super::super) fn seek_near(
        &self,
        position: Position,
        words: &[u64],
        before: impl Fn(Position) -> bool,
    ) -> Option<usize> {
        let target = self.seek_in(position.node, words, before);
        let len = self.nodes[position.node].len();
        let stays = position.at > 0 && position.at + 1 < len && target > 0 && target < len;
        stays.then_some(target - usize::from(target > position.at))
    }

    /// Sets the values of the row at `position` to `words`. Moves the row to the index `target`, which
    /// [`Tree::seek_near`] has returned. O(rows of a leaf), plus O(log n) if the number of distinct rows changes.
    pub(in super::super) fn shift(&mut self, position: Position, target: usize, words: &[u64]) {
        let leaf = &mut self.nodes[position.node];
        let (low, high) = (position.at.min(target), position.at.max(target));
        let was = leaf.heads_within(low..high + 2, self.stride);
        leaf.shift(position.at, target, words);
        let is = leaf.heads_within(low..high + 2, self.stride);
        self.update(position.node, Total::from(is).wrapping_sub(was.into()), false);
    }

    /// Changes the ID of a member in a leaf.
    pub(in super::super) fn renumber(&mut self, leaf: u32, from: u32, to: u32) {
        let leaf = &mut self.nodes[leaf];
        let at = leaf.position(from);
        leaf.ids[at] = to;
    }

    /// Updates the totals of members and heads after a row was inserted at `position`, or before it is removed. `apply`
    /// adds for an insertion, and subtracts for a removal. A *head* is the first of the rows with the same words. If a
    /// row is inserted before a head with the same words, only the new row is a head. If a head is removed, the next
    /// row with the same words becomes a head.
    fn count(&mut self, position: Position, apply: fn(Total, Total) -> Total) {
        let row = self.cursor(position);
        let is_head = row.before().is_none_or(|before| before.words() != row.words());
        let hides_head = is_head && row.after().is_some_and(|after| after.words() == row.words());
        let (own, hidden) = (MEMBER + Total::from(is_head), Total::from(hides_head));
        let Position { node: leaf, at } = position;
        if at + 1 < self.nodes[leaf].len() || !hides_head {
            self.update(leaf, apply(0, own - hidden), at == 0);
        } else {
            self.update(leaf, apply(0, own), at == 0);
            self.update(self.nodes[leaf].next, apply(0, hidden.wrapping_neg()), false);
        }
    }

    /// Adds `change` to the totals in the ancestors of a leaf. If `is_first` is true, also copies the values of the
    /// leaf's first member to the ancestors that store them.
    fn update(&mut self, leaf: u32, change: Total, mut is_first: bool) {
        self.total = self.total.wrapping_add(change);
        let mut node_id = leaf;
        while change != 0 || is_first {
            let node = &mut self.nodes[node_id];
            let parent_id = node.parent;
            if parent_id == NIL {
                return;
            }
            let words = if is_first { std::mem::take(&mut node.words) } else { Vec::new() };
            let parent = &mut self.nodes[parent_id];
            let slot = parent.position(node_id);
            if let Some(totals) = &mut parent.totals {
                totals[slot] = totals[slot].wrapping_add(change);
            }
            if is_first {
                if let Some(first) = words.get(..self.stride) {
                    parent.words[slot * self.stride..(slot + 1) * self.stride].copy_from_slice(first);
                }
                self.nodes[node_id].words = words;
                is_first = slot == 0;
            }
            node_id = parent_id;
        }
    }

    fn most(&self, node: u32) -> usize {
        if self.nodes[node].is_leaf() { self.leaf_rows } else { inner_rows(self.leaf_rows) }
    }

    /// Splits a full node, and its ancestors if they become full. `added` is the index of the row that was inserted
    /// last.
    fn split(&mut self, mut node_id: u32, mut added: usize, names: &mut Names) {
        loop {
            if self.nodes[node_id].parent == NIL {
                self.root = self.nodes.insert(Node::inner());
                self.insert_child(self.root, 0, node_id);
            }
            let most = self.most(node_id);
            let node = &mut self.nodes[node_id];
            let parent_id = node.parent;
            let appended = node.next == NIL && added + 1 == node.len();
            let at = if appended { added } else { node.len() / 2 };
            let mut right = node.split_off(at, self.stride, most);
            right.prev = node_id;
            right.next = node.next;
            let beyond = right.next;
            let right_id = self.nodes.insert(right);
            self.nodes[node_id].next = right_id;
            if beyond != NIL {
                self.nodes[beyond].prev = right_id;
            } else if self.last == node_id {
                self.last = right_id;
            }
            self.adopt(right_id, 0, names);

            let slot = self.nodes[parent_id].position(node_id);
            let total = self.insert_child(parent_id, slot + 1, right_id);
            if let Some(totals) = &mut self.nodes[parent_id].totals {
                totals[slot] -= total;
            }
            if self.nodes[parent_id].len() < inner_rows(self.leaf_rows) {
                return;
            }
            (node_id, added) = (parent_id, slot + 1);
        }
    }

    /// Inserts a child node into an inner node, at index `at`. Returns the child's total.
    fn insert_child(&mut self, parent_id: u32, at: usize, child_id: u32) -> Total {
        let total = self.total_of(child_id);
        let child = &mut self.nodes[child_id];
        child.parent = parent_id;
        let words = std::mem::take(&mut child.words);
        self.nodes[parent_id].insert(at, &words[..self.stride], child_id, total, inner_rows(self.leaf_rows));
        self.nodes[child_id].words = words;
        total
    }

    pub(super) fn total_of(&self, node_id: u32) -> Total {
        let node = &self.nodes[node_id];
        match &node.totals {
            Some(totals) => totals.iter().sum(),
            None => MEMBER * node.len() as Total + Total::from(self.heads_of(node_id, node.len())),
        }
    }

    /// If the node is a leaf, stores `node_id` as the leaf of each of its members. Otherwise, stores `node_id` as the
    /// parent of each of the node's children. Skips the rows before index `from`.
    fn adopt(&mut self, node_id: u32, from: usize, names: &mut Names) {
        for at in from..self.nodes[node_id].len() {
            let node = &self.nodes[node_id];
            let id = node.ids[at];
            if node.is_leaf() {
                names.set_leaf(id, node_id);
            } else {
                self.nodes[id].parent = node_id;
            }
        }
    }

    /// If a node that lost a row has too few rows, merges or removes the node. Does the same for its ancestors.
    fn rebalance(&mut self, mut node_id: u32, names: &mut Names) {
        loop {
            let most = self.most(node_id);
            let len = self.nodes[node_id].len();
            let parent_id = self.nodes[node_id].parent;
            if parent_id == NIL {
                return self.lower_root();
            }
            if len >= most.div_ceil(3) {
                return;
            }
            let parent = &self.nodes[parent_id];
            let slot = parent.position(node_id);
            if len == 0 {
                self.drop_child(parent_id, slot);
            } else {
                let rows = |at: usize| self.nodes[parent.ids[at]].len();
                let fits = |at: &usize| rows(*at) + rows(*at + 1) <= most - most / 4;
                let mut pairs = slot.saturating_sub(1)..(slot + 1).min(parent.len() - 1);
                let Some(at) = pairs.find(fits) else { return };
                self.merge(parent_id, at, names);
            }
            node_id = parent_id;
        }
    }

    /// Merges the child at index `at` of an inner node with the next child.
    fn merge(&mut self, parent_id: u32, at: usize, names: &mut Names) {
        let parent = &mut self.nodes[parent_id];
        let left_id = parent.ids[at];
        if let Some(totals) = &mut parent.totals {
            totals[at] += totals[at + 1];
        }
        let right = self.drop_child(parent_id, at + 1);
        let left = &mut self.nodes[left_id];
        let from = left.len();
        left.append(&right, self.stride);
        self.adopt(left_id, from, names);
    }

    /// Removes the child at index `at` of a node. Returns the child.
    fn drop_child(&mut self, parent_id: u32, at: usize) -> Node {
        let child_id = self.nodes[parent_id].ids[at];
        let child = self.nodes.remove(child_id);
        if child.prev != NIL {
            self.nodes[child.prev].next = child.next;
        }
        if child.next != NIL {
            self.nodes[child.next].prev = child.prev;
        } else if self.last == child_id {
            self.last = child.prev;
        }
        self.nodes[parent_id].remove(at, self.stride, inner_rows(self.leaf_rows));
        if at == 0 {
            self.update(parent_id, 0, true);
        }
        child
    }

    /// Removes the root as long as it has a single child. Resets a tree without members to its initial state.
    fn lower_root(&mut self) {
        if self.total == 0 {
            *self = Self::with_rows(self.stride, self.leaf_rows);
        }
        while let Node { totals: Some(_), ids, .. } = &self.nodes[self.root]
            && let [child] = **ids
        {
            self.nodes.remove(self.root);
            self.nodes[child].parent = NIL;
            self.root = child;
        }
    }

    /// Appends a row to a tree that has only leaves. The row must not precede the previous row. When all rows are
    /// appended, the caller must call [`build_levels`](Tree::build_levels). O(1).
    pub(in super::super) fn append(&mut self, words: &[u64], id: u32, names: &mut Names) {
        let is_head = self.total == 0 || self.words(self.last()) != words;
        if self.nodes[self.last].len() + 1 == self.leaf_rows {
            let leaf = self.nodes.insert(Node { prev: self.last, ..Node::default() });
            self.nodes[self.last].next = leaf;
            self.last = leaf;
        }
        let leaf = &mut self.nodes[self.last];
        leaf.insert(leaf.len(), words, id, 0, self.leaf_rows);
        names.set_leaf(id, self.last);
        self.total += MEMBER + Total::from(is_head);
    }

    /// Builds the levels above the leaves. Before the call, the root is the first leaf. O(leaves).
    pub(in super::super) fn build_levels(&mut self) {
        while self.nodes[self.root].next != NIL {
            self.root = self.level_above(self.root);
        }
    }

    /// Adds a level above the top level. `child` is the first node of the top level. Returns the first node of the new
    /// level.
    fn level_above(&mut self, mut child: u32) -> u32 {
        let first = self.nodes.insert(Node::inner());
        let mut node = first;
        while child != NIL {
            if self.nodes[node].len() + 1 == inner_rows(self.leaf_rows) {
                let next = self.nodes.insert(Node { prev: node, ..Node::inner() });
                self.nodes[node].next = next;
                node = next;
            }
            self.insert_child(node, self.nodes[node].len(), child);
            child = self.nodes[child].next;
        }
        first
    }
}
