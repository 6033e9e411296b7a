//! FIXED: a count per window. Windows are aligned to the Unix epoch.
//!
//! The key is a string, `fixed:<end of the window>:<units taken>`. The string contains the time at which its units
//! become available again, so the string is correct with any TTL. The TTL only removes the key.

use super::text::{NumberReader, number_text};
use super::{
    Assessed, Bytes, Foreign, Lifetime, LimitUsage, MAX_UNITS, Refund, RetryAfter, Update, Verdict, Write, remaining,
};
use crate::model::time::{self, Millis, decimal, decimal_len};
use smallvec::smallvec;

const TAG: &str = "fixed:";

/// The units that become available again at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub end: Millis,
    /// 1 to [`MAX_UNITS`].
    pub units: u64,
}

impl Count {
    pub fn parse(text: &[u8]) -> Result<Count, Foreign> {
        let mut text = NumberReader(text);
        let end = text.number_after(TAG)?;
        let units = text.last_number_after(":")?;
        let is_ours = end <= time::MAX && (1..=MAX_UNITS).contains(&units);
        is_ours.then_some(Count { end, units }).ok_or(Foreign)
    }

    pub fn text(self) -> Bytes {
        number_text(&[(TAG, self.end), (":", self.units)])
    }

    pub(super) fn usage(self, now: Millis) -> LimitUsage {
        LimitUsage::of(self.end > now, || LimitUsage {
            units: Some(self.units),
            slots: 1,
            next_available: Some(self.end),
            all_available: Some(self.end),
        })
    }

    pub(super) fn refund(self, now: Millis, units: u64, until: Millis) -> Refund {
        if until <= now || until != self.end {
            return Refund::NOTHING;
        }
        let back = units.min(self.units);
        let left = Count { units: self.units - back, ..self };
        Refund { units: back, left: (back > 0 && left.units > 0).then(|| left.change()) }
    }

    fn change(self) -> Update {
        Update::whole(self.text(), Lifetime::exactly(self.end))
    }

    /// Returns the change from `before` to this count. Within a window, usually only a few digits change, and the TTL
    /// stays.
    fn change_from(self, before: Count) -> Update {
        let len = decimal_len(self.units);
        if self.end != before.end || len != decimal_len(before.units) {
            return self.change();
        }
        let mut bytes = Bytes::from_elem(0, len);
        decimal(self.units, &mut bytes);
        let at = TAG.len() + decimal_len(self.end) + 1;
        Update { writes: smallvec![Write::Part { at, bytes }], lifetime: None }
    }
}

/// The assessment of a call: its cost, the limit, and the stored count.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    limit: u64,
    now: Millis,
    cost: u64,
    live: Option<Count>,
    /// The end of the current window.
    end: Millis,
}

/// Assesses a count: whether `cost` more units fit into `limit` units per `window`.
pub fn assess(limit: u64, window: Millis, now: Millis, cost: u64, stored: Option<Count>) -> Fixed {
    let end = (now / window).saturating_add(1).saturating_mul(window).min(time::MAX);
    Fixed { limit, now, cost, live: stored.filter(|count| count.end > now), end }
}

impl Fixed {
    fn free(&self) -> i64 {
        remaining(self.limit, self.live.map_or(0, |live| live.units))
    }

    /// Returns the verdict on the call. `end` is the time at which the units in use become available again.
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
}

impl Assessed for Fixed {
    fn fits(&self) -> bool {
        self.cost == 0 || self.cost.cast_signed() <= self.free()
    }

    fn peek(&self) -> Verdict {
        self.verdict(self.live.map_or(self.end, |live| live.end))
    }

    fn refuse(&self) -> (Verdict, Option<Update>) {
        let settled = self.live.filter(|live| live.end > self.end).map(|live| Count { end: self.end, ..live });
        (self.verdict(self.live.map_or(self.end, |live| live.end.min(self.end))), settled.map(Count::change))
    }

    /// The stored units may be from an earlier policy with a shorter window. If that window has not ended, these units
    /// count until the current window ends.
    fn charge(&self) -> (Verdict, Option<Update>) {
        if self.cost == 0 {
            return self.refuse();
        }
        let units = self.live.map_or(0, |live| live.units).saturating_add(self.cost).min(MAX_UNITS);
        let verdict = Verdict {
            remaining: remaining(self.limit, units),
            reset_after: self.end - self.now,
            charged_until: self.end,
            ..self.refuse().0.of_forced()
        };
        let count = Count { end: self.end, units };
        (verdict, Some(self.live.map_or_else(|| count.change(), |live| count.change_from(live))))
    }
}

#[cfg(test)]
mod tests;
