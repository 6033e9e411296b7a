//! SLIDING: units come back one window after they were taken, in entries of a sorted set.
//!
//! One entry stands for the units that come back at the same millisecond: its score is that moment, its member a
//! [`Run`] of consecutive unit numbers. Units are numbered in the order in which they are taken and come back in the
//! same order, so the runs of neighbouring entries are contiguous and
//!
//! ```text
//! units in use = end of the last entry - start of the first live entry
//! ```
//!
//! which takes two look-ups whatever the costs: no sum, no counter key, no random member names. Numbers begin at 0, and a set
//! of one entry always begins there: by that, among others, a limit is told from other people's sets ([`are_entries`]).

use super::text::{Text, number, split};
use super::{Foreign, Held, MAX_UNITS, RetryAfter, Verdict};
use crate::model::time::{self, Millis};
use std::collections::HashSet;

/// What a key is asked to enforce: never more than `limit` units in any trailing `window`; they come back at a multiple of
/// `grid` ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub limit: u64,
    pub window: Millis,
    pub grid: Millis,
}

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
    pub fn member(self) -> Text {
        match self {
            Run { start, units: 1 } => Text::of("").number(start),
            Run { start, units } => Text::of("").number(start).sign(b':').number(units),
        }
    }
}

/// An entry: a run of units and the moment they come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Millis,
    pub run: Run,
}

impl Entry {
    /// Reads a member and its score.
    pub fn parse(score: f64, member: &[u8]) -> Result<Entry, Foreign> {
        let at = time::ceil_score(score).filter(|&at| time::to_score(at) == score).ok_or(Foreign)?;
        Ok(Entry { at, run: Run::parse(member)? })
    }
}

/// The entries of a limit, in the order of their moments.
pub trait Ledger {
    /// The first entry that comes back at or after `at`.
    fn first_from(&mut self, at: Millis) -> Result<Option<Entry>, Foreign>;

    /// The entry that comes back last.
    fn last(&mut self) -> Result<Option<Entry>, Foreign>;

    /// The entries that come back at or after `at`, in order, `most` of them at the most.
    fn some_from(&mut self, at: Millis, most: usize) -> Result<Vec<Entry>, Foreign>;
}

impl Policy {
    /// The grid by default: exact to the millisecond up to 100 units, above that a hundredth of the window, so that the key
    /// stays within about 100 entries whatever the limit.
    pub fn default_grid(limit: u64, window: Millis) -> Millis {
        if limit <= 100 { 1 } else { window.div_ceil(100) }
    }

    /// The moment at which a unit taken at `now` comes back.
    fn comes_back(&self, now: Millis) -> Millis {
        let at = time::after_at_most(now, self.window);
        let at = if self.grid == 1 { at } else { at.div_ceil(self.grid).saturating_mul(self.grid) };
        at.min(time::MAX)
    }

    /// An upper bound of the entries that can be live while `in_use` units are.
    fn most_entries(&self, in_use: u64) -> u64 {
        in_use.min(self.window / self.grid + 2)
    }
}

/// One write to the sorted set: `run` comes back at `at`, and if `replaces`, every other entry that comes back then or later
/// goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub replaces: bool,
    pub at: Millis,
    pub run: Run,
}

impl Change {
    /// The change if its entry will be the only one: numbers begin at 0.
    pub fn alone(self) -> Change {
        Change { run: Run { start: 0, ..self.run }, ..self }
    }
}

/// Some entries written again: `gone` are members that are no more, `put` members with the moments they come back. No member
/// is in both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rewrite {
    pub gone: Vec<Text>,
    pub put: Vec<(Millis, Text)>,
}

