//! Which expiring sets there are on this server, and when each is to be looked at: the state that everything here shares.
//!
//! [`Tracking`] decides; this file brings it what commands and events tell, the clock, settings and the role of the server, and sets the
//! timer as it says. The [`Patrol`] finds what nobody told. Both are caches: nothing here opens a key for writing, and
//! what a set is, those who open it take from the set itself.
//!
//! Slots whose keys are still arriving belong to another node of the cluster. Sets in them are not tracked until all keys are here.

use super::patrol::Patrol;
use crate::config;
use crate::model::alarm::Alarm;
use crate::model::place::Place;
use crate::model::time::Millis;
use crate::model::tracking::{Arrival, Left, Need, Outcome, Tracking};
use crate::server::context;
use crate::server::events::{self, Classes};
use crate::server::key::ReadKey;
use crate::server::shared::Shared;
use crate::server::slots::{self, Range};
use crate::server::timer::Timer;
use crate::server::{Context, Str};
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::sync::OnceLock;

lazy_static! {
    static ref STATE: Shared<Tracker> = Shared::new(Tracker::default());
}

/// Armed here, for a slice of the sweeper, which is above this file: [`start`] is told what it does.
static TIMER: OnceLock<Timer> = OnceLock::new();

#[derive(Default)]
struct Tracker {
    tracking: Tracking,
    patrol: Patrol,
    /// Slots whose keys are still arriving: sets in them are not ours yet, and not tracked.
    arriving: Vec<Range>,
    /// Those among them whose keys are here, while the walk goes on that forgets what was known of the slots before.
    arrived: Vec<Range>,
}

/// Begins to look for expiring sets; `slice` runs whenever some are due.
pub(super) fn start(ctx: &Context, slice: fn(&mut Context)) {
    TIMER.get_or_init(|| Timer::new(slice));
    // On a running server the data are there already.
    patrol_now(ctx);
}

/// No slice runs from now on, unless an event says that one is needed.
pub(super) fn stop(ctx: &Context) {
    STATE.with(ctx, |tracker| tracker.tracking.stopped());
    set_timer(ctx, Alarm::Off);
}

fn set_timer(ctx: &Context, alarm: Alarm) {
    if let Some(timer) = TIMER.get() {
        timer.set(ctx, alarm);
    }
}

/// How things stand, for INFO. A replica deletes nothing by itself, and so has no backlog and no lag of its own.
pub struct Status {
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
    STATE.with(holder, |Tracker { tracking, patrol, .. }| Status {
        sets_tracked: tracking.len(),
        sets_overdue: if is_master { tracking.overdue(now) } else { 0 },
        backlog: if is_master { tracking.backlog() } else { 0 },
        lag: if is_master { tracking.lag(now) } else { 0 },
        timer_armed: tracking.is_armed(),
        patrols_completed: patrol.completed(),
    })
}

/// What a key is to us.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its slot is still arriving.
    Arriving,
    Tracked,
    Unknown,
}

pub(super) fn standing_of(ctx: &Context, name: Str<'_>) -> Standing {
    STATE.with(ctx, |tracker| {
        if tracker.is_arriving(name.bytes()) {
            Standing::Arriving
        } else if !tracker.tracking.is_empty() && tracker.tracking.is_tracked(ctx.database(), name.bytes()) {
            Standing::Tracked
        } else {
            Standing::Unknown
        }
    })
}

/// Whether the slot of the key is still arriving.
pub(super) fn is_arriving(ctx: &Context, name: Str<'_>) -> bool {
    STATE.with(ctx, |tracker| tracker.is_arriving(name.bytes()))
}

/// Whether plain commands have changed the set since its marker was set.
pub(super) fn is_touched(ctx: &Context, name: Str<'_>) -> bool {
    let (database, key) = (ctx.database(), name.bytes());
    STATE.with(ctx, |tracker| tracker.tracking.is_touched(database, key) && !tracker.is_arriving(key))
}

/// Whether the dataset is new to us: the walk through all of it is under way, and has not said of each key what it is.
pub(super) fn is_new(ctx: &Context) -> bool {
    STATE.with(ctx, |tracker| tracker.patrol.is_hurrying())
}

/// Changes what is tracked, and arms the timer for what is due then.
pub(super) fn update<R>(ctx: &Context, change: impl FnOnce(&mut Tracking, i32) -> R) -> R {
    let database = ctx.database();
    STATE.with(ctx, |tracker| {
        let result = change(&mut tracker.tracking, database);
        tracker.listen_if_used(ctx);
        let Tracker { tracking, patrol, .. } = tracker;
        set_timer(ctx, tracking.after_change(context::now(), || need(ctx, patrol.is_hurrying())));
        result
    })
}

