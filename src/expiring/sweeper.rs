//! Gives back the memory of members that have expired, in slices that no client feels.
//!
//! The [`tracker`] says which set is due, and arms the timer; here is what the timer does. A slice
//! visits the sets that are due, longest overdue first, and ends when its time is up, which is looked at every few dozen
//! deletions. While there is more, the next slice follows after a rest: catching up raises how often slices run, up to a share of
//! one core, never how long one is. A small set in which everything has expired goes in one step.
//!
//! It works only where it may ([`Context::may_write_by_itself`]), and takes the set's own word, at every visit, for what the set
//! is; each member goes by its own score. Before other people's code runs, which is when events are announced, all is done and
//! noted; nothing that was seen before is relied on after it.

use super::announce::announce_members;
use super::timed_set::{CHUNK, TimedSet};
use super::tracker;
use crate::config;
use crate::model::marker::Kind;
use crate::model::place::Place;
use crate::model::time::{self, Millis};
use crate::model::tracking::{Outcome, Pace, visit_at};
use crate::server::context::{self, EventClass};
use crate::server::key::ReadKey;
use crate::server::shared::Shared;
use crate::server::zset::{Bound, SortedSet};
use crate::server::{Context, OwnedStr, Str, survive};
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::time::{Duration, Instant};

/// A set that loses members all the time is visited at most every so often: several at once are cheaper than each alone.
const REVISIT: Millis = 10;

/// Sets of at most that many members, all dead, are removed as a whole, and freed by the server's background thread. Larger
/// ones are drained first: freeing a million members takes that thread a quarter of a second, during which it competes
/// with the server itself for the memory allocator and, where cores are few, for a core. Where members are announced, no
/// more of them go at once than in any other step.
const WHOLE: u64 = 1000;

/// The share of the duty that is left while a child process saves the dataset, since every page written is copied then.
const GENTLY: u32 = 4;

lazy_static! {
    static ref STATE: Shared<Sweeper> = Shared::new(Sweeper::default());
}

#[derive(Default)]
struct Sweeper {
    pace: Pace,
    /// The end of the last slice.
    ended: Option<Instant>,
    figures: Figures,
}

/// What the sweeper has done, for INFO.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    pub members_expired: u64,
    pub sets_expired: u64,
    pub slices: u64,
    pub longest_slice: Duration,
    pub cpu: Duration,
}

pub fn figures(holder: &impl RedisLockIndicator) -> Figures {
    STATE.with(holder, |sweeper| sweeper.figures)
}

/// What the tracker's timer does.
pub(super) fn run_slice(ctx: &mut Context) {
    tracker::begin_slice(ctx);
    crate::server::fault!("timer");
    let (started, cpu) = (Instant::now(), context::cpu_time());
    let budget = config::SWEEP_SLICE.get();
    let is_time_up = || started.elapsed() >= budget;
    if tracker::may_sweep(ctx) {
        while let Some(place) = tracker::next_visit(ctx) {
            if survive(|| visit_set(ctx, &place, is_time_up)).is_none() {
                // The others must not wait for one that we cannot deal with.
                tracker::note_visited(ctx, &place, Outcome::Unknown);
            }
            if is_time_up() {
                break;
            }
        }
    }
    tracker::walk_on(ctx, is_time_up);
    let busy = started.elapsed();
    let cpu = context::cpu_time().saturating_sub(cpu);
    let duty = duty(ctx);
    let rest = STATE.with(ctx, |Sweeper { pace, ended, figures }| {
        figures.slices += 1;
        figures.cpu += cpu;
        figures.longest_slice = figures.longest_slice.max(busy);
        let rested = ended.map_or(Duration::MAX, |ended| started.saturating_duration_since(ended));
        *ended = Some(started + busy);
        // What held the slice up beyond its time, other processes or a machine that stood still, was not work.
        pace.rest(rested, cpu.max(busy.min(budget)), duty)
    });
    tracker::end_slice(ctx, rest);
    // A server whose latency monitor is off, threshold 0, would take a sample of nothing, too.
    if busy >= Duration::from_millis(1) {
        ctx.add_latency(c"zeitset-sweep", u64::try_from(busy.as_millis()).unwrap_or(Millis::MAX));
    }
}

