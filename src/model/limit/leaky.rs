//! LEAKY: the generic cell rate algorithm (GCRA, ITU-T I.371), exact.
//!
//! A bucket of `limit` units drains at one unit every `window / limit`. All it remembers is the *theoretical arrival time*: the
//! moment at which it is empty again if nobody takes any more. An interval such as 10 s / 3 is no whole number of ms, so that
//! moment is a fraction: whole ms, and a part counted in `1 / limit` ms. All arithmetic is done on whole numbers. When the policy
//! changes, the units in the bucket stay as many as they are, rounded up to a part of the new policy.
//!
//! The key is a string, `leaky:<empty at>:<limit>/<window>!<written at>`, with `+<part>` behind the first moment where there is one.
//! Limit and window tell how many units are in the bucket. The moment of writing tells how many there were: if the clock has stepped
//! back behind it, that many are in use now.

use super::text::{Text, number, split};
use super::{Change, Foreign, Held, Lifetime, MAX_UNITS, Refund, RetryAfter, Verdict};
use crate::model::time::{self, Millis};

const TAG: &str = "leaky:";

/// How full a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The moment at which it is empty is `at + part / limit` ms; `part` is below `limit`.
    at: Millis,
    part: u64,
    limit: u64,
    window: Millis,
    written_at: Millis,
}

impl Level {
    pub fn parse(text: &[u8]) -> Result<Level, Foreign> {
        let (empty, rest) = text.strip_prefix(TAG.as_bytes()).and_then(|rest| split(rest, b':')).ok_or(Foreign)?;
        let (at, part) = match split(empty, b'+') {
            Some((at, part)) => (number(at)?, Some(number(part)?)),
            None => (number(empty)?, None),
        };
        let (limit, rest) = split(rest, b'/').ok_or(Foreign)?;
        let (window, written_at) = split(rest, b'!').ok_or(Foreign)?;
        let (limit, window, written_at) = (number(limit)?, number(window)?, number(written_at)?);
        let is_ours = (1..=MAX_UNITS).contains(&limit)
            && (1..=time::MAX).contains(&window)
            && at.max(written_at) <= time::MAX
            && part.is_none_or(|part| (1..limit).contains(&part));
        is_ours.then_some(Level { at, part: part.unwrap_or(0), limit, window, written_at }).ok_or(Foreign)
    }

    fn text(self) -> Text {
        let mut text = Text::of(TAG).number(self.at);
        if self.part > 0 {
            text = text.sign(b'+').number(self.part);
        }
        text.sign(b':').number(self.limit).sign(b'/').number(self.window).sign(b'!').number(self.written_at)
    }

    fn change(self) -> Change {
        Change::whole(self.text(), Lifetime::lingering(self.empty_at(), self.window))
    }

    /// When it is empty, in whole ms.
    fn empty_at(self) -> Millis {
        self.at + u64::from(self.part > 0)
    }

    /// Returns what is still to drain after `now`, in parts: `limit` parts drain in a ms, and `window` parts are a unit.
    fn parts_at(self, now: Millis) -> u128 {
        let empty = u128::from(self.at) * u128::from(self.limit) + u128::from(self.part);
        empty.saturating_sub(u128::from(now) * u128::from(self.limit))
    }

    /// Returns `parts` of this bucket in parts of a bucket of another window, rounded up.
    fn in_parts_of(self, window: Millis, parts: u128) -> u128 {
        let (old, new) = (u128::from(self.window), u128::from(window));
        if old == new {
            return parts;
        }
        (parts / old).min(MAX_UNITS.into()) * new + (parts % old * new).div_ceil(old)
    }

    /// The level at which `parts` are to drain. Levels end at [`time::MAX`].
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

    /// The level that counts at `now`: this one, or what it was when it was written, if the clock has stepped back behind that moment.
    fn seen_at(self, now: Millis) -> Level {
        match now < self.written_at {
            true => Level::of(self.limit, self.window, now, self.parts_at(self.written_at)),
            false => self,
        }
    }

    /// See [`super::Stored::held`].
    pub(super) fn held(self, now: Millis) -> Held {
        let level = self.seen_at(now);
        let parts = level.parts_at(now);
        Held::of(parts > 0, || {
            let first = (parts - 1) % u128::from(self.window) + 1;
            let wait = u64::try_from(first.div_ceil(u128::from(self.limit))).unwrap_or(time::MAX);
            Held {
                units: Some(Level::units(parts, self.window)),
                slots: 1,
                next_back: Some(time::after_at_most(now, wait)),
                all_back: Some(level.empty_at()),
            }
        })
    }

    /// See [`super::Stored::refund`]. What has been given back before has lowered the level, also below `until`.
    pub(super) fn refund(self, now: Millis, units: u64, until: Millis) -> Refund {
        if until <= now {
            return Refund::NOTHING;
        }
        let parts = self.seen_at(now).parts_at(now);
        let ahead = u128::from(until - now) * u128::from(self.limit);
        let back = Level::units(parts.min(ahead), self.window).min(units);
        let left = parts.saturating_sub(u128::from(back) * u128::from(self.window));
        Refund {
            units: back,
            left: (back > 0 && left > 0).then(|| Level::of(self.limit, self.window, now, left).change()),
        }
    }
}

