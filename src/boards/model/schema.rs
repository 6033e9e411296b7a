//! The schema of a board: its dimensions, TIES and KEEP.

use super::BoardError;
use std::num::NonZeroU64;

pub const MAX_DIMENSIONS: usize = 64;

/// Whether lower values of a dimension are better (`Asc`), or higher values (`Desc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    Asc,
    #[default]
    Desc,
}

/// The number type of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// Signed 64-bit integers, exact.
    #[default]
    Int,
    /// Finite doubles.
    Float,
}

/// The order of members with equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ties {
    /// Of two members with equal values, the member that reached the values first is better.
    #[default]
    First,
    /// Of two members with equal values, the member that reached the values last is better.
    Last,
    /// The bytewise smaller name is better.
    Name,
}

impl Ties {
    /// All variants. An encoded board contains the index of its variant in this array.
    pub const ALL: [Ties; 3] = [Ties::First, Ties::Last, Ties::Name];

    pub fn word(self) -> &'static str {
        match self {
            Ties::First => "FIRST",
            Ties::Last => "LAST",
            Ties::Name => "NAME",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The name of the dimension: any bytes, case-sensitive, unique on the board.
    pub name: Box<[u8]>,
    pub direction: Direction,
    pub kind: Kind,
}

/// The schema of a board, which never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    dimensions: Box<[Dimension]>,
    ties: Ties,
    keep: Option<NonZeroU64>,
}

impl Schema {
    /// Creates a schema. The first dimension is the most significant.
    ///
    /// # Errors
    /// [`BoardError::DimensionCount`] unless there are 1 to 64 dimensions. [`BoardError::DuplicateDimension`] if two
    /// dimensions have the same name.
    pub fn new(dimensions: Vec<Dimension>, ties: Ties, keep: Option<NonZeroU64>) -> Result<Schema, BoardError> {
        if dimensions.is_empty() || dimensions.len() > MAX_DIMENSIONS {
            return Err(BoardError::DimensionCount);
        }
        let repeated = |(i, d): (usize, &Dimension)| dimensions[..i].iter().any(|e| e.name == d.name);
        if dimensions.iter().enumerate().any(repeated) {
            return Err(BoardError::DuplicateDimension);
        }
        Ok(Schema { dimensions: dimensions.into(), ties, keep })
    }

    /// Returns the dimensions, the most significant first. A schema has 1 to 64 dimensions.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    pub fn has_floats(&self) -> bool {
        self.dimensions.iter().any(|dimension| dimension.kind == Kind::Float)
    }

    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.dimensions.iter().position(|d| *d.name == *name)
    }

    pub fn ties(&self) -> Ties {
        self.ties
    }

    /// Returns the maximum number of members. `None` means no limit.
    pub fn keep(&self) -> Option<NonZeroU64> {
        self.keep
    }
}
