//! Adding and removing rows, splits and merges.
//!
//! A *full* node is split in half. But if the new row is the last of the tree, the old node stays full and the new row
//! gets a node of its own. So a board that is filled in order has full leaves.
//!
//! A node *below a third* is merged with a sibling if both together fill at most three quarters of a node. An empty
//! node is removed. So the height stays O(log n). A node is not split soon after a merge or merged soon after a split,
//! so both are rare.

use super::super::names::Names;
use super::node::{Node, Row};
use super::{Position, Tree};
use crate::model::chunks::NIL;

impl Tree {
    /// Inserts a member at the position that [`Tree::seek`] returned. O(log n).
    pub(in super::super) fn insert(&mut self, position: Position, words: &[u64], id: u32, names: &mut Names) {
        let Position { leaf, at } = position;
        let (head, unseats) = self.headship(position, words, false);
        names.set_leaf(id, leaf);
        let row = Row { words, id, lead: id, count: 1, heads: 1 };
        self.nodes[leaf].insert(at, &row, self.leaf_rows);

        self.len += 1;
        self.heads += u32::from(head) - u32::from(unseats);
        let follower = Position { leaf, at: at + 1 };
        let follower_leaf = self.leaf_of(follower);
        self.add(leaf, 1, i32::from(head));
        if unseats {
            self.add(follower_leaf, 0, -1);
        }
        if at == 0 {
            self.renew_first(leaf);
        }
        if self.nodes[leaf].len() >= self.leaf_rows {
            self.split(leaf, at, names);
        }
    }

    /// Removes the row at `position`. The caller must remove the member from `names` or insert it elsewhere. O(log n).
    pub(in super::super) fn remove(&mut self, position: Position, names: &mut Names) {
        let Position { leaf, at } = position;
        // The words are compared with the neighbours after the removal.
        let words = self.words(position).to_vec();
        let (head, seats) = self.headship(position, &words, true);
        let follower_leaf = self.leaf_of(Position { leaf, at: at + 1 });
        self.nodes[leaf].remove(at, self.stride, self.leaf_rows);

        self.len -= 1;
        self.heads = self.heads + u32::from(seats) - u32::from(head);
        self.add(leaf, -1, -i32::from(head));
        if seats {
            self.add(follower_leaf, 0, 1);
        }
        if at == 0 {
            self.renew_first(leaf);
        }
        self.rebalance(leaf, names);
    }

    /// Returns the index in its leaf that a row would get with new words. Returns `None` if the row may belong in
    /// another leaf or at an end of this leaf. `before` is as for [`Tree::seek`]. On a large board, a row usually stays
    /// in its leaf after a small change. O(log of the leaf).
    pub(in super::super) fn seek_near(
        &self,
        position: Position,
        before: impl FnMut(&[u64], u32) -> bool,
    ) -> Option<usize> {
        let leaf = &self.nodes[position.leaf];
        let target = leaf.partition_point(self.stride, before);
        let inside = |at: usize| at > 0 && at + 1 < leaf.len();
        let stays = inside(position.at) && target > 0 && target < leaf.len();
        stays.then_some(target - usize::from(target > position.at))
    }

    /// Changes the words of the row at `position`, and moves the row to the index that [`Tree::seek_near`] returned.
    /// O(leaf), plus O(log n) if the number of distinct tuples changes.
    pub(in super::super) fn shift(&mut self, position: Position, target: usize, words: &[u64]) {
        let leaf = &mut self.nodes[position.leaf];
        let (low, high) = (position.at.min(target), position.at.max(target));
        let was = leaf.heads_within(low..high + 2, self.stride);
        leaf.shift(position.at, target, words);
        let is = leaf.heads_within(low..high + 2, self.stride);
        if was != is {
            let change = is.cast_signed() - was.cast_signed();
            self.heads = self.heads.wrapping_add_signed(change);
            self.add(position.leaf, 0, change);
        }
    }

