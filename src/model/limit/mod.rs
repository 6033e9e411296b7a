//! Rate limits: how many units are in use, whether some more fit, and when they come back.
//!
//! A limit is a sorted set whose scores are the moments at which units come back; the algorithms differ only in that
//! moment (see [`window`] and [`leaky`]). Every algorithm answers in two steps, so that a call over several limits can
//! ask all of them before it takes from any: *assess* what the limit says now, which changes nothing, then either
//! *charge* the units or leave them. What is to be written is returned as a [`Change`], never done here.

pub mod leaky;
pub mod member;
pub mod window;

use super::time::{self, Millis};
use member::Member;

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

impl Policy {
    /// The grid on which SLIDING rounds by default: exact to the millisecond up to 100 units, above that a hundredth
    /// of the window, so that the key stays within about 100 entries whatever the limit.
    pub fn default_grid(limit: u64, window: Millis) -> Millis {
        if limit <= 100 { 1 } else { window.div_ceil(100) }
    }
}

/// What a caller learns of a limit: the fields of ZRL.CHECK's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the units fit (ZRL.CHECK: have been taken).
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

/// One write to the sorted set of a limit: `member` gets `score`, and every other entry whose score is at or above
/// `replaces_from` goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub replaces_from: Option<f64>,
    pub score: f64,
    pub member: Member,
}

/// Some entries of a limit written anew: `gone` are members that are no more, `put` members with their new scores.
/// No member is in both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rewrite {
    pub gone: Vec<Member>,
    pub put: Vec<(f64, Member)>,
}

/// An entry that is not of the kind the algorithm writes: the set is no limit, or one of another algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// Gives back up to `units` of those that one call took, which come back at `until`. Returns how many, and what is to be
/// written. Never more than are held there: none if they have come back by themselves.
///
/// O(log N), and for SLIDING O(M log N) with M the number of entries that come back later.
pub fn refund(
    now: Millis,
    units: u64,
    until: Millis,
    key: &mut (impl window::Ledger + leaky::Bucket),
) -> Result<(u64, Rewrite), Foreign> {
    match key.level() {
        Ok(Some(level)) => Ok(level.refund(now, units, until)),
        Ok(None) => Ok((0, Rewrite::default())),
        Err(Foreign) => window::refund(now, units, until, key),
    }
}

/// A limit as it is now, and what a call for some units would do to it.
#[derive(Clone, Copy, Debug)]
pub enum Assessed {
    Window(window::Assessed),
    Leaky(leaky::Assessed),
}

/// Asks the limit in `key` whether `cost` more units fit under `policy` at `now`.
pub fn assess(
    policy: Policy,
    now: Millis,
    cost: u64,
    key: &mut (impl window::Ledger + leaky::Bucket),
) -> Result<Assessed, Foreign> {
    Ok(match policy.algorithm {
        Algorithm::Leaky => {
            let rate = leaky::Rate { units: policy.limit, per: policy.window };
            Assessed::Leaky(leaky::assess(policy.limit, rate, now, cost, key.level()?))
        }
        Algorithm::Sliding { .. } | Algorithm::Fixed => Assessed::Window(window::assess(policy, now, cost, key)?),
    })
}

impl Assessed {
    /// What the limit says, nothing taken: `allowed` tells whether the units would fit.
    pub fn verdict(&self) -> Verdict {
        match self {
            Assessed::Window(assessed) => assessed.verdict(),
            Assessed::Leaky(assessed) => assessed.verdict(),
        }
    }

    /// The write owed although nothing is taken: after a change of policy, units held longer than the new window
    /// allows are let go in time.
    pub fn settlement(&self) -> Option<Change> {
        match self {
            Assessed::Window(assessed) => assessed.settlement(),
            Assessed::Leaky(assessed) => assessed.settlement(),
        }
    }

    /// Takes the units. To be called only when the verdict allows it.
    pub fn charge(&self) -> (Verdict, Option<Change>) {
        match self {
            Assessed::Window(assessed) => assessed.charge(),
            Assessed::Leaky(assessed) => assessed.charge(),
        }
    }

    /// For how long units are held, at the most.
    pub fn window(&self) -> Millis {
        match self {
            Assessed::Window(assessed) => assessed.window(),
            Assessed::Leaky(assessed) => assessed.window(),
        }
    }

    /// How many entries count once the units are taken, at the most, as long as one policy wrote them.
    pub fn live_entries(&self) -> u64 {
        match self {
            Assessed::Window(assessed) => assessed.live_entries(),
            Assessed::Leaky(_) => 1,
        }
    }
}
