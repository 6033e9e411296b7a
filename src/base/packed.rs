//! The binary form of effects, in one argument of ZQ.APPLY or ZLB.APPLY after the key. An *effect* is the result of a
//! command. The master sends effects to its replicas, and writes them to the AOF file, instead of the commands.
//!
//! | | |
//! |---|---|
//! | a byte | the format: 1 |
//! | a header | what all effects have in common; queues and boards have different headers |
//! | for each effect | a byte that names the effect, a number (the length of what follows), and the effect's values |
//!
//! A number is a varint: LEB128 in as few bytes as possible. A signed number is a zigzag varint. A byte string has its
//! length before it. The length of an effect shows where the next effect begins, so a reader can tell which effect is
//! too short, too long or unknown.

use crate::base::stream::{DecodeError, Reader, Writer};
use std::fmt;

/// The first byte of packed effects: their format. The effects of Zeitset 0.3 are text instead, and begin with a letter
/// or a digit.
const FORMAT: u8 = 1;

pub const MALFORMED: DecodeError = DecodeError::Invalid("malformed number");
const OUT_OF_RANGE: DecodeError = DecodeError::Invalid("number out of range");
pub const TOO_LONG: DecodeError = DecodeError::Invalid("it is too long");
pub const UNKNOWN: DecodeError = DecodeError::Invalid("it is unknown");

/// The initial capacity of an argument, in bytes.
const FIRST: usize = 256;

/// Defines a constant for the code of each effect, and the function `name`, which returns the name of a code.
macro_rules! codes {
    ($($name:ident = $code:literal,)*) => {
        $(const $name: u8 = $code;)*

        fn name(code: u8) -> Option<&'static str> {
            match code {
                $($code => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}
pub(crate) use codes;

#[derive(Default)]
pub struct Packer(Vec<u8>);

impl Packer {
    /// If no bytes have been written yet, writes the format and returns true. The caller must then write the header.
    pub fn begin(&mut self) -> bool {
        let is_empty = self.0.is_empty();
        if is_empty {
            self.0.reserve(FIRST);
            self.0.push(FORMAT);
        }
        is_empty
    }

    /// Returns a packer for data that are not effects. Such data have no format byte.
    pub fn with_capacity(bytes: usize) -> Packer {
        Packer(Vec::with_capacity(bytes))
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Writes bytes without their length.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Packer {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes the code of an effect, its length, and the values that `write` writes.
    pub fn effect(&mut self, code: u8, write: impl FnOnce(&mut Packer)) {
        self.0.push(code);
        let start = self.0.len();
        write(self);
        let (end, length) = (self.0.len(), self.0.len() - start);
        self.number(length as u64);
        // Almost every effect is short, and the length is one byte.
        let size = self.0.len() - end;
        self.0[start..].rotate_right(size);
    }

    pub fn byte(&mut self, byte: u8) -> &mut Packer {
        self.0.push(byte);
        self
    }

    pub fn number(&mut self, number: u64) -> &mut Packer {
        put_number(&mut self.0, number);
        self
    }

    /// Writes 0 for `None`, and otherwise the number plus 1.
    pub fn option(&mut self, number: Option<u64>) -> &mut Packer {
        self.number(number.map_or(0, |number| number.saturating_add(1)))
    }

    pub fn text(&mut self, bytes: &[u8]) -> &mut Packer {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
}

impl Writer for Packer {
    fn number(&mut self, number: u64) {
        self.number(number);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.text(bytes);
    }
}

/// Whether an argument of ZQ.APPLY or ZLB.APPLY has packed effects. Otherwise, the argument belongs to the text form of
/// Zeitset 0.3.
pub fn is_packed(argument: &[u8]) -> bool {
    !argument.first().is_some_and(u8::is_ascii_alphanumeric)
}

/// A decoder for the bytes of a [`Packer`]. Invalid bytes, for example from a client, cause an error.
pub struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    /// Returns a decoder for data that are not effects. Such data have no format byte.
    pub fn of(bytes: &'a [u8]) -> Unpacker<'a> {
        Unpacker(bytes)
    }

    /// Checks the format of packed effects. Returns a decoder whose next value is the header.
    pub fn begin(argument: &'a [u8]) -> Result<Unpacker<'a>, DecodeError> {
        let mut unpacker = Unpacker(argument);
        match unpacker.byte()? {
            FORMAT => Ok(unpacker),
            found => Err(DecodeError::Format { found: found.into(), oldest: FORMAT.into(), newest: FORMAT.into() }),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads all remaining effects. For each effect, calls `read` with the effect's code and a decoder of its values.
    /// `read` must read all these values. `name` returns the name of a code, or `None` if the code is unknown.
    pub fn effects<T>(
        mut self,
        name: impl Fn(u8) -> Option<&'static str>,
        mut read: impl FnMut(u8, &mut Unpacker<'a>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, Unreadable> {
        let mut effects = Vec::new();
        while let Some((&code, rest)) = self.0.split_first() {
            let mut of_effect = || {
                if name(code).is_none() {
                    return Err(UNKNOWN);
                }
                self.0 = rest;
                let mut body = Unpacker(self.text()?);
                let effect = read(code, &mut body)?;
                if body.is_empty() { Ok(effect) } else { Err(TOO_LONG) }
            };
            let name = || name(code).map_or_else(|| code.to_string(), str::to_owned);
            effects.push(of_effect().map_err(|why| Unreadable::new(name(), why))?);
        }
        Ok(effects)
    }

    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            let overflows = bits << shift >> shift != bits;
            if overflows || (byte == 0 && shift > 0) {
                return Err(MALFORMED);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(MALFORMED)
    }

    /// Reads a number of at most 32 bits.
    pub fn small(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.number()?).map_err(|_| OUT_OF_RANGE)
    }

    pub fn option(&mut self) -> Result<Option<u64>, DecodeError> {
        Ok(self.number()?.checked_sub(1))
    }

    /// Reads 0 or 1.
    pub fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.byte()? {
            flag @ (0 | 1) => Ok(flag == 1),
            _ => Err(OUT_OF_RANGE),
        }
    }

    pub fn text(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.number()?).map_err(|_| DecodeError::Truncated)?;
        self.take(length)
    }
}

impl<'a> Reader for Unpacker<'a> {
    type Bytes = &'a [u8];

    fn number(&mut self) -> Result<u64, DecodeError> {
        self.number()
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        self.text()
    }
}

/// A rejected effect: its name, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    effect: String,
    why: String,
}

impl Unreadable {
    pub fn new(effect: impl Into<String>, why: impl fmt::Display) -> Unreadable {
        Unreadable { effect: effect.into(), why: why.to_string() }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.effect, self.why)
    }
}

pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Maps signed numbers to unsigned ones, so that a number near 0 takes few bytes: 0, -1, 1, -2, … become 0, 1, 2, 3, …
pub fn zigzag(v: i64) -> u64 {
    (v << 1 ^ v >> 63).cast_unsigned()
}

pub fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests;
