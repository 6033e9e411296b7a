//! The memory of a board: its usage, and its moves for defragmentation.

use super::Board;
use crate::model::relocate::{Mover, Relocate, in_steps};

impl Board {
    /// Returns the memory usage in bytes, without the allocator's overhead. It is estimated from `samples` nodes and
    /// pages of names. If `samples` is 0, this function reads all of them, as MEMORY USAGE does with SAMPLES 0.
    /// O(samples + n / 1000).
    pub fn memory_usage(&self, samples: usize) -> usize {
        let dimensions = self.schema.dimensions();
        let schema = size_of_val(dimensions) + dimensions.iter().map(|d| d.name.len()).sum::<usize>();
        size_of::<Board>() + schema + self.tree.bytes(samples) + self.names.bytes(samples) + self.index.bytes()
    }

    /// Returns the approximate number of allocations, about n / 50.
    pub fn free_effort(&self) -> usize {
        1 + self.tree.allocations() + self.names.allocations() + self.index.allocations()
    }
}

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