/// Notes that a command has named an expiring set, be it there or not: whoever calls one has some.
pub(super) fn note_used(ctx: &Context) {
    if !events::is_subscribed(Classes::SORTED_SETS) {
        STATE.with(ctx, |tracker| tracker.listen(ctx));
    }
}

/// Notes that a command of the module has changed a set: members expire from `soonest` on.
pub(super) fn note_written(ctx: &Context, name: Str<'_>, soonest: Option<Millis>, is_new: bool) {
    update(ctx, |tracking, database| tracking.change(database, name.bytes(), soonest, is_new));
}

/// Notes that plain commands may have changed a set, if it is tracked.
pub(super) fn note_touched(ctx: &mut Context, name: Str<'_>) {
    let (database, key) = (ctx.database(), name.bytes());
    let is_news = STATE.with(ctx, |tracker| tracker.tracking.is_untouched(database, key));
    if is_news {
        let ttl = ReadKey::glance(ctx, name).expires_at();
        STATE.with(ctx, |tracker| tracker.tracking.touch(database, key, ttl));
    }
}

/// Notes that the marker of a set that is ours beyond doubt is off, and has to be set again. `ttl` is what the set has instead: by it the
/// set is known if it is copied or moved before.
pub(super) fn note_marker_off(ctx: &Context, database: i32, name: Str<'_>, ttl: Option<Millis>) {
    update(ctx, |tracking, _| tracking.mend(database, name.bytes(), ttl));
}

/// Notes that a set is gone, or is no expiring set any more.
pub(super) fn forget(ctx: &Context, database: i32, name: Str<'_>) {
    STATE.with(ctx, |tracker| tracker.tracking.forget(database, name.bytes()));
}

/// Notes that a set goes from one place to another: RENAME and MOVE announce both, one after the other.
pub(super) fn note_leaving(ctx: &Context, name: Str<'_>) {
    let database = ctx.database();
    STATE.with(ctx, |tracker| tracker.tracking.leave(database, name.bytes()));
}

/// Notes that what left its place last is at another one: what was known of it.
pub(super) fn note_arrived(ctx: &Context) -> Left {
    STATE.with(ctx, |tracker| tracker.tracking.arrive())
}

/// Takes what was known of a renamed set along.
pub(super) fn take_along(ctx: &Context, name: Str<'_>, left: Left) -> Arrival {
    let database = ctx.database();
    let arrival = STATE.with(ctx, |Tracker { tracking, patrol, .. }| {
        // A walk that is not everywhere yet may have missed it.
        if patrol.is_hurrying() { Arrival::Unclear } else { tracking.take_along(database, name.bytes(), left) }
    });
    if arrival == Arrival::Noted {
        // It may be due soon.
        update(ctx, |_, _| ());
    }
    arrival
}

/// Whether a set of this TTL that has just come to its place by RENAME or MOVE was changed by plain commands where it comes from,
/// and not healed since.
pub(super) fn was_touched_on_leaving(ctx: &Context, left: Left, ttl: Option<Millis>) -> bool {
    STATE.with(ctx, |tracker| tracker.tracking.left_touched(left, ttl))
}

/// Some of the sets of this TTL that plain commands have changed, and that were not healed since.
pub(super) fn touched_with_ttl(ctx: &Context, ttl: Millis) -> Vec<Place> {
    STATE.with(ctx, |tracker| {
        let mut places = tracker.tracking.touched_with(ttl);
        places.retain(|place| !tracker.is_arriving(&place.key));
        places
    })
}

/// The touched set that comes after `last` in the order of their places; with `None`, the first one.
pub(super) fn next_touched(ctx: &Context, last: Option<&Place>) -> Option<Place> {
    STATE.with(ctx, |tracker| tracker.tracking.next_touched(last))
}

/// Lets a touched set whose marker could not be set be, for a while.
pub(super) fn heal_later(ctx: &Context, place: &Place) {
    STATE.with(ctx, |tracker| tracker.tracking.mend_later(place, ctx.now()));
}

/// The set whose visit is due longest.
pub(super) fn next_visit(ctx: &Context) -> Option<Place> {
    STATE.with(ctx, |tracker| tracker.tracking.next_visit(context::now()))
}

