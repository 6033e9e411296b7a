//! Gives back the memory of members that have expired, in slices that no client feels.
//!
//! One timer is armed for the moment at which the next member of any set is due; with nothing due, none. A slice visits the
//! sets that are due, longest overdue first, and ends when its time is up, which is looked at every few dozen deletions.
//! While there is more, the next slice follows after a rest: catching up raises how often slices run, up to a share of
//! one core, never how long one is. A small set in which everything has expired goes in one step.
//!
//! It works only where it may ([`Context::may_write_by_itself`]), and takes the set's own word, at every visit, for
//! what the set is and what has expired.

use super::index::{Index, NEVER, Place, visit_at};
use super::patrol::{Patrol, next_visit};
use super::timed_set::TimedSet;
use crate::config;
use crate::error::Error;
use crate::model::marker::Kind;
use crate::model::time::{self, Millis};
use crate::server::context::{self, EventClass};
use crate::server::key::{Key, Mode};
use crate::server::shared::Shared;
use crate::server::slots::{self, Range};
use crate::server::timer::{Task, Timer};
use crate::server::zset::SortedSet;
use crate::server::{Context, OwnedStr, Str, survive};
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A set that loses members all the time is visited at most every so often: several at once are cheaper than each alone.
const REVISIT: Millis = 10;

/// Sets of at most so many members, all dead, are removed as a whole, and freed by the server's background thread. Larger
/// ones are drained first: freeing a million members takes that thread a quarter of a second, during which it competes
/// with the server itself for the memory allocator and, where cores are few, for a core.
const WHOLE: u64 = 1000;

/// How long to wait before looking again whether writes are allowed.
const PAUSED: Millis = 100;

/// The share of the duty that is left while a child process saves the dataset, since every page written is copied then.
const GENTLY: u32 = 4;

lazy_static! {
    static ref SWEEPER: Shared<Sweeper> = Shared::new(Sweeper::default());
}

/// Set while we announce our own changes, which are no news to us.
static ANNOUNCING: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Sweeper {
    index: Index,
    /// The armed timer, and when it fires.
    timer: Option<(Timer, Millis)>,
    patrol: Patrol,
    /// The TTL of a set that left its place touched and not yet healed: by it the set is known at its new place.
    leaving: Option<Millis>,
    /// Slots whose keys are still arriving: sets in them are not ours yet, and not in the index.
    arriving: Vec<Range>,
    /// The set whose last visit could not finish, and how many dead members were left.
    unfinished: Option<(Place, u64)>,
    figures: Figures,
}

/// What the sweeper has done, for INFO.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    pub members_expired: u64,
    pub sets_expired: u64,
    pub slices: u64,
    pub longest_slice: Duration,
    pub busy: Duration,
}

/// How things stand, for INFO.
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

pub fn status(holder: impl RedisLockIndicator) -> Status {
    let now = context::now();
    SWEEPER.with(holder, |sweeper| Status {
        figures: sweeper.figures,
        sets_tracked: sweeper.index.len(),
        sets_overdue: sweeper.index.overdue(now),
        backlog: sweeper.backlog(),
        lag: sweeper.index.next_due().map_or(0, |due| now.saturating_sub(due)),
        timer_armed: sweeper.timer.is_some(),
        patrols_completed: sweeper.patrol.completed(),
    })
}

/// Runs `announce`, which tells the world of our own changes.
pub(super) fn while_we_announce(announce: impl FnOnce()) {
    /// Also after a panic: else we would be deaf to everybody's changes from then on.
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            ANNOUNCING.store(false, Ordering::Relaxed);
        }
    }
    ANNOUNCING.store(true, Ordering::Relaxed);
    let _done = Done;
    announce();
}

pub(super) fn is_announcing() -> bool {
    ANNOUNCING.load(Ordering::Relaxed)
}

/// Notes that a command has changed a set: members expire from `soonest` on. Of a set that was there before and is not
/// tracked we do not know what else is in it, so it is visited at once.
pub(super) fn note(ctx: Context<'_>, name: Str<'_>, soonest: Option<Millis>, is_new: bool) {
    let soonest = soonest.filter(|&soonest| soonest < time::MAX).unwrap_or(NEVER);
    change(ctx, |index, database| {
        if !index.hasten(database, name.bytes(), soonest) {
            index.track(database, name.bytes(), if is_new { soonest } else { ctx.now() });
        }
    });
}

/// Notes that a set is gone.
pub(super) fn forget(ctx: Context<'_>, name: Str<'_>) {
    change(ctx, |index, database| index.forget(database, name.bytes()));
}

