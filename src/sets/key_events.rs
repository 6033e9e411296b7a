//! The server's events about sets: created, deleted, moved, or changed by plain commands.
//!
//! The module subscribes to these events when the first expiring set exists, or when a ZEXP command names a key. The
//! keyspace scan finds earlier changes.
//!
//! The handlers only note what happened, and never write. The server calls the handlers for all keys, including
//! strings, so most events must cost only one lookup in the tracker.
//!
//! The tag `zeitset:expiring` makes a sorted set an expiring set. Plain commands, the server's own, can move the tag:
//!
//! - A command that removes a range, such as ZPOPMIN, may take the tag along. If the tracker knows the set, the tag is
//!   added again. ZREM of the tag by name releases the set: it is ordinary from then on.
//! - A STORE command copies the tag into its result, which must stay an ordinary set. So the tag is removed.
//!
//! The server allows no write in a handler. So the handler notes the pending tag, and [`resolve_tags`] adds or removes
//! the tag: from Redis 7.2 on right after the command, transaction or script, on Redis 7.0 within milliseconds. On a
//! replica, the handlers also note tags that were removed or copied, but only commands from the master add or remove the
//! tags.
//!
//! If the key is renamed or moved before that, the handlers note the tag for the new key. An event of COPY or RESTORE
//! does not name the source, so the handlers guess: a copy that looks like a set with a copied tag is taken for a copy of
//! this set. A wrong guess makes the copy of an expiring set ordinary, and deletes no member. So there is no such guess
//! for a set without its tag: the copy of an ordinary set that looks like it would get a tag, and lose members. Such
//! copies are ordinary.

use super::scan::SetKind;
use super::sweeper::{resolve_soon, resolve_tags};
use super::{tag, tracker};
use crate::base::db_key::DbKey;
use crate::base::time::{self, Millis, NEVER};
use crate::server::events::{EventKind, KeyEvent, ServerEvent};
use crate::server::key::{ReadKey, Reading};
use crate::server::zset::SortedSet;
use crate::server::{Context, OwnedStr, Str};
use crate::sets::index::{AT_ONCE, PendingTag};
use std::sync::atomic::{AtomicI32, Ordering};

/// The source database of the last MOVE.
static MOVED_FROM: AtomicI32 = AtomicI32::new(0);

pub fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
    if event.is_ours {
        return;
    }
    if !tracker::is_arriving(ctx, event.key) {
        on_change(ctx, event);
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

fn on_change(ctx: &mut Context, event: &KeyEvent<'_>) {
    let (database, key) = (ctx.database(), event.key.bytes());
    match event.kind {
        EventKind::Gone => gone(ctx, database, event.key),
        EventKind::RenameFrom | EventKind::MoveFrom => {
            tracker::with(ctx, |tracking| tracking.begin_move(database, key));
        }
        EventKind::RenameTo | EventKind::MoveTo => on_moved(ctx, event),
        EventKind::CopyTo | EventKind::Restore => {
            let is_copied = is_copy_of_pending(ctx, event.key);
            inspect(ctx, event.key, is_copied);
        }
        EventKind::StoreSortedSet => on_store(ctx, event.key),
        EventKind::RemoveMembers | EventKind::RemoveRange | EventKind::ChangeScores => on_members_changed(ctx, event),
        EventKind::Other => {}
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
            resolve_tags(ctx);
            tracker::on_cron(ctx);
        }
        // A dataset that is loaded aside matters only when the server serves it, which `Loaded` reports.
        ServerEvent::AsyncLoadStarted | ServerEvent::AsyncLoadAborted => {}
    }
}

/// Notes that a key's tag `zeitset:expiring` must be added or removed. [`resolve_tags`] adds or removes the tag as soon
/// as the server allows this.
fn note_pending(ctx: &Context, database: i32, name: Str<'_>, tag: PendingTag) {
    tracker::note_pending(ctx, database, name.bytes(), tag);
    resolve_soon(ctx);
}

/// Returns the database of an event's key. In a transaction, Valkey 9.1 selects the client's database, even if MOVE or
/// COPY wrote the key to another database. But the open key has the right database.
fn database_of(ctx: &mut Context, name: Str<'_>) -> i32 {
    let database = ctx.database();
    ReadKey::open_notouch(ctx, name).database().unwrap_or(database)
}