/// Whether these are all entries of a limit, given in the order of their scores: runs that follow each other, at whole
/// moments that grow; a single one begins at 0. And the last one is not numbered by its own moment, as the log of a limiter
/// written by hand is (`ZADD key now now`), whose times may well follow each other, too.
///
/// Such a set of somebody else's must have numbers for members, each the successor of the one before; or a single member, `0`.
pub fn are_entries(entries: impl IntoIterator<Item = Result<Entry, Foreign>>) -> bool {
    let mut count = 0;
    let mut before: Option<Entry> = None;
    for entry in entries {
        let Ok(entry) = entry else { return false };
        if before.is_some_and(|before| before.at >= entry.at || before.run.end() != entry.run.start) {
            return false;
        }
        before = Some(entry);
        count += 1;
    }
    before.is_none_or(|last| last.run.start != last.at && (count > 1 || last.run.start == 0))
}

/// A set of more entries than that is not read as a whole, which one call has no time for.
pub const MOST_READ: u64 = 1000;

/// Of such a set, [`STRETCHES`] stretches of [`STRETCH`] entries are read.
const STRETCHES: u64 = 32;
const STRETCH: usize = 32;

/// As [`are_entries`], for a set of more than [`MOST_READ`]: of its entries, stretches are read at even distances of time. Within a stretch
/// each follows the one before; from one to the next, numbers are further on. `some_from` reads as [`Ledger::some_from`]. O(log N).
pub fn are_entries_here_and_there(
    last: Entry,
    mut some_from: impl FnMut(Millis, usize) -> Result<Vec<Entry>, Foreign>,
) -> bool {
    let Some(first) = some_from(0, 1).ok().and_then(|first| first.first().copied()) else { return false };
    let units_before = |entry: Entry| entry.run.start.wrapping_sub(first.run.start);
    let is_further = |from: Entry, to: Entry| match from.at == to.at {
        true => from == to,
        false => {
            from.at < to.at && units_before(from).checked_add(from.run.units).is_some_and(|end| end <= units_before(to))
        }
    };
    let mut before = first;
    for stretch in 0..STRETCHES {
        let at = first.at + last.at.saturating_sub(first.at) / STRETCHES * stretch;
        let Ok(entries) = some_from(at, STRETCH) else { return false };
        let follow = entries.windows(2).all(|pair| pair[0].at < pair[1].at && pair[0].run.end() == pair[1].run.start);
        if !(follow && entries.first().is_some_and(|&entry| is_further(before, entry) && is_further(entry, last))) {
            return false;
        }
        before = entries[0];
    }
    last.run.start != last.at
}

/// What a limit of entries says to a call for some units.
#[derive(Clone, Copy, Debug)]
pub struct Assessed {
    policy: Policy,
    now: Millis,
    cost: u64,
    in_use: u64,
    /// When the units fit, if not now.
    fits_at: Option<Millis>,
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
    let fits_at = match live {
        Some((first, last)) if cost > 0 && cost <= policy.limit && cost > policy.limit.saturating_sub(in_use) => {
            // `in_use - (limit - cost)` without going below zero on the way, since cost <= limit.
            let needed = in_use.saturating_sub(policy.limit - cost);
            Some(moment_when_back(needed, first, last, ledger)?)
        }
        _ => None,
    };
    let merge_from = match live {
        Some((first, last)) if last.at >= comes_back => {
            let merged = if first.at >= comes_back { Some(first) } else { ledger.first_from(comes_back)? };
            merged.map(|entry| entry.run.start)
        }
        _ => None,
    };
    Ok(Assessed { policy, now, cost, in_use, fits_at, comes_back, last, merge_from })
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

/// The most entries to which one refund gives new numbers, which takes some ms.
pub const MOST_RENUMBERED: usize = 10_000;

/// Why nothing can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unable {
    Foreign,
    /// More than [`MOST_RENUMBERED`] entries come back later.
    TooManyLater,
}

impl From<Foreign> for Unable {
    fn from(_: Foreign) -> Unable {
        Unable::Foreign
    }
}