/// Notes that somebody may have changed a set by plain commands, if it is tracked. `ttl` asks for its TTL.
pub(super) fn touch(ctx: Context<'_>, name: Str<'_>, ttl: impl FnOnce() -> Option<Millis>) {
    let (database, key) = (ctx.database(), name.bytes());
    let is_news = SWEEPER.with(ctx, |sweeper| sweeper.index.is_untouched(database, key));
    if is_news {
        let ttl = ttl();
        SWEEPER.with(ctx, |sweeper| sweeper.index.touch(database, key, ttl));
    }
}

/// Notes that a set goes from one place to another: RENAME and MOVE announce both, one after the other.
pub(super) fn leave(ctx: Context<'_>, name: Str<'_>) {
    let (database, key) = (ctx.database(), name.bytes());
    SWEEPER.with(ctx, |Sweeper { index, leaving, .. }| {
        *leaving = index.touched_ttl(database, key);
        index.forget(database, key);
    });
}

/// Whether a set of this TTL that has just come to its place was changed by plain commands where it comes from, and has not
/// been healed since.
pub(super) fn is_unhealed(ctx: Context<'_>, ttl: Option<Millis>) -> bool {
    let Some(ttl) = ttl else { return false };
    // On a replica nothing is healed, and much may be touched; what is healed on the master comes along.
    let is_master = ctx.is_master();
    SWEEPER.with(ctx, |Sweeper { index, leaving, .. }| {
        leaving.take() == Some(ttl) || (is_master && index.has_touched_ttl(ttl))
    })
}

/// Notes that the marker of a set that is ours beyond doubt is off, and has to be set again.
pub(super) fn heal(ctx: Context<'_>, database: i32, name: Str<'_>) {
    change(ctx, |index, _| {
        if !index.touch(database, name.bytes(), None) {
            index.track(database, name.bytes(), NEVER);
            index.touch(database, name.bytes(), None);
        }
    });
}

pub(super) fn is_touched(ctx: Context<'_>, name: Str<'_>) -> bool {
    let database = ctx.database();
    SWEEPER.with(ctx, |sweeper| sweeper.index.is_touched(database, name.bytes()))
}

/// Changes the index, and arms the timer for what is due then.
pub(super) fn change<R>(ctx: Context<'_>, change: impl FnOnce(&mut Index, i32) -> R) -> R {
    let database = ctx.database();
    SWEEPER.with(ctx, |sweeper| {
        let result = change(&mut sweeper.index, database);
        sweeper.arm(ctx);
        result
    })
}

/// Begins to walk through all keys as fast as slices allow: the dataset is new to us.
pub fn patrol_now(ctx: Context<'_>) {
    SWEEPER.with(ctx, |sweeper| {
        sweeper.patrol.hurry();
        sweeper.arm(ctx);
    });
}

/// Lets the sets in some slots be, whose keys begin to arrive.
pub(super) fn keep_off(ctx: Context<'_>, slots: &[Range]) {
    SWEEPER.with(ctx, |Sweeper { arriving, index, .. }| {
        arriving.extend_from_slice(slots);
        // There may be entries of sets that once were here.
        index.forget_where(|place| slots::hold(slots, &place.key));
    });
}

/// Whether the key is still arriving.
pub(super) fn is_arriving(ctx: Context<'_>, name: Str<'_>) -> bool {
    SWEEPER.with(ctx, |sweeper| slots::hold(&sweeper.arriving, name.bytes()))
}

/// The keys of some slots have arrived, or will not come. Nothing of them was noted meanwhile: the patrol finds the sets.
pub(super) fn take_over(ctx: Context<'_>, slots: &[Range]) {
    SWEEPER.with(ctx, |sweeper| sweeper.arriving.retain(|range| !slots.contains(range)));
    patrol_now(ctx);
}

/// The server's housekeeping: sets that plain commands changed get their marker back, the patrol takes a few steps, and what
/// else changed is followed (a setting, the role).
pub(super) fn on_cron(ctx: Context<'_>) {
    heal_touched(ctx);
    look_ahead(ctx);
    SWEEPER.with(ctx, |sweeper| {
        if !ctx.is_loading() {
            let Sweeper { patrol, index, .. } = sweeper;
            patrol.stroll(ctx, index);
        }
        if config::sweeps() && ctx.is_master() {
            sweeper.arm_anew(ctx);
        } else if !sweeper.patrol.is_hurrying() {
            sweeper.disarm(ctx);
        }
    });
}

/// Looks whether what is due next is still to come then. Commands note members that expire sooner, not those that went or got
/// more time; so this is what disarms a timer that is armed for nothing.
fn look_ahead(ctx: Context<'_>) {
    let Some((place, due)) = SWEEPER.with(ctx, |sweeper| sweeper.index.first()) else { return };
    if due == NEVER || due <= ctx.now() || !ctx.select(place.database) {
        return;
    }
    let name = OwnedStr::new(&place.key);
    let set = SortedSet::new(Key::open(ctx, name.as_str(), Mode::Glance));
    let next = set.and_then(|mut set| next_visit(&mut set));
    if let Some(later) = next.filter(|&later| later > due) {
        SWEEPER.with(ctx, |sweeper| sweeper.index.reschedule(place.database, &place.key, later));
    }
}

