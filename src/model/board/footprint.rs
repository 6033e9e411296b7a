//! What a board costs.

use super::Board;
use super::schema::Dimension;
use super::slab::Slab;

impl Board {
    /// Bytes of memory, judged by `samples` nodes and pages of names; 0 looks at all, as MEMORY USAGE's SAMPLES does.
    /// Without the allocator's own overhead. O(samples + n / 1000).
    pub fn memory_usage(&self, samples: usize) -> usize {
        let dimensions = self.schema.dimensions();
        let schema = size_of_val(dimensions) + dimensions.iter().map(|d: &Dimension| d.name.len()).sum::<usize>();
        size_of::<Board>() + schema + self.tree.bytes(samples) + self.names.bytes(samples) + self.index.bytes()
    }

    /// How many allocations freeing the board gives back, about: some 50 times fewer than it has members.
    pub fn free_effort(&self) -> usize {
        1 + self.tree.allocations() + self.names.allocations() + self.index.allocations()
    }
}

/// The sum of `size` over the items of a slab, judged by `samples` of them, evenly spread; 0: all.
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
