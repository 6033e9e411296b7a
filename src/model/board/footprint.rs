//! What a board costs, and what tells two boards apart.

use super::Board;
use super::codec::Writer;
use super::schema::Dimension;
use super::slab::Slab;

impl Board {
    /// Bytes of memory, judged by so many nodes and pages of names; 0 looks at all, as MEMORY USAGE's SAMPLES does.
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

    /// A 64-bit digest of everything that is saved: equal boards have equal digests on every server, unequal ones
    /// hardly ever. O(n). Not meant to withstand forgery.
    pub fn digest(&self) -> u64 {
        let mut digest = Fnv(0xCBF2_9CE4_8422_2325);
        self.encode(&mut digest);
        digest.0
    }
}

/// The sum of `size` over the items of a slab, judged by so many of them, evenly spread; 0: all.
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

/// FNV-1a over what is written, lengths included.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

impl Writer for Fnv {
    fn number(&mut self, number: u64) {
        self.add(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.add(bytes);
    }
}
