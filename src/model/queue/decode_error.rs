//! Why what was read is no queue.

use crate::model::stream::Truncated;
use std::fmt;

/// The first number of every serialised queue: the version of what is written. Version 1 is what 0.1 wrote; it has no
/// [further numbers](super::further) and no optional fields of jobs. Version 2, of 0.2, does not know since when a job waits.
pub(super) const VERSION: u64 = 3;

/// Why bytes are not a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends too early.
    Truncated,
    /// A version that this code does not know.
    Version(u64),
    /// What was read cannot be; says what.
    Invalid(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("the queue is cut short"),
            DecodeError::Version(version) => {
                write!(f, "it is a queue of format {version}; this version of the module reads formats up to {VERSION}")
            }
            DecodeError::Invalid(what) => write!(f, "it is no possible queue: {what}"),
        }
    }
}

impl From<Truncated> for DecodeError {
    fn from(_: Truncated) -> DecodeError {
        DecodeError::Truncated
    }
}

pub(super) fn ensure(holds: bool, what: &'static str) -> Result<(), DecodeError> {
    if holds { Ok(()) } else { Err(DecodeError::Invalid(what)) }
}

pub(super) fn narrow<T: TryFrom<u64>>(value: u64, what: &'static str) -> Result<T, DecodeError> {
    T::try_from(value).map_err(|_| DecodeError::Invalid(what))
}
