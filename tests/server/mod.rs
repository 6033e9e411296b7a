//! The module in a server: COMMAND DOCS, access, cost, loading and unloading.

mod access;
mod clock;
mod defrag;
pub mod described;
mod eviction;
mod instants;
mod loading;
mod memory;
mod panics;
mod rules;
pub mod surface;
mod unload;
