//! The sorted sets that expire: plain sorted sets, marked by the TTL of their key ([`crate::model::marker`]).
//!
//! [`TimedSet`] is the one place that changes such a set, re-establishes its marker, replicates what it did as native
//! commands with absolute values, and announces it.
//!
//! Reads hide what has expired; the memory is given back by the [`sweeper`]. What is tracked, and when
//! to look next, is a model of its own ([`crate::model::tracking`]); it learns of sets from our own commands, from events
//! ([`watch`]), and in any case from the [`patrol`], which walks through all keys again and again.

mod announce;
mod effects;
mod patrol;
pub mod sweeper;
mod timed_set;
pub mod watch;

pub use timed_set::{Member, TimedSet};
