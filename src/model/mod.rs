//! What the commands compute, without a server: pure functions and types in which `now` is always a parameter.
//! Nothing here does I/O, reads a clock or uses `unsafe`, so all of it is tested by plain unit and property tests.

pub mod board;
pub mod limit;
pub mod marker;
pub mod queue;
pub mod stream;
pub mod time;