/// The share of the time that slices may take, in percent.
fn duty(ctx: &Context) -> u32 {
    if ctx.has_child() { config::SWEEP_MAX_DUTY.get().div_ceil(GENTLY) } else { config::SWEEP_MAX_DUTY.get() }
}

/// Deletes what has expired in one set, and notes when to come again.
fn visit_set(ctx: &mut Context, place: &Place, is_time_up: impl Fn() -> bool) {
    crate::server::fault!("visit");
    let name = OwnedStr::new(&place.key);
    let name = name.as_str();
    let now = ctx.now();
    if !ctx.select(place.database) || tracker::is_arriving(ctx, name) {
        return tracker::note_visited(ctx, place, Outcome::Gone);
    }
    let is_touched = tracker::is_touched(ctx, name);
    match lowest_to_sweep(ctx, name, is_touched) {
        None => tracker::note_visited(ctx, place, Outcome::Gone),
        Some(first) if first > time::to_score(now) => {
            tracker::note_visited(ctx, place, Outcome::Done(visit_at(first).max(now + REVISIT)));
        }
        // Not ours to change, or not now.
        Some(_) if !ctx.may_change(name) => tracker::note_visited(ctx, place, Outcome::Unknown),
        Some(_) => sweep_set(ctx, place, name, is_touched, is_time_up),
    }
}

/// The lowest score of a set that may be swept, seen without leaving a trace; `None` if there is none of this name.
fn lowest_to_sweep(ctx: &mut Context, name: Str<'_>, is_touched: bool) -> Option<f64> {
    let mut set = SortedSet::new(ReadKey::glance(ctx, name))?;
    let ttl = set.key().expires_at()?;
    let is_ours = is_touched || Kind::Expiring.holds(set.last()?.score, Some(ttl));
    is_ours.then(|| set.first(Bound::From(f64::NEG_INFINITY)))?.map(|first| first.score)
}

/// Deletes what has expired in one set, in which something has.
fn sweep_set(ctx: &mut Context, place: &Place, name: Str<'_>, is_touched: bool, is_time_up: impl Fn() -> bool) {
    let now = ctx.now();
    let opened = TimedSet::to_sweep(ctx, name, is_touched).ok();
    let Some((mut set, highest)) = opened.and_then(|set| set.highest().map(|highest| (set, highest))) else {
        // The server has just removed it.
        return tracker::note_visited(ctx, place, Outcome::Gone);
    };
    let members = set.len();
    let is_all_dead = highest <= time::to_score(now);
    let whole = if config::ANNOUNCE_MEMBERS.get() { CHUNK } else { WHOLE };
    if is_all_dead && members <= whole {
        let mut gone = Vec::new();
        if config::ANNOUNCE_MEMBERS.get() {
            gone.extend(set.range(Bound::From(f64::NEG_INFINITY), f64::INFINITY));
        }
        let ctx = set.unlink();
        announce_members(ctx, name, &gone);
        count_expired(ctx, members, 1);
        tracker::note_visited(ctx, place, Outcome::Gone);
        ctx.notify(EventClass::Generic, c"del", name);
        ctx.notify(EventClass::Module, c"zexp.expired", name);
        return;
    }
    // The last of a set that is all dead are left to be unlinked.
    let spared = if is_all_dead { whole } else { 0 };
    let (ctx, swept) = set.sweep(now, spared, is_time_up);
    count_expired(ctx, swept.gone, u64::from(swept.first.is_none()));
    let outcome = match swept.first {
        None => Outcome::Gone,
        Some(first) if first <= time::to_score(now) => {
            // For INFO only: where counting fails, at least one is left.
            let live = ctx.count_above(name, now);
            let left = live.map_or(1, |live| members.saturating_sub(swept.gone).saturating_sub(live));
            Outcome::Unfinished { due: visit_at(first), left }
        }
        Some(first) => Outcome::Done(visit_at(first).max(now + REVISIT)),
    };
    tracker::note_visited(ctx, place, outcome);
    if outcome == Outcome::Gone {
        ctx.notify(EventClass::Generic, c"del", name);
    }
    if swept.gone > 0 {
        ctx.notify(EventClass::Module, c"zexp.expired", name);
    }
}

fn count_expired(ctx: &Context, members: u64, sets: u64) {
    STATE.with(ctx, |sweeper| {
        sweeper.figures.members_expired += members;
        sweeper.figures.sets_expired += sets;
    });
}
