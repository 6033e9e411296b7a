//! LEAKY: the generic cell rate algorithm (GCRA, ITU-T I.371), exact.
//!
//! A bucket of `capacity` units drains at one unit every `per / units` ms. All it remembers is the *theoretical arrival
//! time*: the moment at which it is empty again if nobody takes any more. That is the score of the key's only entry.
//!
//! An interval such as 10 s / 3 is no whole number of ms, and a score has 53 bits: adding intervals to a score would
//! drift, and the third unit of `3 per 10 s` might not fit. So the member says where the score comes from, in the form
//! `since:units/per`: since that moment, some whole number of units was taken, one every `per / units` ms. The score
//! gives back that number exactly, and all arithmetic is done on whole numbers.

use super::member::{Member, number, split};
use super::{Change, Foreign, MAX_UNITS, RetryAfter, Rewrite, Verdict};
use crate::model::time::{self, Millis};

/// Scores are stored in steps of 1/1024 ms: a power of two, so exact in a double until the year 2248. Two takers of one
/// key within one step of each other would have to come faster than a million a second.
const STEPS: u128 = 1024;

/// The last moment whose steps a double holds exactly; later ones are stored in whole ms.
const STEPPED_UNTIL: Millis = 1 << 43;

/// One unit drains every `per / units` ms. Both are at least 1 and at most 2^53-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub units: u64,
    pub per: Millis,
}

/// How full a bucket is: empty at `since`, then `taken` units, one every interval of `rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub since: Millis,
    pub taken: u64,
    pub rate: Rate,
}

impl Level {
    /// Reads the entry of a limit. Any score is fine: hostile ones read as some level, never as an overflow.
    pub fn parse(member: &[u8], score: f64) -> Result<Level, Foreign> {
        let (since, rate) = split(member, b':').ok_or(Foreign)?;
        let (units, per) = split(rate, b'/').ok_or(Foreign)?;
        let (since, units, per) = (number(since)?, number(units)?, number(per)?);
        if since > time::MAX || !(1..=MAX_UNITS).contains(&units) || !(1..=time::MAX).contains(&per) {
            return Err(Foreign);
        }
        let steps = steps_of(score).saturating_sub(u128::from(since) * STEPS);
        // Rounded down, because the score was rounded up by less than a step.
        let taken = steps * u128::from(units) / (u128::from(per) * STEPS);
        Ok(Level { since, taken: u64::try_from(taken).unwrap_or(u64::MAX), rate: Rate { units, per } })
    }

    fn member(self) -> Member {
        Member::format(format_args!("{}:{}/{}", self.since, self.rate.units, self.rate.per))
    }

    /// The theoretical arrival time, rounded up to what a score can hold exactly.
    fn score(self) -> f64 {
        let product = u128::from(self.taken) * u128::from(self.rate.per) * STEPS;
        let steps = u128::from(self.since) * STEPS + product.div_ceil(u128::from(self.rate.units));
        let steps = match steps < u128::from(STEPPED_UNTIL) * STEPS {
            true => steps,
            false => (steps.div_ceil(STEPS)).min(u128::from(time::MAX)) * STEPS,
        };
        #[expect(clippy::cast_precision_loss, reason = "at most 53 significant bits, by the bound above")]
        let score = steps as f64 / STEPS as f64;
        score
    }

    /// The theoretical arrival time in whole ms, rounded up.
    fn empty_at(self) -> Millis {
        let drains = (u128::from(self.taken) * u128::from(self.rate.per)).div_ceil(u128::from(self.rate.units));
        u64::try_from(u128::from(self.since) + drains).map_or(time::MAX, |at| at.min(time::MAX))
    }

    /// What is still to drain after `now`, in parts of a unit: `rate.per` parts are one unit. Never negative.
    fn parts_at(self, now: Millis) -> i128 {
        let ahead = i128::from(self.since) - i128::from(now);
        (ahead * i128::from(self.rate.units) + i128::from(self.taken) * i128::from(self.rate.per)).max(0)
    }

    /// See [`super::refund`]; `until` is in whole ms, as a call's reply said.
    pub(super) fn refund(self, now: Millis, units: u64, until: Millis) -> (u64, Rewrite) {
        let (back, left) = self.give_back(now, units, until);
        let member = self.member();
        let rewrite = match left {
            _ if back == 0 => Rewrite::default(),
            None => Rewrite { gone: vec![member], put: Vec::new() },
            Some(left) => Rewrite {
                gone: (left.member() != member).then_some(member).into_iter().collect(),
                put: vec![(left.score(), left.member())],
            },
        };
        (back, rewrite)
    }

