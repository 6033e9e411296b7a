//! A clock that never decreases, and that counts the time while the machine sleeps, as the server's clock does.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The first reading of the monotonic clock, and the largest difference so far between both clocks.
static CLOCK: Mutex<Option<(Instant, Duration)>> = Mutex::new(None);

/// Returns the time since a fixed moment.
pub(super) fn now() -> Duration {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut clock = super::lock(&CLOCK);
    let (start, ahead) = clock.get_or_insert_with(|| (Instant::now(), Duration::ZERO));
    let passed = start.elapsed();
    *ahead = (*ahead).max(wall.saturating_sub(passed));
    *ahead + passed
}
