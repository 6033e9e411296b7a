//! Rate limits: how many units are in use, whether some more fit, and when they become available again.
//!
//! The algorithms differ only in *when a unit becomes available again*. Each keeps what it knows in a string: SLIDING a ring of moments
//! ([`sliding`], [`ring`]), FIXED a count ([`fixed`]), LEAKY a moment ([`leaky`]). Every one answers in two steps, so that a call over
//! several limits can ask all of them before it takes from any: *assess* what the limit says now, which changes nothing, then either
//! *charge* the units or *refuse* them. The change is returned, never made here. [`throttle`] is redis-cell's arithmetic, for
//! ZRL.THROTTLE alone.

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

/// The largest limit and the largest cost: up to here every count of units is exact wherever clients look at it.
pub const MAX_UNITS: u64 = time::MAX;

/// When a limit's units come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `window` after they were taken, rounded up to a multiple of `grid` ms: never more than `limit` units in any
    /// trailing window.
    Sliding { grid: Millis },
    /// At the end of the current window, windows being aligned to the Unix epoch: a quota a minute, an hour, a UTC day.
    Fixed,
    /// One every `window / limit`, each after those before it: evenly spaced, with bursts up to `limit` (GCRA, the
    /// generic cell rate algorithm of ATM networks, ITU-T I.371).
    Leaky,
}

/// What a key is asked to enforce. `limit` is 1 to [`MAX_UNITS`], `window` at least 1 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub limit: u64,
    pub window: Millis,
    pub algorithm: Algorithm,
}

/// What a caller learns of a limit: the fields of ZRL.CHECK's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the units fit.
    pub allowed: bool,
    pub limit: u64,
    /// Units free.
    pub remaining: u64,
    pub retry_after: RetryAfter,
    /// Until nothing is in use any more.
    pub reset_after: Millis,
    /// The moment at which the units taken by this call come back; 0 when it took none.
    pub charged_until: Millis,
}

/// The least wait after which the same call succeeds if nobody else takes units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// It succeeds now.
    Now,
    Wait(Millis),
    /// It asks for more than the limit.
    Never,
}

impl RetryAfter {
    /// As the reply spells it: ms, 0 for now, -1 for never.
    pub fn as_integer(self) -> i64 {
        match self {
            RetryAfter::Now => 0,
            RetryAfter::Wait(wait) => i64::try_from(wait).unwrap_or(i64::MAX),
            RetryAfter::Never => -1,
        }
    }
}

/// What of a limit is in use: the fields of ZRL.INFO's reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// `None` where only the policy, which is not stored, could tell.
    pub units: Option<u64>,
    /// The moments at which units become available again, each counted once.
    pub slots: u64,
    /// When the next unit becomes available again, and when all have.
    pub next_back: Option<Millis>,
    pub all_back: Option<Millis>,
}

impl Held {
    fn of(is_any: bool, held: impl FnOnce() -> Held) -> Held {
        if is_any { held() } else { Held { units: Some(0), ..Held::default() } }
    }
}

/// Not what the algorithm writes: the key is no limit, or one of another algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// Bytes to be written; those of most changes need no allocation.
pub type Bytes = SmallVec<[u8; 64]>;

/// What is to be written to the string of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub writes: SmallVec<[Write; 1]>,
    /// `None`: the key's TTL stays as it is.
    pub lifetime: Option<Lifetime>,
}

impl Change {
    fn whole(text: text::Text, lifetime: Lifetime) -> Change {
        Change { writes: smallvec![Write::Whole(Bytes::from_slice(text.as_bytes()))], lifetime: Some(lifetime) }
    }
}

/// One write to a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The string becomes this.
    Whole(Bytes),
    /// The bytes from `at` on become these. The length of the string stays.
    Part { at: usize, bytes: Bytes },
}

/// How long a key must stay, and how much longer it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    until: Millis,
    linger: Millis,
}

impl Lifetime {
    fn exactly(until: Millis) -> Lifetime {
        Lifetime { until, linger: 0 }
    }

    /// The TTL of a busy key need not follow every unit that is taken: the key may outlive the last one by an eighth of the window, so the
    /// TTL moves eight times a window.
    fn lingering(until: Millis, window: Millis) -> Lifetime {
        /// The most that a key outlives its last unit by.
        const MOST: Millis = 20_000;
        Lifetime { until, linger: (window / 8).min(MOST) }
    }

    /// Returns the TTL (absolute, ms) of a key that has `before` now.
    pub fn expires_at(self, before: Option<Millis>) -> Millis {
        let latest = self.until + self.linger;
        before.filter(|before| (self.until..=latest).contains(before)).unwrap_or(latest)
    }
}

/// Units that were given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    pub units: u64,
    /// What becomes of the string. `None`: nothing of it is in use any more, or no unit was given back.
    pub left: Option<Change>,
}

impl Refund {
    pub const NOTHING: Refund = Refund { units: 0, left: None };
}

/// A limit as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    Sliding(Ring<'a>),
    Fixed(fixed::Count),
    Leaky(leaky::Level),
    Throttle(throttle::Arrival),
}

