//! Rate limits: how many units are in use, whether a call's units fit, and when units become available again.
//!
//! The algorithms differ only in *when a unit becomes available again*. Each algorithm stores its state in a string.
//! SLIDING stores a ring of times ([`sliding`], [`ring`]), FIXED a count ([`fixed`]), and LEAKY a time ([`leaky`]).
//! [`assess`] checks a call against a stored limit, and returns the change for the caller to make. So a command with
//! several limits can check all of them before it takes units from any. [`throttle`] has redis-cell's arithmetic, for
//! ZRL.THROTTLE.

pub mod fixed;
pub mod leaky;
pub mod ring;
pub mod sketch;
pub mod sliding;
pub mod text;
pub mod throttle;

use crate::base::time::{self, Millis};
use fixed::FixedCheck;
use leaky::LeakyCheck;
use ring::Ring;
use sliding::SlidingCheck;
use smallvec::{SmallVec, smallvec};

/// The maximum limit and cost. Clients that use doubles represent every count up to this number exactly.
pub const MAX_UNITS: u64 = time::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A unit becomes available again one `window` after it was taken. This time is rounded up to a multiple of
    /// [`precision`](Policy::precision). Without FORCE, at most `limit` units are taken in any period of one `window`.
    Sliding,
    /// All units become available again at the end of the current window. Windows are aligned to the Unix epoch, so a
    /// window of a day is a UTC day.
    Fixed,
    /// One unit becomes available again every `window / limit` ms. So calls are evenly spaced, with bursts of up to
    /// `limit` units (GCRA, the generic cell rate algorithm of ATM networks, ITU-T I.371).
    Leaky,
}

/// The policy of a call. `limit` is 1 to [`MAX_UNITS`], `window` at least 1 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub algorithm: Algorithm,
    pub limit: u64,
    pub window: Millis,
    /// SLIDING only: the precision, 1 ms to `window`. `None`: the default, which depends on the units in use
    /// ([`sliding`]).
    pub precision: Option<Millis>,
}

/// A call that asks for `cost` units at `now`.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub policy: Policy,
    pub now: Millis,
    pub cost: u64,
}

/// What a call does with the units for which it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Changes nothing.
    Peek,
    /// Takes the units if they fit.
    Take,
    /// Takes the units even if they do not fit.
    Force,
    /// Takes no units, because another limit of the same call denies them.
    Refuse,
}

/// The result of a call: the fields of ZRL.CHECK's reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether this limit allows the call: its units fit, or the intent is [`Intent::Force`].
    pub allowed: bool,
    pub limit: u64,
    /// The number of free units. A negative number means that the limit is in debt: more units are in use than the
    /// limit allows.
    pub remaining: i64,
    /// The minimum wait after which the same call succeeds, if no other call takes units. 0 if the call is allowed.
    /// `None` if the call asks for more than the limit.
    pub retry_after: Option<Millis>,
    /// The time until no unit is in use.
    pub reset_after: Millis,
    /// The time at which the units of this call become available again. 0 if the call took none.
    pub charged_until: Millis,
}

impl Verdict {
    /// Returns the verdict of the same call with FORCE. The call must take no units: a peek, or a call with the cost 0.
    #[must_use]
    pub fn forced(self) -> Verdict {
        Verdict { allowed: true, retry_after: Some(0), ..self }
    }
}

/// The result of [`assess`].
#[derive(Clone, Debug)]
pub struct Assessment {
    pub fits: bool,
    pub verdict: Verdict,
    pub update: Option<Update>,
}

/// Returns `limit - units`. Units above [`MAX_UNITS`] count as [`MAX_UNITS`].
fn remaining(limit: u64, units: u64) -> i64 {
    limit.cast_signed() - units.min(MAX_UNITS).cast_signed()
}

/// The usage of a limit: the fields of ZRL.INFO's reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitUsage {
    /// The number of units in use. `None` for THROTTLE, because the number depends on the policy, which is not stored.
    pub units: Option<u64>,
    /// For SLIDING, the number of distinct times at which units become available again. For other algorithms, 1, or 0
    /// if no unit is in use.
    pub slots: u64,
    /// The time at which the next unit becomes available again.
    pub next_available: Option<Millis>,
    /// The time at which no unit is in use any more.
    pub all_available: Option<Millis>,
}

impl LimitUsage {
    fn of(is_any: bool, usage: impl FnOnce() -> LimitUsage) -> LimitUsage {
        if is_any { usage() } else { LimitUsage { units: Some(0), ..LimitUsage::default() } }
    }
}

