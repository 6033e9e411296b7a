//! FIXED: a count per window. Windows are aligned to the Unix epoch.
//!
//! The key is a string, `fixed:<end of the window>:<units taken>`. The string contains the time at which its units
//! become available again, so the string is correct with any TTL. The TTL only removes the key.

use super::text::{NumberReader, number_text};
use super::{Call, Check, Lifetime, LimitUsage, MAX_UNITS, NotThisFormat, Patch, SmallBytes, Update, remaining};
use crate::base::time::{self, Millis, decimal, decimal_len};

const TAG: &str = "fixed:";

/// The stored state of a FIXED limit: the units in use. All of them become available again at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub end: Millis,
    /// The number of units in use: 1 to [`MAX_UNITS`].
    pub units: u64,
}

impl Count {
    pub fn parse(text: &[u8]) -> Result<Count, NotThisFormat> {
        let mut text = NumberReader(text);
        let end = text.number_after(TAG)?;
        let units = text.last_number_after(":")?;
        let is_ours = end <= time::MAX && (1..=MAX_UNITS).contains(&units);
        is_ours.then_some(Count { end, units }).ok_or(NotThisFormat)
    }

    pub fn text(self) -> SmallBytes {
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

    pub(super) fn refund(self, now: Millis, units: u64, until: Millis) -> (u64, Option<Update>) {
        let back = if until > now && until == self.end { units.min(self.units) } else { 0 };
        let left = Count { units: self.units - back, ..self };
        (back, (back > 0).then(|| if left.units > 0 { left.update() } else { Update::Remove }))
    }

    fn update(self) -> Update {
        Update::Replace { text: self.text(), lifetime: Lifetime::exactly(self.end) }
    }

    /// Returns the update that replaces the stored count `before` with this count. If the window and the number of
    /// digits are the same, the update overwrites only the digits of `units`.
    fn update_from(self, before: Count) -> Update {
        let len = decimal_len(self.units);
        if self.end != before.end || len != decimal_len(before.units) {
            return self.update();
        }
        let mut bytes = SmallBytes::from_elem(0, len);
        decimal(self.units, &mut bytes);
        // The TTL usually stays the same. If a client has changed it, the key would end too early or never.
        let lifetime = Lifetime::exactly(self.end);
        Update::overwrite(Patch { at: TAG.len() + decimal_len(self.end) + 1, bytes }, lifetime)
    }
}

/// A call, and the stored count of units in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedCheck {
    call: Call,
    live: Option<Count>,
    /// The end of the current window.
    end: Millis,
}

impl FixedCheck {
    pub fn new(call: Call, stored: Option<Count>) -> FixedCheck {
        let (now, window) = (call.now, call.policy.window);
        let end = (now / window).saturating_add(1).saturating_mul(window).min(time::MAX);
        FixedCheck { call, live: stored.filter(|count| count.end > now), end }
    }
}

impl Check for FixedCheck {
    fn call(&self) -> &Call {
        &self.call
    }

    fn remaining(&self) -> i64 {
        remaining(self.call.policy.limit, self.live.map_or(0, |live| live.units))
    }

    fn retry_after(&self, is_settled: bool) -> Millis {
        self.reset_after(is_settled)
    }

    fn reset_after(&self, is_settled: bool) -> Millis {
        let latest = if is_settled { self.end } else { time::MAX };
        self.live.map_or(0, |live| live.end.min(latest) - self.call.now)
    }

    fn settle(&self) -> Option<Update> {
        self.live.filter(|live| live.end > self.end).map(|live| Count { end: self.end, ..live }.update())
    }

    /// Adds the call's units to the stored units. All these units become available again at the end of the call's
    /// window, even if the stored units are from a call with a shorter window.
    fn take(&self) -> (Update, i64, Millis) {
        let units = self.live.map_or(0, |live| live.units).saturating_add(self.call.cost).min(MAX_UNITS);
        let count = Count { end: self.end, units };
        let update = self.live.map_or_else(|| count.update(), |live| count.update_from(live));
        (update, remaining(self.call.policy.limit, units), self.end)
    }
}

#[cfg(test)]
mod tests;
