//! Errors of requests. A request is checked before anything is changed, so a board that returns an error is unchanged.

/// Why a board refuses a request.
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
    /// A float for an INT dimension, or an integer for a FLOAT one. The dimension is given by its position.
    WrongKind(usize),
    /// A NaN or an infinity in this dimension, as an argument or as the result of INCR. The dimension is given by its
    /// position.
    NotFinite(usize),
    /// An INCR of this dimension would exceed the signed 64-bit range. The dimension is given by its position.
    Overflow(usize),
    /// The call could exceed [`MAX_MEMBERS`](super::MAX_MEMBERS).
    Full,
    /// A member's name is longer than 2^32 - 16 bytes.
    NameTooLong,
}
