//! The expiring sets of this server, and the time of the next check of each set.
//!
//! [`Tracking`] decides when to check a set. This file informs `Tracking` of commands, events, the clock, settings and
//! the server's role, and sets the timer that `Tracking` requests. The [`Scan`] finds the sets that no event reported.
//! `Tracking` is only a cache: code that opens a key decides by the tag whether the key is an expiring set.
//!
//! While a cluster slot is moved to this server, the slot belongs to another node. So the tracker ignores the keys of
//! this slot until the move has ended. The tracker also forgets the sets that it tracked in the slot. Otherwise, if an
//! ordinary set now has the name of such a set, a ZPOPMIN would make the module add a tag to the ordinary set.

use super::scan::Scan;
use crate::base::alarm::Alarm;
use crate::base::time::Millis;
use crate::server::context;
use crate::server::events::{self, Classes};
use crate::server::slots::{self, SlotRange};
use crate::server::timer::Timer;
use crate::server::under_lock::UnderLock;
use crate::server::{Context, Str};
use crate::sets::index::{Need, PendingTag, Tracking};
use crate::sets::settings;
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;

lazy_static! {
    static ref STATE: UnderLock<Tracker> = UnderLock::new(Tracker::default());
    /// The timer that runs the sweeper. [`start`] sets the function that the timer calls, because this file must not
    /// depend on the sweeper's file.
    static ref TIMER: Timer = Timer::without_task();
}

#[derive(Default)]
struct Tracker {
    tracking: Tracking,
    scan: Scan,
    /// The cluster slots whose keys are arriving from another node. The sets of these slots are not tracked.
    arriving: Vec<SlotRange>,
    /// The slots in `arriving` whose import has ended. A slot stays in both lists until the tracker has forgotten all
    /// sets that it tracked in arriving slots.
    arrived: Vec<SlotRange>,
}

/// Begins a scan for expiring sets. From now on, the timer calls `slice` when the sweeper has work.
pub(super) fn start(ctx: &Context, slice: fn(&mut Context)) {
    TIMER.set_task(ctx, slice);
    // If the server is already running, it has a dataset to scan.
    begin_scan(ctx);
}

/// Disarms the timer. The sweeper does not run until the timer is armed again.
pub(super) fn stop(ctx: &Context) {
    with(ctx, Tracking::disarmed);
    set_timer(ctx, Alarm::Off);
}

/// Disarms the timer and forgets all sets, before the module is unloaded. Otherwise, their memory would never be freed.
/// On systems that keep an unloaded library in memory, the module would know the sets when it is loaded again, although
/// other keys may have their names by then.
pub(super) fn unload(ctx: &Context) {
    stop(ctx);
    STATE.with(ctx, std::mem::take);
}

fn set_timer(ctx: &Context, alarm: Alarm) {
    TIMER.set(ctx, alarm);
}

/// The tracker's state, for INFO. On a replica, which deletes nothing by itself, `sets_overdue`, `backlog` and `lag`
/// are 0.
pub struct Status {
    pub sets_tracked: usize,
    pub sets_overdue: usize,
    /// The number of expired members that are known to remain in the set that was checked last.
    pub backlog: u64,
    /// The time in ms since the earliest due time of an overdue set.
    pub lag: Millis,
    pub timer_armed: bool,
    pub scans_completed: u64,
}

pub fn status(holder: &impl RedisLockIndicator) -> Status {
    let (now, is_master) = (context::now(), context::is_master());
    STATE.with(holder, |Tracker { tracking, scan, .. }| Status {
        sets_tracked: tracking.len(),
        sets_overdue: if is_master { tracking.overdue(now) } else { 0 },
        backlog: if is_master { tracking.backlog(now) } else { 0 },
        lag: if is_master { tracking.lag(now) } else { 0 },
        timer_armed: tracking.is_armed(),
        scans_completed: scan.completed(),
    })
}

/// Whether the key belongs to a cluster slot whose keys are still arriving from another node.
pub(super) fn is_arriving(ctx: &Context, name: Str<'_>) -> bool {
    STATE.with(ctx, |tracker| slots::hold(&tracker.arriving, name.bytes()))
}

pub(super) fn is_first_scan(ctx: &Context) -> bool {
    STATE.with(ctx, |tracker| tracker.scan.is_first())
}

/// Returns what the module must still do with the key's tag `zeitset:expiring`, if anything.
pub(super) fn pending(ctx: &Context, name: Str<'_>) -> Option<PendingTag> {
    with(ctx, |tracking| if tracking.has_pending() { tracking.pending(ctx.database(), name.bytes()) } else { None })
}

pub(super) fn note_pending(ctx: &Context, database: i32, name: &[u8], tag: PendingTag) {
    STATE.with(ctx, |tracker| {
        tracker.tracking.note_pending(database, name, tag);
        tracker.rearm(ctx);
    });
}

pub(super) fn with<R>(ctx: &Context, change: impl FnOnce(&mut Tracking) -> R) -> R {
    STATE.with(ctx, |tracker| change(&mut tracker.tracking))
}