/// Gives back up to `units` of those that one call took, which come back at `until`: how many, and what is to be written.
/// Never more than are held there. O(log N), and O(M log N) with M the number of entries that come back later, which is bounded.
///
/// Runs must stay contiguous, so all that comes back later gets new numbers. A refund mostly follows soon after its
/// charge, when there is little of that.
pub fn refund(now: Millis, units: u64, until: Millis, ledger: &mut impl Ledger) -> Result<(u64, Rewrite), Unable> {
    let nothing = Ok((0, Rewrite::default()));
    if until <= now || units == 0 {
        return nothing;
    }
    if ledger.first_from(until)?.is_none_or(|held| held.at != until) {
        return nothing;
    }
    let entries = ledger.some_from(until, MOST_RENUMBERED + 2)?;
    let Some((held, later)) = entries.split_first() else { return nothing };
    if later.len() > MOST_RENUMBERED {
        return Err(Unable::TooManyLater);
    }
    let back = units.min(held.run.units);
    let left = Run { units: held.run.units - back, ..held.run };
    let moved = later.iter().map(|entry| (entry.at, Run { start: entry.run.start.wrapping_sub(back), ..entry.run }));
    let put: Vec<_> = std::iter::once((held.at, left))
        .chain(moved)
        .filter(|(_, run)| run.units > 0)
        .map(|(at, run)| (at, run.member()))
        .collect();
    let kept: HashSet<&[u8]> = put.iter().map(|(_, member)| member.as_bytes()).collect();
    let gone: Vec<_> =
        entries.iter().map(|entry| entry.run.member()).filter(|member| !kept.contains(member.as_bytes())).collect();
    Ok((back, Rewrite { gone, put }))
}

/// What of a limit is in use, of which `entries` entries count. O(log N).
pub fn held(now: Millis, entries: u64, ledger: &mut impl Ledger) -> Result<Held, Foreign> {
    let first = ledger.first_from(now + 1)?;
    let last = ledger.last()?.filter(|last| last.at > now);
    Ok(Held {
        units: Some(first.zip(last).map_or(0, |(first, last)| last.run.end().wrapping_sub(first.run.start))),
        entries,
        next_back: first.map(|entry| entry.at),
        all_back: last.map(|entry| entry.at),
    })
}

impl Assessed {
    /// For how long units are held, at the most.
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

    /// See [`super::Assessed::fits`].
    pub fn fits(&self) -> bool {
        self.fits_at.is_none() && self.cost <= self.policy.limit
    }

    /// Everything from `merge_from` on, and `more` units, as one entry that comes back at `comes_back`.
    fn put(&self, more: u64) -> Change {
        let end = self.last.map_or(0, |last| last.run.end());
        let start = self.merge_from.unwrap_or(end);
        let units = end.wrapping_sub(start).saturating_add(more).min(MAX_UNITS);
        Change { replaces: self.merge_from.is_some(), at: self.comes_back, run: Run { start, units } }
    }

    /// What is said when nothing is held after `until`.
    fn verdict(&self, until: Millis) -> Verdict {
        let retry_after = match self.fits_at {
            _ if self.fits() => RetryAfter::Now,
            Some(at) => RetryAfter::Wait(at.min(until) - self.now),
            None => RetryAfter::Never,
        };
        Verdict {
            allowed: self.fits(),
            limit: self.policy.limit,
            remaining: self.free(),
            retry_after,
            reset_after: self.last.map_or(0, |last| last.at.min(until).saturating_sub(self.now)),
            charged_until: 0,
        }
    }

    /// See [`super::Assessed::peek`].
    pub fn peek(&self) -> Verdict {
        self.verdict(time::MAX)
    }

    /// See [`super::Assessed::refuse`].
    pub fn refuse(&self) -> (Verdict, Option<Change>) {
        let overdue = self.last.is_some_and(|last| last.at > self.comes_back);
        (self.verdict(self.comes_back), overdue.then(|| self.put(0)))
    }

    /// See [`super::Assessed::charge`].
    pub fn charge(&self) -> (Verdict, Option<Change>) {
        if self.cost == 0 {
            return self.refuse();
        }
        let verdict = Verdict {
            remaining: self.free().saturating_sub(self.cost),
            reset_after: self.comes_back - self.now,
            charged_until: self.comes_back,
            ..self.verdict(self.comes_back)
        };
        (verdict, Some(self.put(self.cost)))
    }
}

#[cfg(test)]
mod tests;
