//! The documentation against the live server.

mod commands;
mod observability;
mod runbooks;
mod sessions;
mod timers;
