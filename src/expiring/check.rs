//! Checks keys: finds out whether a key is an expiring set, restores its marker and deletes its expired members.
//!
//! A key is checked in three cases. After an event, [`inspect`] only reads the key, because an event handler must not
//! write. The cron job checks dirty sets, and a slice of the sweeper checks due sets. Both call [`check`], which opens
//! the set for writing, restores the marker, and notes the time of the next check. In a slice, it also deletes expired
//! members. [`marker::is_expiring`] alone decides whether a key is an expiring set.
//!
//! A slice checks the due sets, longest overdue first, until its time is up. The slice reads the clock every few dozen
//! deletions. If due sets remain, the next slice follows after a rest. With a backlog, slices are more frequent, up to
//! a share of one core, but not longer. A small set whose members have all expired is removed in one step.
//!
//! A plain command may add a member that expires after the key's TTL. The server would then delete live members
//! together with the key. So the module restores markers even if active expiry is off. Restoring a marker deletes no
//! member.
//!
//! The module changes a key only if [`Context::may_change`] allows it. Keyspace events run code of other modules. So
//! the module sends the events last, after it has made and noted all changes, and uses no data that it read before the
//! events.

use super::scan::Seen;
use super::timed_set::{CHUNK, TimedSet};
use super::tracker;
use crate::config;
use crate::model::db_key::DbKey;
use crate::model::marker::{self, Reason};
use crate::model::time::{self, Millis};
use crate::model::tracking::{Outcome, Pace, visit_at};
use crate::server::context;
use crate::server::events::EventKind;
use crate::server::key::ReadKey;
use crate::server::shared::Shared;
use crate::server::zset::SortedSet;
use crate::server::{Context, OwnedStr, Str, catch_panic};
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::time::{Duration, Instant};

/// The minimum time in ms between two checks of a set whose members expire continuously. Deleting several members at
/// once is cheaper than deleting them one by one.
const REVISIT: Millis = 10;

/// A set with at most this many members, all of them expired, is unlinked, and the server's background thread frees it.
/// Larger sets are drained first: freeing a million members would keep the background thread busy for a quarter of a
/// second. Meanwhile, the thread would compete with the server for the memory allocator and, on few cores, for a core.
/// If members are announced, the limit is [`CHUNK`].
const UNLINKED_AT_ONCE: u64 = 1000;

/// While a child process saves the dataset, the sweeper's maximum share of one core is divided by this number. During
/// the save, the system copies every memory page that the server changes.
const GENTLY: u32 = 4;

