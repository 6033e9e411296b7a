//! Moves the memory of a board for defragmentation: its nodes, names and index.

use super::Board;
use crate::model::relocate::{Mover, Relocate, in_steps};

impl Relocate for Board {
    /// Each step moves a chunk of nodes, a chunk of pages of names, or a shard of the index.
    fn relocate(&mut self, from: usize, mover: &mut impl Mover) -> Option<usize> {
        let nodes = self.tree.relocations();
        let names = nodes + self.names.relocations();
        let all = names + self.index.relocations();
        in_steps(from, all, mover, |step, mover| {
            if step < nodes {
                self.tree.relocate(step, mover);
            } else if step < names {
                self.names.relocate(step - nodes, mover);
            } else {
                self.index.relocate(step - names, mover);
            }
        })
    }
}
