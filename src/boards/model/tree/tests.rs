//! A check of the tree's invariants, for tests.

use super::*;

impl Tree {
    pub(in super::super) fn check(&self, names: &Names) {
        let (total, leaves) = self.check_below(self.root, NIL, names);
        assert_eq!(total, self.total, "members and heads of the whole");
        let mut linked = Vec::new();
        let (mut prev, mut leaf) = (NIL, leaves[0]);
        while leaf != NIL {
            assert_eq!(self.nodes[leaf].prev, prev);
            linked.push(leaf);
            (prev, leaf) = (leaf, self.nodes[leaf].next);
        }
        assert_eq!((linked, prev), (leaves, self.last), "leaves are linked in order");
    }

    /// Checks a node and the nodes below it. Returns their total and their leaves.
    fn check_below(&self, id: u32, parent: u32, names: &Names) -> (Total, Vec<u32>) {
        let node = &self.nodes[id];
        assert_eq!(node.parent, parent);
        assert_eq!(node.words.len(), node.len() * self.stride);
        let most = if node.is_leaf() { self.leaf_rows } else { inner_rows(self.leaf_rows) };
        assert!(node.len() < most, "no node is full");
        assert!(node.ids.capacity() <= most);
        assert!(parent == NIL || node.len() > 0, "only the root may be empty");
        let Some(of_children) = &node.totals else {
            for &member in &node.ids {
                assert_eq!(names.leaf(member), id, "a member knows its leaf");
            }
            return (self.total_of(id), vec![id]);
        };
        assert!(parent != NIL || node.len() > 1, "an inner root has two children");
        let (mut totals, mut leaves, mut depths) = (0, Vec::new(), Vec::new());
        for at in 0..node.len() {
            let child = &self.nodes[node.ids[at]];
            let (total, below) = self.check_below(node.ids[at], id, names);
            assert_eq!(of_children[at], total);
            assert_eq!(node.row(at, self.stride), child.row(0, self.stride), "a row is its child's first");
            totals += total;
            leaves.extend(below);
            depths.push(self.depth(node.ids[at]));
        }
        assert!(depths.windows(2).all(|d| d[0] == d[1]), "all leaves at one depth");
        (totals, leaves)
    }

    pub(in super::super) fn depth(&self, id: u32) -> usize {
        let node = &self.nodes[id];
        if node.is_leaf() { 1 } else { 1 + self.depth(node.ids[0]) }
    }

    pub(in super::super) fn height(&self) -> usize {
        self.depth(self.root)
    }
}
