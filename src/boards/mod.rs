//! Leaderboards as keys: the layer between the commands and the board itself ([`crate::boards::model`]).
//!
//! Commands change the members of a board through [`change`]. `change` opens the key, and [`Edit`](changes::Edit)
//! changes the board and records the *effect*: the result of the change, for replicas and the AOF. Then `change`
//! replicates the effect, signals WATCH and client-side caching, and sends the keyspace event. `stored` saves, loads
//! and measures boards.
//!
//! An empty board keeps its key, because the board has settings that a user chose.

mod changes;
pub mod commands;
mod effects;
pub mod model;
mod open;
pub mod parse;
mod report;
mod stored;
mod words;

#[cfg(test)]
pub use changes::Edit;
#[cfg(test)]
pub use effects::BoardEffect;
pub use effects::{APPLY, BoardChange, decode};
pub use open::{BoardStats, change, create, merge, report_rejected, stats, store};
pub use report::report;
pub use words::decode as decode_words;

pub use crate::boards::model::Board;
use crate::boards::model::BoardError;
use crate::error::Error;

impl From<BoardError> for Error {
    fn from(error: BoardError) -> Error {
        match error {
            BoardError::DimensionCount => Error::DimensionCount,
            BoardError::DuplicateDimension => Error::DuplicateDimension,
            BoardError::ValueCount => Error::ValueCount,
            BoardError::UnknownDimension => Error::UnknownDimension,
            BoardError::WrongKind => Error::NotAFloat,
            BoardError::NotFinite => Error::NotFinite,
            BoardError::Overflow => Error::Overflow,
            BoardError::Full => Error::BoardFull,
        }
    }
}
