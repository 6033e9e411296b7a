//! Gives back the memory of members that have expired, in slices that no client feels.
//!
//! What is tracked, and when to look next, is [`Tracking`]'s to say; this file obeys it, with the server's timer and keys. A slice
//! visits the sets that are due, longest overdue first, and ends when its time is up, which is looked at every few dozen
//! deletions. While there is more, the next slice follows after a rest: catching up raises how often slices run, up to a share of
//! one core, never how long one is. A small set in which everything has expired goes in one step.
//!
//! It works only where it may ([`Context::may_write_by_itself`]), and takes the set's own word, at every visit, for what the set
//! is; each member goes by its own score. Before other people's code runs, which is when events are announced, all is done and
//! noted; nothing that was seen before is relied on after it.

use super::announce::announce;
use super::patrol::Patrol;
use super::timed_set::{CHUNK, TimedSet};
use crate::config;
use crate::model::marker::Kind;
use crate::model::time::{self, Millis};
use crate::model::tracking::{Arrival, Need, Outcome, Pace, Place, Tracking, visit_at};
use crate::server::context::{self, EventClass};
use crate::server::key::ReadKey;
use crate::server::shared::Shared;
use crate::server::slots::{self, Range};
use crate::server::timer::Timer;
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
    static ref SWEEPER: Shared<Sweeper> = Shared::new(Sweeper::default());
    static ref TIMER: Timer = Timer::new(run_slice);
}

#[derive(Default)]
struct Sweeper {
    tracking: Tracking,
    patrol: Patrol,
    /// Slots whose keys are still arriving: sets in them are not ours yet, and not tracked.
    arriving: Vec<Range>,
    /// Those among them whose keys are here, while the walk goes on that forgets what was known of the slots before.
    arrived: Vec<Range>,
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

/// How things stand, for INFO. A replica deletes nothing by itself, and so has no backlog and no lag of its own.
pub struct Status {
    pub figures: Figures,
    pub sets_tracked: usize,
    pub sets_overdue: usize,
    /// Dead members that are known to wait, in the set under way.
    pub backlog: u64,
    /// For how long the member that waits longest has been dead.
    pub lag: Millis,
    pub timer_armed: bool,
    pub patrols_completed: u64,
}

pub fn status(holder: &impl RedisLockIndicator) -> Status {
    let (now, is_master) = (context::now(), context::is_master());
    SWEEPER.with(holder, |Sweeper { tracking, patrol, figures, .. }| Status {
        figures: *figures,
        sets_tracked: tracking.len(),
        sets_overdue: if is_master { tracking.overdue(now) } else { 0 },
        backlog: if is_master { tracking.backlog() } else { 0 },
        lag: if is_master { tracking.lag(now) } else { 0 },
        timer_armed: tracking.is_armed(),
        patrols_completed: patrol.completed(),
    })
}

/// Notes that a command has changed a set: members expire from `soonest` on.
pub(super) fn note(ctx: &Context, name: Str<'_>, soonest: Option<Millis>, is_new: bool) {
    change(ctx, |tracking, database| tracking.change(database, name.bytes(), soonest, is_new));
}

/// Notes that a set is gone.
pub(super) fn forget(ctx: &Context, database: i32, name: Str<'_>) {
    SWEEPER.with(ctx, |sweeper| sweeper.tracking.forget(database, name.bytes()));
}

/// What a key is to the sweeper.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its slot is still arriving.
    Arriving,
    Tracked,
    Unknown,
}

pub(super) fn standing(ctx: &Context, name: Str<'_>) -> Standing {
    SWEEPER.with(ctx, |sweeper| {
        if sweeper.is_arriving(name.bytes()) {
            Standing::Arriving
        } else if !sweeper.tracking.is_empty() && sweeper.tracking.is_tracked(ctx.database(), name.bytes()) {
            Standing::Tracked
        } else {
            Standing::Unknown
        }
    })
}

/// Notes that somebody may have changed a set by plain commands, if it is tracked.
pub(super) fn touch(ctx: &mut Context, name: Str<'_>) {
    let (database, key) = (ctx.database(), name.bytes());
    let is_news = SWEEPER.with(ctx, |sweeper| sweeper.tracking.is_untouched(database, key));
    if is_news {
        let ttl = ReadKey::glance(ctx, name).expires_at();
        SWEEPER.with(ctx, |sweeper| sweeper.tracking.touch(database, key, ttl));
    }
}

