//! Rate limits: how many units are in use, whether some more fit, and when they come back.
//!
//! The algorithms differ only in *when a unit comes back*. SLIDING keeps entries in a sorted set ([`sliding`]), FIXED a count
//! ([`fixed`]) and LEAKY a moment ([`leaky`]), each in a string. Every one answers in two steps, so that a call over several
//! limits can ask all of them before it takes from any: *assess* what the limit says now, which changes nothing, then either
//! *charge* the units or *refuse* them. What is to be written is returned, never done here. [`throttle`] is redis-cell's
//! arithmetic, for ZRL.THROTTLE alone.

pub mod fixed;
pub mod leaky;
pub mod marker;
pub mod remembered;
pub mod sketch;
pub mod sliding;
pub mod text;
pub mod throttle;

use super::time::{self, Millis};
use text::Text;

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
    pub entries: u64,
    /// When the next unit comes back, and when all have.
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

/// A limit that is a string, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Fixed(fixed::Count),
    Leaky(leaky::Level),
    Throttle(throttle::Arrival),
}

impl Stored {
    /// Reads a string and the TTL of its key. A string says itself what it is: those of FIXED and LEAKY by a tag in front,
    /// those of THROTTLE by what redis-cell gives them for a TTL, which is asked for only then.
    pub fn parse(text: &[u8], expires_at: impl FnOnce() -> Option<Millis>) -> Result<Stored, Foreign> {
        match text.first() {
            Some(b'f') => fixed::Count::parse(text).map(Stored::Fixed),
            Some(b'l') => leaky::Level::parse(text).map(Stored::Leaky),
            _ => throttle::Arrival::parse(text, expires_at).map(Stored::Throttle),
        }
    }

    pub fn text(self) -> Text {
        match self {
            Stored::Fixed(count) => count.text(),
            Stored::Leaky(level) => level.text(),
            Stored::Throttle(arrival) => arrival.text(),
        }
    }

    /// The TTL (absolute, ms) of the key, which has `before` now: it must not end before the last unit is back.
    ///
    /// The TTL of a busy LEAKY need not follow every unit that is taken: it may outlive the last one by an eighth of the
    /// window, so that it moves eight times a window.
    pub fn expires_at(self, before: Option<Millis>) -> Millis {
        /// The most that a key outlives its last unit by.
        const LINGER: Millis = 20_000;
        match self {
            Stored::Fixed(count) => count.end,
            Stored::Throttle(arrival) => arrival.expires_at(),
            Stored::Leaky(level) => {
                let empty = level.empty_at();
                let latest = empty + (level.window() / 8).min(LINGER);
                before.filter(|before| (empty..=latest).contains(before)).unwrap_or(latest)
            }
        }
    }

    pub fn algorithm(self) -> &'static str {
        match self {
            Stored::Fixed(_) => "fixed",
            Stored::Leaky(_) => "leaky",
            Stored::Throttle(_) => "throttle",
        }
    }

    /// What is in use at `now`.
    pub fn held(self, now: Millis) -> Held {
        match self {
            Stored::Fixed(count) => count.held(now),
            Stored::Leaky(level) => level.held(now),
            Stored::Throttle(arrival) => arrival.held(now),
        }
    }

    /// Gives back up to `units` of those that one call took, which come back at `until`: how many, and what is left. Never
    /// more than are held. THROTTLE has no refund: a negative quantity gives units back.
    pub fn refund(self, now: Millis, units: u64, until: Millis) -> Result<(u64, Option<Stored>), Foreign> {
        match self {
            Stored::Fixed(count) => {
                let (back, left) = count.refund(now, units, until);
                Ok((back, left.map(Stored::Fixed)))
            }
            Stored::Leaky(level) => {
                let (back, left) = level.refund(now, units, until);
                Ok((back, left.map(Stored::Leaky)))
            }
            Stored::Throttle(_) => Err(Foreign),
        }
    }
}

/// What is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// To a sorted set.
    Entry(sliding::Change),
    /// The string becomes this.
    Text(Stored),
}

