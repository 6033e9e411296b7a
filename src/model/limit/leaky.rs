//! LEAKY: the generic cell rate algorithm (GCRA, ITU-T I.371), exact.
//!
//! A bucket of `limit` units drains at one unit every `window / limit`. All it remembers is the *theoretical arrival time*: the
//! moment at which it is empty again if nobody takes any more. An interval such as 10 s / 3 is no whole number of ms, so that
//! moment is a fraction: whole ms, and a part counted in `1 / limit` ms. All arithmetic is done on whole numbers; a policy that
//! changes finds the moment rounded up to a whole ms.
//!
//! The key is a string, `leaky:<empty at>:<limit>/<window>`, with `+<part>` behind the moment where there is one, and while it is
//! in debt (FORCE), with `!<written at>` at the end. So a refund knows what a unit is, and a clock that steps back is told from
//! a debt. Nothing else depends on the key's TTL than when an idle key goes.

use super::text::{Text, number, split};
use super::{Foreign, Held, MAX_UNITS, RetryAfter, Verdict};
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
    /// When it was written, of a level above the limit.
    debt_since: Option<Millis>,
}

impl Level {
    pub fn parse(text: &[u8]) -> Result<Level, Foreign> {
        let (empty, rest) = text.strip_prefix(TAG.as_bytes()).and_then(|rest| split(rest, b':')).ok_or(Foreign)?;
        let (at, part) = match split(empty, b'+') {
            Some((at, part)) => (number(at)?, Some(number(part)?)),
            None => (number(empty)?, None),
        };
        let (limit, rest) = split(rest, b'/').ok_or(Foreign)?;
        let (window, debt_since) = match split(rest, b'!') {
            Some((window, since)) => (number(window)?, Some(number(since)?)),
            None => (number(rest)?, None),
        };
        let limit = number(limit)?;
        let is_ours = (1..=MAX_UNITS).contains(&limit)
            && (1..=time::MAX).contains(&window)
            && at.max(debt_since.unwrap_or(0)) <= time::MAX
            && part.is_none_or(|part| (1..limit).contains(&part));
        is_ours.then_some(Level { at, part: part.unwrap_or(0), limit, window, debt_since }).ok_or(Foreign)
    }

    pub fn text(self) -> Text {
        let mut text = Text::of(TAG).number(self.at);
        if self.part > 0 {
            text = text.sign(b'+').number(self.part);
        }
        text = text.sign(b':').number(self.limit).sign(b'/').number(self.window);
        match self.debt_since {
            Some(since) => text.sign(b'!').number(since),
            None => text,
        }
    }

    /// When it is empty, in whole ms.
    pub fn empty_at(self) -> Millis {
        self.at + u64::from(self.part > 0)
    }

    pub(super) fn window(self) -> Millis {
        self.window
    }

    /// What is still to drain after `now`, in parts: `limit` parts drain in a ms, and `window` parts are a unit.
    fn parts_at(self, now: Millis) -> u128 {
        let empty = u128::from(self.at) * u128::from(self.limit) + u128::from(self.part);
        empty.saturating_sub(u128::from(now) * u128::from(self.limit))
    }

    /// The level at which `parts` are to drain. Levels end at [`time::MAX`].
    fn of(limit: u64, window: Millis, now: Millis, parts: u128) -> Level {
        let (whole, part) = match u64::try_from(parts) {
            Ok(parts) => (u128::from(parts / limit), u128::from(parts % limit)),
            Err(_) => (parts / u128::from(limit), parts % u128::from(limit)),
        };
        let at = u64::try_from(whole).ok().and_then(|whole| time::after(now, whole)).filter(|&at| at < time::MAX);
        let (at, part) = at.map_or((time::MAX, 0), |at| (at, u64::try_from(part).unwrap_or(0)));
        let is_debt = parts > u128::from(limit) * u128::from(window);
        Level { at, part, limit, window, debt_since: is_debt.then_some(now) }
    }

    fn units(parts: u128, window: Millis) -> u64 {
        u64::try_from(parts.div_ceil(u128::from(window))).unwrap_or(MAX_UNITS).min(MAX_UNITS)
    }