/// Notes that a set goes from one place to another: RENAME and MOVE announce both, one after the other.
pub(super) fn leave(ctx: &Context, name: Str<'_>) {
    let database = ctx.database();
    SWEEPER.with(ctx, |sweeper| sweeper.tracking.leave(database, name.bytes()));
}

/// Notes that what RENAME has taken from another place is here.
pub(super) fn arrive(ctx: &Context, name: Str<'_>) -> Arrival {
    let database = ctx.database();
    let arrival = SWEEPER.with(ctx, |Sweeper { tracking, patrol, .. }| {
        // A walk that is not everywhere yet may have missed it.
        if patrol.is_hurrying() { Arrival::Unclear } else { tracking.arrive(database, name.bytes()) }
    });
    if arrival == Arrival::Noted {
        // It may be due soon.
        change(ctx, |_, _| ());
    }
    arrival
}

/// Whether a set of this TTL that has just come to its place by RENAME or MOVE was changed by plain commands where it comes from,
/// and not healed since.
pub(super) fn left_touched(ctx: &Context, ttl: Option<Millis>) -> bool {
    SWEEPER.with(ctx, |sweeper| sweeper.tracking.left_touched(ttl))
}

/// Some of the sets of this TTL that plain commands have changed, and that were not healed since.
pub(super) fn touched_with(ctx: &Context, ttl: Millis) -> Vec<Place> {
    SWEEPER.with(ctx, |sweeper| {
        let mut places = sweeper.tracking.touched_with(ttl);
        places.retain(|place| !sweeper.is_arriving(&place.key));
        places
    })
}

/// Notes that the marker of a set that is ours beyond doubt is off, and has to be set again.
pub(super) fn heal(ctx: &Context, database: i32, name: Str<'_>) {
    change(ctx, |tracking, _| tracking.mend(database, name.bytes()));
}

pub(super) fn is_touched(ctx: &Context, name: Str<'_>) -> bool {
    let (database, key) = (ctx.database(), name.bytes());
    SWEEPER.with(ctx, |sweeper| sweeper.tracking.is_touched(database, key) && !sweeper.is_arriving(key))
}

/// Changes what is tracked, and arms the timer for what is due then.
pub(super) fn change<R>(ctx: &Context, change: impl FnOnce(&mut Tracking, i32) -> R) -> R {
    let database = ctx.database();
    SWEEPER.with(ctx, |sweeper| {
        let result = change(&mut sweeper.tracking, database);
        let Sweeper { tracking, patrol, .. } = sweeper;
        TIMER.set(ctx, tracking.after_change(context::now(), || need(ctx, patrol.is_hurrying())));
        result
    })
}

/// Begins to walk through all keys as fast as slices allow: the dataset is new to us.
pub fn patrol_now(ctx: &Context) {
    SWEEPER.with(ctx, |sweeper| {
        sweeper.patrol.hurry();
        sweeper.attend(ctx);
    });
}

/// Lets the sets in some slots be, whose keys begin to arrive.
pub(super) fn keep_off(ctx: &Context, slots: &[Range]) {
    SWEEPER.with(ctx, |sweeper| {
        sweeper.arriving.extend_from_slice(slots);
        sweeper.arrived.retain(|range| !slots.contains(range));
        // There may be entries of sets that once were here. They are forgotten in slices; until then nobody heeds them.
        sweeper.tracking.begin_to_forget();
        sweeper.attend(ctx);
    });
}

/// The keys of some slots have arrived, or will not come. Nothing of them was noted meanwhile: the patrol finds the sets, once
/// all is forgotten that was known of the slots before.
pub(super) fn take_over(ctx: &Context, slots: &[Range]) {
    SWEEPER.with(ctx, |sweeper| {
        sweeper.arrived.extend_from_slice(slots);
        sweeper.forget_on(|| true);
        sweeper.attend(ctx);
    });
}

/// The server's housekeeping: sets that plain commands changed get their marker back, the patrol takes a few steps, and what
/// else changed is followed: the clock, a setting, the role.
pub(super) fn on_cron(ctx: &mut Context) {
    TIMER.catch_up(ctx);
    heal_touched(ctx);
    SWEEPER.with(ctx, |sweeper| {
        if !ctx.is_loading() {
            let Sweeper { patrol, tracking, .. } = sweeper;
            patrol.stroll(ctx, tracking);
        }
        sweeper.tracking.free_some();
        sweeper.attend(ctx);
    });
}