/// Reads a sorted set without side effects. `None` if the key is missing or has another type.
fn read<'c>(ctx: &'c mut Context, name: Str<'_>) -> Option<SortedSet<'c, Reading>> {
    SortedSet::new(ReadKey::open_notouch(ctx, name)).filter(|set| !set.is_empty())
}

/// Handles a key that has got this name by RENAME or MOVE. Usually, the tracker knows the key by its old name.
///
/// If not, this function reads the key in two cases:
///
/// - During a first scan, the key may be an expiring set that the scan has not found yet.
/// - If a listener of another module has moved a key between the two events of its RENAME or MOVE, a tag that a STORE
///   command has copied may be in this key. This is the case if a key with such a tag is being moved, or if the tag is
///   no longer where the tracker noted it.
fn on_moved(ctx: &mut Context, event: &KeyEvent<'_>) {
    let (database, tag) = (ctx.database(), tag::name(ctx));
    let database = if event.kind == EventKind::MoveTo { database_of(ctx, event.key) } else { database };
    let (is_known, is_copied_moving) =
        tracker::with(ctx, |tracking| (tracking.end_move(database, event.key.bytes()), tracking.is_copied_moving()));
    if is_known {
        return;
    }
    let is_elsewhere = |set: Option<SortedSet<'_, Reading>>| set.is_none_or(|set| set.score(tag).is_none());
    let is_copied = is_copied_moving || any_copied(ctx, database, is_elsewhere);
    if is_copied || tracker::is_first_scan(ctx) {
        inspect(ctx, event.key, is_copied);
    }
}

/// Handles a set that a STORE command has made. The set must be ordinary, so if the tag was copied into it, the tag
/// must be removed.
fn on_store(ctx: &mut Context, name: Str<'_>) {
    let (database, tag) = (ctx.database(), tag::name(ctx));
    let is_copied = read(ctx, name).is_some_and(|set| set.score(tag).is_some());
    gone(ctx, database, name);
    if is_copied {
        note_pending(ctx, database, name, PendingTag::Copied);
    }
}

/// Handles a change of a set's members by a plain command.
fn on_members_changed(ctx: &mut Context, event: &KeyEvent<'_>) {
    let (database, name, tag) = (ctx.database(), event.key, tag::name(ctx));
    let known =
        tracker::with(ctx, |tracking| (tracking.due(database, name.bytes()), tracking.pending(database, name.bytes())));
    if known == (None, None) {
        // On a replica, a new set appears as a ZADD. During the first scan, it may be a set that the scan has not met.
        if event.kind == EventKind::ChangeScores && (!ctx.is_master() || tracker::is_first_scan(ctx)) {
            inspect(ctx, name, false);
        }
        return;
    }
    let (due, pending) = known;
    // If the set is empty, a `del` event follows.
    let Some(mut set) = read(ctx, name) else { return };
    let note = match (set.score(tag), pending, event.kind) {
        (Some(_), Some(PendingTag::Copied), _) => return,
        (None, Some(PendingTag::Copied), _) => Note::Settled,
        (Some(tag::SCORE), _, EventKind::RemoveRange) if has_others_like_tag(&mut set) => {
            Note::Pending(PendingTag::Suspected)
        }
        (Some(tag::SCORE), Some(_), _) => Note::Settled,
        // ZPOPMAX may have sent its event before it removes more members. If only the tag is left, the set must go.
        (Some(tag::SCORE), None, EventKind::RemoveRange) => Note::Due(AT_ONCE),
        (Some(tag::SCORE), None, _) => match earlier_due(&mut set, due.unwrap_or(NEVER)) {
            Some(due) => Note::Due(due),
            None => return,
        },
        (None, None | Some(PendingTag::Suspected), EventKind::RemoveRange) => Note::Pending(PendingTag::Taken),
        (None, Some(PendingTag::Taken | PendingTag::Legacy(_)), _) => return,
        // ZADD removes no member, so the command that is suspected has removed the tag.
        (None, Some(PendingTag::Suspected), EventKind::ChangeScores) => return,
        // ZREM has removed the tag by name, or ZADD has changed its score.
        _ => Note::Released,
    };
    drop(set);
    match note {
        Note::Pending(PendingTag::Suspected) if !ctx.is_master() => {}
        Note::Pending(pending) => note_pending(ctx, database, name, pending),
        Note::Settled => tracker::with(ctx, |tracking| tracking.forget_pending(database, name.bytes())),
        Note::Due(due) => track(ctx, database, name, due),
        Note::Released => gone(ctx, database, name),
    }
}

