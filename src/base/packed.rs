//! Effects in one argument: what ZQ.APPLY and ZLB.APPLY carry after the key.
//!
//! | | |
//! |---|---|
//! | a byte | the format: 1 |
//! | a header | what all effects have in common; queues and boards have different headers |
//! | for each effect | a byte that names the effect, a number (the length of what follows), and the effect's values |
//!
//! A number is a varint: LEB128 in as few bytes as possible. A signed number is a zigzag varint. A byte string has its
//! length before it. The length of an effect shows where the next one begins, so a reader can tell which effect is
//! too short, too long or unknown.

use crate::base::stream::{DecodeError, Reader, Writer};
use std::fmt;

/// The first byte of packed effects. The effects of Zeitset 0.3 begin with a letter or a digit instead.
const FORMAT: u8 = 1;

pub const MALFORMED: DecodeError = DecodeError::Invalid("malformed number");
const OUT_OF_RANGE: DecodeError = DecodeError::Invalid("number out of range");
pub const TOO_LONG: DecodeError = DecodeError::Invalid("it is too long");
pub const UNKNOWN: DecodeError = DecodeError::Invalid("it is unknown");

/// The initial capacity of an argument, in bytes.
const FIRST: usize = 256;

/// Defines the codes of effects, and `name`, which returns the name of a code.
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
    /// Begins the argument if it is still empty. The header follows.
    pub fn begin(&mut self) -> bool {
        let is_empty = self.0.is_empty();
        if is_empty {
            self.0.reserve(FIRST);
            self.0.push(FORMAT);
        }
        is_empty
    }

    /// Returns a packer without a format, for other uses than effects.
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

    /// Writes an effect. `write` writes all that follows the length.
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

/// Whether an argument after the key has packed effects. Otherwise, the argument is a word of Zeitset 0.3.
pub fn is_packed(argument: &[u8]) -> bool {
    !argument.first().is_some_and(u8::is_ascii_alphanumeric)
}

/// A reader of bytes that a [`Packer`] has written, or of any other bytes.
pub struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    /// Returns a reader of bytes without a format.
    pub fn of(bytes: &'a [u8]) -> Unpacker<'a> {
        Unpacker(bytes)
    }

    /// Checks the format of an argument. The reader is then at the header.
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

    /// Reads the effects up to the end. `read` gets the code of an effect and a reader of the effect's values. `read`
    /// must read all values. `name` returns the name of a code.
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

/// Which effect is rejected, and why.
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

/// Maps small numbers of either sign to small numbers: 0, -1, 1, -2, … to 0, 1, 2, 3, …
pub fn zigzag(v: i64) -> u64 {
    (v << 1 ^ v >> 63).cast_unsigned()
}

pub fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests;
