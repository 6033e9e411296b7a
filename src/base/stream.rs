//! Streams for saving and loading values. A stream is a sequence of numbers and byte strings. In the server, it is an
//! RDB file or the payload of DUMP. In the tests, it is a vector.

use std::fmt;

pub trait Writer {
    fn number(&mut self, number: u64);
    /// Writes a byte string of any length, and its length.
    fn bytes(&mut self, bytes: &[u8]);
}

/// A source of a saved value. It returns numbers and byte strings in the order in which they were written.
///
/// At the end of its input, a reader must return an error, not zeros.
pub trait Reader {
    /// The result of [`bytes`](Reader::bytes): a borrowed byte string, or a buffer of the server.
    type Bytes: AsRef<[u8]>;

    fn number(&mut self) -> Result<u64, DecodeError>;
    fn bytes(&mut self) -> Result<Self::Bytes, DecodeError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends too early, or its next item is of another kind than requested.
    Truncated,
    /// The input has a format that this version does not read.
    Format { found: u64, oldest: u64, newest: u64 },
    /// The input is not a valid value, for this reason.
    Invalid(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("it is cut short"),
            DecodeError::Format { found, oldest, newest } if oldest == newest => {
                write!(f, "it has format {found}; this version of the module reads format {newest}")
            }
            DecodeError::Format { found, oldest, newest } => {
                write!(f, "it has format {found}; this version of the module reads formats {oldest} to {newest}")
            }
            DecodeError::Invalid(reason) => write!(f, "it is invalid: {reason}"),
        }
    }
}