fn gone(ctx: &Context, database: i32, name: Str<'_>) {
    tracker::with(ctx, |tracking| tracking.gone(database, name.bytes()));
}

fn track(ctx: &Context, database: i32, name: Str<'_>, due: Millis) {
    tracker::update(ctx, |tracking| {
        tracking.database(database).track(name.bytes(), due);
        true
    });
}

/// What the tracker must note after a plain command has changed a set.
enum Note {
    Pending(PendingTag),
    Settled,
    Due(Millis),
    Released,
}

/// Whether members besides the tag `zeitset:expiring` have its score, `-inf`. ZPOPMIN may remove them before the tag.
fn has_others_like_tag(set: &mut SortedSet<'_, Reading>) -> bool {
    set.range(tag::SCORE, tag::SCORE).has_more_than(1)
}

/// Returns when the sweeper must visit an expiring set, if this is earlier than `due`.
fn earlier_due(set: &mut SortedSet<'_, Reading>, due: Millis) -> Option<Millis> {
    let before = time::to_score(due.min(time::MAX)).next_down();
    if set.len() > 1 && !set.range(f64::NEG_INFINITY, before).has_more_than(1) {
        return None;
    }
    match SetKind::of(set) {
        SetKind::Expiring(due) => Some(due),
        _ => None,
    }
}

/// Reads a key after an event. Tracks the key if it is an expiring set, and otherwise forgets it. If `is_copied` is
/// true and the key has the tag `zeitset:expiring`, a STORE command has copied the tag, and the module must remove it.
fn inspect(ctx: &mut Context, name: Str<'_>, is_copied: bool) {
    let key = ReadKey::open_notouch(ctx, name);
    // As `database_of`, but opens the key only once.
    let database = key.database().unwrap_or(key.ctx().database());
    let set = SortedSet::new(key).filter(|set| !set.is_empty());
    let kind = set.map_or(SetKind::Ordinary, |mut set| SetKind::of(&mut set));
    gone(ctx, database, name);
    match kind {
        SetKind::Expiring(_) if is_copied => note_pending(ctx, database, name, PendingTag::Copied),
        SetKind::Expiring(due) => track(ctx, database, name, due),
        SetKind::Legacy(ttl) if ctx.is_master() => note_pending(ctx, database, name, PendingTag::Legacy(ttl)),
        _ => {}
    }
}

/// Whether COPY or RESTORE has written this key as a copy of a set whose tag must be removed. The event does not name
/// the source, so this function compares the key with these sets: the numbers of members and the last members.
fn is_copy_of_pending(ctx: &mut Context, name: Str<'_>) -> bool {
    if !tracker::with(ctx, |tracking| tracking.has_pending()) {
        return false;
    }
    let here = database_of(ctx, name);
    let ends = |set: &mut SortedSet<'_, Reading>| (set.len(), set.last().map(|last| last.member.bytes().to_vec()));
    let Some(copy) = read(ctx, name).map(|mut set| ends(&mut set)) else { return false };
    // The copy may have replaced one of these sets, and would be compared with itself.
    gone(ctx, here, name);
    any_copied(ctx, here, |source| source.is_some_and(|mut source| ends(&mut source) == copy))
}

/// Whether `is_meant` is true of any set into which a STORE command has copied the tag and from which the module must
/// still remove it. `is_meant` gets `None` if the key holds no sorted set. Selects the database `here` afterwards.
///
/// Reads at most `SOME` sets, because COPY, RESTORE, RENAME and MOVE call this function. If there are more, returns
/// true: then the caller's key becomes ordinary, and no member is deleted.
fn any_copied(ctx: &mut Context, here: i32, is_meant: impl Fn(Option<SortedSet<'_, Reading>>) -> bool) -> bool {
    const SOME: usize = 16;
    let keys = tracker::with(ctx, |tracking| tracking.copied(SOME + 1));
    if keys.is_empty() || keys.len() > SOME {
        return !keys.is_empty();
    }
    let is_any = keys.iter().any(|DbKey { database, name }| {
        let name = OwnedStr::new(name);
        ctx.select(*database) && is_meant(read(ctx, name.as_str()))
    });
    ctx.select(here);
    is_any
}
