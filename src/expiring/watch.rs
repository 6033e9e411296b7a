//! The server's events about sets: created, deleted, moved, or changed by plain commands.
//!
//! The module subscribes to these events when the first expiring set exists, or when a ZEXP command names a key. The
//! scan finds earlier changes.
//!
//! The handlers only note what happened, and never write. The server calls the handlers for all keys, including
//! strings, so most events must cost only one lookup in the tracker. After EXPIRE, the handler opens an untracked key
//! only if members of any sorted set were written just before. In replication and in an AOF, the commands have this
//! order. In other cases, the scan finds the set later.

use super::check::{inspect, restore_markers};
use super::tracker::{self, Standing};
use crate::server::events::{EventKind, KeyEvent, ServerEvent};
use crate::server::key::ReadKey;
use crate::server::{Context, Str};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Whether members of any sorted set were written since the last EXPIRE.
static IS_WRITTEN: AtomicBool = AtomicBool::new(false);

/// The source database of the last MOVE.
static MOVED_FROM: AtomicI32 = AtomicI32::new(0);

pub fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
    if event.is_ours {
        return;
    }
    let standing = tracker::standing_of(ctx, event.key);
    let is_tracked = matches!(standing, Standing::Clean | Standing::Dirty);
    if event.kind == EventKind::MoveFrom {
        MOVED_FROM.store(ctx.database(), Ordering::Relaxed);
    }
    match event.kind {
        _ if standing == Standing::Arriving => {}
        EventKind::RenameTo | EventKind::MoveTo | EventKind::CopyTo | EventKind::Restore => {
            inspect(ctx, event.key, event.kind);
        }
        _ if event.of_sorted_set => {
            IS_WRITTEN.store(true, Ordering::Relaxed);
            if standing == Standing::Clean {
                note_changed(ctx, event.key);
            }
        }
        EventKind::Expire if is_tracked || IS_WRITTEN.load(Ordering::Relaxed) => {
            IS_WRITTEN.store(false, Ordering::Relaxed);
            inspect(ctx, event.key, event.kind);
        }
        // Keeps the entry of a dirty set, because the module recognizes the set at its new key by this entry.
        EventKind::RenameFrom | EventKind::MoveFrom if standing == Standing::Dirty => {}
        EventKind::Gone | EventKind::Persist | EventKind::RenameFrom | EventKind::MoveFrom if is_tracked => {
            tracker::forget(ctx, event.key);
        }
        _ => {}
    }
    // In Valkey 8.1 and 9.0, handlers run with the client itself, and MOVE leaves the client in the target database
    // (valkey#4024). So the handler selects the source database again, which is harmless on other servers.
    if event.kind == EventKind::MoveTo {
        ctx.select(MOVED_FROM.load(Ordering::Relaxed));
    }
}

pub fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
    match event {
        ServerEvent::BecameMaster | ServerEvent::Loaded => tracker::begin_scan(ctx),
        ServerEvent::BecameReplica => tracker::stop(ctx),
        ServerEvent::Flushed(database) => tracker::with(ctx, |tracking| tracking.flush(database)),
        ServerEvent::Swapped(one, other) => tracker::update(ctx, |tracking| tracking.swap(one, other)),
        ServerEvent::SlotsArrive(slots) => tracker::note_slots_arrive(ctx, slots),
        ServerEvent::SlotsSettled(slots) => tracker::note_slots_settled(ctx, slots),
        ServerEvent::Cron => {
            tracker::catch_up(ctx);
            restore_markers(ctx);
            tracker::on_cron(ctx);
        }
        // A dataset that is loaded aside matters only when the server serves it, which `Loaded` reports.
        ServerEvent::LoadsAside | ServerEvent::LoadAborted => {}
    }
}

/// Notes that plain commands changed a tracked set. If the key has no TTL, it is no longer an expiring set, because
/// another value has replaced the set.
fn note_changed(ctx: &mut Context, name: Str<'_>) {
    let ttl = ReadKey::open_notouch(ctx, name).expires_at();
    let (database, key) = (ctx.database(), name.bytes());
    tracker::with(ctx, |tracking| match ttl {
        Some(ttl) => tracking.note_dirty(database, key, ttl),
        None => tracking.forget(database, key),
    });
}
