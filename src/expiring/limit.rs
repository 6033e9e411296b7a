//! A rate limit in a sorted set: its entries as the model sees them, and the model's changes as the set sees them.

use super::timed_set::{Member, TimedSet};
use crate::error::Error;
use crate::model::limit::leaky::{Bucket, Level};
use crate::model::limit::window::{Entry, Ledger, Run};
use crate::model::limit::{self, Assessed, Change, Foreign, Rewrite};
use crate::model::marker::{Kind, TOLERANCE};
use crate::model::time::{self, Millis};
use crate::server::key::{Key, Mode};
use crate::server::zset::{Bound, Element, SortedSet};
use crate::server::{Context, OwnedStr, Str};
use std::sync::atomic::{AtomicU64, Ordering};

/// Dead entries wait until so many have gathered: they do not count, so they need not go at once, and one removal for
/// many is cheaper than many.
const TRIM_FROM: u64 = 16;

/// The most entries one call trims. More than one per call on average, so that the dead never gain on the living.
const TRIM_MOST: usize = 32;

/// How far the TTL of a limit may be off when its entries, too, say that it is one. Somebody's own sorted set may well hold
/// small numbers in a row; that its TTL should also follow its highest score so closely is not to be expected.
const LIMIT_TOLERANCE: Millis = 60_000;

impl From<Foreign> for Error {
    fn from(_: Foreign) -> Error {
        Error::OtherAlgorithm
    }
}

/// An open rate limit.
#[must_use = "changes must be committed"]
pub struct LimitSet<'a>(TimedSet<'a>);

impl<'a> LimitSet<'a> {
    /// Opens a rate limit. One whose TTL is off, as it is after a MIGRATE, is told by its entries.
    pub fn open(ctx: Context<'a>, name: Str<'a>, mode: Mode) -> Result<LimitSet<'a>, Error> {
        TimedSet::open(ctx, name, mode, Kind::Limit, |set, highest, ttl| {
            let is_expiring_set = Kind::Expiring.nearly_holds(highest, ttl, TOLERANCE);
            Kind::Limit.nearly_holds(highest, ttl, LIMIT_TOLERANCE) && !is_expiring_set && has_entries_only(set)
        })
        .map(LimitSet)
    }

    /// Writes a change that `assessed` comes to, and lets some of the dead entries go when many must have gathered.
    pub fn apply(&mut self, now: Millis, change: Change, assessed: &Assessed) {
        self.0.holds_for(assessed.window());
        let gone = self.replaced_by(&change);
        self.0.put(Member::Ours(OwnedStr::new(change.member.as_bytes())), change.score);
        for member in gone {
            self.0.remove(Member::Ours(member));
        }
        if self.0.len() >= assessed.live_entries().saturating_add(TRIM_FROM) {
            self.0.trim(now, TRIM_MOST);
        }
    }

    /// The members that a change does away with.
    fn replaced_by(&mut self, change: &Change) -> Vec<OwnedStr> {
        let keeps = |member: &OwnedStr| member.bytes() == change.member.as_bytes();
        let Some(from) = change.replaces_from else { return Vec::new() };
        // A bucket that fills up further keeps its one entry, and that entry its member.
        if self.0.len() == 1 && self.0.last().is_some_and(|last| keeps(&last.member)) {
            return Vec::new();
        }
        let members = self.0.range(Bound::From(from), f64::INFINITY).map(|element| element.member);
        members.filter(|member| !keeps(member)).collect()
    }

    /// Writes entries anew.
    pub fn rewrite(&mut self, rewrite: Rewrite) {
        let ours = |member: &limit::member::Member| Member::Ours(OwnedStr::new(member.as_bytes()));
        for (score, member) in &rewrite.put {
            self.0.put(ours(member), *score);
        }
        for member in &rewrite.gone {
            self.0.remove(ours(member));
        }
    }

    /// See [`TimedSet::commit`]: a denied check, which changed nothing, leaves no trace.
    pub fn commit(self) {
        self.0.commit();
    }
}

static ALLOWED: AtomicU64 = AtomicU64::new(0);
static DENIED: AtomicU64 = AtomicU64::new(0);
static UNITS: AtomicU64 = AtomicU64::new(0);

/// What all limits have said, for INFO.
pub struct Figures {
    pub allowed: u64,
    pub denied: u64,
    /// Units taken.
    pub units: u64,
}

pub fn figures() -> Figures {
    let [allowed, denied, units] = [&ALLOWED, &DENIED, &UNITS].map(|figure| figure.load(Ordering::Relaxed));
    Figures { allowed, denied, units }
}

/// Counts a check: `Some(units taken)` if it was allowed.
pub fn count(taken: Option<u64>) {
    if taken.is_some() { &ALLOWED } else { &DENIED }.fetch_add(1, Ordering::Relaxed);
    UNITS.fetch_add(taken.unwrap_or(0), Ordering::Relaxed);
}

/// Whether a key is a rate limit beyond doubt: by its TTL and by its entries.
pub fn is_limit(ctx: Context<'_>, name: Str<'_>) -> bool {
    let Some(mut set) = SortedSet::new(Key::open(ctx, name, Mode::Read)) else { return false };
    let highest = set.last().map(|last| last.score);
    let ttl = set.key().expires_at();
    highest.is_some_and(|highest| Kind::Limit.holds(highest, ttl)) && has_entries_only(&mut set)
}

/// Whether a sorted set holds what a limit holds and nothing else: contiguous runs in the order of their moments, or one
/// level. O(N); asked only where the TTL does not say it.
fn has_entries_only(set: &mut SortedSet<'_>) -> bool {
    let is_level = |element: &Element| Level::parse(element.member.bytes(), element.score).is_ok();
    if set.len() == 1 && set.last().is_some_and(|last| is_level(&last)) {
        return true;
    }
    let mut before: Option<(f64, Run)> = None;
    set.range(Bound::From(f64::NEG_INFINITY), f64::INFINITY).all(|element| {
        let Ok(run) = Run::parse(element.member.bytes()) else { return false };
        let follows = before.is_none_or(|(score, before)| score < element.score && before.end() == run.start);
        before = Some((element.score, run));
        follows
    })
}

fn entry(element: &Element) -> Result<Entry, Foreign> {
    let at = time::ceil_score(element.score).ok_or(Foreign)?;
    Ok(Entry { at, run: Run::parse(element.member.bytes())? })
}

impl Ledger for LimitSet<'_> {
    fn first_from(&mut self, at: Millis) -> Result<Option<Entry>, Foreign> {
        // With one entry, as most limits have it most of the time, the first is the last, which is at hand.
        if self.0.len() <= 1 {
            return Ok(self.last()?.filter(|last| last.at >= at));
        }
        self.0.first(Bound::From(time::to_score(at))).as_ref().map(entry).transpose()
    }

    fn last(&mut self) -> Result<Option<Entry>, Foreign> {
        self.0.last().map(entry).transpose()
    }

    fn all_from(&mut self, at: Millis) -> Result<Vec<Entry>, Foreign> {
        self.0.range(Bound::From(time::to_score(at)), f64::INFINITY).map(|element| entry(&element)).collect()
    }
}

impl Bucket for LimitSet<'_> {
    fn level(&mut self) -> Result<Option<Level>, Foreign> {
        self.0.last().map(|last| Level::parse(last.member.bytes(), last.score)).transpose()
    }
}
