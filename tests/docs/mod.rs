//! The documentation against the live server.

mod commands;
mod log_lines;
mod observability;
mod runbooks;
mod sessions;
mod timers;
