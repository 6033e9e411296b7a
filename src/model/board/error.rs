//! What can be wrong with a request. Every error is found before anything is changed, so a board that answers with
//! one is the board it was.

use std::fmt;

/// Why a board refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A board has 1 to 64 dimensions.
    DimensionCount,
    /// Two dimensions of one name.
    DuplicateDimension,
    /// A tuple has more or fewer values than the board has dimensions.
    ValueCount,
    /// No dimension at this position.
    UnknownDimension,
    /// A float for an INT dimension (by position), or the reverse.
    WrongKind(usize),
    /// NaN or an infinity, given or reached by INCR, in this dimension (by position).
    NotFinite(usize),
    /// INCR of this dimension (by position) would leave the signed 64-bit range.
    Overflow(usize),
    /// The call could take the board past [`MAX_MEMBERS`](super::MAX_MEMBERS).
    Full,
    /// A member's name is longer than 2^32 - 16 bytes.
    NameTooLong,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::DimensionCount => "a board has 1 to 64 dimensions",
            Error::DuplicateDimension => "two dimensions have the same name",
            Error::ValueCount => "one value for each dimension is needed",
            Error::UnknownDimension => "no such dimension",
            Error::WrongKind(_) => "the value is not of the dimension's kind",
            Error::NotFinite(_) => "the value is not a finite number",
            Error::Overflow(_) => "increment would overflow",
            Error::Full => "the board is full",
            Error::NameTooLong => "the member's name is too long",
        })
    }
}

impl std::error::Error for Error {}
