//! Rate limits, which are plain strings with a recognizable format.
//!
//! [`Limit`] is an open limit. A command assesses the limit and then commits it, with or without a change. [`effects`]
//! replicates all changes with the server's own commands and absolute values, and sends the keyspace events.
//! [`crate::model::limit`] has the algorithms.

pub mod effects;
mod limit;
pub mod stats;

pub use limit::{Limit, usage_of};

use crate::error::Error;
use crate::model::limit::Foreign;

impl From<Foreign> for Error {
    fn from(_: Foreign) -> Error {
        Error::NotLimit
    }
}