/// Calls `change` with the tracked sets. If `change` returns true, a set may be due earlier than before, so this
/// function arms the timer for the next due set.
pub(super) fn update(ctx: &Context, change: impl FnOnce(&mut Tracking) -> bool) {
    STATE.with(ctx, |tracker| {
        if !change(&mut tracker.tracking) {
            return;
        }
        if !events::is_subscribed(Classes::SORTED_SETS) {
            return tracker.rearm(ctx);
        }
        let Tracker { tracking, scan, .. } = tracker;
        set_timer(ctx, tracking.after_change(context::now(), || need(ctx, scan.is_first())));
    });
}

/// Notes that a ZEXP command names a key, even a missing one. The first call subscribes to events, and begins a first
/// scan, because the module got no events of earlier changes.
pub(super) fn note_used(ctx: &Context) {
    if events::subscribe(ctx, Classes::SORTED_SETS) {
        begin_scan(ctx);
    }
}

/// Begins a new scan of the keyspace. A scan in progress ends.
pub(super) fn begin_scan(ctx: &Context) {
    STATE.with(ctx, |tracker| {
        tracker.scan.begin();
        tracker.rearm(ctx);
    });
}

/// Notes that the keys of these cluster slots begin to arrive from another node. Stops tracking the sets of these
/// slots.
pub(super) fn note_slot_import_started(ctx: &Context, slots: &[SlotRange]) {
    STATE.with(ctx, |tracker| {
        tracker.arriving.extend_from_slice(slots);
        tracker.arrived.retain(|range| !slots.contains(range));
        // The slices remove the entries of these slots step by step, and the module ignores events of these slots until
        // the entries are removed and the move has ended.
        tracker.tracking.begin_to_forget(|key| slots::hold(slots, key));
        tracker.rearm(ctx);
    });
}

/// Notes that the import of some cluster slots from another node has succeeded or failed. The tracker first forgets the
/// sets that it tracked in these slots before the import. Then a scan finds the sets that are now in the slots.
pub(super) fn note_slot_import_ended(ctx: &Context, slots: &[SlotRange]) {
    STATE.with(ctx, |tracker| {
        tracker.arrived.extend_from_slice(slots);
        tracker.rearm(ctx);
    });
}

/// Runs the sweeper now if its timer is late (see [`Timer::catch_up`]).
pub(super) fn catch_up(ctx: &mut Context) {
    TIMER.catch_up(ctx);
}

/// Continues the scan. Also updates the timer, because the clock, the settings or the server's role may have changed.
/// The server's cron calls this function.
pub(super) fn on_cron(ctx: &Context) {
    STATE.with(ctx, |tracker| {
        tracker.tracking.end_all_moves();
        tracker.scan.on_cron(ctx, &mut tracker.tracking);
        tracker.tracking.free_some();
        tracker.rearm(ctx);
    });
}

/// Notes that the timer has fired and the sweeper begins to run. Returns whether it may delete expired members.
pub(super) fn begin_slice(ctx: &Context) -> bool {
    with(ctx, Tracking::disarmed);
    may_sweep(ctx)
}

/// Stops tracking the sets of the cluster slots whose keys are arriving. Then continues the first scan of the keyspace.
/// Returns when time is up.
pub(super) fn continue_scan(ctx: &Context, is_time_up: impl Fn() -> bool) {
    STATE.with(ctx, |tracker| {
        tracker.forget_arriving(&is_time_up);
        tracker.scan.run_on(ctx, &mut tracker.tracking, is_time_up);
    });
}

/// Notes that the sweeper has stopped. The sweeper's next run follows after at least `pause` ms.
pub(super) fn end_slice(ctx: &Context, pause: Millis) {
    STATE.with(ctx, |tracker| {
        tracker.tracking.pause(context::now(), pause);
        tracker.rearm(ctx);
    });
}

fn may_sweep(ctx: &Context) -> bool {
    settings::SWEEP.get() && ctx.may_write_by_itself()
}

fn need(ctx: &Context, at_once: bool) -> Need {
    Need { sweeps: may_sweep(ctx), at_once }
}

impl Tracker {
    /// Arms the timer for the sweeper's next work, or disarms it if no work is due soon. When the first expiring set is
    /// tracked, subscribes to events, and begins a first scan.
    fn rearm(&mut self, ctx: &Context) {
        let has_sets = !self.tracking.is_empty() || self.tracking.has_pending();
        if has_sets && events::subscribe(ctx, Classes::SORTED_SETS) {
            self.scan.begin();
        }
        let is_settling = self.tracking.has_new_pending() && ctx.may_write_by_itself();
        let at_once = self.scan.is_first() || self.tracking.is_forgetting() || !self.arrived.is_empty() || is_settling;
        set_timer(ctx, self.tracking.at_cron(context::now(), need(ctx, at_once)));
    }

    /// Stops tracking the sets of the cluster slots in `arriving`. Returns early if time is up.
    ///
    /// When all these sets are forgotten, the slots in `arrived`, whose import has ended, are removed from both lists.
    /// Then a scan begins, which finds the sets that are in these slots now.
    fn forget_arriving(&mut self, is_time_up: impl Fn() -> bool) {
        let Tracker { tracking, arriving, arrived, scan, .. } = self;
        while tracking.is_forgetting() && !is_time_up() {
            tracking.forget_some(|key| slots::hold(arriving, key));
        }
        if !arrived.is_empty() && !tracking.is_forgetting() {
            arriving.retain(|range| !arrived.contains(range));
            arrived.clear();
            scan.begin();
        }
    }
}
