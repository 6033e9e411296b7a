//! THROTTLE: the arithmetic of redis-cell's CL.THROTTLE (0.5.0), reply by reply, and its stored form.
//!
//! The key is a string, the theoretical arrival time in nanoseconds since the epoch as a plain decimal; the key's TTL ends with
//! it. So a key that redis-cell wrote goes on here, and the other way round. All of the arithmetic is in whole nanoseconds,
//! but for two steps that redis-cell takes in floating point, and so does this: the interval between two units, and the units
//! remaining.
//!
//! Where redis-cell panics, overflows or answers an error, this differs: numbers out of range are errors; a key that gets back
//! more than it holds is empty; and at intervals below a microsecond, by which redis-cell divides as by zero, the units
//! remaining are counted in nanoseconds. A key of redis-cell may also end up to a millisecond before its arrival time, and lets
//! a unit through too early then; a key written here does not.

use super::text::{Text, number};
use super::{Change, Foreign, Held, Lifetime};
use crate::model::time::Millis;

/// Nanoseconds: a duration, or since the epoch.
pub type Nanos = i128;

const SECOND: Nanos = 1_000_000_000;
pub const MILLISECOND: Nanos = 1_000_000;

/// How far the TTL may be off the arrival time: a MIGRATE sends it as remaining time. Somebody's own number with a TTL that
/// comes so close to it, read as nanoseconds, is not to be expected; a counter is 50 years off.
const TOLERANCE: Millis = 5_000;

/// The least arrival time of a key without a TTL: September 2001. redis-cell leaves such a key when more is given back than is held. A
/// counter is far below.
const EARLIEST: u64 = 1_000_000_000_000_000_000;

/// When the bucket is empty again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    nanos: u64,
}

impl Arrival {
    /// Reads the number in a string, and the TTL of its key.
    pub fn parse(text: &[u8], expires_at: impl FnOnce() -> Option<Millis>) -> Result<Arrival, Foreign> {
        let arrival = Arrival { nanos: number(text)? };
        let is_ours = match expires_at() {
            Some(expires_at) => expires_at.abs_diff(arrival.expires_at()) <= TOLERANCE,
            None => arrival.nanos >= EARLIEST,
        };
        is_ours.then_some(arrival).ok_or(Foreign)
    }

    fn at(time: Nanos) -> Result<Arrival, OutOfRange> {
        Ok(Arrival { nanos: u64::try_from(time).map_err(|_| OutOfRange)? })
    }

    /// The server keeps a key until the millisecond of its TTL has passed. So the key must have the one in which the arrival time
    /// falls: with any earlier one it would end too early.
    fn expires_at(self) -> Millis {
        self.nanos / 1_000_000
    }

    pub fn change(self) -> Change {
        Change::whole(Text::of("").number(self.nanos), Lifetime::exactly(self.expires_at()))
    }

    /// See [`super::Stored::held`]. How many units that is only the policy knows, which is not stored.
    pub(super) fn held(self, now: Millis) -> Held {
        let back = self.nanos.div_ceil(1_000_000);
        Held::of(back > now, || Held { units: None, slots: 1, next_back: None, all_back: Some(back) })
    }
}

/// Bursts of `max_burst + 1` units, and one every `interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub limit: i64,
    interval: i64,
    /// How long a full bucket takes to drain.
    tolerance: i64,
}

/// Numbers with which there is no limit, or none that 64 bits can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl Policy {
    /// `count` units per `period` seconds.
    pub fn new(max_burst: i64, count: i64, period: i64) -> Result<Policy, OutOfRange> {
        if max_burst < 0 || count < 1 || period < 1 {
            return Err(OutOfRange);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "as redis-cell; casts saturate"
        )]
        let interval = ((Nanos::from(period) * SECOND) as f64 / count as f64) as i64;
        let limit = max_burst.checked_add(1).ok_or(OutOfRange)?;
        let tolerance = interval.checked_mul(limit).ok_or(OutOfRange)?;
        (interval > 0).then_some(Policy { limit, interval, tolerance }).ok_or(OutOfRange)
    }
}

/// The reply's fields but the limit; times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub allowed: bool,
    pub remaining: i64,
    /// -1: allowed, or never.
    pub retry_after: i64,
    pub reset_after: i64,
}

/// What becomes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    AsItWas,
    Set(Arrival),
    /// It has got back more than it held.
    Empty,
}

/// Asks for `quantity` units; for fewer than none, gives units back.
pub fn throttle(
    policy: Policy,
    now: Nanos,
    quantity: i64,
    stored: Option<Arrival>,
) -> Result<(Verdict, Outcome), OutOfRange> {
    let Policy { interval, tolerance, .. } = policy;
    let increment = Nanos::from(interval.checked_mul(quantity).ok_or(OutOfRange)?);
    let (interval, tolerance) = (Nanos::from(interval), Nanos::from(tolerance));
    // Negative for the last moment of a key whose time has come: a call for more than a burst is then told of more than a burst.
    let held = stored.map_or(0, |arrival| Nanos::from(arrival.nanos) - now);
    let asked = held.max(0) + increment;
    let late = asked - tolerance;
    let allowed = late <= 0;
    let drains = if allowed { asked.max(0) } else { held };
    let retry_after = if !allowed && increment <= tolerance { late } else { -SECOND };
    let next = tolerance - drains;
    let verdict = Verdict {
        allowed,
        remaining: if next > -interval { units(next, interval) } else { 0 },
        retry_after: seconds(retry_after),
        reset_after: seconds(drains),
    };
    let outcome = match allowed {
        _ if quantity == 0 => Outcome::AsItWas,
        false => Outcome::AsItWas,
        true if drains == 0 => Outcome::Empty,
        true => Outcome::Set(Arrival::at(now + drains)?),
    };
    Ok((verdict, outcome))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as redis-cell; casts saturate")]
fn units(nanos: Nanos, interval: Nanos) -> i64 {
    match interval / 1000 {
        0 => i64::try_from(nanos / interval).unwrap_or(0),
        micros => ((nanos / 1000) as f64 / micros as f64) as i64,
    }
}

/// Rounded up to a whole second once a whole millisecond of it has begun.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as redis-cell; casts saturate")]
fn seconds(nanos: Nanos) -> i64 {
    let whole = ((nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9) as i64;
    whole.saturating_add(i64::from(nanos % SECOND / MILLISECOND > 0))
}

#[cfg(test)]
mod tests;
