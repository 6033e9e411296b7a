//! Leaderboards as keys: what stands between the board of the model and the server.
//!
//! [`OpenBoard`] is the one place through which a board changes: it opens the key, [`Edit`] changes the board and records the
//! effects of that, and the commit tells replicas, the AOF, WATCH, client-side caching and those who listen for events. `stored`
//! says how a board is saved and measured.
//!
//! What is replicated are effects ([`effects`]): final values, so that a replica computes nothing.
//!
//! A board that nobody is on any more keeps its key: its dimensions, ties and KEEP were somebody's decision. Only DEL,
//! or the key's own TTL, removes it.

mod changes;
mod effects;
mod open;
mod stored;

pub use changes::{Edit, Rows};
pub use effects::{Effect, whole_board};
pub use open::{APPLY, Figures, OpenBoard, create, figures, look, merge, report_misfit, store};
#[cfg(test)]
pub use {changes::Changes, effects::words_of};

use crate::error::Error;
use crate::model::board;

impl From<board::Error> for Error {
    fn from(error: board::Error) -> Error {
        match error {
            board::Error::DimensionCount => Error::DimensionCount,
            board::Error::DuplicateDimension => Error::DuplicateDimension,
            board::Error::ValueCount => Error::ValueCount,
            board::Error::UnknownDimension => Error::UnknownDimension,
            board::Error::WrongKind(_) => Error::NotAFloat,
            board::Error::NotFinite(_) => Error::NotFinite,
            board::Error::Overflow(_) => Error::Overflow,
            board::Error::Full | board::Error::NameTooLong => Error::BoardFull,
        }
    }
}
