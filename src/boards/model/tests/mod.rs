//! Tests of the board: cases by hand, and random cases that are compared with a simple reference.

mod codec;
mod hand;
mod memory;
mod merging;
mod random;
mod reading;
mod reference;

use super::tree::Tree;
use super::*;
use crate::base::stream::{DecodeError, Reader, Writer};
use std::num::NonZeroU64;

impl Board {
    /// Creates a board with tiny nodes and pages, so that a few members are enough to split and merge nodes on several
    /// levels.
    pub(super) fn tiny(schema: Schema, rows: usize) -> Board {
        let tree = Tree::with_rows(schema.dimensions().len(), rows);
        Board { tree, names: Names::new(40), ..Board::new(schema) }
    }

    /// Applies an effect that an equal board recorded.
    pub(super) fn apply(&mut self, effect: Entry) -> Result<(), BoardError> {
        let values: Vec<Value> = effect.values.iter().collect();
        self.set(&[Assignment { member: effect.member, values: &values }], SetOptions::default(), |_| ()).map(|_| ())
    }

    pub(super) fn contains(&self, member: &[u8]) -> bool {
        self.get(member).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn check(&self) {
        self.tree.check(&self.names);
        self.names.check();
        for entry in self.iter(Order::BestFirst) {
            assert!(self.contains(entry.member));
        }
    }

    pub(super) fn saved(&self) -> Tape {
        let mut tape = Tape::default();
        self.encode(&mut tape);
        tape
    }
}

/// An encoded board, as a list of numbers and byte strings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tape {
    pub(super) items: Vec<Item>,
    at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Writer for Tape {
    fn number(&mut self, number: u64) {
        self.items.push(Item::Number(number));
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.items.push(Item::Bytes(bytes.to_vec()));
    }
}

impl Reader for Tape {
    type Bytes = Vec<u8>;
    fn number(&mut self) -> Result<u64, DecodeError> {
        let Some(Item::Number(number)) = self.items.get(self.at) else { return Err(DecodeError::Truncated) };
        self.at += 1;
        Ok(*number)
    }
    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        let Some(Item::Bytes(bytes)) = self.items.get(self.at) else { return Err(DecodeError::Truncated) };
        self.at += 1;
        Ok(bytes.clone())
    }
}

pub(super) fn dim(name: &str, direction: Direction, kind: Kind) -> Dimension {
    Dimension { name: name.as_bytes().into(), direction, kind }
}

/// Returns a schema with DESC INT dimensions d0, d1, …
pub(super) fn plain(count: usize, ties: Ties, keep: u64) -> Schema {
    let dims = (0..count).map(|i| dim(&format!("d{i}"), Direction::Desc, Kind::Int)).collect();
    Schema::new(dims, ties, NonZeroU64::new(keep)).unwrap()
}

pub(super) fn int(v: i64) -> Value {
    Value::Int(v)
}

pub(super) fn set(board: &mut Board, member: &str, values: &[i64]) -> u64 {
    set_with(board, member, values, SetOptions::default())
}

pub(super) fn set_with(board: &mut Board, member: &str, values: &[i64], options: SetOptions) -> u64 {
    let values: Vec<Value> = values.iter().copied().map(Value::Int).collect();
    board.set(&[Assignment { member: member.as_bytes(), values: &values }], options, |_| ()).unwrap()
}

/// Returns the members' names, separated by blanks.
pub(super) fn listed(range: Range) -> String {
    let names: Vec<_> = range.map(|e| String::from_utf8_lossy(e.member).into_owned()).collect();
    names.join(" ")
}
