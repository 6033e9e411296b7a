//! The sorted sets that expire: plain sorted sets, marked by the TTL of their key ([`crate::model::marker`]).
//!
//! [`TimedSet`] is the one place that changes such a set, re-establishes its marker, replicates what it did as native
//! commands with absolute values, and announces it. [`limit`] reads and writes the entries of a rate limit.
//!
//! Reads hide what has expired; the memory is given back by the [`sweeper`]. It knows from the [`index`] which set is
//! next worth a visit; the index learns of sets from our own commands, from events ([`watch`]), and in any case from the
//! [`patrol`], which walks through all keys for ever.

mod index;
pub mod limit;
mod patrol;
pub mod sweeper;
mod timed_set;
pub mod watch;

pub use timed_set::{Member, TimedSet};
