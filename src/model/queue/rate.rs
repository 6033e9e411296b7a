//! RATE: at most `limit` claims in any trailing `window`.
//!
//! A claim takes a unit that comes back at `now + window`. Up to a limit of 100 that moment is exact; above, it is
//! rounded **up** to a grid of a hundredth of the window, so units that come back together share an entry and the log
//! holds about 100 entries at any limit. Rounding up can only hold a unit a little longer: there are never more than
//! `limit` claims in a window.
//!
//! The log is canonical state, and changes by effects only.

use super::{MAX_TIME, Millis};
use std::collections::VecDeque;

/// Limits up to this one are exact to the millisecond.
const EXACT: u64 = 100;
/// A log is never longer; serialised ones that are, are refused.
pub(super) const MAX_ENTRIES: usize = 512;
/// No unit comes back later: the latest moment plus the longest window, rounded up.
pub(super) const MAX_BACK_AT: Millis = 4 * MAX_TIME;

/// The setting RATE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Claims per window, 1 ..= 2^53-1.
    pub limit: u64,
    /// In ms, 1 ..= [`MAX_TIME`].
    pub window: Millis,
}

impl Rate {
    fn on_grid(self, at: Millis) -> Millis {
        if self.limit <= EXACT { at } else { at.next_multiple_of(self.window.div_ceil(EXACT)) }
    }

    /// When a unit taken at `now` comes back; none is held longer than until then.
    pub(super) fn horizon(self, now: Millis) -> Millis {
        self.on_grid(now + self.window)
    }
}

/// The units that come back at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// From this moment on they are free.
    pub back_at: Millis,
    /// How many, at least 1.
    pub units: u64,
}

/// The units taken, by when they come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RateLog {
    taken: VecDeque<Taken>,
}

impl RateLog {
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Taken> {
        self.taken.iter()
    }

    /// An estimate of the bytes held.
    pub fn bytes(&self) -> usize {
        match self.taken.len() {
            0 => 0,
            len => len.next_power_of_two().max(4) * size_of::<Taken>(),
        }
    }

    /// When the last unit comes back.
    pub fn back_at(&self) -> Option<Millis> {
        self.taken.back().map(|t| t.back_at)
    }

    /// Units not back by `now`. Cannot overflow: an entry holds at most 2^53 units, and there are few.
    fn held(&self, now: Millis) -> u64 {
        let held = self.taken.iter().filter(|t| t.back_at > now);
        held.map(|t| t.units).sum()
    }

    /// Units left at `now`. O(entries).
    pub fn free(&self, rate: Rate, now: Millis) -> u64 {
        rate.limit.saturating_sub(self.held(now))
    }

    /// The first moment, not before `now`, at which a unit is free. O(entries).
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

    /// Whether units are held longer than a window from `now`, as after a step back of the clock.
    pub fn unsettled(&self, rate: Rate, now: Millis) -> bool {
        self.taken.back().is_some_and(|t| t.back_at > rate.horizon(now))
    }

    /// Forgets what is back by `now`, and brings forward to a window from `now` what is held longer.
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

    /// Adds units that come back no sooner than all others. Saturates where no honest queue gets to.
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

    /// Carries the log over to a new setting: on the new grid, and within the new window from `now`.
    pub fn adopt(&mut self, rate: Rate, now: Millis) {
        for t in std::mem::take(&mut self.taken) {
            self.add(rate.on_grid(t.back_at), t.units);
        }
        self.settle(rate, now);
    }

    pub fn clear(&mut self) {
        self.taken = VecDeque::new();
    }

    /// Appends an entry of a stored log; false, and nothing done, unless it is a possible one.
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
