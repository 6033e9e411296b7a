//! Active expiry: deletes expired members of the sets that are due. Also adds and removes the tag `zeitset:expiring`
//! after plain commands ([`resolve_tags`]).
//!
//! [`check_set`] opens a set for writing, deletes expired members, and notes the time of the next check. One run of the
//! sweeper, a *slice*, checks the due sets, longest overdue first, until its time is up. The slice reads the clock
//! every few dozen deletions. If due sets remain, the next slice follows after a pause. A backlog makes slices more
//! frequent but not longer. Together, the slices use at most the share of one core that the setting `sweep-max-duty`
//! allows.
//!
//! The module changes a key only if [`Context::may_change`] allows it. Keyspace events run code of other modules, which
//! may change any key. So the module makes and notes all changes before it sends the events. Afterwards, it uses no
//! data that it read before the events.

use super::expiring_set::{ExpiringSet, Removed, remove_copied_tag};
use super::tracker;
use crate::base::db_key::DbKey;
use crate::base::time::{self, Millis};
use crate::server::events::run_after_command;
use crate::server::key::ReadKey;
use crate::server::under_lock::UnderLock;
use crate::server::zset::SortedSet;
use crate::server::{Context, OwnedStr, catch_panic, context};
use crate::sets::index::{Outcome, Pace, PendingTag, Tracking, visit_at};
use crate::sets::settings;
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The minimum time in ms between two checks of a set whose members expire continuously, because deleting several
/// members at once is cheaper than deleting them one by one.
const REVISIT: Millis = 10;

/// Divides the sweeper's maximum share of one core while a child process saves the dataset, because the system then
/// copies every memory page that the server changes.
const CHILD_DUTY_DIVISOR: u32 = 4;

lazy_static! {
    static ref STATE: UnderLock<Sweeper> = UnderLock::new(Sweeper::default());
}

#[derive(Default)]
struct Sweeper {
    pace: Pace,
    ended: Option<Instant>,
    stats: SweepStats,
}

#[derive(Clone, Copy, Default)]
pub struct SweepStats {
    pub members_expired: u64,
    pub sets_expired: u64,
    pub slices: u64,
    pub longest_slice: Duration,
    pub cpu: Duration,
}

pub fn stats(holder: &impl RedisLockIndicator) -> SweepStats {
    STATE.with(holder, |sweeper| sweeper.stats)
}

/// Returns the maximum duration of one run of the sweeper (a slice).
fn slice() -> Duration {
    Duration::from_micros(settings::SWEEP_SLICE_US.get().into())
}

/// Runs one slice of the sweeper: checks sets for a short time, so that clients do not wait long. The tracker's timer
/// calls this function.
pub(super) fn run_slice(ctx: &mut Context) {
    let (started, cpu, budget) = (Instant::now(), context::cpu_time(), slice());
    let is_time_up = || started.elapsed() >= budget;
    resolve_tags(ctx);
    if tracker::begin_slice(ctx) {
        check_sets(ctx, &is_time_up);
    }
    tracker::continue_scan(ctx, is_time_up);
    let (busy, cpu) = (started.elapsed(), context::cpu_time().saturating_sub(cpu));
    let share = if ctx.has_child() { CHILD_DUTY_DIVISOR } else { 1 };
    let duty = settings::SWEEP_MAX_DUTY.get().div_ceil(share);
    let pause = STATE.with(ctx, |Sweeper { pace, ended, stats }| {
        stats.slices += 1;
        stats.cpu += cpu;
        stats.longest_slice = stats.longest_slice.max(busy);
        let paused = ended.map_or(Duration::MAX, |ended| started.saturating_duration_since(ended));
        *ended = Some(started + busy);
        // Time beyond the budget, due to other processes or a suspended machine, does not count as work.
        pace.pause(paused, cpu.max(busy.min(budget)), duty)
    });
    tracker::end_slice(ctx, pause);
    // The condition is needed because the server accepts a sample of 0 ms if the latency monitor is off (threshold 0).
    if busy >= Duration::from_millis(1) {
        ctx.add_latency(c"zeitset-sweep", u64::try_from(busy.as_millis()).unwrap_or(Millis::MAX));
    }
}