    /// Returns two facts about a row with these words at `position`. First: whether it is a head, because its words
    /// differ from those of the previous row. Second: whether it is a head and the next row has the same words. Without
    /// this row, the next row would then be the head. If `present` is false, this row is not in the tree yet, and the
    /// next row is the one at `position`.
    fn headship(&self, position: Position, words: &[u64], present: bool) -> (bool, bool) {
        let Position { leaf, at } = position;
        let head = self.cursor(position).before().is_none_or(|row| row.words() != words);
        let behind = Position { leaf, at: at + usize::from(present) };
        let behind = if behind.at < self.nodes[leaf].len() {
            Some(behind)
        } else {
            Some(self.nodes[leaf].next).filter(|n| *n != NIL).map(|leaf| Position { leaf, at: 0 })
        };
        (head, head && behind.is_some_and(|p| self.words(p) == words))
    }

    /// Returns the leaf of a position, which may be just after the end of a leaf.
    fn leaf_of(&self, position: Position) -> u32 {
        let node = &self.nodes[position.leaf];
        if position.at < node.len() { position.leaf } else { node.next }
    }

    /// Adds `members` and `heads` to the counts of all ancestors of `node`.
    fn add(&mut self, mut node: u32, members: i32, heads: i32) {
        loop {
            let parent = self.nodes[node].parent;
            if parent == NIL {
                return;
            }
            let slot = self.nodes[parent].position(node);
            if let Some(inner) = &mut self.nodes[parent].inner {
                inner.counts[slot] = inner.counts[slot].wrapping_add_signed(members);
                inner.heads[slot] = inner.heads[slot].wrapping_add_signed(heads);
            }
            node = parent;
        }
    }

    /// Changes the ID of the member at `position`. O(1), or O(log n) for the first row of a leaf.
    pub(in super::super) fn renumber(&mut self, position: Position, id: u32) {
        let Position { leaf, at } = position;
        self.nodes[leaf].ids[at] = id;
        if at == 0 {
            self.renew_first(leaf);
        }
    }

    /// Updates the ancestors that contain a copy of the first row of `node`.
    fn renew_first(&mut self, mut node: u32) {
        loop {
            let parent = self.nodes[node].parent;
            if parent == NIL || self.nodes[node].len() == 0 {
                return;
            }
            let slot = self.nodes[parent].position(node);
            let lead = self.nodes[node].lead(0);
            let words = std::mem::take(&mut self.nodes[node].words);
            let above = &mut self.nodes[parent];
            above.words[slot * self.stride..(slot + 1) * self.stride].copy_from_slice(&words[..self.stride]);
            if let Some(inner) = &mut above.inner {
                inner.leads[slot] = lead;
            }
            self.nodes[node].words = words;
            if slot > 0 {
                return;
            }
            node = parent;
        }
    }

