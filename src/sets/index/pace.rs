//! The pauses between the runs of the sweeper (its *slices*). The pauses limit the sweeper to a percentage of the time
//! (the *duty*).

use crate::base::time::Millis;
use std::time::Duration;

/// The maximum time in µs by which the next pause is shortened after pauses that were too long.
const CREDIT: i64 = 1000;

/// Computes how long the sweeper pauses after each run (slice). A slice takes only half a ms, but the server's timers
/// have a resolution of 1 ms and fire up to about 1 ms late. So if earlier pauses were too long, the next pause is
/// shorter, and if earlier pauses were too short, the next pause is longer.
#[derive(Debug, Default)]
pub struct Pace {
    /// The sum of the planned pauses minus the sum of the actual pauses, in µs. At least -`CREDIT`.
    owed: i64,
}

impl Pace {
    /// Returns how long to pause after a slice, in ms, so that slices take at most `duty` percent of the time. `busy`
    /// is the duration of the slice. `paused` is the duration of the pause before the slice.
    pub fn pause(&mut self, paused: Duration, busy: Duration, duty: u32) -> Millis {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let owed = micros(busy.saturating_mul(100 - duty) / duty);
        self.owed = self.owed.saturating_sub(micros(paused)).max(-CREDIT).saturating_add(owed);
        Millis::try_from(self.owed / 1000).unwrap_or(0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a sweeper whose runs (slices) take `busy` µs each. Returns the percentage of the time that the slices
    /// take. After slice `n`, the timer fires `late(n)` µs late.
    fn share(busy: u64, duty: u32, late: impl Fn(u64) -> u64) -> f64 {
        let (mut pace, mut paused, mut works, mut pauses) = (Pace::default(), u64::MAX, 0, 0);
        for slice in 0..10_000 {
            let pause = pace.pause(Duration::from_micros(paused), Duration::from_micros(busy), duty);
            paused = pause * 1000 + late(slice);
            (works, pauses) = (works + busy, pauses + paused);
        }
        works as f64 * 100.0 / (works + pauses) as f64
    }

    #[test]
    fn the_work_takes_its_share_though_timers_count_whole_ms() {
        for (busy, duty) in [(500, 25), (520, 25), (700, 25), (500, 10), (5000, 50), (100_000, 90)] {
            for late in [0, 100, 400] {
                let share = share(busy, duty, |_| late);
                assert!((share - f64::from(duty)).abs() < 1.0, "{share} % with slices of {busy} µs, {late} µs late");
            }
        }
    }

    #[test]
    fn it_never_takes_more_and_never_goes_without_a_rest() {
        // A pause lasts at least 1 ms.
        assert!(share(50, 25, |_| 0) < 5.0 && share(500, 90, |_| 0) < 34.0);
        for slice in [1, 10, 100] {
            // After a long idle time, slices are not more frequent than otherwise.
            let share = share(500, 25, |n| if n % slice == 0 { 1_000_000 } else { 0 });
            assert!(share < 25.5, "{share}");
        }
        let mut pace = Pace::default();
        assert_eq!(pace.pause(Duration::MAX, Duration::ZERO, 25), 1);
        assert_eq!(pace.pause(Duration::ZERO, Duration::from_millis(300), 25), 899);
    }
}
