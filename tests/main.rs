//! The integration tests: real servers, the built module, and COMMANDS.md read as a client would read it.
//!
//! One binary, one folder for each concern. Every test starts a server of its own (`testkit::Server`), so tests run in
//! parallel and in any order. `make test` runs them all; `cargo test --test integration -- zrl::` those of one folder.

mod cluster;
mod data;
mod docs;
mod examples;
mod expiring;
mod repository;
mod server;
mod torture;
mod zexp;
mod zlb;
mod zq;
mod zrl;