/// What a bucket says to a call for some units.
#[derive(Clone, Copy, Debug)]
pub struct Assessed {
    limit: u64,
    window: Millis,
    now: Millis,
    cost: u64,
    stored: Option<Level>,
    /// What is to drain, in parts.
    parts: u128,
}

/// Asks whether `cost` more units fit into a bucket of `limit` units that drains in a `window`.
pub fn assess(limit: u64, window: Millis, now: Millis, cost: u64, stored: Option<Level>) -> Assessed {
    let parts = stored.map_or(0, |level| {
        // If the clock stepped back, what was in the bucket when it was written is in it now.
        let parts = level.in_parts_of(window, level.parts_at(now.max(level.written_at)));
        // A debt stays while the window does. Otherwise nothing is held longer than a full bucket takes to drain.
        let full = u128::from(level.limit) * u128::from(level.window);
        let is_debt = level.window == window && level.parts_at(level.written_at) > full;
        if is_debt { parts } else { parts.min(u128::from(limit) * u128::from(window)) }
    });
    Assessed { limit, window, now, cost, stored, parts }
}

impl Assessed {
    fn room(&self) -> u128 {
        u128::from(self.limit) * u128::from(self.window)
    }

    fn cost(&self) -> u128 {
        u128::from(self.cost) * u128::from(self.window)
    }

    /// The wait until `parts` parts have drained, in whole ms.
    fn wait(&self, parts: u128) -> Millis {
        let wait = match u64::try_from(parts) {
            Ok(parts) => parts.div_ceil(self.limit),
            Err(_) => u64::try_from(parts.div_ceil(u128::from(self.limit))).unwrap_or(time::MAX),
        };
        wait.min(time::MAX - self.now)
    }

    fn remaining(&self, parts: u128) -> u64 {
        let room = self.room().saturating_sub(parts);
        match u64::try_from(room) {
            Ok(room) => room / self.window,
            Err(_) => u64::try_from(room / u128::from(self.window)).unwrap_or(0),
        }
    }

    /// See [`super::Assessed::fits`].
    pub fn fits(&self) -> bool {
        self.cost == 0 || self.parts + self.cost() <= self.room()
    }

    fn verdict(&self) -> Verdict {
        let retry_after = if self.fits() {
            RetryAfter::Now
        } else if self.cost > self.limit {
            RetryAfter::Never
        } else {
            RetryAfter::Wait(self.wait(self.parts + self.cost() - self.room()))
        };
        Verdict {
            allowed: self.fits(),
            limit: self.limit,
            remaining: self.remaining(self.parts),
            retry_after,
            reset_after: self.wait(self.parts),
            charged_until: 0,
        }
    }

    fn level(&self, parts: u128) -> Level {
        Level::of(self.limit, self.window, self.now, parts)
    }

    /// See [`super::Assessed::peek`]. Until a call settles a change of policy, the bucket drains at its old rate.
    pub fn peek(&self) -> Verdict {
        let verdict = self.verdict();
        let Some(level) = self.stored else { return verdict };
        let retry_after = match verdict.retry_after {
            RetryAfter::Wait(_) => {
                // The most parts of the stored level that leave room for the cost.
                let (room, old, new) = (self.room() - self.cost(), u128::from(level.window), u128::from(self.window));
                let most = room / new * old + room % new * old / new;
                let excess = level.parts_at(self.now).saturating_sub(most);
                RetryAfter::Wait(u64::try_from(excess.div_ceil(level.limit.into())).unwrap_or(time::MAX))
            }
            other => other,
        };
        Verdict { retry_after, reset_after: level.empty_at().saturating_sub(self.now), ..verdict }
    }

    /// See [`super::Assessed::refuse`].
    pub fn refuse(&self) -> (Verdict, Option<Change>) {
        let is_as_stored = |level: Level| {
            (level.limit, level.window) == (self.limit, self.window) && level.parts_at(self.now) == self.parts
        };
        let is_owed = self.parts > 0 && !self.stored.is_some_and(is_as_stored);
        (self.verdict(), is_owed.then(|| self.level(self.parts).change()))
    }

    /// See [`super::Assessed::charge`].
    pub fn charge(&self) -> (Verdict, Option<Change>) {
        if self.cost == 0 {
            return self.refuse();
        }
        let parts = self.parts + self.cost();
        let level = self.level(parts);
        let verdict = Verdict {
            remaining: self.remaining(parts),
            reset_after: level.empty_at() - self.now,
            charged_until: level.empty_at(),
            ..self.verdict()
        };
        (verdict, Some(level.change()))
    }
}

#[cfg(test)]
mod tests;