impl<'a> Stored<'a> {
    /// Reads a string and the TTL of its key. A string says itself what it is: by a tag in front. Those of THROTTLE are redis-cell's, a plain
    /// number, and only of those the TTL is read.
    pub fn parse(text: &'a [u8], expires_at: impl FnOnce() -> Option<Millis>) -> Result<Stored<'a>, Foreign> {
        match text.first() {
            Some(b's') => Ring::parse(text).map(Stored::Sliding),
            Some(b'f') => fixed::Count::parse(text).map(Stored::Fixed),
            Some(b'l') => leaky::Level::parse(text).map(Stored::Leaky),
            _ => throttle::Arrival::parse(text, expires_at).map(Stored::Throttle),
        }
    }

    pub fn algorithm(self) -> &'static str {
        match self {
            Stored::Sliding(_) => "sliding",
            Stored::Fixed(_) => "fixed",
            Stored::Leaky(_) => "leaky",
            Stored::Throttle(_) => "throttle",
        }
    }

    /// Returns what is in use at `now`.
    pub fn held(self, now: Millis) -> Result<Held, Foreign> {
        match self {
            Stored::Sliding(ring) => sliding::held(ring, now),
            Stored::Fixed(count) => Ok(count.held(now)),
            Stored::Leaky(level) => Ok(level.held(now)),
            Stored::Throttle(arrival) => Ok(arrival.held(now)),
        }
    }

    /// Gives back up to `units` of those that one call took, which become available again at `until`. Never more than are held.
    /// THROTTLE has no refund: a negative quantity gives units back.
    pub fn refund(self, now: Millis, units: u64, until: Millis) -> Result<Refund, Foreign> {
        match self {
            Stored::Sliding(ring) => sliding::refund(ring, now, units, until),
            Stored::Fixed(count) => Ok(count.refund(now, units, until)),
            Stored::Leaky(level) => Ok(level.refund(now, units, until)),
            Stored::Throttle(_) => Err(Foreign),
        }
    }
}

/// A limit as it is now, and what a call for some units would do to it.
#[derive(Clone, Copy, Debug)]
pub enum Assessed<'a> {
    Sliding(sliding::Assessed<'a>),
    Fixed(fixed::Assessed),
    Leaky(leaky::Assessed),
}

impl<'a> Assessed<'a> {
    /// Asks a limit whether `cost` more units fit under `policy` at `now`. Returns `None` if it is one of another algorithm.
    pub fn of(
        policy: Policy,
        now: Millis,
        cost: u64,
        stored: Option<Stored<'a>>,
    ) -> Result<Option<Assessed<'a>>, Foreign> {
        let Policy { limit, window, algorithm } = policy;
        Ok(Some(match (algorithm, stored) {
            (Algorithm::Sliding { grid }, None | Some(Stored::Sliding(_))) => {
                let ring = if let Some(Stored::Sliding(ring)) = stored { Some(ring) } else { None };
                Assessed::Sliding(sliding::assess(sliding::Policy { limit, window, grid }, now, cost, ring)?)
            }
            (Algorithm::Fixed, None | Some(Stored::Fixed(_))) => {
                let count = if let Some(Stored::Fixed(count)) = stored { Some(count) } else { None };
                Assessed::Fixed(fixed::assess(limit, window, now, cost, count))
            }
            (Algorithm::Leaky, None | Some(Stored::Leaky(_))) => {
                let level = if let Some(Stored::Leaky(level)) = stored { Some(level) } else { None };
                Assessed::Leaky(leaky::assess(limit, window, now, cost, level))
            }
            _ => return Ok(None),
        }))
    }

    /// Whether the units fit.
    pub fn fits(&self) -> bool {
        match self {
            Assessed::Sliding(assessed) => assessed.fits(),
            Assessed::Fixed(assessed) => assessed.fits(),
            Assessed::Leaky(assessed) => assessed.fits(),
        }
    }

    /// Returns what the limit says to one who only asks, and writes nothing: `allowed` tells whether the units would fit. The waits
    /// are those of what is held now: if the window has become shorter, the call that takes may settle that, and wait less.
    pub fn peek(&self) -> Verdict {
        match self {
            Assessed::Sliding(assessed) => assessed.peek(),
            Assessed::Fixed(assessed) => assessed.peek(),
            Assessed::Leaky(assessed) => assessed.peek(),
        }
    }

    /// Takes nothing: returns what the limit says, and the write owed nevertheless. After a change of policy, units held longer than
    /// the new window allows are let go in time.
    pub fn refuse(&self) -> (Verdict, Option<Change>) {
        match self {
            Assessed::Sliding(assessed) => assessed.refuse(),
            Assessed::Fixed(assessed) => assessed.refuse(),
            Assessed::Leaky(assessed) => assessed.refuse(),
        }
    }

    /// Takes the units, also those that do not fit: then the limit is in debt until they have become available again, nothing remains,
    /// and `allowed` and `retry_after` still say what a call that does not force would have been told.
    pub fn charge(&self) -> (Verdict, Option<Change>) {
        match self {
            Assessed::Sliding(assessed) => assessed.charge(),
            Assessed::Fixed(assessed) => assessed.charge(),
            Assessed::Leaky(assessed) => assessed.charge(),
        }
    }

    /// Takes the units if they fit, or if they are `forced`.
    pub fn decide(&self, forced: bool) -> (Verdict, Option<Change>) {
        if forced || self.fits() { self.charge() } else { self.refuse() }
    }
}

#[cfg(test)]
mod tests;