/// Sets the markers again of sets that plain commands changed. This deletes nothing, so it is done with sweeping switched off,
/// too: a set whose TTL is that of a former last member would go with it, and take its living members along.
fn heal_touched(ctx: Context<'_>) {
    let started = Instant::now();
    while started.elapsed() < config::slice() {
        let Some(place) = SWEEPER.with(ctx, |sweeper| sweeper.index.first_touched()) else { return };
        if !ctx.may_write_by_itself() {
            return;
        }
        let is_healed = ctx.select(place.database) && matches!(survive(|| heal_set(ctx, &place)), Some(Ok(())));
        if !is_healed {
            SWEEPER.with(ctx, |sweeper| sweeper.index.forget(place.database, &place.key));
        }
    }
}

/// Sets the marker of a touched set again, and notes when it is next worth a visit.
fn heal_set(ctx: Context<'_>, place: &Place) -> Result<(), Error> {
    crate::server::fault!("heal");
    let name = OwnedStr::new(&place.key);
    let mut set = TimedSet::to_sweep(ctx, name.as_str(), true)?;
    let next = set.lowest().map(visit_at);
    let is_past = set.highest().and_then(|highest| Kind::Expiring.ttl(highest, 0)).is_some_and(|ttl| ttl <= ctx.now());
    if !is_past {
        set.commit();
    }
    change(ctx, |index, _| match next {
        None => index.forget(place.database, &place.key),
        Some(due) => {
            index.track(place.database, &place.key, due);
            if is_past {
                index.give_up(place.database, &place.key);
            }
        }
    });
    Ok(())
}

/// Stops for good, before the module goes.
pub fn stop(ctx: Context<'_>) {
    SWEEPER.with(ctx, |sweeper| sweeper.disarm(ctx));
}

impl Sweeper {
    fn backlog(&self) -> u64 {
        let is_there = |place: &Place| self.index.contains(place.database, &place.key);
        self.unfinished.as_ref().filter(|(place, _)| is_there(place)).map_or(0, |&(_, left)| left)
    }

    /// Arms the timer for the moment at which there is something to do, if it is not armed for an earlier one already.
    fn arm(&mut self, ctx: Context<'_>) {
        let is_armed_for = |due: Millis| self.timer.as_ref().is_some_and(|&(_, at)| at <= due);
        let due = match self.index.next_due() {
            _ if self.patrol.is_hurrying() => 0,
            Some(due) if is_armed_for(due) => return,
            Some(due) if config::sweeps() && ctx.is_master() => due,
            _ => return,
        };
        // What is overdue already waits for a timer that is armed.
        let now = ctx.now();
        if !is_armed_for(due.max(now + 1)) {
            self.arm_in(ctx, due.saturating_sub(now).max(1));
        }
    }

    /// Arms the timer for what is due next, be that later than what it is armed for, or nothing.
    fn arm_anew(&mut self, ctx: Context<'_>) {
        let is_for_nothing = |at: Millis| self.index.next_due().is_none_or(|due| due > at);
        if !self.patrol.is_hurrying() && self.timer.as_ref().is_some_and(|&(_, at)| is_for_nothing(at)) {
            self.disarm(ctx);
        }
        self.arm(ctx);
    }

    fn arm_in(&mut self, ctx: Context<'_>, delay: Millis) {
        self.disarm(ctx);
        let at = ctx.now() + delay;
        self.timer = Some((Timer::arm::<Slice>(ctx, delay), at));
    }

    fn disarm(&mut self, ctx: Context<'_>) {
        if let Some((timer, _)) = self.timer.take() {
            timer.stop(ctx);
        }
    }
}

/// What the timer does.
struct Slice;

impl Task for Slice {
    fn run(ctx: Context<'_>) {
        // The timer has fired: from here on it is not to be stopped any more.
        SWEEPER.with(ctx, |sweeper| sweeper.timer = None);
        crate::server::fault!("timer");
        let started = Instant::now();
        let budget = config::slice();
        let is_time_up = || started.elapsed() >= budget;
        if config::sweeps() && ctx.may_write_by_itself() {
            while let Some(place) = next_place(ctx) {
                if survive(|| visit_set(ctx, &place, is_time_up)).is_none() {
                    // The others must not wait for one that we cannot deal with; the patrol will come by it again.
                    SWEEPER.with(ctx, |sweeper| sweeper.index.forget(place.database, &place.key));
                }
                if is_time_up() {
                    break;
                }
            }
        }
        let busy = SWEEPER.with(ctx, |sweeper| {
            let Sweeper { patrol, index, .. } = sweeper;
            patrol.hurry_on(ctx, index, is_time_up);
            let busy = started.elapsed();
            sweeper.figures.slices += 1;
            sweeper.figures.busy += busy;
            sweeper.figures.longest_slice = sweeper.figures.longest_slice.max(busy);
            sweeper.arm_after(ctx, busy);
            busy
        });
        // A server whose latency monitor is off, threshold 0, would take a sample of nothing, too.
        if busy >= Duration::from_millis(1) {
            ctx.add_latency(c"zeitset-sweep", u64::try_from(busy.as_millis()).unwrap_or(Millis::MAX));
        }
    }
}

