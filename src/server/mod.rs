//! Safe wrappers over the module API. Only these wrappers contain unsafe code.
//!
//! The types enforce the API's rules. A [`Str`] lives as long as the call to which the server passed it. A
//! [`Key`](key::Key) closes itself. An iterator over a sorted set borrows the set. This code runs in the server's
//! main thread, under the server's global lock. Only large values are freed in a background thread.
#![allow(unsafe_code)]

#[macro_use]
mod api;
#[macro_use]
mod panic;

pub mod alloc;
#[cfg(test)]
#[path = "tests/alone.rs"]
pub mod alone;
pub mod authority;
pub mod blocking;
pub mod call;
pub mod command;
pub mod context;
#[cfg(test)]
#[path = "tests/counting.rs"]
pub mod counting;
pub mod data_type;
mod defrag;
pub mod events;
pub mod eviction;
pub mod info;
pub mod io;
pub mod key;
pub mod module;
pub mod native;
#[cfg(any(refused = "types", refused = "borrows"))]
mod refused;
pub mod register;
pub mod reply;
pub mod scan;
pub mod setting;
pub mod slots;
pub mod string;
pub mod string_value;
pub mod timer;
pub mod uncommitted;
pub mod under_lock;
pub mod user;
pub mod zset;

pub use api::missing;
pub use context::Context;
pub use panic::{catch_panic, log_panics};
pub use string::{OwnedStr, StaticStr, Str};
