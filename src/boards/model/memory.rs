//! Memory usage and active defragmentation of a board.

use super::Board;
use crate::base::relocate::{Mover, Relocate, in_steps};

impl Board {
    /// Returns the memory usage in bytes, without the allocator's overhead. The usage is estimated from `samples` nodes
    /// and `samples` pages of names. If `samples` is 0, this function reads all nodes and pages. O(samples + n / 1000).
    pub fn memory_usage(&self, samples: usize) -> usize {
        let dimensions = self.schema.dimensions();
        let schema = size_of_val(dimensions) + dimensions.iter().map(|d| d.name.len()).sum::<usize>();
        size_of::<Board>() + schema + self.tree.bytes(samples) + self.names.bytes(samples)
    }

    /// Returns the approximate number of allocations: one for about 50 members.
    pub fn free_effort(&self) -> usize {
        1 + self.tree.allocations() + self.names.allocations()
    }
}

impl Relocate for Board {
    /// Moves the board's memory in steps. Each step moves a chunk of nodes, a chunk of name pages, or a shard of the
    /// index.
    fn relocate(&mut self, from: usize, mover: &mut impl Mover) -> Option<usize> {
        let nodes = self.tree.relocations();
        in_steps(from, nodes + self.names.relocations(), mover, |step, mover| match step.checked_sub(nodes) {
            None => self.tree.relocate(step, mover),
            Some(step) => self.names.relocate(step, mover),
        })
    }
}
