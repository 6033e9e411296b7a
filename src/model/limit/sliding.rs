//! SLIDING: a unit becomes available again one window after it was taken. The units in use are stored in a [`Ring`] of
//! times.
//!
//! | a log in a sorted set         | this ring                                                                  |
//! |-------------------------------|----------------------------------------------------------------------------|
//! | ZREMRANGEBYSCORE of the past  | no work: the next new slot replaces the oldest one                         |
//! | ZCARD                         | the total of the newest slot minus the total before the first slot in use  |
//! | ZADD                          | one slot is written                                                        |

use super::ring::{self, Ring, Slot, Usage};
use super::{Assessed, Foreign, Lifetime, LimitUsage, Policy, Refund, RetryAfter, Update, Verdict, Write, remaining};
use crate::model::time::{self, Millis};
use smallvec::smallvec;

/// The maximum number of slots of a ring: 256 MiB. The server accepts strings of up to 512 MiB.
const MOST_SLOTS: usize = if cfg!(test) { 512 } else { 1 << 24 };

/// A ring of at most this many slots never shrinks.
const SMALL: usize = 8;

/// Returns the default precision: 1 ms up to 100 units, above that a hundredth of the window. So a ring has at most
/// about 100 slots, whatever the limit is.
pub fn default_grid(limit: u64, window: Millis) -> Millis {
    if limit <= 100 { 1 } else { window.div_ceil(100) }
}

impl Policy {
    /// Returns the time at which a unit taken at `now` becomes available again.
    fn until(&self, now: Millis) -> Millis {
        let at = time::after_at_most(now, self.window);
        let at = if self.grid == 1 { at } else { at.div_ceil(self.grid).saturating_mul(self.grid) };
        at.min(time::MAX)
    }

    /// Returns the length of a new ring in which `slots` slots are in use. The length is `2 * slots`. If this policy
    /// can use at least `slots` but fewer than `2 * slots` slots, the length is the number that it can use.
    fn room_for(&self, slots: usize) -> usize {
        // The ring needs one slot per unit or per time of the grid, the oldest slot, and one slot for the next write.
        let most = usize::try_from(self.limit.min(self.window / self.grid + 2) + 2).unwrap_or(MOST_SLOTS);
        let room = if slots <= most { (2 * slots).min(most) } else { 2 * slots };
        room.min(MOST_SLOTS)
    }
}

/// A stored ring, and a call to check against it.
#[derive(Clone, Copy, Debug)]
pub struct Sliding<'a> {
    policy: Policy,
    now: Millis,
    cost: u64,
    /// The time at which a unit taken now becomes available again. No unit may be held longer.
    until: Millis,
    ring: Option<(Ring<'a>, Usage)>,
}

