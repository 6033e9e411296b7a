//! The integration tests: real servers with the built module, and the commands of the documentation as a client would
//! send them.
//!
//! There is one binary, with one folder for each topic. Every test starts its own server (`testkit::Server`), so tests
//! run in parallel and in any order. `make test` runs all tests. `cargo test --test integration -- zrl::` runs the
//! tests of one folder.

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
