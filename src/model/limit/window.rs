//! SLIDING and FIXED: units that come back at a moment known when they are taken.
//!
//! One entry stands for the units that come back at the same millisecond: its score is that moment, its member a
//! [`Run`] of consecutive unit numbers. Units are numbered in the order in which they are taken and come back in the
//! same order, so the runs of neighbouring entries are contiguous and
//!
//! ```text
//! units in use = end of the last entry - start of the first live entry
//! ```
//!
//! which takes two look-ups whatever the costs: no sum, no counter key, no random member names.

use super::member::{Member, number, split};
use super::{Algorithm, Change, Foreign, MAX_UNITS, Policy, RetryAfter, Rewrite, Verdict};
use crate::model::time::{self, Millis};
use std::collections::HashSet;

/// Consecutive unit numbers `start .. start + units`. Numbers wrap around at 2^64; only their distances matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub start: u64,
    /// 1 to [`MAX_UNITS`] in every entry.
    pub units: u64,
}

impl Run {
    /// The number after the last one of the run.
    pub fn end(self) -> u64 {
        self.start.wrapping_add(self.units)
    }

    /// Reads a member: `start`, or `start:units` where units is not 1.
    pub fn parse(member: &[u8]) -> Result<Run, Foreign> {
        let Some((start, units)) = split(member, b':') else {
            return Ok(Run { start: number(member)?, units: 1 });
        };
        let run = Run { start: number(start)?, units: number(units)? };
        (2..=MAX_UNITS).contains(&run.units).then_some(run).ok_or(Foreign)
    }

    /// The member that [`parse`](Run::parse) reads back.
    pub fn member(self) -> Member {
        match self {
            Run { start, units: 1 } => Member::format(format_args!("{start}")),
            Run { start, units } => Member::format(format_args!("{start}:{units}")),
        }
    }
}

/// An entry: a run of units and the moment they come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Millis,
    pub run: Run,
}

/// The entries of a limit, in the order of their moments.
pub trait Ledger {
    /// The first entry that comes back at or after `at`.
    fn first_from(&mut self, at: Millis) -> Result<Option<Entry>, Foreign>;

    /// The entry that comes back last.
    fn last(&mut self) -> Result<Option<Entry>, Foreign>;

    /// All entries that come back at or after `at`, in order.
    fn all_from(&mut self, at: Millis) -> Result<Vec<Entry>, Foreign>;
}

impl Policy {
    /// The moment at which a unit taken at `now` comes back (SLIDING and FIXED).
    fn comes_back(&self, now: Millis) -> Millis {
        let at = match self.algorithm {
            Algorithm::Sliding { grid } => now.saturating_add(self.window).div_ceil(grid).saturating_mul(grid),
            Algorithm::Fixed => (now / self.window).saturating_add(1).saturating_mul(self.window),
            Algorithm::Leaky => unreachable!("LEAKY has a level, not a window"),
        };
        at.min(time::MAX)
    }

    /// An upper bound of the entries that can be live while `in_use` units are.
    fn most_entries(&self, in_use: u64) -> u64 {
        match self.algorithm {
            Algorithm::Sliding { grid } => in_use.min(self.window / grid + 2),
            Algorithm::Fixed => in_use.min(2),
            Algorithm::Leaky => 1,
        }
    }
}

/// What a limit of entries says to a call for some units.
#[derive(Clone, Copy, Debug)]
pub struct Assessed {
    policy: Policy,
    now: Millis,
    cost: u64,
    in_use: u64,
    retry_after: RetryAfter,
    /// When a unit taken now comes back; nothing may be held longer than that.
    comes_back: Millis,
    last: Option<Entry>,
    /// The first unit that comes back at `comes_back` or later: from here on, all is one entry at `comes_back`.
    merge_from: Option<u64>,
}

/// Asks `ledger` whether `cost` more units fit under `policy` at `now`.
///
/// O(log N) look-ups: two for most calls; a denied one for more than the first entry gives back searches by bisection.
pub fn assess(policy: Policy, now: Millis, cost: u64, ledger: &mut impl Ledger) -> Result<Assessed, Foreign> {
    let comes_back = policy.comes_back(now);
    let last = ledger.last()?;
    let live = match last {
        Some(last) if last.at > now => ledger.first_from(now + 1)?.map(|first| (first, last)),
        _ => None,
    };
    let in_use = live.map_or(0, |(first, last)| last.run.end().wrapping_sub(first.run.start));
    let retry_after = match live {
        _ if cost > policy.limit => RetryAfter::Never,
        Some((first, last)) if cost > 0 && cost > policy.limit.saturating_sub(in_use) => {
            // `in_use - (limit - cost)` without going below zero on the way, since cost <= limit.
            let needed = in_use.saturating_sub(policy.limit - cost);
            let at = moment_when_back(needed, first, last, ledger)?;
            RetryAfter::Wait(at.min(comes_back) - now)
        }
        _ => RetryAfter::Now,
    };
    let merge_from = match live {
        Some((first, last)) if last.at >= comes_back => {
            let merged = if first.at >= comes_back { Some(first) } else { ledger.first_from(comes_back)? };
            merged.map(|entry| entry.run.start)
        }
        _ => None,
    };
    Ok(Assessed { policy, now, cost, in_use, retry_after, comes_back, last, merge_from })
}