    /// The units given back, and the level after it: `None` for an empty bucket.
    fn give_back(self, now: Millis, units: u64, until: Millis) -> (u64, Option<Level>) {
        if until <= now || until > self.empty_at() {
            return (0, Some(self));
        }
        let per = i128::from(self.rate.per);
        let ahead = i128::from(until - now) * i128::from(self.rate.units);
        let held = ceil_div(self.parts_at(now).min(ahead), per);
        let back = u64::try_from(held).unwrap_or(u64::MAX).min(units);
        let left = self.parts_at(now) - i128::from(back) * per;
        let level = match self.taken.checked_sub(back) {
            _ if left <= 0 => None,
            Some(taken) => Some(Level { taken, ..self }),
            None => {
                let wait = ceil_div(left, i128::from(self.rate.units));
                Some(Level { since: now + u64::try_from(wait).unwrap_or(0), taken: 0, rate: self.rate })
            }
        };
        (back, level)
    }

    /// The entry that holds this level, in place of all others.
    fn change(self) -> Change {
        Change { replaces_from: Some(0.0), score: self.score(), member: self.member() }
    }
}

/// A score in steps, rounded down; 0 for what is no moment.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts from float saturate")]
fn steps_of(score: f64) -> u128 {
    let bounded = score.clamp(0.0, time::to_score(time::MAX));
    (bounded * STEPS as f64) as u128
}

fn ceil_div(parts: i128, by: i128) -> i128 {
    (parts + by - 1).div_euclid(by)
}

/// Where a bucket's level is kept.
pub trait Bucket {
    /// `None` for a bucket that was never filled.
    fn level(&mut self) -> Result<Option<Level>, Foreign>;
}

/// What a bucket says to a call for some units.
#[derive(Clone, Copy, Debug)]
pub struct Assessed {
    capacity: u64,
    now: Millis,
    cost: u64,
    /// The level under the policy of the call: the bucket may have been filled under another one.
    level: Level,
    parts: i128,
    settles: bool,
}

/// Asks whether `cost` more units fit into a bucket of `capacity` that drains at `rate`; `stored` is what the key says.
pub fn assess(capacity: u64, rate: Rate, now: Millis, cost: u64, stored: Option<Level>) -> Assessed {
    let empty = Level { since: now, taken: 0, rate };
    let full = Level { taken: capacity, ..empty };
    let level = match stored {
        Some(stored) if stored.parts_at(now) == 0 => empty,
        Some(stored) if stored.rate == rate => stored,
        // Filled under another rate: what counts is the moment at which it would have been empty.
        Some(stored) => Level { since: stored.empty_at(), ..empty },
        None => empty,
    };
    // Nothing is held longer than a full bucket takes to drain, not after a change of policy, nor when the clock
    // stepped back.
    let overfull = level.parts_at(now) > full.parts_at(now);
    let level = if overfull { full } else { level };
    Assessed { capacity, now, cost, level, parts: level.parts_at(now), settles: overfull }
}

impl Assessed {
    fn per(&self) -> i128 {
        i128::from(self.level.rate.per)
    }

    fn room(&self) -> i128 {
        i128::from(self.capacity) * self.per()
    }

    /// The wait until only `parts` are left to drain, in whole ms.
    fn wait_to_drain(&self, parts: i128) -> Millis {
        u64::try_from(ceil_div(parts.max(0), i128::from(self.level.rate.units))).unwrap_or(time::MAX)
    }

    fn remaining(&self, parts: i128) -> u64 {
        u64::try_from((self.room() - parts).max(0) / self.per()).unwrap_or(0)
    }

    fn parts_after(&self) -> i128 {
        self.parts + i128::from(self.cost) * self.per()
    }

    /// See [`super::Assessed::window`]: a full bucket drains in so long.
    pub fn window(&self) -> Millis {
        self.wait_to_drain(self.room())
    }

    /// See [`super::Assessed::verdict`].
    pub fn verdict(&self) -> Verdict {
        let retry_after = match self.parts_after() - self.room() {
            _ if self.cost > self.capacity => RetryAfter::Never,
            excess if excess > 0 && self.cost > 0 => RetryAfter::Wait(self.wait_to_drain(excess)),
            _ => RetryAfter::Now,
        };
        Verdict {
            allowed: retry_after == RetryAfter::Now,
            limit: self.capacity,
            remaining: self.remaining(self.parts),
            retry_after,
            reset_after: self.wait_to_drain(self.parts),
            charged_until: 0,
        }
    }

    /// See [`super::Assessed::settlement`].
    pub fn settlement(&self) -> Option<Change> {
        self.settles.then(|| self.level.change())
    }

    /// See [`super::Assessed::charge`].
    pub fn charge(&self) -> (Verdict, Option<Change>) {
        if self.cost == 0 {
            return (self.verdict(), self.settlement());
        }
        let parts = self.parts_after();
        let level = Level { taken: self.level.taken.saturating_add(self.cost), ..self.level };
        let verdict = Verdict {
            remaining: self.remaining(parts),
            reset_after: self.wait_to_drain(parts),
            charged_until: self.now.saturating_add(self.wait_to_drain(parts)).min(time::MAX),
            ..self.verdict()
        };
        (verdict, Some(level.change()))
    }
}

#[cfg(test)]
mod tests;
