//! The sorted sets that expire: plain sorted sets, marked by the TTL of their key ([`crate::model::marker`]).
//!
//! [`TimedSet`] is the one place that changes such a set, re-establishes its marker, replicates what it did as native
//! commands with absolute values, and announces it. [`limit`] reads and writes the entries of a rate limit.

pub mod limit;
mod timed_set;

pub use timed_set::{Member, TimedSet};
