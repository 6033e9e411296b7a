//! Leaderboards as keys: the layer between the board of the model and the server.
//!
//! Commands change the members of a board through [`OpenBoard`]. It opens the key, and [`Edit`] changes the board and
//! records the effects. The commit replicates the effects, signals WATCH and client-side caching, and sends the
//! keyspace events. `stored` has the data type: saving, AOF rewriting, memory usage.
//!
//! An empty board keeps its key, because it has settings that a user chose. Only DEL or the key's TTL removes it.

mod changes;
mod effects;
mod open;
mod stored;

pub use changes::{Edit, Rows};
pub use effects::{EffectKind, decode_board};
pub use open::{APPLY, BoardStats, OpenBoard, board_in, create, merge, report_rejected, stats, store};
#[cfg(test)]
pub use {changes::Changes, effects::encode_board};

use crate::error::Error;
use crate::model::board;

impl From<board::BoardError> for Error {
    fn from(error: board::BoardError) -> Error {
        match error {
            board::BoardError::DimensionCount => Error::DimensionCount,
            board::BoardError::DuplicateDimension => Error::DuplicateDimension,
            board::BoardError::ValueCount => Error::ValueCount,
            board::BoardError::UnknownDimension => Error::UnknownDimension,
            board::BoardError::WrongKind(_) => Error::NotAFloat,
            board::BoardError::NotFinite(_) => Error::NotFinite,
            board::BoardError::Overflow(_) => Error::Overflow,
            board::BoardError::Full | board::BoardError::NameTooLong => Error::BoardFull,
        }
    }
}
