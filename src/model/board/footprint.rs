//! The memory usage of a board.

use super::Board;
use super::schema::Dimension;
use super::slab::Slab;

impl Board {
    /// Returns the memory usage in bytes, without the allocator's overhead. It is estimated from `samples` nodes and
    /// pages of names. If `samples` is 0, this function reads all of them, as MEMORY USAGE does with SAMPLES 0.
    /// O(samples + n / 1000).
    pub fn memory_usage(&self, samples: usize) -> usize {
        let dimensions = self.schema.dimensions();
        let schema = size_of_val(dimensions) + dimensions.iter().map(|d: &Dimension| d.name.len()).sum::<usize>();
        size_of::<Board>() + schema + self.tree.bytes(samples) + self.names.bytes(samples) + self.index.bytes()
    }

    /// Returns the approximate number of allocations, about n / 50.
    pub fn free_effort(&self) -> usize {
        1 + self.tree.allocations() + self.names.allocations() + self.index.allocations()
    }
}

/// Returns the sum of `size` over all items of a slab, estimated from `samples` evenly spread items. 0 reads all items.
pub(super) fn scaled<T: Default>(slab: &Slab<T>, samples: usize, size: impl Fn(&T) -> usize) -> usize {
    let slots = slab.slots();
    let step = if samples == 0 { 1 } else { slots.div_ceil(samples).max(1) };
    let (mut seen, mut sum) = (0usize, 0usize);
    for item in slab.sample(step) {
        seen += 1;
        sum += size(item);
    }
    if seen == 0 { 0 } else { (sum as u128 * slots as u128 / seen as u128) as usize }
}