/// Assesses a ring: whether `cost` more units fit under `policy` at `now`. O(log N), where N is the number of slots.
pub fn assess(policy: Policy, now: Millis, cost: u64, stored: Option<Ring<'_>>) -> Result<Sliding<'_>, Foreign> {
    let ring = stored.map(|ring| Ok((ring, ring.usage(now)?))).transpose()?;
    Ok(Sliding { policy, now, cost, until: policy.until(now), ring })
}

fn all_available(ring: &Ring<'_>, usage: &Usage) -> Option<Millis> {
    // Later slots may have no units left, because all their units were refunded.
    let last = || ring.find(usage.first, |slot| slot.taken.wrapping_sub(usage.before) < usage.units);
    (usage.units > 0).then(last).filter(|&last| last < ring.len()).map(|last| ring.slot(last).at)
}

pub(super) fn usage(ring: Ring<'_>, now: Millis) -> Result<LimitUsage, Foreign> {
    let usage = ring.usage(now)?;
    let next = ring.find(usage.first, |slot| slot.taken == usage.before);
    let slots = ring.find(next, |slot| slot.taken.wrapping_sub(usage.before) < usage.units) + 1 - next;
    if next < ring.len() && ring.slot(next).at > ring.newest().at {
        return Err(Foreign);
    }
    Ok(LimitUsage::of(usage.units > 0 && next < ring.len(), || LimitUsage {
        units: Some(usage.units),
        slots: slots as u64,
        next_available: Some(ring.slot(next).at),
        all_available: all_available(&ring, &usage),
    }))
}

/// Refunds up to `units` that would become available again at `until`. Rewrites the slot of `until` and all later
/// slots.
pub(super) fn refund(ring: Ring<'_>, now: Millis, units: u64, until: Millis) -> Result<Refund, Foreign> {
    let usage = ring.usage(now)?;
    let slot = ring.find(usage.first, |slot| slot.at < until);
    if until <= now || slot == ring.len() || ring.slot(slot).at != until {
        return Ok(Refund::NOTHING);
    }
    let held = ring.slot(slot).taken.wrapping_sub(ring.slot(slot - 1).taken);
    let back = units.min(held);
    if back == 0 || back > usage.units {
        return Ok(Refund::NOTHING);
    }
    let left = (back < usage.units).then(|| Update { writes: ring.lower(slot, back), lifetime: None });
    Ok(Refund { units: back, left })
}

impl Sliding<'_> {
    fn in_use(&self) -> u64 {
        self.ring.map_or(0, |(_, usage)| usage.units)
    }

    /// Returns the verdict. All units that would become available again after `until` count as available at `until`.
    fn verdict(&self, until: Millis) -> Verdict {
        Verdict {
            allowed: self.fits(),
            limit: self.policy.limit,
            remaining: remaining(self.policy.limit, self.in_use()),
            retry_after: self.retry_after(until),
            reset_after: self.all_available().map_or(0, |at| at.min(until).saturating_sub(self.now)),
            charged_until: 0,
        }
    }

    fn retry_after(&self, until: Millis) -> RetryAfter {
        match self.ring {
            _ if self.fits() => RetryAfter::Now,
            Some((ring, usage)) if self.cost <= self.policy.limit => {
                // Positive, because the units do not fit.
                let needed = usage.units.saturating_sub(self.policy.limit - self.cost);
                let slot = ring.find(usage.first, |slot| slot.taken.wrapping_sub(usage.before) < needed);
                let at = if slot < ring.len() { ring.slot(slot).at } else { until };
                RetryAfter::Wait(at.min(until).saturating_sub(self.now).max(1))
            }
            _ => RetryAfter::Never,
        }
    }

    fn all_available(&self) -> Option<Millis> {
        self.ring.and_then(|(ring, usage)| all_available(&ring, &usage))
    }

    /// Returns the change that takes `more` further units. They are in use until [`until`](Sliding::until), and no
    /// other unit is in use for longer.
    fn put(&self, more: u64) -> Update {
        let write = match self.ring {
            None => ring::begin(self.now, Slot { at: self.until, taken: more }, self.policy.room_for(2)),
            Some((ring, usage)) => self.put_into(&ring, &usage, more),
        };
        Update { writes: smallvec![write], lifetime: Some(Lifetime::lingering(self.until, self.policy.window)) }
    }

    fn put_into(&self, ring: &Ring<'_>, usage: &Usage, more: u64) -> Write {
        let len = ring.len();
        let taken = ring.newest().taken.wrapping_add(more.min(time::MAX - usage.units));
        let slot = Slot { at: self.until, taken };
        // The slots in use that stay. The new slot replaces slots at `until` or later. Such slots exist if `until` has
        // not changed, if the window has become shorter, or if the clock has stepped back.
        let kept = usage.first..ring.find(usage.first, |slot| slot.at < self.until);
        if kept.end + 1 == len && ring.slot(kept.end - 1).at < self.until {
            return ring.replace(kept.end, slot);
        }
        let is_too_large = len > SMALL && len / 4 >= kept.len() + 2;
        if kept.end == len && !is_too_large {
            if usage.first > 1 || ring.slot(1).taken == ring.slot(0).taken {
                return ring.replace(0, slot);
            }
            if len >= MOST_SLOTS {
                // The new slot replaces the newest slot, so the units of the newest slot are held longer than a window.
                // The limit is still never exceeded.
                return ring.replace(len - 1, slot);
            }
        }
        let needed = kept.len() + 2;
        ring.rebuild(kept, slot, self.policy.room_for(needed))
    }
}

impl Assessed for Sliding<'_> {
    fn fits(&self) -> bool {
        self.cost == 0 || self.in_use().saturating_add(self.cost) <= self.policy.limit
    }

    fn peek(&self) -> Verdict {
        self.verdict(time::MAX)
    }

    fn refuse(&self) -> (Verdict, Option<Update>) {
        let is_overdue = self.all_available().is_some_and(|at| at > self.until);
        (self.verdict(self.until), is_overdue.then(|| self.put(0)))
    }

    fn charge(&self) -> (Verdict, Option<Update>) {
        if self.cost == 0 {
            return self.refuse();
        }
        let verdict = Verdict {
            remaining: remaining(self.policy.limit, self.in_use().saturating_add(self.cost)),
            reset_after: self.until - self.now,
            charged_until: self.until,
            ..self.verdict(self.until).of_forced()
        };
        (verdict, Some(self.put(self.cost)))
    }
}

#[cfg(test)]
mod tests;