/// Sets the markers again of sets that plain commands changed. This deletes nothing, so it is done with sweeping switched off,
/// too: a set whose TTL is that of a former last member would go with it, and take its living members along.
fn heal_touched(ctx: &mut Context) {
    let started = Instant::now();
    let mut last = None;
    while started.elapsed() < config::SWEEP_SLICE.get() {
        let Some(place) = SWEEPER.with(ctx, |sweeper| sweeper.tracking.next_touched(last.as_ref())) else { return };
        if !ctx.may_write_by_itself() {
            return;
        }
        if survive(|| heal_set(ctx, &place)) != Some(true) {
            // Not now. The set is an expiring set, so it is not given up.
            let now = ctx.now();
            SWEEPER.with(ctx, |sweeper| sweeper.tracking.mend_later(&place, now));
        }
        last = Some(place);
    }
}

/// Sets the marker of a touched set again, and notes when it is next worth a visit. `false` if this server may not do it now.
fn heal_set(ctx: &mut Context, place: &Place) -> bool {
    crate::server::fault!("heal");
    let Place { database, key } = place;
    let name = OwnedStr::new(key);
    let is_arriving = SWEEPER.with(ctx, |sweeper| sweeper.is_arriving(key));
    if is_arriving || !(ctx.select(*database) && look(ctx, name.as_str(), true).is_some()) {
        // Not ours, or gone, or of another type, or without a TTL: PERSIST is somebody's word.
        SWEEPER.with(ctx, |sweeper| sweeper.tracking.forget(*database, key));
        return true;
    }
    if !ctx.may_change(name.as_str()) {
        return false;
    }
    let Ok(mut set) = TimedSet::to_sweep(ctx, name.as_str(), true) else { return false };
    let (lowest, highest) = (set.lowest(), set.highest());
    let due = lowest.map(visit_at);
    let is_past = highest.and_then(|highest| Kind::Expiring.ttl(highest)).is_some_and(|ttl| ttl <= context::now());
    let (ctx, news) = if is_past { (set.close(), None) } else { set.commit_quietly() };
    change(ctx, |tracking, _| match due {
        None => tracking.forget(*database, key),
        Some(due) if is_past => tracking.give_up(*database, key, due),
        Some(due) => tracking.mended(*database, key, due),
    });
    if let Some(news) = news {
        news.announce(ctx, name.as_str());
    }
    true
}

/// Stops for good, before the module goes.
pub fn stop(ctx: &Context) {
    SWEEPER.with(ctx, |sweeper| sweeper.tracking.stopped());
    TIMER.disarm(ctx);
}

/// What there may be to do now.
fn need(ctx: &Context, hurries: bool) -> Need {
    Need { sweeps: config::SWEEP.get() && ctx.may_write_by_itself(), hurries }
}

impl Sweeper {
    fn is_arriving(&self, key: &[u8]) -> bool {
        slots::hold(&self.arriving, key)
    }

    /// Whether there is something to do that is not due at some moment.
    fn hurries(&self) -> bool {
        self.patrol.is_hurrying() || self.tracking.is_forgetting()
    }

    /// Forgets what was known of arriving slots until time is up. Once that is done, those whose keys are here are the patrol's.
    fn forget_on(&mut self, is_time_up: impl Fn() -> bool) {
        let Sweeper { tracking, arriving, arrived, patrol, .. } = self;
        while tracking.is_forgetting() && !is_time_up() {
            tracking.forget_some(|key| slots::hold(arriving, key));
        }
        if !arrived.is_empty() && !tracking.is_forgetting() {
            arriving.retain(|range| !arrived.contains(range));
            arrived.clear();
            patrol.hurry();
        }
    }

    /// Arms the timer for what there is to do next, be that later than what it is armed for, or nothing.
    fn attend(&mut self, ctx: &Context) {
        let need = need(ctx, self.hurries());
        TIMER.set(ctx, self.tracking.at_cron(context::now(), need));
    }
}

