//! LEAKY: the generic cell rate algorithm (GCRA, ITU-T I.371), exact.
//!
//! A bucket of `limit` units drains at one unit per `window / limit`. The only state is the *theoretical arrival time*:
//! the time at which the bucket is empty if no more units are taken. An interval such as 10 s / 3 is not a whole number
//! of ms. So the arrival time is stored as whole ms and a part in units of `1 / limit` ms. All arithmetic uses
//! integers. If the policy changes, the number of units in the bucket stays the same, except that a fraction may be
//! rounded up.
//!
//! The key is a string, `leaky:<empty at>+<part>:<limit>/<window>!<written at>`. If the part is 0, `+<part>` is left
//! out. Limit and window give the rate at which the bucket drains. `written at` is the time of the last write. If the
//! clock steps back to an earlier time, the bucket has the same level as at the last write.

use super::text::{NumberReader, number_text};
use super::{Assessed, Call, Foreign, Lifetime, LimitUsage, MAX_UNITS, SmallBytes, Update};
use crate::base::time::{self, Millis};

const TAG: &str = "leaky:";

/// The level of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The bucket is empty at `at + part / limit` ms. `part` is below `limit`.
    at: Millis,
    part: u64,
    limit: u64,
    window: Millis,
    written_at: Millis,
}

impl Level {
    pub fn parse(text: &[u8]) -> Result<Level, Foreign> {
        let mut text = NumberReader(text);
        let at = text.number_after(TAG)?;
        let part = if text.is_at("+") { Some(text.number_after("+")?) } else { None };
        let (limit, window) = (text.number_after(":")?, text.number_after("/")?);
        let written_at = text.last_number_after("!")?;
        let is_ours = (1..=MAX_UNITS).contains(&limit)
            && (1..=time::MAX).contains(&window)
            && at.max(written_at) <= time::MAX
            && part.is_none_or(|part| (1..limit).contains(&part));
        is_ours.then_some(Level { at, part: part.unwrap_or(0), limit, window, written_at }).ok_or(Foreign)
    }

    fn text(self) -> SmallBytes {
        let Level { at, part, limit, window, written_at } = self;
        match part {
            0 => number_text(&[(TAG, at), (":", limit), ("/", window), ("!", written_at)]),
            part => number_text(&[(TAG, at), ("+", part), (":", limit), ("/", window), ("!", written_at)]),
        }
    }

    fn update(self) -> Update {
        Update::Replace { text: self.text(), lifetime: Lifetime::lingering(self.empty_at(), self.window) }
    }

    /// Returns the time at which the bucket is empty, in ms, rounded up.
    fn empty_at(self) -> Millis {
        self.at + u64::from(self.part > 0)
    }

    /// Returns the level at `now`, in parts of a unit. One unit has `window` parts, so the bucket drains by `limit`
    /// parts per ms.
    fn parts_at(self, now: Millis) -> u128 {
        let empty = u128::from(self.at) * u128::from(self.limit) + u128::from(self.part);
        empty.saturating_sub(u128::from(now) * u128::from(self.limit))
    }

    /// Converts a level to a new window, rounded up. A unit has `self.window` old parts, and `window` new parts.
    fn in_parts_of(self, window: Millis, parts: u128) -> u128 {
        let (old, new) = (u128::from(self.window), u128::from(window));
        if old == new {
            return parts;
        }
        (parts / old).min(MAX_UNITS.into()) * new + (parts % old * new).div_ceil(old)
    }

    /// Returns a level of `parts` at `now`. If necessary, lowers the level so that the bucket is empty by
    /// [`time::MAX`].
    fn of(limit: u64, window: Millis, now: Millis, parts: u128) -> Level {
        let (whole, part) = match u64::try_from(parts) {
            Ok(parts) => (u128::from(parts / limit), u128::from(parts % limit)),
            Err(_) => (parts / u128::from(limit), parts % u128::from(limit)),
        };
        let at = u64::try_from(whole).ok().and_then(|whole| time::after(now, whole)).filter(|&at| at < time::MAX);
        let (at, part) = at.map_or((time::MAX, 0), |at| (at, u64::try_from(part).unwrap_or(0)));
        Level { at, part, limit, window, written_at: now }
    }

    fn units(parts: u128, window: Millis) -> u64 {
        u64::try_from(parts.div_ceil(u128::from(window))).unwrap_or(MAX_UNITS).min(MAX_UNITS)
    }

    /// Returns the level at `now`. If `now` is before the last write, returns the level at the last write.
    fn seen_at(self, now: Millis) -> Level {
        match now < self.written_at {
            true => Level::of(self.limit, self.window, now, self.parts_at(self.written_at)),
            false => self,
        }
    }

    pub(super) fn usage(self, now: Millis) -> LimitUsage {
        let level = self.seen_at(now);
        let parts = level.parts_at(now);
        LimitUsage::of(parts > 0, || {
            let first = (parts - 1) % u128::from(self.window) + 1;
            let wait = u64::try_from(first.div_ceil(u128::from(self.limit))).unwrap_or(time::MAX);
            LimitUsage {
                units: Some(Level::units(parts, self.window)),
                slots: 1,
                next_available: Some(time::after_at_most(now, wait)),
                all_available: Some(level.empty_at()),
            }
        })
    }