    /// See [`super::Stored::held`].
    pub(super) fn held(self, now: Millis) -> Held {
        let parts = self.parts_at(now);
        Held::of(parts > 0, || {
            let first = (parts - 1) % u128::from(self.window) + 1;
            let wait = u64::try_from(first.div_ceil(u128::from(self.limit))).unwrap_or(time::MAX);
            Held {
                units: Some(Level::units(parts, self.window)),
                entries: 1,
                next_back: Some(time::after_at_most(now, wait)),
                all_back: Some(self.empty_at()),
            }
        })
    }

    /// See [`super::Stored::refund`]. What has been given back before has lowered the level, also below `until`.
    pub(super) fn refund(self, now: Millis, units: u64, until: Millis) -> (u64, Option<Level>) {
        if until <= now {
            return (0, Some(self));
        }
        let parts = self.parts_at(now);
        let ahead = u128::from(until - now) * u128::from(self.limit);
        let back = Level::units(parts.min(ahead), self.window).min(units);
        if back == 0 {
            return (0, Some(self));
        }
        let left = parts.saturating_sub(u128::from(back) * u128::from(self.window));
        (back, (left > 0).then(|| Level::of(self.limit, self.window, now, left)))
    }
}

/// What a bucket says to a call for some units.
#[derive(Clone, Copy, Debug)]
pub struct Assessed {
    limit: u64,
    window: Millis,
    now: Millis,
    cost: u64,
    /// What is to drain, in parts: as it is stored, and after settling.
    stored: u128,
    settled: u128,
}

/// Asks whether `cost` more units fit into a bucket of `limit` units that drains in a `window`.
pub fn assess(limit: u64, window: Millis, now: Millis, cost: u64, stored: Option<Level>) -> Assessed {
    let room = u128::from(limit) * u128::from(window);
    let Some(level) = stored else { return Assessed { limit, window, now, cost, stored: 0, settled: 0 } };
    let parts = match level.limit == limit {
        true => level.parts_at(now),
        // Counted in other parts: what carries over is the moment at which it is empty.
        false => u128::from(level.empty_at().saturating_sub(now)) * u128::from(limit),
    };
    // Nothing is held longer than a full bucket takes to drain, not after a change of policy, nor when the clock stepped
    // back; and a debt no longer than it was to be held when it was made.
    let most = match level.debt_since {
        Some(since) if (level.limit, level.window) == (limit, window) => level.parts_at(since).max(room),
        _ => room,
    };
    Assessed { limit, window, now, cost, stored: parts, settled: parts.min(most) }
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

    fn retry_after(&self, parts: u128) -> RetryAfter {
        match (parts + self.cost()).checked_sub(self.room()) {
            _ if self.cost > self.limit => RetryAfter::Never,
            Some(excess) if excess > 0 && self.cost > 0 => RetryAfter::Wait(self.wait(excess)),
            _ => RetryAfter::Now,
        }
    }

    /// What is said while `parts` are to drain.
    fn verdict(&self, parts: u128) -> Verdict {
        let retry_after = self.retry_after(parts);
        Verdict {
            allowed: retry_after == RetryAfter::Now,
            limit: self.limit,
            remaining: self.remaining(parts),
            retry_after,
            reset_after: self.wait(parts),
            charged_until: 0,
        }
    }

    /// See [`super::Assessed::fits`].
    pub fn fits(&self) -> bool {
        self.cost == 0 || self.settled + self.cost() <= self.room()
    }

    fn level(&self, parts: u128) -> Level {
        Level::of(self.limit, self.window, self.now, parts)
    }

    /// See [`super::Assessed::peek`].
    pub fn peek(&self) -> Verdict {
        self.verdict(self.stored)
    }

    /// See [`super::Assessed::refuse`].
    pub fn refuse(&self) -> (Verdict, Option<Level>) {
        (self.verdict(self.settled), (self.settled < self.stored).then(|| self.level(self.settled)))
    }

    /// See [`super::Assessed::charge`].
    pub fn charge(&self) -> (Verdict, Option<Level>) {
        if self.cost == 0 {
            return self.refuse();
        }
        let parts = self.settled + self.cost();
        let level = self.level(parts);
        let retry_after = self.retry_after(self.settled);
        let verdict = Verdict {
            allowed: retry_after == RetryAfter::Now,
            limit: self.limit,
            remaining: self.remaining(parts),
            retry_after,
            reset_after: level.empty_at() - self.now,
            charged_until: level.empty_at(),
        };
        (verdict, Some(level))
    }
}

#[cfg(test)]
mod tests;