/// The error for a string that is not in the expected algorithm's format. Either the string is not a limit, or it is a
/// limit of another algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotThisFormat;

/// The bytes of a limit's string, or of a part of it. Up to 64 bytes need no allocation.
pub type SmallBytes = SmallVec<[u8; 64]>;

/// A change of a limit's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Replaces the string and sets the TTL.
    Replace { text: SmallBytes, lifetime: Lifetime },
    /// Overwrites parts of the string. The string's length stays the same. If `lifetime` is `None`, the TTL also stays
    /// the same.
    Overwrite { parts: SmallVec<[Patch; 1]>, lifetime: Option<Lifetime> },
    /// Removes the key, because no unit is in use any more.
    Remove,
}

impl Update {
    fn overwrite(part: Patch, lifetime: Lifetime) -> Update {
        Update::Overwrite { parts: smallvec![part], lifetime: Some(lifetime) }
    }
}

/// The bytes to write into a string at index `at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    pub at: usize,
    pub bytes: SmallBytes,
}

/// The time for which a key exists. This time ends at `until`, or at most `linger` ms later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    until: Millis,
    linger: Millis,
}

impl Lifetime {
    fn exactly(until: Millis) -> Lifetime {
        Lifetime { until, linger: 0 }
    }

    /// Returns a lifetime that may end later than `until`: by an eighth of the window, but at most by 20 s. Because of
    /// this tolerance, most calls need not change the TTL of a busy key.
    fn lingering(until: Millis, window: Millis) -> Lifetime {
        const MAX_LINGER: Millis = 20_000;
        Lifetime { until, linger: (window / 8).min(MAX_LINGER) }
    }

