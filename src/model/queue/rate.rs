//! RATE: at most `limit` claims in any trailing `window`.
//!
//! A claim takes a unit, which becomes available again at `now + window`. For limits up to 100, this time is exact. For higher limits, it
//! is rounded up to a grid of a hundredth of the window. So units with the same rounded time share an entry, and the log has about 100
//! entries at any limit. Rounding up holds a unit longer, so there are never more than `limit` claims in a window.
//!
//! The log is part of the stored state. Only effects change it.

use super::{MAX_TIME, Millis};
use std::collections::VecDeque;

/// The maximum limit that is exact to the millisecond.
const EXACT: u64 = 100;
/// The maximum length of a log. A longer stored log is rejected.
pub(super) const MAX_ENTRIES: usize = 512;
/// No unit becomes available again later than this. The latest time plus the longest window, rounded up, is earlier.
pub(super) const MAX_BACK_AT: Millis = 4 * MAX_TIME;

/// The setting RATE or GROUPRATE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Claims per window, 1 ..= 2^53-1.
    pub limit: u64,
    /// The length of the window in ms, 1 ..= [`MAX_TIME`].
    pub window: Millis,
}

impl Rate {
    fn on_grid(self, at: Millis) -> Millis {
        if self.limit <= EXACT { at } else { at.next_multiple_of(self.window.div_ceil(EXACT)) }
    }

    /// Returns when a unit that is taken at `now` becomes available again.
    pub(super) fn horizon(self, now: Millis) -> Millis {
        self.on_grid(now + self.window)
    }
}

/// The units that become available again at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// When they become available again.
    pub back_at: Millis,
    /// The number of units, at least 1.
    pub units: u64,
}

/// The taken units, ordered by the time at which they become available again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RateLog {
    taken: VecDeque<Taken>,
}

impl RateLog {
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Taken> {
        self.taken.iter()
    }

    /// Estimates the memory in bytes.
    pub fn bytes(&self) -> usize {
        match self.taken.len() {
            0 => 0,
            len => len.next_power_of_two().max(4) * size_of::<Taken>(),
        }
    }

    /// Returns when the last unit becomes available again.
    pub fn back_at(&self) -> Option<Millis> {
        self.taken.back().map(|t| t.back_at)
    }

    /// Returns the number of units that are not available at `now`. The sum cannot overflow, because there are few
    /// entries with at most 2^53 units each.
    fn held(&self, now: Millis) -> u64 {
        let held = self.taken.iter().filter(|t| t.back_at > now);
        held.map(|t| t.units).sum()
    }

    /// Returns the number of units that are available at `now`. O(entries).
    pub fn free(&self, rate: Rate, now: Millis) -> u64 {
        rate.limit.saturating_sub(self.held(now))
    }

    /// Returns the first time, not before `now`, at which a unit is available. O(entries).
    pub fn opens_at(&self, rate: Rate, now: Millis) -> Millis {
        let mut held = self.held(now);
        let mut at = now;
        for t in self.taken.iter().filter(|t| t.back_at > now) {
            if held < rate.limit {
                break;
            }
            held -= t.units;
            at = t.back_at;
        }
        at
    }

    /// Whether units are held for longer than a window from `now`. This happens after the clock has stepped back.
    pub fn unsettled(&self, rate: Rate, now: Millis) -> bool {
        self.taken.back().is_some_and(|t| t.back_at > rate.horizon(now))
    }

    /// Forgets units that are available at `now`. The other units become available one window after `now` at the
    /// latest.
    pub fn settle(&mut self, rate: Rate, now: Millis) {
        while self.taken.front().is_some_and(|t| t.back_at <= now) {
            self.taken.pop_front();
        }
        let horizon = rate.horizon(now);
        let mut units = 0;
        while let Some(t) = self.taken.back().copied().filter(|t| t.back_at >= horizon) {
            self.taken.pop_back();
            units += t.units;
        }
        if units > 0 {
            self.add(horizon, units);
        }
    }

    /// Adds units that become available no earlier than all units in the log. The sum of an entry saturates. Only a
    /// forged queue can reach that value.
    fn add(&mut self, back_at: Millis, units: u64) {
        match self.taken.back_mut() {
            Some(last) if last.back_at == back_at => {
                last.units = (last.units + units).min(MAX_TIME);
            }
            _ => self.taken.push_back(Taken { back_at, units: units.min(MAX_TIME) }),
        }
    }

    /// Takes one unit.
    pub fn take(&mut self, rate: Rate, now: Millis) {
        self.settle(rate, now);
        self.add(rate.horizon(now), 1);
    }

    /// Adapts the log to a new setting. Rounds the times to the new grid, and limits them to one new window after
    /// `now`.
    pub fn adopt(&mut self, rate: Rate, now: Millis) {
        for t in std::mem::take(&mut self.taken) {
            self.add(rate.on_grid(t.back_at), t.units);
        }
        self.settle(rate, now);
    }

    pub fn clear(&mut self) {
        self.taken = VecDeque::new();
    }

    /// Appends an entry of a stored log. Returns false, and does nothing, if the entry is impossible.
    pub fn restore(&mut self, entry: Taken) -> bool {
        let later = self.taken.back().is_none_or(|t| t.back_at < entry.back_at);
        let possible = later
            && (1..=MAX_TIME).contains(&entry.units)
            && entry.back_at <= MAX_BACK_AT
            && self.taken.len() < MAX_ENTRIES;
        if possible {
            self.taken.push_back(entry);
        }
        possible
    }
}
