//! THROTTLE: the arithmetic of redis-cell's CL.THROTTLE (0.5.0), with the same replies and the same stored form.
//!
//! The key is a string: the theoretical arrival time in nanoseconds since the epoch, as a plain decimal. The key's TTL
//! ends at that time. So redis-cell and this module can use each other's keys. The arithmetic uses integer nanoseconds,
//! except for two steps that redis-cell does in floating point: the interval between two units, and the remaining
//! units.
//!
//! Where redis-cell panics, overflows or returns an error, this module differs. Numbers out of range are errors. If a
//! call refunds more units than are in use, no unit is in use afterwards. (redis-cell then returns an error; if the
//! excess is less than 2 ms, it replies with more units than the limit has.) If the interval is below a microsecond,
//! the remaining units are computed in nanoseconds. (redis-cell truncates the interval to 0 µs and divides by 0.)
//!
//! A key that redis-cell wrote may expire up to a millisecond before its arrival time. So the limit may admit a unit
//! too early. A key that this module wrote does not expire early.

use super::text::{NumberReader, number_text};
use super::{Lifetime, LimitUsage, NotThisFormat, Update};
use crate::base::time::Millis;

/// Nanoseconds: a duration, or a time since the epoch.
pub type Nanos = i128;

const SECOND: Nanos = 1_000_000_000;
pub const MILLISECOND: Nanos = 1_000_000;

/// The earliest accepted arrival time: September 2001, in nanoseconds. A smaller number is likely a counter of another
/// program.
const EARLIEST: u64 = 1_000_000_000_000_000_000;

/// The theoretical arrival time of GCRA: from then on, all units are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    nanos: u64,
}

impl Arrival {
    /// Parses an arrival time. The key's TTL does not matter: a client may have changed it, and MIGRATE changes it if
    /// the clocks of the two servers differ.
    pub fn parse(text: &[u8]) -> Result<Arrival, NotThisFormat> {
        let arrival = Arrival { nanos: NumberReader(text).last_number_after("")? };
        (arrival.nanos >= EARLIEST).then_some(arrival).ok_or(NotThisFormat)
    }

    fn at(time: Nanos) -> Result<Arrival, OutOfRange> {
        Ok(Arrival { nanos: u64::try_from(time).map_err(|_| OutOfRange)? })
    }

    /// Returns the end of the key's TTL: GCRA's theoretical arrival time, rounded down to ms. The server keeps the key
    /// until this millisecond has passed, so the key does not expire too early.
    fn expires_at(self) -> Millis {
        self.nanos / 1_000_000
    }

    pub fn update(self) -> Update {
        Update::Replace { text: number_text(&[("", self.nanos)]), lifetime: Lifetime::exactly(self.expires_at()) }
    }

    /// Returns the usage at `now`. `units` is `None`: the number of units depends on the policy, which is not stored.
    pub(super) fn usage(self, now: Millis) -> LimitUsage {
        let back = self.nanos.div_ceil(1_000_000);
        LimitUsage::of(back > now, || LimitUsage {
            units: None,
            slots: 1,
            next_available: None,
            all_available: Some(back),
        })
    }
}

/// A bucket of `limit` units that drains at one unit per `interval`. Times are in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottlePolicy {
    pub limit: i64,
    interval: i64,
    /// The time in which a full bucket drains.
    tolerance: i64,
}

/// The error for arguments that are out of range, or that result in a time of more than 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl ThrottlePolicy {
    /// Returns the policy of `count` units per `period` seconds, with bursts of up to `max_burst + 1` units.
    pub fn new(max_burst: i64, count: i64, period: i64) -> Result<ThrottlePolicy, OutOfRange> {
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
        (interval > 0).then_some(ThrottlePolicy { limit, interval, tolerance }).ok_or(OutOfRange)
    }
}

/// The reply's fields except the limit. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleVerdict {
    pub allowed: bool,
    pub remaining: i64,
    /// The wait until the call succeeds. -1 if the call is allowed, or can never be allowed.
    pub retry_after: i64,
    pub reset_after: i64,
}

/// Takes `quantity` units if they fit. A negative quantity refunds units. Returns the verdict, and the arrival time to
/// store. The arrival time is `None` if no unit is in use.
pub fn throttle(
    policy: ThrottlePolicy,
    now: Nanos,
    quantity: i64,
    stored: Option<Arrival>,
) -> Result<(ThrottleVerdict, Option<Arrival>), OutOfRange> {
    let ThrottlePolicy { interval, tolerance, .. } = policy;
    let increment = Nanos::from(interval.checked_mul(quantity).ok_or(OutOfRange)?);
    let (interval, tolerance) = (Nanos::from(interval), Nanos::from(tolerance));
    // As in redis-cell, `held` is negative if the arrival time has passed but the key has not yet expired.
    let held = stored.map_or(0, |arrival| Nanos::from(arrival.nanos) - now);
    let asked = held.max(0) + increment;
    let late = asked - tolerance;
    let allowed = late <= 0;
    let drains = if allowed { asked.max(0) } else { held };
    let retry_after = if !allowed && increment <= tolerance { late } else { -SECOND };
    let next = tolerance - drains;
    let verdict = ThrottleVerdict {
        allowed,
        remaining: if next > -interval { units(next, interval) } else { 0 },
        retry_after: seconds(retry_after),
        reset_after: seconds(drains),
    };
    let left = match drains {
        _ if !allowed || quantity == 0 => stored,
        0 => None,
        _ => Some(Arrival::at(now + drains)?),
    };
    Ok((verdict, left))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as redis-cell; casts saturate")]
fn units(nanos: Nanos, interval: Nanos) -> i64 {
    match interval / 1000 {
        0 => i64::try_from(nanos / interval).unwrap_or(0),
        micros => ((nanos / 1000) as f64 / micros as f64) as i64,
    }
}

/// Converts nanoseconds to seconds. A remainder of at least 1 ms is rounded up to a second, a smaller one is dropped.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as redis-cell; casts saturate")]
fn seconds(nanos: Nanos) -> i64 {
    let whole = ((nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9) as i64;
    whole.saturating_add(i64::from(nanos % SECOND / MILLISECOND > 0))
}

#[cfg(test)]
mod tests;