pub(super) fn note_visited(ctx: &Context, place: &Place, outcome: Outcome) {
    STATE.with(ctx, |tracker| tracker.tracking.visited(place, outcome, context::now()));
}

/// Begins to walk through all keys as fast as slices allow: the dataset is new to us.
pub(super) fn patrol_now(ctx: &Context) {
    STATE.with(ctx, |tracker| {
        tracker.patrol.hurry();
        tracker.attend(ctx);
    });
}

/// Lets the sets in some slots be, whose keys begin to arrive.
pub(super) fn note_slots_arrive(ctx: &Context, slots: &[Range]) {
    STATE.with(ctx, |tracker| {
        tracker.arriving.extend_from_slice(slots);
        tracker.arrived.retain(|range| !slots.contains(range));
        // There may be entries of sets that once were here. They are forgotten in slices; until then nobody heeds them.
        tracker.tracking.begin_to_forget();
        tracker.attend(ctx);
    });
}

/// The keys of some slots have arrived, or will not come. Nothing of them was noted meanwhile: the patrol finds the sets, once
/// all is forgotten that was known of the slots before.
pub(super) fn note_slots_settled(ctx: &Context, slots: &[Range]) {
    STATE.with(ctx, |tracker| {
        tracker.arrived.extend_from_slice(slots);
        tracker.forget_on(|| true);
        tracker.attend(ctx);
    });
}

/// Runs the slice that a timer should have run (see [`Timer::catch_up`]).
pub(super) fn catch_up(ctx: &mut Context) {
    if let Some(timer) = TIMER.get() {
        timer.catch_up(ctx);
    }
}

/// A run of the server's housekeeping: the patrol takes a few steps, and what changed without an event is followed: the clock, a
/// setting, the role.
pub(super) fn on_cron(ctx: &Context) {
    STATE.with(ctx, |tracker| {
        if !ctx.is_loading() {
            let Tracker { patrol, tracking, .. } = tracker;
            patrol.stroll(ctx, tracking);
        }
        tracker.listen_if_used(ctx);
        tracker.tracking.all_arrived();
        tracker.tracking.free_some();
        tracker.attend(ctx);
    });
}

/// A slice begins: the timer is not armed any more.
pub(super) fn begin_slice(ctx: &Context) {
    STATE.with(ctx, |tracker| tracker.tracking.fired());
}

/// What is to be done in slices besides the visits, until time is up.
pub(super) fn walk_on(ctx: &Context, is_time_up: impl Fn() -> bool) {
    STATE.with(ctx, |tracker| {
        tracker.forget_on(&is_time_up);
        let Tracker { patrol, tracking, .. } = tracker;
        patrol.hurry_on(ctx, tracking, is_time_up);
        tracker.listen_if_used(ctx);
    });
}

/// A slice ends, which is to be followed by a rest of `rest` ms.
pub(super) fn end_slice(ctx: &Context, rest: Millis) {
    STATE.with(ctx, |tracker| {
        let need = need(ctx, tracker.hurries());
        set_timer(ctx, tracker.tracking.after_slice(context::now(), rest, need));
    });
}

/// Whether this server may delete now what has expired.
pub(super) fn may_sweep(ctx: &Context) -> bool {
    config::SWEEP.get() && ctx.may_write_by_itself()
}

fn need(ctx: &Context, hurries: bool) -> Need {
    Need { sweeps: may_sweep(ctx), hurries }
}

impl Tracker {
    fn is_arriving(&self, key: &[u8]) -> bool {
        slots::hold(&self.arriving, key)
    }

    /// Subscribes to what becomes of sorted sets, unless that is done. Nobody has told of what came before, so it is looked for.
    fn listen(&mut self, ctx: &Context) {
        if events::subscribe(ctx, Classes::SORTED_SETS) {
            self.patrol.hurry();
            self.attend(ctx);
        }
    }

    fn listen_if_used(&mut self, ctx: &Context) {
        if !self.tracking.is_empty() {
            self.listen(ctx);
        }
    }

    /// Whether there is something to do that is not due at some moment.
    fn hurries(&self) -> bool {
        self.patrol.is_hurrying() || self.tracking.is_forgetting()
    }

    /// Forgets what was known of arriving slots until time is up. Once that is done, those whose keys are here are the patrol's.
    fn forget_on(&mut self, is_time_up: impl Fn() -> bool) {
        let Tracker { tracking, arriving, arrived, patrol } = self;
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
        set_timer(ctx, self.tracking.at_cron(context::now(), need));
    }
}
