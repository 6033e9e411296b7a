//! Waiting with a bound.

use std::time::{Duration, Instant};

/// How long things may take that take milliseconds on an idle machine. Only a hang is meant to run into it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until `condition` holds; panics with `what` when `timeout` has passed.
#[track_caller]
pub fn eventually(timeout: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < timeout, "not within {timeout:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
