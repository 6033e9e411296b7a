//! SLIDING: a unit becomes available again one window after it was taken. The units in use are stored in a [`Ring`] of
//! times. The table compares the ring with a limiter's log in a sorted set.
//!
//! | a log in a sorted set         | this ring                                                                  |
//! |-------------------------------|----------------------------------------------------------------------------|
//! | ZREMRANGEBYSCORE of the past  | no work: the next new slot replaces the oldest one                         |
//! | ZCARD                         | the total of the newest slot minus the total before the first slot in use  |
//! | ZADD                          | one slot is written                                                        |

use super::ring::{self, Ring, RingSlot, RingUsage};
use super::{Call, Check, Lifetime, LimitUsage, NotThisFormat, Policy, Update, remaining};
use crate::base::time::{self, Millis};

/// The maximum number of slots of a ring. A ring of this length takes 256 MiB. The server accepts strings of up to 512
/// MiB.
const MAX_SLOTS: usize = if cfg!(test) { 512 } else { 1 << 24 };

/// A ring of at most this many slots never shrinks.
const SMALL: usize = 8;

/// Up to this number of units, the default precision is 1 ms.
const EXACT: u64 = 100;

impl Policy {
    /// Returns the precision of a call that finds `in_use` units in use. The default is 1 ms if neither the limit nor
    /// `in_use` exceeds [`EXACT`], otherwise a hundredth of the window. So a ring has at most about 100 slots in use,
    /// whatever the limit is, and at most about 200 if other limits or FORCE have taken more units than the limit.
    fn precision_at(&self, in_use: u64) -> Millis {
        let default = || if self.limit.max(in_use) <= EXACT { 1 } else { self.window.div_ceil(EXACT) };
        self.precision.unwrap_or_else(default)
    }

    /// Returns the length of a new ring in which `slots` slots are in use. The ring gets `2 * slots` slots, so that it
    /// does not have to grow soon, but no more than this policy can use. If a change of the policy leaves more slots in
    /// use than the policy can use, the ring also gets `2 * slots`. The length is never larger than [`MAX_SLOTS`].
    fn room_for(&self, slots: usize, in_use: u64) -> usize {
        // The ring needs one slot per unit or per multiple of the precision, the oldest slot, and one slot for the next
        // write.
        let most =
            usize::try_from(self.limit.min(self.window / self.precision_at(in_use) + 2) + 2).unwrap_or(MAX_SLOTS);
        let room = if slots <= most { (2 * slots).min(most) } else { 2 * slots };
        room.min(MAX_SLOTS)
    }
}

fn all_available(ring: &Ring<'_>, usage: &RingUsage) -> Option<Millis> {
    // Skips the newest slots if all their units were refunded.
    let last = || ring.find_from_newest(usage.first, |slot| slot.taken.wrapping_sub(usage.before) < usage.units);
    (usage.units > 0).then(last).filter(|&last| last < ring.len()).map(|last| ring.slot(last).at)
}

pub(super) fn usage(ring: Ring<'_>, now: Millis) -> Result<LimitUsage, NotThisFormat> {
    let usage = ring.usage(now)?;
    let next = ring.find(usage.first, |slot| slot.taken == usage.before);
    let slots = ring.find(next, |slot| slot.taken.wrapping_sub(usage.before) < usage.units) + 1 - next;
    if next < ring.len() && ring.slot(next).at > ring.newest().at {
        return Err(NotThisFormat);
    }
    Ok(LimitUsage::of(usage.units > 0 && next < ring.len(), || LimitUsage {
        units: Some(usage.units),
        slots: slots as u64,
        next_available: Some(ring.slot(next).at),
        all_available: all_available(&ring, &usage),
    }))
}

/// Refunds up to `units` units that would become available again at `until`. Rewrites the slot of `until` and all later
/// slots.
pub(super) fn refund(
    ring: Ring<'_>,
    now: Millis,
    units: u64,
    until: Millis,
) -> Result<(u64, Option<Update>), NotThisFormat> {
    let usage = ring.usage(now)?;
    let slot = ring.find(usage.first, |slot| slot.at < until);
    if until <= now || slot == ring.len() || ring.slot(slot).at != until {
        return Ok((0, None));
    }
    let held = ring.slot(slot).taken.wrapping_sub(ring.slot(slot - 1).taken);
    let back = units.min(held);
    if back == 0 || back > usage.units {
        return Ok((0, None));
    }
    let is_any_left = back < usage.units;
    let lowered = || Update::Overwrite { parts: ring.lower(slot, back), lifetime: None };
    Ok((back, Some(if is_any_left { lowered() } else { Update::Remove })))
}