    /// Computes a refund of at most `units` units. Returns how many units are refunded, and the change to make. Units
    /// that have drained, or that drain after `until`, cannot be refunded.
    pub(super) fn refund(self, now: Millis, units: u64, until: Millis) -> (u64, Option<Update>) {
        let parts = self.seen_at(now).parts_at(now);
        let ahead = u128::from(until.saturating_sub(now)) * u128::from(self.limit);
        let back = Level::units(parts.min(ahead), self.window).min(units);
        let left = parts.saturating_sub(u128::from(back) * u128::from(self.window));
        let level = || Level::of(self.limit, self.window, now, left).update();
        (back, (back > 0).then(|| if left > 0 { level() } else { Update::Remove }))
    }
}

/// A call, and the stored level of its limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaky {
    call: Call,
    stored: Option<Level>,
    /// The level in parts. A unit is `window` parts, so fractions of a unit are integers.
    parts: u128,
}

impl Leaky {
    pub fn new(call: Call, stored: Option<Level>) -> Leaky {
        let window = call.policy.window;
        let mut leaky = Leaky { call, stored, parts: 0 };
        if let Some(level) = stored {
            let parts = level.in_parts_of(window, level.parts_at(call.now.max(level.written_at)));
            // A debt stays as long as the window is unchanged. Without a debt, or with another window, the level is at
            // most a full bucket of the new policy.
            let full = u128::from(level.limit) * u128::from(level.window);
            let is_debt = level.window == window && level.parts_at(level.written_at) > full;
            leaky.parts = if is_debt { parts } else { parts.min(leaky.room()) };
        }
        leaky
    }

    fn limit(&self) -> u64 {
        self.call.policy.limit
    }

    fn window(&self) -> Millis {
        self.call.policy.window
    }

    /// Returns the level of a full bucket. Levels are counted in parts of a unit.
    fn room(&self) -> u128 {
        u128::from(self.limit()) * u128::from(self.window())
    }

    /// Returns the cost of the call, in parts ([`Leaky::parts`]).
    fn cost(&self) -> u128 {
        u128::from(self.call.cost) * u128::from(self.window())
    }

    /// Returns how long the bucket takes to drain `parts` ([`Leaky::parts`]), in ms, rounded up.
    fn wait(&self, parts: u128) -> Millis {
        let wait = match u64::try_from(parts) {
            Ok(parts) => parts.div_ceil(self.limit()),
            Err(_) => u64::try_from(parts.div_ceil(u128::from(self.limit()))).unwrap_or(time::MAX),
        };
        wait.min(time::MAX - self.call.now)
    }

    /// Returns the number of free units, rounded down. `parts` is the level ([`Leaky::parts`]). If the level is above
    /// that of a full bucket, the number is negative.
    fn remaining_at(&self, parts: u128) -> i64 {
        match self.room().checked_sub(parts) {
            Some(room) => match u64::try_from(room) {
                Ok(room) => (room / self.window()).cast_signed(),
                Err(_) => i64::try_from(room / u128::from(self.window())).unwrap_or(0),
            },
            None => -Level::units(parts - self.room(), self.window()).cast_signed(),
        }
    }

    fn level(&self, parts: u128) -> Level {
        Level::of(self.limit(), self.window(), self.call.now, parts)
    }
}

impl Assessed for Leaky {
    fn call(&self) -> &Call {
        &self.call
    }

    fn remaining(&self) -> i64 {
        self.remaining_at(self.parts)
    }

    /// Returns the wait until the call's units fit. If `is_settled` is false, the bucket drains at the rate of the
    /// stored policy, otherwise at the rate of the call's policy.
    fn retry_after(&self, is_settled: bool) -> Millis {
        match self.stored {
            Some(level) if !is_settled => {
                // The highest stored level, in parts, at which the cost fits.
                let (room, old, new) = (self.room() - self.cost(), u128::from(level.window), u128::from(self.window()));
                let most = room / new * old + room % new * old / new;
                let excess = level.parts_at(self.call.now).saturating_sub(most);
                u64::try_from(excess.div_ceil(level.limit.into())).unwrap_or(time::MAX)
            }
            _ => self.wait(self.parts + self.cost() - self.room()),
        }
    }

    fn reset_after(&self, is_settled: bool) -> Millis {
        match self.stored {
            Some(level) if !is_settled => level.empty_at().saturating_sub(self.call.now),
            _ => self.wait(self.parts),
        }
    }

    fn settle(&self) -> Option<Update> {
        let is_as_stored = |level: Level| {
            (level.limit, level.window) == (self.limit(), self.window()) && level.parts_at(self.call.now) == self.parts
        };
        let is_owed = self.parts > 0 && !self.stored.is_some_and(is_as_stored);
        is_owed.then(|| self.level(self.parts).update())
    }

    fn take(&self) -> (Update, i64, Millis) {
        let parts = self.parts + self.cost();
        let level = self.level(parts);
        (level.update(), self.remaining_at(parts), level.empty_at())
    }
}

#[cfg(test)]
mod tests;
