//! Rate limits: plain strings that say themselves what they are.
//!
//! [`Limit`] is an open one: asked, and then committed with or without a change. [`effects`] is the one place through which a
//! change is replicated, as native commands with absolute values, and announced. What a limit says is [`crate::model::limit`]'s.

pub mod effects;
pub mod figures;
mod limit;

pub use limit::{Limit, held_by};

use crate::error::Error;
use crate::model::limit::Foreign;

impl From<Foreign> for Error {
    fn from(_: Foreign) -> Error {
        Error::NotLimit
    }
}
