//! The module and the server that it is loaded into: what the server knows of it, who may call it, what it costs, how it goes.

mod access;
mod clock;
mod defrag;
pub mod described;
mod instants;
mod loading;
mod memory;
mod panics;
mod rules;
pub mod surface;
mod unload;
