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
mod error;
mod memory;
mod merge;
mod names;
mod read;
mod schema;
mod slab;
mod tree;
mod update;
mod value;

pub use error::BoardError;
pub use merge::{Combine, Merge};
pub use read::{Entry, Order, Range, Ranking};
pub use schema::{Dimension, Direction, Kind, Schema, Ties};
pub use update::{Assignment, Condition, RemovedRange, SetOptions};
pub use value::Value;

use names::{Names, PAGE_BYTES};
use tree::{Position, Tree};

/// The maximum number of members. It keeps IDs and counts within 32 bits.
pub const MAX_MEMBERS: u64 = 1 << 31;

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

    fn position_of(&self, member: &[u8]) -> Option<Position> {
        let (_, id) = self.names.find(member);
        id.map(|id| self.tree.position_of(id, &self.names))
    }

    /// Converts each value to a word, and appends the word to `words`.
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

#[cfg(test)]
mod tests;
