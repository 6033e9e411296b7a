//! Servers and programs that end with the test.

mod browser;
mod redis_server;
mod running;

pub use browser::Browser;
pub use redis_server::{Client, Server, free_port};
pub use running::{Running, companion, fetch, printed};

use std::time::{Duration, Instant};

/// How long things may take that take milliseconds on an idle machine. Only a hang is meant to run into it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Polls until `condition` holds; panics with `what` when that takes too long.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Polls until `look` finds something; panics with `what` when that takes too long.
#[track_caller]
pub fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually(what, || {
        found = look();
        found.is_some()
    });
    found.expect("just found")
}
