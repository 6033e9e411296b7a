//! FIXED: a count that begins again with every window, the windows aligned to the Unix epoch.
//!
//! The key is a string, `fixed:<end of the window>:<units taken>`. It says itself when its units come back, so it stays right
//! whatever becomes of the key's TTL, which only cleans up.

use super::text::{Text, number, split};
use super::{Bytes, Change, Foreign, Held, Lifetime, MAX_UNITS, Refund, RetryAfter, Verdict, Write};
use crate::model::time::{self, Millis};
use smallvec::smallvec;

const TAG: &str = "fixed:";

/// The units that come back at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub end: Millis,
    /// 1 to [`MAX_UNITS`].
    pub units: u64,
}

impl Count {
    pub fn parse(text: &[u8]) -> Result<Count, Foreign> {
        let (end, units) = text.strip_prefix(TAG.as_bytes()).and_then(|rest| split(rest, b':')).ok_or(Foreign)?;
        let (end, units) = (number(end)?, number(units)?);
        let is_ours = end <= time::MAX && (1..=MAX_UNITS).contains(&units);
        is_ours.then_some(Count { end, units }).ok_or(Foreign)
    }

    pub fn text(self) -> Text {
        Text::of(TAG).number(self.end).sign(b':').number(self.units)
    }

    /// See [`super::Stored::held`].
    pub(super) fn held(self, now: Millis) -> Held {
        Held::of(self.end > now, || Held {
            units: Some(self.units),
            slots: 1,
            next_back: Some(self.end),
            all_back: Some(self.end),
        })
    }

    /// See [`super::Stored::refund`].
    pub(super) fn refund(self, now: Millis, units: u64, until: Millis) -> Refund {
        if until <= now || until != self.end {
            return Refund::NOTHING;
        }
        let back = units.min(self.units);
        let left = Count { units: self.units - back, ..self };
        Refund { units: back, left: (back > 0 && left.units > 0).then(|| left.change()) }
    }

    fn change(self) -> Change {
        Change::whole(self.text(), Lifetime::exactly(self.end))
    }

    /// Returns the change from `before` to this count. Within a window, mostly some digits change, and the TTL does not.
    fn change_from(self, before: Count) -> Change {
        if self.end != before.end || self.units.checked_ilog10() != before.units.checked_ilog10() {
            return self.change();
        }
        let digits = Text::of("").number(self.units);
        let at = Text::of(TAG).number(self.end).sign(b':').as_bytes().len();
        Change { writes: smallvec![Write::Part { at, bytes: Bytes::from_slice(digits.as_bytes()) }], lifetime: None }
    }
}

/// What a count says to a call for some units.
#[derive(Clone, Copy, Debug)]
pub struct Assessed {
    limit: u64,
    now: Millis,
    cost: u64,
    /// What is in use.
    live: Option<Count>,
    /// The end of the current window.
    end: Millis,
}

/// Asks whether `cost` more units fit into a quota of `limit` units a `window`.
pub fn assess(limit: u64, window: Millis, now: Millis, cost: u64, stored: Option<Count>) -> Assessed {
    let end = (now / window).saturating_add(1).saturating_mul(window).min(time::MAX);
    Assessed { limit, now, cost, live: stored.filter(|count| count.end > now), end }
}

impl Assessed {
    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.live.map_or(0, |live| live.units))
    }

    /// See [`super::Assessed::fits`].
    pub fn fits(&self) -> bool {
        self.cost == 0 || self.cost <= self.free()
    }

    /// What is said when the units in use come back at `end`.
    fn verdict(&self, end: Millis) -> Verdict {
        let retry_after = if self.fits() {
            RetryAfter::Now
        } else if self.cost > self.limit {
            RetryAfter::Never
        } else {
            RetryAfter::Wait(end - self.now)
        };
        Verdict {
            allowed: self.fits(),
            limit: self.limit,
            remaining: self.free(),
            retry_after,
            reset_after: self.live.map_or(0, |_| end - self.now),
            charged_until: 0,
        }
    }

    /// See [`super::Assessed::peek`].
    pub fn peek(&self) -> Verdict {
        self.verdict(self.live.map_or(self.end, |live| live.end))
    }

    /// See [`super::Assessed::refuse`].
    pub fn refuse(&self) -> (Verdict, Option<Change>) {
        let settled = self.live.filter(|live| live.end > self.end).map(|live| Count { end: self.end, ..live });
        (self.verdict(self.live.map_or(self.end, |live| live.end.min(self.end))), settled.map(Count::change))
    }

    /// See [`super::Assessed::charge`].
    ///
    /// Where a former, shorter window has not ended yet, its units were taken within this one, and count to its end.
    pub fn charge(&self) -> (Verdict, Option<Change>) {
        if self.cost == 0 {
            return self.refuse();
        }
        let units = self.live.map_or(0, |live| live.units).saturating_add(self.cost).min(MAX_UNITS);
        let verdict = Verdict {
            remaining: self.limit.saturating_sub(units),
            reset_after: self.end - self.now,
            charged_until: self.end,
            ..self.refuse().0
        };
        let count = Count { end: self.end, units };
        (verdict, Some(self.live.map_or_else(|| count.change(), |live| count.change_from(live))))
    }
}

#[cfg(test)]
mod tests;