    fn most(&self, node: u32) -> usize {
        if self.nodes[node].is_leaf() { self.leaf_rows } else { self.inner_rows }
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
            right.next = std::mem::replace(&mut node.next, NIL);
            let beyond = right.next;
            let right_id = self.nodes.insert(right);
            self.nodes[node_id].next = right_id;
            match beyond {
                NIL if self.last == node_id => self.last = right_id,
                NIL => {}
                beyond => self.nodes[beyond].prev = right_id,
            }
            self.adopt(right_id, 0, names);

            let slot = self.nodes[parent_id].position(node_id);
            let (count, heads) = self.insert_child(parent_id, slot + 1, right_id);
            if let Some(inner) = &mut self.nodes[parent_id].inner {
                inner.counts[slot] -= count;
                inner.heads[slot] -= heads;
            }
            if self.nodes[parent_id].len() < self.inner_rows {
                return;
            }
            (node_id, added) = (parent_id, slot + 1);
        }
    }

    /// Inserts a child before row `at` of an inner node. Returns the numbers of members and heads below the child.
    pub(super) fn insert_child(&mut self, parent_id: u32, at: usize, child_id: u32) -> (u32, u32) {
        let (count, heads) = self.totals(child_id);
        let child = &mut self.nodes[child_id];
        child.parent = parent_id;
        let (words, lead) = (std::mem::take(&mut child.words), child.lead(0));
        let row = Row { words: &words[..self.stride], id: child_id, lead, count, heads };
        self.nodes[parent_id].insert(at, &row, self.inner_rows);
        self.nodes[child_id].words = words;
        (count, heads)
    }

    /// Returns the numbers of members and heads below a node.
    pub(super) fn totals(&self, node_id: u32) -> (u32, u32) {
        let node = &self.nodes[node_id];
        match &node.inner {
            Some(inner) => (inner.counts.iter().sum(), inner.heads.iter().sum()),
            None => {
                let first = u32::from(self.starts_with_head(node_id));
                (node.len() as u32, first + node.heads_within(1..node.len().max(1), self.stride))
            }
        }
    }

    /// Makes the rows `from..` refer to `node_id`: as the members' leaf, or as the children's parent.
    fn adopt(&mut self, node_id: u32, from: usize, names: &mut Names) {
        if self.nodes[node_id].is_leaf() {
            for &id in &self.nodes[node_id].ids[from..] {
                names.set_leaf(id, node_id);
            }
        } else {
            for at in from..self.nodes[node_id].len() {
                let child = self.nodes[node_id].ids[at];
                self.nodes[child].parent = node_id;
            }
        }
    }

    /// Merges or removes a node that lost a row, and its ancestors if necessary.
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
            let slot = self.nodes[parent_id].position(node_id);
            if len == 0 {
                self.drop_child(parent_id, slot);
            } else {
                let parent = &self.nodes[parent_id];
                let fits = |at: &usize| {
                    let left = self.nodes[parent.ids[*at]].len();
                    left + self.nodes[parent.ids[at + 1]].len() <= most - most / 4
                };
                let pairs = slot.saturating_sub(1)..(slot + 1).min(parent.len() - 1);
                let Some(at) = pairs.into_iter().find(fits) else { return };
                self.merge(parent_id, at, names);
            }
            node_id = parent_id;
        }
    }

    fn merge(&mut self, parent_id: u32, at: usize, names: &mut Names) {
        let parent = &mut self.nodes[parent_id];
        let (left_id, right_id) = (parent.ids[at], parent.ids[at + 1]);
        if let Some(inner) = &mut parent.inner {
            inner.counts[at] += std::mem::take(&mut inner.counts[at + 1]);
            inner.heads[at] += std::mem::take(&mut inner.heads[at + 1]);
        }
        let words = std::mem::take(&mut self.nodes[right_id].words);
        let ids = std::mem::take(&mut self.nodes[right_id].ids);
        let inner = self.nodes[right_id].inner.take();
        let from = self.nodes[left_id].len();
        self.nodes[left_id].append(Node { ids, words, inner, ..Node::default() }, self.stride);
        self.adopt(left_id, from, names);
        self.drop_child(parent_id, at + 1);
    }

    /// Removes the empty child `at` and its row.
    fn drop_child(&mut self, parent_id: u32, at: usize) {
        let child_id = self.nodes[parent_id].ids[at];
        let Node { prev, next, .. } = self.nodes.remove(child_id);
        if prev != NIL {
            self.nodes[prev].next = next;
        } else if self.first == child_id {
            self.first = next;
        }
        if next != NIL {
            self.nodes[next].prev = prev;
        } else if self.last == child_id {
            self.last = prev;
        }
        self.nodes[parent_id].remove(at, self.stride, self.inner_rows);
        if at == 0 {
            self.renew_first(parent_id);
        }
    }

    /// Removes roots with a single child. Resets a tree without members to its initial state.
    fn lower_root(&mut self) {
        if self.len == 0 && self.nodes.slots() > 1 {
            *self = Self::with_rows(self.stride, self.leaf_rows, self.inner_rows);
        }
        while let Node { inner: Some(_), ids, .. } = &self.nodes[self.root]
            && let [child] = **ids
        {
            self.nodes.remove(self.root);
            self.nodes[child].parent = NIL;
            self.root = child;
        }
    }
}