/// What the timer does.
fn run_slice(ctx: &mut Context) {
    SWEEPER.with(ctx, |sweeper| sweeper.tracking.fired());
    crate::server::fault!("timer");
    let (started, cpu) = (Instant::now(), context::cpu_time());
    let budget = config::SWEEP_SLICE.get();
    let is_time_up = || started.elapsed() >= budget;
    if config::SWEEP.get() && ctx.may_write_by_itself() {
        while let Some(place) = next_place(ctx) {
            if survive(|| visit(ctx, &place, is_time_up)).is_none() {
                // The others must not wait for one that we cannot deal with.
                note_visit(ctx, &place, Outcome::Unknown);
            }
            if is_time_up() {
                break;
            }
        }
    }
    let busy = SWEEPER.with(ctx, |sweeper| {
        sweeper.forget_on(is_time_up);
        let Sweeper { patrol, tracking, figures, .. } = sweeper;
        patrol.hurry_on(ctx, tracking, is_time_up);
        let busy = started.elapsed();
        figures.slices += 1;
        figures.cpu += context::cpu_time().saturating_sub(cpu);
        figures.longest_slice = figures.longest_slice.max(busy);
        let need = need(ctx, sweeper.hurries());
        let rested = sweeper.ended.map_or(Duration::MAX, |ended| started.saturating_duration_since(ended));
        let rest = sweeper.pace.rest(rested, busy, duty(ctx));
        sweeper.ended = Some(started + busy);
        TIMER.set(ctx, sweeper.tracking.after_slice(context::now(), rest, need));
        busy
    });
    // A server whose latency monitor is off, threshold 0, would take a sample of nothing, too.
    if busy >= Duration::from_millis(1) {
        ctx.add_latency(c"zeitset-sweep", u64::try_from(busy.as_millis()).unwrap_or(Millis::MAX));
    }
}

/// The share of the time that slices may take, in percent.
fn duty(ctx: &Context) -> u32 {
    if ctx.has_child() { config::SWEEP_MAX_DUTY.get().div_ceil(GENTLY) } else { config::SWEEP_MAX_DUTY.get() }
}

/// The set whose visit is due longest.
fn next_place(ctx: &Context) -> Option<Place> {
    SWEEPER.with(ctx, |sweeper| sweeper.tracking.next_visit(context::now()))
}

fn note_visit(ctx: &Context, place: &Place, outcome: Outcome) {
    SWEEPER.with(ctx, |sweeper| sweeper.tracking.visited(place, outcome, context::now()));
}

/// Deletes what has expired in one set, and notes when to come again.
fn visit(ctx: &mut Context, place: &Place, is_time_up: impl Fn() -> bool) {
    crate::server::fault!("visit");
    let name = OwnedStr::new(&place.key);
    let name = name.as_str();
    let now = ctx.now();
    if !ctx.select(place.database) {
        return note_visit(ctx, place, Outcome::Gone);
    }
    if standing(ctx, name) == Standing::Arriving {
        return note_visit(ctx, place, Outcome::Gone);
    }
    let is_touched = is_touched(ctx, name);
    match look(ctx, name, is_touched) {
        None => note_visit(ctx, place, Outcome::Gone),
        Some(first) if first > time::to_score(now) => {
            note_visit(ctx, place, Outcome::Done(visit_at(first).max(now + REVISIT)));
        }
        // Not ours to change, or not now.
        Some(_) if !ctx.may_change(name) => note_visit(ctx, place, Outcome::Unknown),
        Some(_) => sweep_set(ctx, place, name, is_touched, is_time_up),
    }
}

/// The lowest score of a set that may be swept, seen without leaving a trace; `None` if there is none of this name.
fn look(ctx: &mut Context, name: Str<'_>, is_touched: bool) -> Option<f64> {
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
        return note_visit(ctx, place, Outcome::Gone);
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
        announce(ctx, name, &gone);
        count_expired(ctx, members, 1);
        note_visit(ctx, place, Outcome::Gone);
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
            let left = live.map_or(1, |live| (members - swept.gone).saturating_sub(live));
            Outcome::Unfinished { due: visit_at(first), left }
        }
        Some(first) => Outcome::Done(visit_at(first).max(now + REVISIT)),
    };
    note_visit(ctx, place, outcome);
    if outcome == Outcome::Gone {
        ctx.notify(EventClass::Generic, c"del", name);
    }
    if swept.gone > 0 {
        ctx.notify(EventClass::Module, c"zexp.expired", name);
    }
}

fn count_expired(ctx: &Context, members: u64, sets: u64) {
    SWEEPER.with(ctx, |sweeper| {
        sweeper.figures.members_expired += members;
        sweeper.figures.sets_expired += sets;
    });
}