    /// Returns the time at which the key must expire. If the current expiry `before` is within this lifetime's
    /// tolerance, returns `before`, and the TTL need not change.
    pub fn expires_at(self, before: Option<Millis>) -> Millis {
        let latest = self.until + self.linger;
        before.filter(|before| (self.until..=latest).contains(before)).unwrap_or(latest)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredLimit<'a> {
    Sliding(Ring<'a>),
    Fixed(fixed::Count),
    Leaky(leaky::Level),
    Throttle(throttle::Arrival),
}

impl<'a> StoredLimit<'a> {
    /// Parses the string of a key. The string's first byte identifies the algorithm. The string of ZRL.THROTTLE is a
    /// decimal number, so it begins with a digit.
    pub fn parse(text: &'a [u8]) -> Result<StoredLimit<'a>, NotThisFormat> {
        match text.first() {
            Some(b's') => Ring::parse(text).map(StoredLimit::Sliding),
            Some(b'f') => fixed::Count::parse(text).map(StoredLimit::Fixed),
            Some(b'l') => leaky::Level::parse(text).map(StoredLimit::Leaky),
            _ => throttle::Arrival::parse(text).map(StoredLimit::Throttle),
        }
    }

    /// Returns the algorithm's name, as ZRL.INFO shows it.
    pub fn algorithm(self) -> &'static str {
        match self {
            StoredLimit::Sliding(_) => "sliding",
            StoredLimit::Fixed(_) => "fixed",
            StoredLimit::Leaky(_) => "leaky",
            StoredLimit::Throttle(_) => "throttle",
        }
    }

    pub fn usage(self, now: Millis) -> Result<LimitUsage, NotThisFormat> {
        match self {
            StoredLimit::Sliding(ring) => sliding::usage(ring, now),
            StoredLimit::Fixed(count) => Ok(count.usage(now)),
            StoredLimit::Leaky(level) => Ok(level.usage(now)),
            StoredLimit::Throttle(arrival) => Ok(arrival.usage(now)),
        }
    }

    /// Refunds up to `units` units of one call. `until` is that call's [`charged_until`](Verdict::charged_until). Units
    /// that are no longer in use cannot be refunded. Returns an error for a limit of THROTTLE, because THROTTLE
    /// itself refunds units if its quantity is negative.
    ///
    /// Returns the number of refunded units, and the change.
    pub fn refund(self, now: Millis, units: u64, until: Millis) -> Result<(u64, Option<Update>), NotThisFormat> {
        match self {
            StoredLimit::Sliding(ring) => sliding::refund(ring, now, units, until),
            StoredLimit::Fixed(count) => Ok(count.refund(now, units, until)),
            StoredLimit::Leaky(level) => Ok(level.refund(now, units, until)),
            StoredLimit::Throttle(_) => Err(NotThisFormat),
        }
    }
}

/// Checks whether the units of `call` fit into a stored limit, and computes the change to make. `stored` is the key's
/// string, or `None` if the key is missing.
pub fn assess(call: Call, intent: Intent, stored: Option<&[u8]>) -> Result<Assessment, NotThisFormat> {
    Ok(match call.policy.algorithm {
        Algorithm::Sliding => SlidingCheck::parse(call, stored)?.assessment(intent),
        Algorithm::Fixed => FixedCheck::new(call, stored.map(fixed::Count::parse).transpose()?).assessment(intent),
        Algorithm::Leaky => LeakyCheck::new(call, stored.map(leaky::Level::parse).transpose()?).assessment(intent),
    })
}

/// A call, and the stored limit that it checks.
///
/// The stored units may be from calls with a longer window or a coarser precision, or from a time before the clock
/// stepped back. So every call except a peek first *settles* the limit. In a settled limit of SLIDING or FIXED, no unit
/// stays in use for longer than the window of this call. A settled LEAKY bucket drains from now on. If a method's
/// argument `is_settled` is true, the method returns the wait after settling.
trait Check {
    fn call(&self) -> &Call;

    /// Returns the number of free units. A negative number means that the limit is in debt.
    fn remaining(&self) -> i64;

    /// Returns the minimum wait until the call's units fit. Called only if the units do not fit now, but the cost is at
    /// most the limit. If `is_settled` is true, returns the wait after [`settle`](Check::settle).
    fn retry_after(&self, is_settled: bool) -> Millis;

    /// Returns the time until no unit is in use. If `is_settled` is true, returns the time after
    /// [`settle`](Check::settle).
    fn reset_after(&self, is_settled: bool) -> Millis;

    /// Returns the change that settles the limit: afterwards, no unit stays in use for longer than this call's window
    /// and the current clock allow (see [`Check`]). Returns `None` if no change is needed.
    fn settle(&self) -> Option<Update>;

    /// Whether the stored limit shows that the clock has stepped back. Some limits do not show it. If one does, a peek returns the waits after
    /// [`settle`](Check::settle), because the waits before settling would include the size of the step, for example a
    /// day.
    fn is_clock_back(&self) -> bool {
        false
    }

    /// Returns the change that takes the units, the number of free units after the change, and the time at which the
    /// taken units become available again. Called only if the cost is not 0.
    fn take(&self) -> (Update, i64, Millis);

    fn fits(&self) -> bool {
        i64::try_from(self.call().cost).is_ok_and(|cost| cost <= self.remaining())
    }

    fn assessment(&self, intent: Intent) -> Assessment {
        match intent {
            Intent::Peek => Assessment { fits: self.fits(), verdict: self.peek(), update: None },
            Intent::Take if self.fits() => self.charge(),
            Intent::Force => self.charge(),
            Intent::Take | Intent::Refuse => self.refuse(),
        }
    }

    fn verdict(&self, is_settled: bool) -> Verdict {
        let Call { cost, policy: Policy { limit, .. }, .. } = *self.call();
        let fits = self.fits();
        Verdict {
            allowed: fits,
            limit,
            remaining: self.remaining(),
            retry_after: (fits || cost <= limit).then(|| if fits { 0 } else { self.retry_after(is_settled) }),
            reset_after: self.reset_after(is_settled),
            charged_until: 0,
        }
    }

    /// Returns the verdict of a call that changes nothing. `retry_after` and `reset_after` can be longer than those of
    /// a call that changes the limit, because such a call first settles it (see [`Check`]).
    fn peek(&self) -> Verdict {
        self.verdict(self.is_clock_back())
    }

    /// Returns the assessment of a call that takes no units. Even this call may change the limit: see
    /// [`settle`](Check::settle).
    fn refuse(&self) -> Assessment {
        Assessment { fits: self.fits(), verdict: self.verdict(true), update: self.settle() }
    }

    /// Returns the assessment of a call that takes the units even if they do not fit. If they do not fit, the limit is
    /// in debt, and `remaining` is negative until enough units have become available again.
    fn charge(&self) -> Assessment {
        let Call { cost, now, policy: Policy { limit, .. } } = *self.call();
        if cost == 0 {
            let refused = self.refuse();
            return Assessment { verdict: refused.verdict.forced(), ..refused };
        }
        let (update, remaining, until) = self.take();
        let reset_after = until - now;
        let verdict =
            Verdict { allowed: true, limit, remaining, retry_after: Some(0), reset_after, charged_until: until };
        Assessment { fits: self.fits(), verdict, update: Some(update) }
    }
}

#[cfg(test)]
mod tests;
