//! Rate limits: plain sorted sets (SLIDING) and plain strings (FIXED, LEAKY, THROTTLE), each of which says itself what it is.
//!
//! [`Limit`] is an open one: asked, and then committed with or without a change. [`effects`] is the one place through which a
//! change is replicated, as native commands with absolute values, and announced. [`entries`] and [`text`] know how a limit lies in
//! its key; what a limit says is [`crate::model::limit`]'s.

mod believed;
pub mod effects;
mod entries;
pub mod figures;
mod limit;
mod restored;
mod text;

pub use entries::{Entries, Seen};
pub use limit::{Kept, Limit, held_by};
pub use text::TextLimit;

use crate::error::Error;
use crate::model::limit::Foreign;
use crate::model::limit::sliding::Unable;
use crate::server::events::{Happened, KeyEvent, ServerEvent};
use crate::server::{Context, Str};

impl From<Unable> for Error {
    fn from(unable: Unable) -> Error {
        match unable {
            Unable::Foreign => Foreign.into(),
            Unable::TooManyLater => Error::RefundTooLate,
        }
    }
}

impl From<Foreign> for Error {
    fn from(_: Foreign) -> Error {
        Error::OtherAlgorithm
    }
}

/// Heeds what others do to keys that may be limits.
pub fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
    match event.happened {
        Happened::Expire | Happened::Persist | Happened::SomethingElse => return,
        _ => believed::forget(ctx, event.key),
    }
    if event.happened == Happened::Restore {
        restored::note_key(ctx, event.key);
    }
}

pub fn on_server(ctx: &Context, event: ServerEvent<'_>) {
    if matches!(event, ServerEvent::Flushed(_) | ServerEvent::Swapped(..) | ServerEvent::Loaded) {
        believed::forget_all(ctx);
    }
}

/// Whether a key is a sorted set that is a rate limit beyond doubt: by its TTL and by its entries.
pub fn is_limit(ctx: &mut Context, name: Str<'_>) -> bool {
    use crate::server::key::{ReadKey, Reading};
    use crate::server::zset::SortedSet;
    SortedSet::new(ReadKey::open(ctx, name))
        .is_some_and(|set| !set.is_empty() && Entries::<Reading>::recognise(set, name).is_ok())
}
