//! Leaderboards as keys: the layer between the model's board and the server.
//!
//! All changes of a board use [`OpenBoard`]. It opens the key, [`Edit`] changes the board and records the effects, and
//! the commit informs replicas, the AOF, WATCH, client-side caching and listeners of keyspace events. `stored` has the
//! data type: saving, rewriting, memory usage.
//!
//! Boards are replicated by [`effects`] with final values, so a replica computes nothing.
//!
//! An empty board keeps its key, because a user chose its dimensions, ties and KEEP. Only DEL or the key's TTL removes it.

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
