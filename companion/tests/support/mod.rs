//! Starts a browser and the companion for a test. Both end with the test.

mod browser;
mod running;

pub use browser::Browser;
pub use running::{Running, companion, fetch, printed};

use std::time::Duration;

/// The timeout of all waiting.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Polls until `condition` holds. Panics with `what` after the timeout.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    testkit::eventually(PATIENCE, what, condition);
}

/// Polls until `look` returns something. Panics with `what` after the timeout.
#[track_caller]
pub fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually(what, || {
        found = look();
        found.is_some()
    });
    found.expect("just found")
}
