//! Compares the documentation with a live server.

mod commands;
mod log_lines;
mod observability;
mod runbooks;
mod sessions;
mod timers;
