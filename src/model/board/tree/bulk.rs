//! Bulk loading of ordered rows: the leaves are filled first, then each level above them. O(n).

use super::super::names::Names;
use super::Tree;
use super::node::{MEMBER, Node, Total};
use crate::model::chunks::NIL;

impl Tree {
    /// Adds a row at the end of a tree that has only leaves. The row must not precede the last one. The caller calls
    /// [`build_levels`](Tree::build_levels) after the last row. O(1).
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

    /// Builds the levels above the leaves, of which the root is the first. O(n / rows of a leaf).
    pub(in super::super) fn build_levels(&mut self) {
        while self.nodes[self.root].next != NIL {
            self.root = self.level_above(self.root);
        }
    }

    /// Builds the level above the level whose first node is `child`. Returns the first node of the new level.
    fn level_above(&mut self, mut child: u32) -> u32 {
        let first = self.nodes.insert(Node::inner());
        let mut node = first;
        while child != NIL {
            if self.nodes[node].len() + 1 == self.inner_rows {
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
