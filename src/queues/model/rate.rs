//! RATE and GROUPRATE: at most `limit` claims in any `window`.
//!
//! A claim takes a *unit*, which becomes available again one window later. For limits up to 100, this time is exact.
//! For higher limits, the time is rounded up to a multiple of a hundredth of the window, and units with the same time
//! share an entry in the log of taken units. So the log has about 100 entries at any limit. Rounding up never allows
//! more than `limit` claims in a window. The log is part of the stored form of the queue, so only effects change it.
//!
//! If the clock steps back or RATE changes, a unit can be taken for longer than one window. To *settle* a log is to
//! limit this time to one window.

use super::{MAX_TIME, Millis};
use crate::base::sparse::Off;
use std::collections::VecDeque;

/// The highest limit with exact times: a unit becomes available again after exactly one window.
const EXACT: u64 = 100;
/// The maximum number of entries in a [`RateLog`]. A longer stored log is rejected.
pub(super) const MAX_ENTRIES: usize = 512;
/// A stored log is rejected if one of its units becomes available again after this time. The times that
/// [`Rate::back_at`] returns are earlier.
pub(super) const MAX_BACK_AT: Millis = 4 * MAX_TIME;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// The number of claims per window, 1 ..= 2^53-1.
    pub limit: u64,
    /// The window in ms, 1 ..= [`MAX_TIME`].
    pub window: Millis,
}

impl Rate {
    fn rounded(self, at: Millis) -> Millis {
        if self.limit <= EXACT { at } else { at.next_multiple_of(self.window.div_ceil(EXACT)) }
    }

    /// Returns the time at which a unit that is taken at `now` becomes available again.
    pub(super) fn back_at(self, now: Millis) -> Millis {
        self.rounded(now + self.window)
    }
}

/// Units that become available again at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub back_at: Millis,
    /// The number of taken units that become available again at this time, at least 1.
    pub units: u64,
}

/// The taken units, ordered by the time at which they become available again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RateLog {
    taken: VecDeque<Taken>,
}

impl Off for RateLog {
    const OFF: &'static RateLog = &RateLog::EMPTY;
}

impl RateLog {
    pub const EMPTY: RateLog = RateLog { taken: VecDeque::new() };

    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Taken> {
        self.taken.iter()
    }

    pub fn bytes(&self) -> usize {
        match self.taken.len() {
            0 => 0,
            len => len.next_power_of_two().max(4) * size_of::<Taken>(),
        }
    }

    /// Returns the time at which the last taken unit becomes available again.
    pub fn last_back_at(&self) -> Option<Millis> {
        self.taken.back().map(|t| t.back_at)
    }

    /// Returns the number of units that are not available at `now`. The sum cannot overflow: there are at most
    /// [`MAX_ENTRIES`] entries of at most 2^53 units.
    fn in_use(&self, now: Millis) -> u64 {
        let in_use = self.taken.iter().filter(|t| t.back_at > now);
        in_use.map(|t| t.units).sum()
    }

    /// Returns the number of units that are available at `now`. O(N), where N is the length of the log.
    pub fn free(&self, rate: Rate, now: Millis) -> u64 {
        rate.limit.saturating_sub(self.in_use(now))
    }

    /// Returns the first time, not before `now`, at which a unit is available. O(N), where N is the length of the log.
    pub fn next_free_unit(&self, rate: Rate, now: Millis) -> Millis {
        let mut in_use = self.in_use(now);
        let mut at = now;
        for t in self.taken.iter().filter(|t| t.back_at > now) {
            if in_use < rate.limit {
                break;
            }
            in_use -= t.units;
            at = t.back_at;
        }
        at
    }

    /// Whether a unit stays taken for longer than one window from `now`. This happens if the clock has stepped back.
    pub fn needs_settling(&self, rate: Rate, now: Millis) -> bool {
        self.taken.back().is_some_and(|t| t.back_at > rate.back_at(now))
    }

    /// Removes the units that are available again. Limits the time for which the other units stay taken to one window
    /// from `now`.
    pub fn settle(&mut self, rate: Rate, now: Millis) {
        while self.taken.front().is_some_and(|t| t.back_at <= now) {
            self.taken.pop_front();
        }
        let latest = rate.back_at(now);
        let mut units = 0;
        while let Some(t) = self.taken.back().copied().filter(|t| t.back_at >= latest) {
            self.taken.pop_back();
            units += t.units;
        }
        if units > 0 {
            self.add(latest, units);
        }
    }

    /// Adds taken units to the log. They become available again at `back_at`, which must not be before the time of the
    /// last entry. An entry has at most 2^53-1 units. The function drops further units, which only a forged queue can
    /// have.
    fn add(&mut self, back_at: Millis, units: u64) {
        match self.taken.back_mut() {
            Some(last) if last.back_at == back_at => {
                last.units = (last.units + units).min(MAX_TIME);
            }
            _ => self.taken.push_back(Taken { back_at, units: units.min(MAX_TIME) }),
        }
    }

    pub fn take(&mut self, rate: Rate, now: Millis) {
        self.settle(rate, now);
        self.add(rate.back_at(now), 1);
    }

    /// Adapts the log to `rate`, a new setting. Each unit becomes available again after at most one window of `rate`.
    pub fn adopt(&mut self, rate: Rate, now: Millis) {
        for t in std::mem::take(&mut self.taken) {
            self.add(rate.rounded(t.back_at), t.units);
        }
        self.settle(rate, now);
    }

    pub fn clear(&mut self) {
        self.taken = VecDeque::new();
    }

    /// Appends an entry of a stored log. Returns false, and does nothing, if the entry is out of range or is not later
    /// than the last entry, or if the log is full.
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
