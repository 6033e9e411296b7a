//! Encoding and decoding of boards. The format:
//!
//! ```text
//! version  ties  keep (0: no limit)  number of dimensions
//! for each dimension: direction and kind in one number, name
//! number of members
//! blocks of members, best first, until all members are written
//! ```
//!
//! The numbers and byte strings are written one by one to a [`Writer`]. In RDB files, separate numbers and strings for
//! each member would have more overhead than contents. So members are written in blocks of about 4 KiB. In a block, a
//! member consists of the length of its name as a varint (LEB128), the name, and the values. An INT value is a zigzag
//! varint. A FLOAT value is the 8 bytes of the double, little-endian.
//!
//! Equal boards are encoded to equal bytes, because the encoding depends only on the schema, the order of the members
//! and their values. Decoding validates every number and the order of the members, and refuses duplicate members. The
//! decoder allocates only for bytes that it has read.

use std::num::NonZeroU64;

use super::schema::{Dimension, Direction, Kind, MAX_DIMENSIONS, Schema, Ties};
use super::update::{check_name, room};
use super::value::Value;
use super::{Board, Entry};
use crate::base::packed::{Packer, Unpacker, unzigzag, zigzag};
use crate::base::stream::{DecodeError, Reader, Writer};

/// The first number of every encoded board: its format version.
const VERSION: u64 = 1;

/// A block is written as soon as it has this many bytes.
const BLOCK: usize = 4 << 10;

pub(super) const SCHEMA: DecodeError = DecodeError::Invalid("invalid dimensions or settings");
pub(super) const TOO_MANY: DecodeError = DecodeError::Invalid("too many members");
pub(super) const MALFORMED: DecodeError = DecodeError::Invalid("malformed member");
pub(super) const ORDER: DecodeError = DecodeError::Invalid("members out of order");
pub(super) const DUPLICATE: DecodeError = DecodeError::Invalid("duplicate member");

impl Board {
    pub fn encode(&self, out: &mut impl Writer) {
        write_schema(&self.schema, out);
        out.number(self.len());
        let mut block = Packer::with_capacity(BLOCK + BLOCK / 4);
        for entry in self.iter(super::Order::BestFirst) {
            write_member(entry, &mut block);
            if block.bytes().len() >= BLOCK {
                out.bytes(block.bytes());
                block.clear();
            }
        }
        if !block.bytes().is_empty() {
            out.bytes(block.bytes());
        }
    }

    /// Decodes a board. Returns an error for any input that is not a valid board. O(n).
    pub fn decode(input: &mut impl Reader) -> Result<Board, DecodeError> {
        let schema = read_schema(input)?;
        let len = input.number()?;
        if !room(0, len) || schema.keep().is_some_and(|keep| len > keep.get()) {
            return Err(TOO_MANY);
        }
        let mut board = Board::new(schema);
        let mut words = Vec::new();
        let mut left = len;
        while left > 0 {
            let block = input.bytes()?;
            let mut rest = Unpacker::of(block.as_ref());
            if rest.is_empty() {
                return Err(MALFORMED);
            }
            while !rest.is_empty() {
                left = left.checked_sub(1).ok_or(MALFORMED)?;
                board.decode_member(&mut rest, &mut words)?;
            }
        }
        board.tree.build_levels();
        Ok(board)
    }

    /// Decodes a member and appends it to the board. After the last member, the caller must call
    /// [`build_levels`](super::tree::Tree::build_levels). Until then, the tree has only leaves.
    fn decode_member(&mut self, input: &mut Unpacker<'_>, words: &mut Vec<u64>) -> Result<(), DecodeError> {
        let name = input.text()?;
        check_name(name).map_err(|_| MALFORMED)?;
        words.clear();
        for dimension in self.schema.dimensions() {
            let value = read_value(input, dimension.kind)?;
            words.push(value.to_word(dimension).map_err(|_| MALFORMED)?);
        }
        if self.tree.len() > 0 {
            let last = self.tree.last();
            let order = self.tree.words(last).cmp(words);
            let ordered = match self.schema.ties() {
                Ties::First | Ties::Last => order.is_le(),
                Ties::Name => order.then_with(|| self.names.name(self.tree.id(last)).cmp(name)).is_lt(),
            };
            if !ordered {
                return Err(ORDER);
            }
        }
        let (hash, None) = self.names.find(name) else { return Err(DUPLICATE) };
        if !self.names.has_room(1) {
            return Err(TOO_MANY);
        }
        self.append(hash, words, name);
        Ok(())
    }
}

pub(in crate::boards) fn write_schema(schema: &Schema, out: &mut impl Writer) {
    out.number(VERSION);
    out.number(schema.ties() as u64);
    out.number(schema.keep().map_or(0, NonZeroU64::get));
    out.number(schema.dimensions().len() as u64);
    for dimension in schema.dimensions() {
        let asc = u64::from(dimension.direction == Direction::Asc);
        let float = u64::from(dimension.kind == Kind::Float);
        out.number(asc | float << 1);
        out.bytes(&dimension.name);
    }
}

pub(in crate::boards) fn read_schema(input: &mut impl Reader) -> Result<Schema, DecodeError> {
    let mut number = || input.number();
    let version = number()?;
    if version != VERSION {
        return Err(DecodeError::Format { found: version, oldest: VERSION, newest: VERSION });
    }
    let ties = usize::try_from(number()?).ok().and_then(|ties| Ties::ALL.get(ties));
    let ties = *ties.ok_or(SCHEMA)?;
    // ZLB.CREATE, which a rewritten AOF contains, accepts no higher number.
    let keep = Some(number()?).filter(|&keep| keep <= i64::MAX as u64).ok_or(SCHEMA)?;
    let count = number()?;
    if count > MAX_DIMENSIONS as u64 {
        return Err(SCHEMA);
    }
    let mut dimensions = Vec::new();
    for _ in 0..count {
        let bits = input.number()?;
        if bits > 3 {
            return Err(SCHEMA);
        }
        let direction = if bits & 1 == 0 { Direction::Desc } else { Direction::Asc };
        let kind = if bits & 2 == 0 { Kind::Int } else { Kind::Float };
        let name = input.bytes()?.as_ref().into();
        dimensions.push(Dimension { name, direction, kind });
    }
    Schema::new(dimensions, ties, NonZeroU64::new(keep)).map_err(|_| SCHEMA)
}

/// Writes a member and its values.
pub(in crate::boards) fn write_member(entry: Entry<'_>, to: &mut Packer) {
    to.text(entry.member);
    for value in entry.values.iter() {
        match value {
            Value::Int(v) => to.number(zigzag(v)),
            Value::Float(v) => to.raw(&v.to_le_bytes()),
        };
    }
}

/// Reads a member, and appends its values to `values`.
pub(in crate::boards) fn read_member<'a>(
    from: &mut Unpacker<'a>,
    kinds: impl Iterator<Item = Kind>,
    values: &mut Vec<Value>,
) -> Result<&'a [u8], DecodeError> {
    let name = from.text()?;
    for kind in kinds {
        values.push(read_value(from, kind)?);
    }
    Ok(name)
}

fn read_value(from: &mut Unpacker<'_>, kind: Kind) -> Result<Value, DecodeError> {
    Ok(match kind {
        Kind::Int => Value::Int(unzigzag(from.number()?)),
        Kind::Float => {
            let bytes = from.take(size_of::<f64>())?;
            Value::Float(f64::from_le_bytes(bytes.try_into().expect("8 bytes")))
        }
    })
}
