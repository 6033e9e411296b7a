//! LEAKY: the generic cell rate algorithm (GCRA, ITU-T I.371), exact.
//!
//! A bucket of `limit` units drains at one unit per `window / limit`. The only state is the *theoretical arrival time*:
//! the time at which the bucket is empty if no more units are taken. An interval such as 10 s / 3 is not a whole number
//! of ms. So the arrival time is stored as whole ms and a part in units of `1 / limit` ms. All arithmetic uses
//! integers. If the policy changes, the number of units in the bucket stays the same, except that a fraction may be
//! rounded up. The bucket drains at the rate of the last call that took units. A call with another policy is denied or
//! allowed by the number of units, and a denied call does not change the rate.
//!
//! The key is a string, `leaky:<empty at>+<part>:<limit>/<window>!<written at>`. If the part is 0, `+<part>` is left
//! out. Limit and window give the rate at which the bucket drains. `written at` is the time of the last write. If the
//! clock steps back to an earlier time, the bucket has the same level as at the last write.

use super::text::{NumberReader, number_text};
use super::{Call, Check, Lifetime, LimitUsage, MAX_UNITS, NotThisFormat, Policy, SmallBytes, Update, remaining};
use crate::base::time::{self, Millis};

const TAG: &str = "leaky:";

/// The stored state of a LEAKY limit: the level of its bucket.
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
    pub fn parse(text: &[u8]) -> Result<Level, NotThisFormat> {
        let mut text = NumberReader(text);
        let at = text.number_after(TAG)?;
        let part = if text.is_at("+") { Some(text.number_after("+")?) } else { None };
        let (limit, window) = (text.number_after(":")?, text.number_after("/")?);
        let written_at = text.last_number_after("!")?;
        let is_ours = (1..=MAX_UNITS).contains(&limit)
            && (1..=time::MAX).contains(&window)
            && at.max(written_at) <= time::MAX
            && part.is_none_or(|part| (1..limit).contains(&part));
        is_ours.then_some(Level { at, part: part.unwrap_or(0), limit, window, written_at }).ok_or(NotThisFormat)
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

    /// Converts an amount from parts of `1 / self.window` unit to parts of `1 / window` unit. Rounds up.
    fn in_parts_of(self, window: Millis, parts: u128) -> u128 {
        let (old, new) = (u128::from(self.window), u128::from(window));
        if old == new {
            return parts;
        }
        (parts / old).min(MAX_UNITS.into()) * new + (parts % old * new).div_ceil(old)
    }

    /// Returns the level of a bucket that contains `parts` at `now`. One unit has `window` parts. If the bucket would
    /// be empty only after [`time::MAX`], the level is lowered so that the bucket is empty at that time.
    fn of(limit: u64, window: Millis, now: Millis, parts: u128) -> Level {
        let (whole, part) = match u64::try_from(parts) {
            Ok(parts) => (u128::from(parts / limit), u128::from(parts % limit)),
            Err(_) => (parts / u128::from(limit), parts % u128::from(limit)),
        };
        let at = u64::try_from(whole).ok().and_then(|whole| time::after(now, whole)).filter(|&at| at < time::MAX);
        let (at, part) = at.map_or((time::MAX, 0), |at| (at, u64::try_from(part).unwrap_or(0)));
        Level { at, part, limit, window, written_at: now }
    }

    /// Converts a level in parts of a unit to units, rounded up. One unit has `window` parts.
    fn units(parts: u128, window: Millis) -> u64 {
        div_ceil(parts, window)
    }

    /// Returns the level that a call at `now` finds. If the clock has stepped back to a time before the last write, the
    /// bucket still has the level of the last write, and drains from `now` on.
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

/// A call, and the level of the bucket that it checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeakyCheck {
    call: Call,
    /// The level that the call finds ([`Level::seen_at`]). The bucket drains at the stored rate, which only a call that
    /// takes units changes.
    level: Level,
    /// The level that the call finds, in parts of a unit. A unit has `level.window` parts.
    parts: u128,
    /// Whether the clock has stepped back since the level was written.
    is_clock_back: bool,
}

impl LeakyCheck {
    pub fn new(call: Call, stored: Option<Level>) -> LeakyCheck {
        let Call { now, policy: Policy { limit, window, .. }, .. } = call;
        let level = stored.map_or_else(|| Level::of(limit, window, now, 0), |stored| stored.seen_at(now));
        let is_clock_back = stored.is_some_and(|stored| now < stored.written_at);
        LeakyCheck { call, level, parts: level.parts_at(now), is_clock_back }
    }
}

impl Check for LeakyCheck {
    fn call(&self) -> &Call {
        &self.call
    }

    fn remaining(&self) -> i64 {
        remaining(self.call.policy.limit, Level::units(self.parts, self.level.window))
    }

    /// Returns the wait until the call's units fit. The bucket drains at the stored rate, because a denied call does
    /// not change the rate.
    fn retry_after(&self, _: bool) -> Millis {
        let most = u128::from(self.call.policy.limit - self.call.cost) * u128::from(self.level.window);
        let wait = div_ceil(self.parts.saturating_sub(most), self.level.limit);
        wait.min(time::MAX - self.call.now)
    }

    fn reset_after(&self, _: bool) -> Millis {
        self.level.empty_at().saturating_sub(self.call.now)
    }

    /// If the clock has stepped back, returns a change after which the bucket drains from now on. Without this change,
    /// the bucket would not drain until the clock reaches the time of the last write again.
    fn settle(&self) -> Option<Update> {
        (self.is_clock_back && self.parts > 0).then(|| self.level.update())
    }

    fn take(&self) -> (Update, i64, Millis) {
        let Call { now, cost, policy: Policy { limit, window, .. } } = self.call;
        let parts = self.level.in_parts_of(window, self.parts) + u128::from(cost) * u128::from(window);
        let level = Level::of(limit, window, now, parts);
        (level.update(), remaining(limit, Level::units(parts, window)), level.empty_at())
    }
}

/// Divides and rounds up. A quotient above [`time::MAX`] becomes [`time::MAX`], which is also [`MAX_UNITS`].
fn div_ceil(parts: u128, by: u64) -> u64 {
    let quotient = match u64::try_from(parts) {
        Ok(parts) => parts.div_ceil(by),
        // The division of 128 bits takes several times as long.
        Err(_) => u64::try_from(parts.div_ceil(by.into())).unwrap_or(time::MAX),
    };
    quotient.min(time::MAX)
}

#[cfg(test)]
mod tests;
