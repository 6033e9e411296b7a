//! Leaderboards of several dimensions: an order over tuples that is exact at any size.
//!
//! Three parts, none of which allocates for a single member:
//!
//! - `names`: the members' names in pages; the slot is the member's id;
//! - `index`: name → id, a hash table that grows a thousandth at a time;
//! - `tree`: the order, a B+tree that counts, from whose leaves everything is answered.
//!
//! A member's name leads to its id, and to its leaf, which stands next to it; from the leaf upwards lie its values and its rank.
//! The other way, a position leads down the counts to a leaf, and the names follow from the ids there.
//!
//! ## Effects
//!
//! What a replica or an append-only file needs is an [`Effect`], a member and its final values; and removals as they
//! are, by name or by position. Nothing else is needed to stay identical. A place among equals is decided by the order of the effects, which is the
//! order in which the primary applied them; and KEEP drops whoever is last after each of them, here as there. So the
//! effect of any SET or INCR is an unconditional SET of the result, and [`Board::rebuild`] lists the SETs that make the
//! board again.

mod codec;
mod error;
mod footprint;
mod index;
mod merge;
mod names;
mod ranked;
mod read;
mod relocate;
mod schema;
mod slab;
mod tree;
mod update;
mod value;

pub use codec::DecodeError;
pub use error::Error;
pub use merge::{Combine, Merge};
pub use read::{Entry, Order, Range, Ranking};
pub use schema::{Dimension, Direction, Kind, Schema, Ties};
pub use update::{Assignment, Condition, Effect, Incremented, SetOptions, When};
pub use value::Value;

use index::Index;
use names::Names;
use tree::{Position, Tree};

/// The most members a board can have: 2^31. Ids and counts have 32 bits.
pub const MAX_MEMBERS: u64 = 1 << 31;

/// A leaderboard. See the [module](self).
///
/// Cloning makes an independent equal board, O(n). Dropping is O(n / rows of a leaf).
#[derive(Clone, Debug)]
pub struct Board {
    schema: Schema,
    tree: Tree,
    names: Names,
    index: Index,
}

impl Board {
    /// An empty board.
    pub fn new(schema: Schema) -> Board {
        let tree = Tree::new(schema.dimensions().len());
        Board { schema, tree, names: Names::new(), index: Index::new() }
    }

    /// What the board is made of.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Members on the board. An empty board still has its schema; it is the caller's choice whether the key of one stays.
    pub fn len(&self) -> u64 {
        u64::from(self.tree.len())
    }

    /// Distinct tuples on the board. O(1).
    pub fn distinct(&self) -> u64 {
        u64::from(self.tree.distinct())
    }

    /// The id of a member, and the hash under which it is filed or would be.
    fn find(&self, member: &[u8]) -> (u32, Option<u32>) {
        let hash = self.index.hash(member);
        (hash, self.index.find(hash, |id| self.names.name(id) == member))
    }

    /// Where a member stands.
    fn position_of(&self, member: &[u8]) -> Option<Position> {
        let (_, id) = self.find(member);
        id.map(|id| self.tree.position_of(id, &self.names))
    }

    /// The words of a tuple.
    fn words(&self, values: &[Value], words: &mut Vec<u64>) -> Result<(), Error> {
        let dimensions = self.schema.dimensions();
        if values.len() != dimensions.len() {
            return Err(Error::ValueCount);
        }
        for (at, (value, dimension)) in values.iter().zip(dimensions).enumerate() {
            words.push(value.to_word(dimension).map_err(|e| e.in_dimension(at))?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