/// Adds the tag `zeitset:expiring` to sets of version 0.3 and to sets from which a plain command has removed it.
/// Removes the tag where a STORE command has copied it. Takes at most as long as a run of the sweeper.
pub(super) fn resolve_tags(ctx: &mut Context) {
    let (started, budget) = (Instant::now(), slice());
    IS_PLANNED.store(true, Ordering::Relaxed);
    while ctx.may_write_by_itself() && started.elapsed() < budget {
        let Some(key) = tracker::with(ctx, Tracking::next_pending) else { break };
        if catch_panic(|| resolve_tag(ctx, &key)).is_none() {
            tracker::with(ctx, |tracking| tracking.forget_pending(key.database, &key.name));
        }
    }
    IS_PLANNED.store(false, Ordering::Relaxed);
}

/// Whether [`resolve_tags`] is to run after the current command, or is running. The function sends events, which may
/// make another module remove or copy a tag. Then the timer calls the function again. An immediate call might cause an
/// endless loop.
static IS_PLANNED: AtomicBool = AtomicBool::new(false);

/// Calls [`resolve_tags`] after the current command, if the server can do so.
pub(super) fn resolve_soon(ctx: &Context) {
    if !IS_PLANNED.load(Ordering::Relaxed) {
        IS_PLANNED.store(run_after_command(ctx, resolve_tags), Ordering::Relaxed);
    }
}

fn resolve_tag(ctx: &mut Context, key: &DbKey) {
    let name = OwnedStr::new(&key.name);
    let name = name.as_str();
    let is_allowed = ctx.select(key.database) && ctx.may_change(name);
    let pending = tracker::pending(ctx, name);
    let forget = |ctx: &Context| tracker::with(ctx, |tracking| tracking.forget_pending(key.database, &key.name));
    match pending {
        None => {}
        // The scan finds the set again.
        Some(PendingTag::Legacy(_)) if !is_allowed => forget(ctx),
        Some(_) if !is_allowed => {}
        Some(PendingTag::Copied) => {
            let events = remove_copied_tag(ctx, name);
            forget(ctx);
            events.send(ctx, name);
        }
        Some(_) => {
            let Some(set) = ExpiringSet::to_check(ctx, name) else { return forget(ctx) };
            set.commit_adopted();
        }
    }
}

fn check_sets(ctx: &mut Context, is_time_up: &dyn Fn() -> bool) {
    while let Some(key) = tracker::with(ctx, |tracking| tracking.next_visit(context::now())) {
        if catch_panic(|| check_set(ctx, &key, is_time_up)).is_none() {
            // A set whose check panics must not delay the other sets.
            note(ctx, &key, Outcome::Unknown);
        }
        if is_time_up() {
            break;
        }
    }
}

/// Deletes the expired members of a set, and notes when to check the set next.
fn check_set(ctx: &mut Context, key: &DbKey, is_time_up: &dyn Fn() -> bool) {
    let now = ctx.now();
    let name = OwnedStr::new(&key.name);
    let name = name.as_str();
    if !(ctx.select(key.database) && ctx.may_change(name)) {
        let is_gone = SortedSet::new(ReadKey::open_notouch(ctx, name)).is_none_or(|set| set.is_empty());
        return note(ctx, key, if is_gone { Outcome::Gone } else { Outcome::Unknown });
    }
    let Some(set) = ExpiringSet::to_check(ctx, name) else { return note(ctx, key, Outcome::Gone) };
    let members = set.len();
    let (ctx, Removed { gone, first, events }) = set.sweep(now, is_time_up);
    let outcome = match first {
        None => Outcome::Gone,
        Some(first) if first > time::to_score(now) => {
            Outcome::Next { due: visit_at(first).max(now + REVISIT), left: 0 }
        }
        Some(first) => {
            // `left` is only used for INFO. If counting fails, it is 1.
            let live = ctx.count_above(name, now);
            let left = live.map_or(1, |live| members.saturating_sub(gone).saturating_sub(live));
            Outcome::Next { due: visit_at(first), left }
        }
    };
    STATE.with(ctx, |Sweeper { stats, .. }| {
        stats.members_expired += gone;
        stats.sets_expired += u64::from(gone > 0 && outcome == Outcome::Gone);
    });
    note(ctx, key, outcome);
    events.send(ctx, name);
}

fn note(ctx: &Context, key: &DbKey, outcome: Outcome) {
    tracker::with(ctx, |tracking| tracking.visited(key, outcome, context::now()));
}
