//! Rate limits: how many units are in use, whether more fit, and when they become available again.
//!
//! The algorithms differ only in *when a unit becomes available again*. Each algorithm stores its state in a string.
//! SLIDING stores a ring of times ([`sliding`], [`ring`]), FIXED a count ([`fixed`]), and LEAKY a time ([`leaky`]). A
//! call has two steps, so that a call with several limits can check all limits before it takes units from any of them.
//! The first step *assesses* the limit and changes nothing. The second step *charges* or *refuses* the units and
//! returns the change to make. [`throttle`] has redis-cell's arithmetic, for ZRL.THROTTLE.

pub mod fixed;
pub mod leaky;
pub mod ring;
pub mod sketch;
pub mod sliding;
pub mod text;
pub mod throttle;

use super::time::{self, Millis};
use ring::Ring;
use smallvec::{SmallVec, smallvec};

/// The maximum limit and cost. Clients that use doubles represent every count up to this number exactly.
pub const MAX_UNITS: u64 = time::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A unit becomes available again one `window` after it was taken, rounded up to a multiple of
    /// [`grid`](Policy::grid). No trailing window has more than `limit` units.
    Sliding,
    /// All units become available again at the end of the current window. Windows are aligned to the Unix epoch, so a
    /// window of a day is a UTC day.
    Fixed,
    /// One unit becomes available again per `window / limit`. So calls are evenly spaced, with bursts up to `limit`
    /// (GCRA, the generic cell rate algorithm of ATM networks, ITU-T I.371).
    Leaky,
}

/// The policy of a call. `limit` is 1 to [`MAX_UNITS`], `window` at least 1 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub algorithm: Algorithm,
    pub limit: u64,
    pub window: Millis,
    /// SLIDING only: the precision, 1 ms to `window`.
    pub grid: Millis,
}

/// The result of a call: the fields of ZRL.CHECK's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the units were taken. For a peek, whether they would be.
    pub allowed: bool,
    pub limit: u64,
    /// The number of free units. If it is negative, the limit is in debt: more units are in use than the limit allows.
    pub remaining: i64,
    pub retry_after: RetryAfter,
    /// The time until no unit is in use.
    pub reset_after: Millis,
    /// The time at which the units of this call become available again. 0 if it took none.
    pub charged_until: Millis,
}

/// The minimum wait after which the same call succeeds, if no other call takes units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    Now,
    Wait(Millis),
    /// The call asks for more than the limit.
    Never,
}

impl Verdict {
    pub fn of_forced(self) -> Verdict {
        Verdict { allowed: true, retry_after: RetryAfter::Now, ..self }
    }
}

/// Returns `limit - units`. Units above [`MAX_UNITS`] count as [`MAX_UNITS`].
fn remaining(limit: u64, units: u64) -> i64 {
    limit.cast_signed() - units.min(MAX_UNITS).cast_signed()
}

impl RetryAfter {
    /// Returns the number in the reply: ms, 0 for now, -1 for never.
    pub fn as_integer(self) -> i64 {
        match self {
            RetryAfter::Now => 0,
            RetryAfter::Wait(wait) => i64::try_from(wait).unwrap_or(i64::MAX),
            RetryAfter::Never => -1,
        }
    }
}

/// The usage of a limit: the fields of ZRL.INFO's reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitUsage {
    /// The number of units in use. `None` if it depends on the policy, which is not stored.
    pub units: Option<u64>,
    /// The number of distinct times at which units become available again.
    pub slots: u64,
    /// The times at which the next unit and all units become available again.
    pub next_available: Option<Millis>,
    pub all_available: Option<Millis>,
}

impl LimitUsage {
    fn of(is_any: bool, usage: impl FnOnce() -> LimitUsage) -> LimitUsage {
        if is_any { usage() } else { LimitUsage { units: Some(0), ..LimitUsage::default() } }
    }
}

/// The error for a string that does not have the algorithm's format. The string is not a limit, or belongs to another
/// algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// Bytes to write. Most changes need no allocation.
pub type Bytes = SmallVec<[u8; 64]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub writes: SmallVec<[Write; 1]>,
    /// The new TTL. `None` leaves the key's TTL unchanged.
    pub lifetime: Option<Lifetime>,
}

impl Update {
    fn whole(text: Bytes, lifetime: Lifetime) -> Update {
        Update { writes: smallvec![Write::Replace(text)], lifetime: Some(lifetime) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Replaces the whole string.
    Replace(Bytes),
    /// Overwrites the bytes from `at` on. The length of the string stays the same.
    Part { at: usize, bytes: Bytes },
}

/// The key must live until `until`, and may live up to `linger` ms longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    until: Millis,
    linger: Millis,
}

impl Lifetime {
    fn exactly(until: Millis) -> Lifetime {
        Lifetime { until, linger: 0 }
    }

    /// Returns a lifetime up to `until`, or longer by up to an eighth of the window, at most 20 s. So most calls do not
    /// change the TTL of a busy key.
    fn lingering(until: Millis, window: Millis) -> Lifetime {
        /// The maximum of `linger`, in ms.
        const MOST: Millis = 20_000;
        Lifetime { until, linger: (window / 8).min(MOST) }
    }

