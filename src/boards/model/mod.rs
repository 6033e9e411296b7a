//! Leaderboards with several dimensions: an exact order over tuples of any size.
//!
//! A board has two parts, and neither makes an allocation for each member:
//!
//! - `names`: the members' names, in slots of pages. The page and the slot of a name form the member's ID. A hash table
//!   maps the name to the ID. The table never rehashes all entries at once.
//! - `tree`: the order of the members, a B+tree with counts.
//!
//! A lookup by name finds the member's ID and its leaf. The leaf holds the member's values, and the counts in the
//! leaf's ancestors give the rank. A lookup by rank follows the counts from the root to a leaf.
//!
//! ## Effects
//!
//! SET and INCR are replicated as a SET of the final values, without conditions. A replica applies the effects in the
//! master's order, so ties get the same order. If KEEP removes a member, the removal is not replicated, because each
//! replica removes the same member after the same effect.

pub(super) mod codec;
mod merge;
mod names;
mod read;
mod schema;
mod slab;
mod tree;
mod update;
mod value;

pub use merge::{Combine, Merge};
pub use read::{Entry, Order, Range, Ranking};
pub use schema::{Dimension, Direction, Kind, Schema, Ties};
pub use update::{Assignment, Condition, RemovedRange, SetOptions};
pub use value::Value;

use crate::base::relocate::{Mover, Relocate, in_steps};
use names::{Names, PAGE_BYTES};
use tree::{Position, Tree};

/// The maximum number of members, which keeps IDs and counts within 32 bits.
pub const MAX_MEMBERS: u64 = 1 << 31;

/// Why a board refuses a request. A refused request leaves the board unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardError {
    /// A schema without dimensions, or with more than 64.
    DimensionCount,
    /// Two dimensions with the same name.
    DuplicateDimension,
    /// Too few or too many values for the dimensions.
    ValueCount,
    /// No dimension at this position.
    UnknownDimension,
    /// A float for an INT dimension, or an integer for a FLOAT dimension.
    WrongKind,
    /// A NaN or an infinity, as an argument or as the result of INCR.
    NotFinite,
    /// An INCR would exceed the signed 64-bit range.
    Overflow,
    /// More than [`MAX_MEMBERS`] members, or a name longer than 2^32 - 16 bytes. For this check, SET and INCR treat
    /// every given member as a new one.
    Full,
}

/// A leaderboard. See the [module](self).
///
/// Cloning takes O(n), where n is the number of members. Dropping takes O(n / rows of a leaf).
#[derive(Clone, Debug)]
pub struct Board {
    schema: Schema,
    tree: Tree,
    names: Names,
}

impl Board {
    pub fn new(schema: Schema) -> Board {
        let tree = Tree::new(schema.dimensions().len());
        Board { schema, tree, names: Names::new(PAGE_BYTES) }
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    pub fn len(&self) -> u64 {
        u64::from(self.tree.len())
    }

    /// Returns the number of distinct tuples of values. O(1).
    pub fn distinct(&self) -> u64 {
        u64::from(self.tree.distinct())
    }

    /// Returns the memory usage in bytes, without the allocator's overhead. The usage is estimated from `samples` nodes
    /// and `samples` pages of names. If `samples` is 0, this function reads all nodes and pages. O(samples + n / 1000).
    pub fn memory_usage(&self, samples: usize) -> usize {
        let dimensions = self.schema.dimensions();
        let schema = size_of_val(dimensions) + dimensions.iter().map(|d| d.name.len()).sum::<usize>();
        size_of::<Board>() + schema + self.tree.bytes(samples) + self.names.bytes(samples)
    }

    /// Returns the approximate number of allocations to free: one for about 50 members.
    pub fn free_effort(&self) -> usize {
        1 + self.tree.allocations() + self.names.allocations()
    }

    fn position_of(&self, member: &[u8]) -> Option<Position> {
        let (_, id) = self.names.find(member);
        id.map(|id| self.tree.position_of(id, &self.names))
    }

    /// Appends the word of each value to `words`. A word is a number that represents the value in comparisons
    /// ([`value`]).
    fn words(&self, values: &[Value], words: &mut Vec<u64>) -> Result<(), BoardError> {
        let dimensions = self.schema.dimensions();
        if values.len() != dimensions.len() {
            return Err(BoardError::ValueCount);
        }
        for (value, dimension) in values.iter().zip(dimensions) {
            words.push(value.to_word(dimension)?);
        }
        Ok(())
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

#[cfg(test)]
mod tests;
