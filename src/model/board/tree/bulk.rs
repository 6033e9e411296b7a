//! Bulk loading of ordered rows: the leaves are filled first, then each level above them. O(n).

use super::super::names::Names;
use super::node::{Node, Row};
use super::{Position, Tree};
use crate::model::chunks::NIL;

pub(in super::super) struct TreeBuilder {
    tree: Tree,
}

impl TreeBuilder {
    pub(in super::super) fn new(tree: Tree) -> Self {
        TreeBuilder { tree }
    }

    pub(in super::super) fn last(&self) -> Option<(&[u64], u32)> {
        let position: Position = self.tree.last();
        (self.tree.len > 0).then(|| (self.tree.words(position), self.tree.id(position)))
    }

    /// Adds a row at the end. It must not precede the last row. O(1).
    pub(in super::super) fn push(&mut self, words: &[u64], id: u32, names: &mut Names) {
        let tree = &mut self.tree;
        let head = tree.len == 0 || tree.words(tree.last()) != words;
        if tree.nodes[tree.last].len() + 1 == tree.leaf_rows {
            let leaf = tree.nodes.insert(Node { prev: tree.last, ..Node::default() });
            tree.nodes[tree.last].next = leaf;
            tree.last = leaf;
        }
        let leaf = tree.last;
        let row = Row { words, id, lead: id, count: 1, heads: 1 };
        let at = tree.nodes[leaf].len();
        tree.nodes[leaf].insert(at, &row, tree.leaf_rows);
        names.set_leaf(id, leaf);
        tree.len += 1;
        tree.heads += u32::from(head);
    }

    /// Builds the levels above the leaves. O(n / rows of a leaf).
    pub(in super::super) fn finish(self) -> Tree {
        let mut tree = self.tree;
        let mut first = tree.first;
        while tree.nodes[first].next != NIL {
            first = level_above(&mut tree, first);
        }
        tree.root = first;
        tree
    }
}

/// Builds the next level above the nodes from `child` on. Returns the first node of the new level.
fn level_above(tree: &mut Tree, mut child: u32) -> u32 {
    let first = tree.nodes.insert(Node::inner());
    let mut node = first;
    while child != NIL {
        if tree.nodes[node].len() + 1 == tree.inner_rows {
            let next = tree.nodes.insert(Node { prev: node, ..Node::inner() });
            tree.nodes[node].next = next;
            node = next;
        }
        let (count, heads) = tree.totals(child);
        let words = std::mem::take(&mut tree.nodes[child].words);
        let row = Row { words: &words[..tree.stride], id: child, lead: tree.nodes[child].lead(0), count, heads };
        let at = tree.nodes[node].len();
        tree.nodes[node].insert(at, &row, tree.inner_rows);
        tree.nodes[child].words = words;
        tree.nodes[child].parent = node;
        child = tree.nodes[child].next;
    }
    first
}