fn in_use(ring: Option<(Ring<'_>, RingUsage)>) -> u64 {
    ring.map_or(0, |(_, usage)| usage.units)
}

/// The check of a call against a stored ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlidingCheck<'a> {
    call: Call,
    /// The time at which a unit taken now becomes available again. After [`settle`](Check::settle), no unit is in use
    /// any more at this time.
    until: Millis,
    ring: Option<(Ring<'a>, RingUsage)>,
}

impl<'a> SlidingCheck<'a> {
    /// Parses the stored ring, and computes its usage. O(log N), where N is the number of slots.
    pub fn parse(call: Call, stored: Option<&'a [u8]>) -> Result<SlidingCheck<'a>, NotThisFormat> {
        let Call { now, policy, .. } = call;
        let exact = time::after_at_most(now, policy.window);
        let parse = |text| {
            let ring = Ring::parse_near(text, exact, policy.window)?;
            Ok((ring, ring.usage(now)?))
        };
        let ring = stored.map(parse).transpose()?;
        let precision = policy.precision_at(in_use(ring));
        let until = if precision == 1 { exact } else { exact.div_ceil(precision).saturating_mul(precision) };
        Ok(SlidingCheck { call, until: until.min(time::MAX), ring })
    }

    fn in_use(&self) -> u64 {
        in_use(self.ring)
    }

    /// Returns the latest time at which a stored unit can become available again. If `is_settled` is true, returns the
    /// time after [`settle`](Check::settle).
    fn latest(&self, is_settled: bool) -> Millis {
        if is_settled { self.until } else { time::MAX }
    }

    /// Returns the change that takes `more` units. The new units become available again at
    /// [`until`](SlidingCheck::until).
    ///
    /// The change also settles the limit ([`Check`]): if a stored unit would become available later than `until`, it
    /// becomes available at `until`. Such units were taken by a call with a longer window, or before the clock stepped
    /// back.
    fn put(&self, more: u64) -> Update {
        let (until, policy) = (self.until, &self.call.policy);
        let lifetime = Lifetime::lingering(until, policy.window);
        let Some((ring, usage)) = self.ring else {
            let text = ring::begin(self.call.now, RingSlot { at: until, taken: more }, policy.room_for(2, 0));
            return Update::Replace { text, lifetime };
        };
        let len = ring.len();
        let slot = RingSlot { at: until, taken: ring.newest().taken.wrapping_add(more.min(time::MAX - usage.units)) };
        // The slots in use that stay. The new slot replaces slots at `until` or later. Such slots exist if `until` has
        // not changed, if the window has become shorter, or if the clock has stepped back.
        let kept = usage.first..ring.find_from_newest(usage.first, |slot| slot.at < until);
        let is_too_large = len > SMALL && len / 4 >= kept.len() + 2;
        let place = if kept.end + 1 == len && ring.slot(kept.end - 1).at < until {
            Some(kept.end)
        } else if kept.end < len || is_too_large {
            None
        } else if usage.first > 1 {
            Some(0)
        } else {
            // If the ring cannot grow, the new slot replaces the newest slot. So the units of the replaced slot are
            // held longer than a window. The limit is still never exceeded.
            (len >= MAX_SLOTS).then_some(len - 1)
        };
        if let Some(age) = place {
            return Update::overwrite(ring.replace(age, slot), lifetime);
        }
        let needed = kept.len() + 2;
        let room = policy.room_for(needed, usage.units);
        Update::Replace { text: ring.rebuild(self.call.now, kept, slot, room), lifetime }
    }
}

impl Check for SlidingCheck<'_> {
    fn call(&self) -> &Call {
        &self.call
    }

    fn remaining(&self) -> i64 {
        remaining(self.call.policy.limit, self.in_use())
    }

    fn retry_after(&self, is_settled: bool) -> Millis {
        let latest = self.latest(is_settled);
        self.ring.map_or(0, |(ring, usage)| {
            // Positive, because the units do not fit.
            let needed = usage.units.saturating_sub(self.call.policy.limit - self.call.cost);
            let slot = ring.find(usage.first, |slot| slot.taken.wrapping_sub(usage.before) < needed);
            let at = if slot < ring.len() { ring.slot(slot).at } else { latest };
            at.min(latest).saturating_sub(self.call.now).max(1)
        })
    }

    fn reset_after(&self, is_settled: bool) -> Millis {
        let all = self.ring.and_then(|(ring, usage)| all_available(&ring, &usage));
        all.map_or(0, |at| at.min(self.latest(is_settled)).saturating_sub(self.call.now))
    }

    fn is_clock_back(&self) -> bool {
        self.ring.is_some_and(|(ring, _)| ring.is_after(self.call.now))
    }

    fn settle(&self) -> Option<Update> {
        let (ring, usage) = self.ring?;
        all_available(&ring, &usage).filter(|&at| at > self.until).map(|_| self.put(0))
    }

    fn take(&self) -> (Update, i64, Millis) {
        let units = self.in_use().saturating_add(self.call.cost);
        (self.put(self.call.cost), remaining(self.call.policy.limit, units), self.until)
    }
}

#[cfg(test)]
mod tests;
