//! What a board is made of: its dimensions, its rule for ties, and how many members it keeps.

use std::num::NonZeroU64;

use super::error::Error;

/// The most dimensions a board can have.
pub const MAX_DIMENSIONS: usize = 64;

/// Which end of a dimension is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// Less is better.
    Asc,
    /// More is better.
    #[default]
    Desc,
}

/// What numbers a dimension holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// Signed 64-bit integers, exact.
    #[default]
    Int,
    /// Finite doubles.
    Float,
}

/// The order of members whose values are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ties {
    /// The member that reached these values first is better.
    #[default]
    First,
    /// The member that reached these values last is better.
    Last,
    /// The bytewise smaller name is better.
    Name,
}

/// One dimension of the tuples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Its name, any bytes, unique on its board, case-sensitive.
    pub name: Box<[u8]>,
    /// Which end is better.
    pub direction: Direction,
    /// What it holds.
    pub kind: Kind,
}

/// The shape of a board, fixed when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    dimensions: Box<[Dimension]>,
    ties: Ties,
    keep: Option<NonZeroU64>,
}

impl Schema {
    /// A schema of these dimensions, the most significant first.
    ///
    /// # Errors
    /// [`Error::DimensionCount`] unless there are 1 to 64, [`Error::DuplicateDimension`] if two share a name.
    pub fn new(dimensions: Vec<Dimension>, ties: Ties, keep: Option<NonZeroU64>) -> Result<Schema, Error> {
        if dimensions.is_empty() || dimensions.len() > MAX_DIMENSIONS {
            return Err(Error::DimensionCount);
        }
        let repeated = |(i, d): (usize, &Dimension)| dimensions[..i].iter().any(|e| e.name == d.name);
        if dimensions.iter().enumerate().any(repeated) {
            return Err(Error::DuplicateDimension);
        }
        Ok(Schema { dimensions: dimensions.into(), ties, keep })
    }

    /// The dimensions, the most significant first; 1 to 64.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The position of the dimension of that name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.dimensions.iter().position(|d| *d.name == *name)
    }

    /// The order among equals.
    pub fn ties(&self) -> Ties {
        self.ties
    }

    /// How many members stay, the best ones; `None`: all.
    pub fn keep(&self) -> Option<NonZeroU64> {
        self.keep
    }
}