/// The moment at which `needed` units, counted from those of `first`, have come back. `last` gives back enough.
/// Bisects time, not ranks: the module API finds a score in O(log N), but knows no ranks.
fn moment_when_back(needed: u64, first: Entry, last: Entry, ledger: &mut impl Ledger) -> Result<Millis, Foreign> {
    let is_enough = |entry: Entry| entry.run.end().wrapping_sub(first.run.start) >= needed;
    if is_enough(first) {
        return Ok(first.at);
    }
    // Too little has come back at `low`; at `found` it is enough, and no entry lies in `high .. found`.
    let (mut low, mut high, mut found) = (first.at, last.at, last.at);
    while high > low + 1 {
        let middle = low + (high - low) / 2;
        match ledger.first_from(middle)? {
            Some(entry) if !is_enough(entry) => low = entry.at,
            Some(entry) => (high, found) = (middle, entry.at),
            None => high = middle,
        }
    }
    Ok(found)
}

/// See [`super::refund`].
///
/// Runs must stay contiguous, so all that comes back later is numbered anew. A refund mostly follows soon after its
/// charge, when there is little of that.
pub(super) fn refund(
    now: Millis,
    units: u64,
    until: Millis,
    ledger: &mut impl Ledger,
) -> Result<(u64, Rewrite), Foreign> {
    let nothing = Ok((0, Rewrite::default()));
    if until <= now || units == 0 {
        return nothing;
    }
    let entries = ledger.all_from(until)?;
    let Some((held, later)) = entries.split_first().filter(|(held, _)| held.at == until) else { return nothing };
    let back = units.min(held.run.units);
    let left = Run { units: held.run.units - back, ..held.run };
    let moved = later.iter().map(|entry| (entry.at, Run { start: entry.run.start.wrapping_sub(back), ..entry.run }));
    let put: Vec<_> = std::iter::once((held.at, left))
        .chain(moved)
        .filter(|(_, run)| run.units > 0)
        .map(|(at, run)| (time::to_score(at), run.member()))
        .collect();
    let kept: HashSet<&[u8]> = put.iter().map(|(_, member)| member.as_bytes()).collect();
    let gone: Vec<_> =
        entries.iter().map(|entry| entry.run.member()).filter(|member| !kept.contains(member.as_bytes())).collect();
    Ok((back, Rewrite { gone, put }))
}

impl Assessed {
    /// See [`super::Assessed::window`].
    pub fn window(&self) -> Millis {
        self.policy.window
    }

    /// An upper bound of the live entries after the call's units have been taken.
    pub fn live_entries(&self) -> u64 {
        self.policy.most_entries(self.in_use.saturating_add(self.cost))
    }

    fn free(&self) -> u64 {
        self.policy.limit.saturating_sub(self.in_use)
    }

    /// Everything from `merge_from` on, and `more` units, as one entry that comes back at `comes_back`.
    fn put(&self, more: u64) -> Change {
        let end = self.last.map_or(0, |last| last.run.end());
        let start = self.merge_from.unwrap_or(end);
        let units = end.wrapping_sub(start).saturating_add(more);
        let at = time::to_score(self.comes_back);
        Change { replaces_from: self.merge_from.map(|_| at), score: at, member: Run { start, units }.member() }
    }

    /// See [`super::Assessed::verdict`].
    pub fn verdict(&self) -> Verdict {
        let last = self.last.map_or(0, |last| last.at.min(self.comes_back));
        Verdict {
            allowed: self.retry_after == RetryAfter::Now,
            limit: self.policy.limit,
            remaining: self.free(),
            retry_after: self.retry_after,
            reset_after: last.saturating_sub(self.now),
            charged_until: 0,
        }
    }

    /// See [`super::Assessed::settlement`].
    pub fn settlement(&self) -> Option<Change> {
        let overdue = self.last.is_some_and(|last| last.at > self.comes_back);
        overdue.then(|| self.put(0))
    }

    /// See [`super::Assessed::charge`].
    pub fn charge(&self) -> (Verdict, Option<Change>) {
        if self.cost == 0 {
            return (self.verdict(), self.settlement());
        }
        let verdict = Verdict {
            remaining: self.free().saturating_sub(self.cost),
            reset_after: self.comes_back - self.now,
            charged_until: self.comes_back,
            ..self.verdict()
        };
        (verdict, Some(self.put(self.cost)))
    }
}

#[cfg(test)]
mod tests;
