//! The examples do what they promise: the tour prints the same in every language, and the web services keep to their
//! limits under load.
//!
//! Those in other languages fetch client libraries, so only `make examples` runs them. A language that is not installed, or
//! whose library cannot be had, is skipped, which is said; EXAMPLES="python node" names those that must not be.

mod clients;
mod tour;
mod web;

use std::process::{Child, Command, Stdio};

/// A program that ends with the test at the latest.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Running {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        Running(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