    /// Returns the TTL (absolute, ms) for a key with the current TTL `before`.
    pub fn expires_at(self, before: Option<Millis>) -> Millis {
        let latest = self.until + self.linger;
        before.filter(|before| (self.until..=latest).contains(before)).unwrap_or(latest)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    pub units: u64,
    /// The change of the string. If it is `None` and `units` is 0, the string stays unchanged. If it is `None` and
    /// `units` is not 0, no unit is in use any more, and the key is no longer needed.
    pub left: Option<Update>,
}

impl Refund {
    pub const NOTHING: Refund = Refund { units: 0, left: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredLimit<'a> {
    Sliding(Ring<'a>),
    Fixed(fixed::Count),
    Leaky(leaky::Level),
    Throttle(throttle::Arrival),
}

impl<'a> StoredLimit<'a> {
    /// Parses a string. The first byte identifies the algorithm. A plain number belongs to THROTTLE, as in redis-cell.
    /// `expires_at` is called only for a plain number.
    pub fn parse(text: &'a [u8], expires_at: impl FnOnce() -> Option<Millis>) -> Result<StoredLimit<'a>, Foreign> {
        match text.first() {
            Some(b's') => Ring::parse(text).map(StoredLimit::Sliding),
            Some(b'f') => fixed::Count::parse(text).map(StoredLimit::Fixed),
            Some(b'l') => leaky::Level::parse(text).map(StoredLimit::Leaky),
            _ => throttle::Arrival::parse(text, expires_at).map(StoredLimit::Throttle),
        }
    }

    pub fn algorithm(self) -> &'static str {
        match self {
            StoredLimit::Sliding(_) => "sliding",
            StoredLimit::Fixed(_) => "fixed",
            StoredLimit::Leaky(_) => "leaky",
            StoredLimit::Throttle(_) => "throttle",
        }
    }

    pub fn usage(self, now: Millis) -> Result<LimitUsage, Foreign> {
        match self {
            StoredLimit::Sliding(ring) => sliding::usage(ring, now),
            StoredLimit::Fixed(count) => Ok(count.usage(now)),
            StoredLimit::Leaky(level) => Ok(level.usage(now)),
            StoredLimit::Throttle(arrival) => Ok(arrival.usage(now)),
        }
    }

    /// Refunds up to `units` units of one call. `until` is that call's [`charged_until`](Verdict::charged_until). Units
    /// that are no longer in use cannot be refunded. THROTTLE has no refund: a client returns units with a negative
    /// quantity.
    pub fn refund(self, now: Millis, units: u64, until: Millis) -> Result<Refund, Foreign> {
        match self {
            StoredLimit::Sliding(ring) => sliding::refund(ring, now, units, until),
            StoredLimit::Fixed(count) => Ok(count.refund(now, units, until)),
            StoredLimit::Leaky(level) => Ok(level.refund(now, units, until)),
            StoredLimit::Throttle(_) => Err(Foreign),
        }
    }
}

/// Assesses a limit at `now` for a call of `cost` units under `policy`, and calls `look` with the result. Returns
/// `None` if the stored limit belongs to another algorithm.
pub fn assess<R>(
    policy: Policy,
    now: Millis,
    cost: u64,
    stored: Option<StoredLimit<'_>>,
    look: impl FnOnce(&dyn Assessed) -> R,
) -> Result<Option<R>, Foreign> {
    let Policy { algorithm, limit, window, .. } = policy;
    Ok(Some(match (algorithm, stored) {
        (Algorithm::Sliding, None) => look(&sliding::assess(policy, now, cost, None)?),
        (Algorithm::Sliding, Some(StoredLimit::Sliding(ring))) => {
            look(&sliding::assess(policy, now, cost, Some(ring))?)
        }
        (Algorithm::Fixed, None) => look(&fixed::assess(limit, window, now, cost, None)),
        (Algorithm::Fixed, Some(StoredLimit::Fixed(count))) => {
            look(&fixed::assess(limit, window, now, cost, Some(count)))
        }
        (Algorithm::Leaky, None) => look(&leaky::assess(limit, window, now, cost, None)),
        (Algorithm::Leaky, Some(StoredLimit::Leaky(level))) => {
            look(&leaky::assess(limit, window, now, cost, Some(level)))
        }
        _ => return Ok(None),
    }))
}

/// A stored limit, and a call to check against it.
pub trait Assessed {
    fn fits(&self) -> bool;

    /// Returns the verdict and changes nothing. `allowed` tells whether the units would fit. `retry_after` and
    /// `reset_after` follow from the stored units. If the call has a shorter window, ZRL.CHECK applies this window. The
    /// client may then have to wait less than the peek returned.
    fn peek(&self) -> Verdict;

    /// Returns the verdict of a call that takes nothing. Also returns a change if the policy has changed, so that units
    /// are not held longer than the new window allows.
    fn refuse(&self) -> (Verdict, Option<Update>);

    /// Takes the units even if they do not fit. If they do not fit, the limit is in debt, and `remaining` is negative
    /// until enough units have become available again.
    fn charge(&self) -> (Verdict, Option<Update>);

    fn decide(&self, forced: bool) -> (Verdict, Option<Update>) {
        if forced || self.fits() { self.charge() } else { self.refuse() }
    }
}

#[cfg(test)]
mod tests;
