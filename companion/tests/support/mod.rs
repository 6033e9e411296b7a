//! A browser and the companion itself, which end with the test. Servers and their clients: testkit.

mod browser;
mod running;

pub use browser::Browser;
pub use running::{Running, companion, fetch, printed};

use std::time::Duration;

/// As in testkit, and more of it: browsers are slow.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Polls until `condition` holds; panics with `what` when that takes too long.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    testkit::eventually(PATIENCE, what, condition);
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
