//! Polling with a timeout.

use std::time::{Duration, Instant};

/// The timeout for operations that take milliseconds on an idle machine. Only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until `condition` holds. Panics with `what` after `timeout`.
#[track_caller]
pub fn eventually(timeout: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < timeout, "not within {timeout:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
