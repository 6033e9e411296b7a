//! The server's events about sets: created, deleted, moved, or changed by plain commands.
//!
//! The module subscribes to these events when the first expiring set exists, or when a ZEXP command names a key. The
//! scan finds earlier changes.
//!
//! The handlers only note what happened, and never write. The server calls the handlers for all keys, including
//! strings, so most events must cost only one lookup in the tracker.
//!
//! In replication and in an AOF, a new expiring set arrives as a ZADD, directly followed by a PEXPIREAT. So after an
//! `expire` event of an untracked key, the handler opens the key only if a sorted set was written since the previous
//! `expire` event. If the set arrives in another way, the scan finds it later.

use super::scan::SetSnapshot;
use super::sweeper::restore_markers;
use super::tracker;
use crate::base::db_key::DbKey;
use crate::server::events::{EventKind, KeyEvent, ServerEvent};
use crate::server::key::ReadKey;
use crate::server::zset::SortedSet;
use crate::server::{Context, OwnedStr, Str};
use crate::sets::index::TrackingState;
use crate::sets::index::marker::{self, Reason};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Whether any sorted set was written since the last `expire` event.
static IS_WRITTEN: AtomicBool = AtomicBool::new(false);

/// The source database of the last MOVE.
static MOVED_FROM: AtomicI32 = AtomicI32::new(0);

pub fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
    if event.is_ours {
        return;
    }
    if let Some(tracking_state) = tracker::tracking_state(ctx, event.key) {
        on_change(ctx, event, tracking_state);
    }
    match event.kind {
        EventKind::MoveFrom => MOVED_FROM.store(ctx.database(), Ordering::Relaxed),
        // In Valkey 8.1 and 9.0, handlers run with the client itself, and MOVE leaves the client in the target database
        // (valkey#4024). So the handler selects the source database again, which is harmless on other servers.
        EventKind::MoveTo => {
            ctx.select(MOVED_FROM.load(Ordering::Relaxed));
        }
        _ => {}
    }
}

fn on_change(ctx: &mut Context, event: &KeyEvent<'_>, tracking_state: TrackingState) {
    let is_tracked = tracking_state != TrackingState::Unknown;
    match event.kind {
        EventKind::RenameTo | EventKind::MoveTo | EventKind::CopyTo | EventKind::Restore => {
            inspect(ctx, event.key, event.kind);
        }
        _ if event.of_sorted_set => {
            IS_WRITTEN.store(true, Ordering::Relaxed);
            if tracking_state == TrackingState::Clean {
                note_changed(ctx, event.key);
            }
        }
        EventKind::Expire if is_tracked || IS_WRITTEN.load(Ordering::Relaxed) => {
            IS_WRITTEN.store(false, Ordering::Relaxed);
            inspect(ctx, event.key, event.kind);
        }
        // Keeps the entry of a dirty set, because the module recognizes the set at its new key by this entry.
        EventKind::RenameFrom | EventKind::MoveFrom if matches!(tracking_state, TrackingState::Dirty(_)) => {}
        EventKind::Gone | EventKind::Persist | EventKind::RenameFrom | EventKind::MoveFrom if is_tracked => {
            tracker::forget(ctx, event.key);
        }
        _ => {}
    }
}

pub fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
    match event {
        ServerEvent::BecameMaster | ServerEvent::Loaded => tracker::begin_scan(ctx),
        ServerEvent::BecameReplica => tracker::stop(ctx),
        ServerEvent::Flushed(database) => tracker::with(ctx, |tracking| tracking.flush(database)),
        ServerEvent::Swapped(one, other) => tracker::with(ctx, |tracking| tracking.swap(one, other)),
        ServerEvent::SlotImportStarted(slots) => tracker::note_slot_import_started(ctx, slots),
        ServerEvent::SlotImportEnded(slots) => tracker::note_slot_import_ended(ctx, slots),
        ServerEvent::Cron => {
            tracker::catch_up(ctx);
            restore_markers(ctx);
            tracker::on_cron(ctx);
        }
        // A dataset that is loaded aside matters only when the server serves it, which `Loaded` reports.
        ServerEvent::AsyncLoadStarted | ServerEvent::AsyncLoadAborted => {}
    }
}

/// Notes that plain commands changed a tracked set. An expiring set has a TTL. So if the key has none, the tracker
/// forgets it.
fn note_changed(ctx: &mut Context, name: Str<'_>) {
    let ttl = ReadKey::open_notouch(ctx, name).expires_at();
    let (database, key) = (ctx.database(), name.bytes());
    tracker::with(ctx, |tracking| match ttl {
        Some(ttl) => tracking.database(database).note_dirty(key, ttl),
        None => tracking.database(database).forget(key),
    });
}

/// Reads a key after an event. Tracks the key if it is an expiring set, and otherwise forgets it.
fn inspect(ctx: &mut Context, name: Str<'_>, kind: EventKind) {
    let now = ctx.now();
    let key = ReadKey::open_notouch(ctx, name);
    // Does not use the context's database, because in a transaction, Valkey 9.1 returns the client's database for a key
    // that MOVE or COPY wrote to another database.
    let database = key.database().unwrap_or(key.ctx().database());
    let seen = SortedSet::new(key).and_then(|mut set| SetSnapshot::of(&mut set));
    let reason = match kind {
        EventKind::Restore => Reason::Restored,
        EventKind::RenameTo | EventKind::MoveTo | EventKind::CopyTo if was_dirty(ctx, database, name, seen) => {
            Reason::Dirty
        }
        _ => Reason::Nothing,
    };
    tracker::update(ctx, |tracking| {
        let (sets, key) = (tracking.database(database), name.bytes());
        match seen {
            Some(SetSnapshot::Marked(due)) => sets.track(key, due),
            Some(SetSnapshot::Unmarked { ttl, highest, .. })
                if marker::is_expiring(highest, Some(ttl), reason, now) =>
            {
                sets.note_dirty(key, ttl);
            }
            _ => sets.forget(key),
        }
    });
}

/// Whether the source of a moved or copied key was dirty. The source is not always known: the event of COPY does not
/// name it, and a listener of another module may have moved the set again after RENAME. So this function looks for a
/// dirty set with the same TTL as this key. Such a set is the source if it no longer exists, or if it has the same
/// number of members and the same highest score.
fn was_dirty(ctx: &mut Context, database: i32, name: Str<'_>, seen: Option<SetSnapshot>) -> bool {
    let Some(SetSnapshot::Unmarked { ttl, .. }) = seen else { return false };
    let here = ctx.database();
    let is_source = |ctx: &mut Context, key: &DbKey| {
        let source = OwnedStr::new(&key.name);
        ctx.select(key.database);
        let Some(mut set) = SortedSet::new(ReadKey::open_notouch(ctx, source.as_str())) else { return false };
        let (is_gone, is_same) = (set.is_empty(), SetSnapshot::of(&mut set) == seen);
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