impl Sweeper {
    /// Arms the timer after a slice that took `busy`: with more to do, after a rest that keeps to the duty.
    fn arm_after(&mut self, ctx: Context<'_>, busy: Duration) {
        let now = ctx.now();
        let is_due = config::sweeps() && self.index.next_due().is_some_and(|due| due <= now);
        if is_due && !ctx.may_write_by_itself() {
            self.arm_in(ctx, PAUSED);
        } else if is_due || self.patrol.is_hurrying() {
            let duty = if ctx.has_child() { config::max_duty().div_ceil(GENTLY) } else { config::max_duty() };
            let rest = busy.saturating_mul(100 - duty) / duty;
            self.arm_in(ctx, u64::try_from(rest.as_micros().div_ceil(1000)).unwrap_or(PAUSED).max(1));
        } else {
            self.arm(ctx);
        }
    }
}

/// The set whose visit is due longest.
fn next_place(ctx: Context<'_>) -> Option<Place> {
    let now = ctx.now();
    SWEEPER.with(ctx, |sweeper| sweeper.index.first_due(now))
}

/// Deletes what has expired in one set, and notes when to come again.
fn visit_set(ctx: Context<'_>, place: &Place, is_time_up: impl Fn() -> bool) {
    crate::server::fault!("visit");
    let name = OwnedStr::new(&place.key);
    let Visited { next, left } = match ctx.select(place.database) {
        true => sweep_set(ctx, place, name.as_str(), is_time_up).unwrap_or_default(),
        false => Visited::default(),
    };
    SWEEPER.with(ctx, |Sweeper { index, unfinished, .. }| {
        match next {
            Some(due) => index.reschedule(place.database, &place.key, due),
            None => index.forget(place.database, &place.key),
        }
        *unfinished = (left > 0).then(|| (place.clone(), left));
    });
}

/// How a set was left.
#[derive(Default)]
struct Visited {
    /// When it is next worth a visit: `None` when it is gone, or none of ours.
    next: Option<Millis>,
    /// Dead members that are still there.
    left: u64,
}

/// Deletes what has expired in one set.
fn sweep_set(ctx: Context<'_>, place: &Place, name: Str<'_>, is_time_up: impl Fn() -> bool) -> Result<Visited, Error> {
    let now = ctx.now();
    let now_score = time::to_score(now);
    if is_touched(ctx, name) {
        heal_set(ctx, place)?;
    }
    // Still touched: it was given up, and is all dead.
    let is_given_up = is_touched(ctx, name);
    let mut set = TimedSet::to_sweep(ctx, name, is_given_up)?;
    let Some(highest) = set.highest() else { return Ok(Visited::default()) };
    let members = set.len();
    let is_all_dead = highest <= now_score;
    if is_all_dead && members <= WHOLE {
        while_we_announce(|| {
            set.unlink();
            ctx.notify(EventClass::Module, c"zexp.expired", name);
        });
        count_expired(ctx, members, 1);
        return Ok(Visited::default());
    }
    if set.lowest().is_some_and(|first| first > now_score) {
        return Ok(Visited { next: set.lowest().map(|first| visit_at(first).max(now + REVISIT)), left: 0 });
    }
    let (set, live) = set.live_count(Mode::Write, now);
    let dead = members - live;
    // The last of a set that is all dead are left to be unlinked.
    let to_go = dead.min(members - live.max(if is_all_dead { WHOLE } else { 0 }));
    let mut gone = 0;
    while_we_announce(|| {
        gone = set.sweep(to_go, is_time_up);
        ctx.notify(EventClass::Module, c"zexp.expired", name);
    });
    count_expired(ctx, gone, 0);
    let first = TimedSet::to_sweep(ctx, name, is_given_up)?.lowest().unwrap_or(highest);
    let next = visit_at(first);
    Ok(Visited { next: Some(if first <= now_score { next } else { next.max(now + REVISIT) }), left: dead - gone })
}

fn count_expired(ctx: Context<'_>, members: u64, sets: u64) {
    SWEEPER.with(ctx, |sweeper| {
        sweeper.figures.members_expired += members;
        sweeper.figures.sets_expired += sets;
    });
}