/// A limit as it is now, and what a call for some units would do to it.
#[derive(Clone, Copy, Debug)]
pub enum Assessed {
    Sliding(sliding::Assessed),
    Fixed(fixed::Assessed),
    Leaky(leaky::Assessed),
}

impl Assessed {
    /// Asks the limit that is a string whether `cost` more units fit under `policy` at `now`. SLIDING is none.
    pub fn of_string(policy: Policy, now: Millis, cost: u64, stored: Option<Stored>) -> Result<Assessed, Foreign> {
        let Policy { limit, window, algorithm } = policy;
        match (algorithm, stored) {
            (Algorithm::Fixed, None) => Ok(Assessed::Fixed(fixed::assess(limit, window, now, cost, None))),
            (Algorithm::Fixed, Some(Stored::Fixed(count))) => {
                Ok(Assessed::Fixed(fixed::assess(limit, window, now, cost, Some(count))))
            }
            (Algorithm::Leaky, None) => Ok(Assessed::Leaky(leaky::assess(limit, window, now, cost, None))),
            (Algorithm::Leaky, Some(Stored::Leaky(level))) => {
                Ok(Assessed::Leaky(leaky::assess(limit, window, now, cost, Some(level))))
            }
            _ => Err(Foreign),
        }
    }

    /// Whether the units fit.
    pub fn fits(&self) -> bool {
        match self {
            Assessed::Sliding(assessed) => assessed.fits(),
            Assessed::Fixed(assessed) => assessed.fits(),
            Assessed::Leaky(assessed) => assessed.fits(),
        }
    }

    /// What the limit says to one who only asks, and writes nothing: `allowed` tells whether the units would fit. The waits
    /// are those of what is held now: if the window has become shorter, the call that takes may settle that, and wait less.
    pub fn peek(&self) -> Verdict {
        match self {
            Assessed::Sliding(assessed) => assessed.peek(),
            Assessed::Fixed(assessed) => assessed.peek(),
            Assessed::Leaky(assessed) => assessed.peek(),
        }
    }

    /// Takes nothing: what the limit says, and the write owed nevertheless. After a change of policy, units held longer than
    /// the new window allows are let go in time.
    pub fn refuse(&self) -> (Verdict, Option<Change>) {
        self.either(sliding::Assessed::refuse, fixed::Assessed::refuse, leaky::Assessed::refuse)
    }

    /// Takes the units, also those that do not fit: then the limit is in debt until they have come back, nothing remains, and
    /// `allowed` and `retry_after` still say what a call that does not force would have been told.
    pub fn charge(&self) -> (Verdict, Option<Change>) {
        self.either(sliding::Assessed::charge, fixed::Assessed::charge, leaky::Assessed::charge)
    }

    /// Takes the units if they fit, or if they are `forced`.
    pub fn decide(&self, forced: bool) -> (Verdict, Option<Change>) {
        if forced || self.fits() { self.charge() } else { self.refuse() }
    }

    fn either(
        &self,
        sliding: impl Fn(&sliding::Assessed) -> (Verdict, Option<sliding::Change>),
        fixed: impl Fn(&fixed::Assessed) -> (Verdict, Option<fixed::Count>),
        leaky: impl Fn(&leaky::Assessed) -> (Verdict, Option<leaky::Level>),
    ) -> (Verdict, Option<Change>) {
        match self {
            Assessed::Sliding(assessed) => {
                let (verdict, change) = sliding(assessed);
                (verdict, change.map(Change::Entry))
            }
            Assessed::Fixed(assessed) => {
                let (verdict, count) = fixed(assessed);
                (verdict, count.map(|count| Change::Text(Stored::Fixed(count))))
            }
            Assessed::Leaky(assessed) => {
                let (verdict, level) = leaky(assessed);
                (verdict, level.map(|level| Change::Text(Stored::Leaky(level))))
            }
        }
    }
}

#[cfg(test)]
mod tests;
