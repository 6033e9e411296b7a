//! The documentation against the live server.

mod commands;
mod observability;
mod sessions;
mod timers;