lazy_static! {
    static ref STATE: Shared<Sweeper> = Shared::new(Sweeper::default());
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

/// Runs a slice of the sweeper. The tracker's timer calls this function.
pub(super) fn run_slice(ctx: &mut Context) {
    tracker::with(ctx, |tracking| tracking.fired());
    let (started, cpu) = (Instant::now(), context::cpu_time());
    let budget = slice();
    let is_time_up = || started.elapsed() >= budget;
    let next = |ctx: &Context| tracker::with(ctx, |tracking| tracking.next_visit(context::now()));
    if tracker::may_sweep(ctx) {
        while let Some(key) = next(ctx) {
            if catch_panic(|| check(ctx, &key, Some(&is_time_up))).is_none() {
                // A set whose check panics must not delay the other sets.
                note(ctx, &key, Outcome::Unknown);
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
    let rest = STATE.with(ctx, |Sweeper { pace, ended, stats }| {
        stats.slices += 1;
        stats.cpu += cpu;
        stats.longest_slice = stats.longest_slice.max(busy);
        let rested = ended.map_or(Duration::MAX, |ended| started.saturating_duration_since(ended));
        *ended = Some(started + busy);
        // Time beyond the budget, due to other processes or a suspended machine, does not count as work.
        pace.rest(rested, cpu.max(busy.min(budget)), duty)
    });
    tracker::end_slice(ctx, rest);
    // The condition is needed because the server accepts a sample of 0 ms if the latency monitor is off (threshold 0).
    if busy >= Duration::from_millis(1) {
        ctx.add_latency(c"zeitset-sweep", u64::try_from(busy.as_millis()).unwrap_or(Millis::MAX));
    }
}

/// Returns the maximum time of a slice.
fn slice() -> Duration {
    Duration::from_micros(config::SWEEP_SLICE_US.get().into())
}

/// Returns the maximum share of time for slices, in percent.
fn duty(ctx: &Context) -> u32 {
    if ctx.has_child() { config::SWEEP_MAX_DUTY.get().div_ceil(GENTLY) } else { config::SWEEP_MAX_DUTY.get() }
}

/// Restores the markers of dirty sets, for at most the time of a slice.
pub(super) fn restore_markers(ctx: &mut Context) {
    let started = Instant::now();
    while started.elapsed() < slice() && ctx.may_write_by_itself() {
        let Some(key) = tracker::next_dirty(ctx) else { return };
        catch_panic(|| check(ctx, &key, None));
    }
}

/// Checks a dirty or due key. Restores the marker, deletes expired members if `is_time_up` is given, and notes the time
/// of the next check.
fn check(ctx: &mut Context, key: &DbKey, is_time_up: Option<&dyn Fn() -> bool>) {
    let now = ctx.now();
    let name = OwnedStr::new(&key.name);
    let name = name.as_str();
    if !(ctx.select(key.database) && ctx.may_change(name)) {
        let is_gone = SortedSet::new(ReadKey::open_notouch(ctx, name)).is_none_or(|set| set.is_empty());
        return note(ctx, key, if is_gone { Outcome::Gone } else { Outcome::Unknown });
    }
    let Some((highest, set)) = TimedSet::to_check(ctx, name).ok().and_then(|set| Some((set.highest()?, set))) else {
        return note(ctx, key, Outcome::Gone);
    };
    let members = set.len();
    let is_all_dead = highest <= time::to_score(now);
    let most = if config::ANNOUNCE_MEMBERS.get() { CHUNK } else { UNLINKED_AT_ONCE };
    if is_time_up.is_some() && is_all_dead && members <= most {
        let (ctx, events) = set.unlink();
        count_expired(ctx, members, 1);
        note(ctx, key, Outcome::Gone);
        return events.send(ctx, name);
    }
    // If all members have expired, the sweep leaves the last `most` members, and a later check unlinks the set.
    let spared = match is_time_up {
        None => u64::MAX,
        Some(_) if is_all_dead => most,
        Some(_) => 0,
    };
    let (ctx, removed) = set.sweep(now, spared, is_time_up.unwrap_or(&|| true));
    count_expired(ctx, removed.gone, u64::from(removed.first.is_none()));
    let outcome = match removed.first {
        None => Outcome::Gone,
        Some(first) if first > time::to_score(now) => Outcome::Done(visit_at(first).max(now + REVISIT)),
        Some(first) if is_time_up.is_none() => Outcome::Done(visit_at(first)),
        Some(first) => {
            // `left` is only used for INFO. If counting fails, it is 1.
            let live = ctx.count_above(name, now);
            let left = live.map_or(1, |live| members.saturating_sub(removed.gone).saturating_sub(live));
            Outcome::Unfinished { due: visit_at(first), left }
        }
    };
    if removed.is_marked {
        tracker::with(ctx, |tracking| tracking.clean(key));
    }
    note(ctx, key, outcome);
    removed.events.send(ctx, name);
}

fn note(ctx: &Context, key: &DbKey, outcome: Outcome) {
    tracker::with(ctx, |tracking| tracking.visited(key, outcome, context::now()));
}

fn count_expired(ctx: &Context, members: u64, sets: u64) {
    STATE.with(ctx, |sweeper| {
        sweeper.stats.members_expired += members;
        sweeper.stats.sets_expired += sets;
    });
}

/// Reads a key after an event. Tracks the key if it is an expiring set, and otherwise forgets it.
pub(super) fn inspect(ctx: &mut Context, name: Str<'_>, kind: EventKind) {
    let now = ctx.now();
    let key = ReadKey::open_notouch(ctx, name);
    // Does not use the context's database: in a transaction, Valkey 9.1 returns the client's database for a key that
    // MOVE or COPY wrote to another database.
    let database = key.database().unwrap_or(key.ctx().database());
    let seen = SortedSet::new(key).and_then(|mut set| Seen::of(&mut set));
    let reason = match kind {
        EventKind::Restore => Reason::Restored,
        EventKind::RenameTo | EventKind::MoveTo | EventKind::CopyTo if was_dirty(ctx, database, name, seen) => {
            Reason::Dirty
        }
        _ => Reason::Nothing,
    };
    tracker::update(ctx, |tracking| match seen {
        Some(Seen::Marked(due)) => tracking.track(database, name.bytes(), due),
        Some(Seen::Unmarked { ttl, highest, .. }) if marker::is_expiring(highest, Some(ttl), reason, now) => {
            tracking.note_dirty(database, name.bytes(), ttl);
        }
        _ => tracking.forget(database, name.bytes()),
    });
}

/// Whether the source of a moved or copied key was dirty. The source is not always known: the event of COPY does not
/// name it, and a listener of another module may have moved the set again after RENAME. So this function looks for a
/// dirty set with the same TTL as this key. The set is the source if its key is gone, or if it has the same number of
/// members and the same highest score.
fn was_dirty(ctx: &mut Context, database: i32, name: Str<'_>, seen: Option<Seen>) -> bool {
    let Some(Seen::Unmarked { ttl, .. }) = seen else { return false };
    let here = ctx.database();
    let is_source = |ctx: &mut Context, key: &DbKey| {
        let source = OwnedStr::new(&key.name);
        ctx.select(key.database);
        let Some(mut set) = SortedSet::new(ReadKey::open_notouch(ctx, source.as_str())) else { return false };
        let (is_gone, is_same) = (set.is_empty(), Seen::of(&mut set) == seen);
        drop(set);
        if is_gone {
            tracker::forget(ctx, source.as_str());
        }
        is_gone || is_same
    };
    let mut sources = tracker::with(ctx, |tracking| tracking.dirty_with(ttl));
    sources.retain(|key| (key.database, &*key.name) != (database, name.bytes()));
    let is_found = sources.iter().any(|key| is_source(ctx, key));
    ctx.select(here);
    is_found
}
