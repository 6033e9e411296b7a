//! The errors of a board's methods.

/// Why a board refuses a request. A refused request leaves the board unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardError {
    /// A schema without dimensions, or with more than 64.
    DimensionCount,
    /// Two dimensions with the same name.
    DuplicateDimension,
    /// Too few or too many values for the dimensions.
    ValueCount,
    /// No dimension at this position.
    UnknownDimension,
    /// A float for an INT dimension, or an integer for a FLOAT dimension.
    WrongKind,
    /// A NaN or an infinity, as an argument or as the result of INCR.
    NotFinite,
    /// An INCR would exceed the signed 64-bit range.
    Overflow,
    /// More than [`MAX_MEMBERS`](super::MAX_MEMBERS) members, or a name longer than 2^32 - 16 bytes. SET and INCR count
    /// each of their members as a new one.
    Full,
}
