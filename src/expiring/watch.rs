//! What we learn from the server's events: sets that come, go, move, or are changed by plain commands.
//!
//! The server tells of them from the moment on at which this server has its first expiring set, or is called for one. What came before
//! is the patrol's to find.
//!
//! Handlers only note what happened; nothing is ever written from within one. They are called for everybody's keys, strings among
//! them, so what most events cost is one look into the index, and no key is opened that cannot have become an expiring set:
//!
//! - EXPIRE makes one of a sorted set that was not known only when members with their scores came just before, as in the stream from a
//!   master and in an AOF file. Of a TTL given by hand to a set written earlier, the patrol finds out.
//! - RENAME takes what is known of a set along. A set not known was none, once the patrol has been everywhere.

use super::healer;
use super::patrol::next_visit;
use super::tracker::{self, Standing};
use crate::model::marker::Kind;
use crate::model::place::Place;
use crate::model::time::{self, Millis};
use crate::model::tracking::{Arrival, Left};
use crate::server::events::{Happened, KeyEvent, Listener, ServerEvent};
use crate::server::key::{ReadKey, Reading};
use crate::server::zset::SortedSet;
use crate::server::{Context, OwnedStr, Str};
use std::sync::atomic::{AtomicU64, Ordering};

/// The sorted set whose members were last changed, see [`fingerprint`].
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// A number by which a key is known again. Others may have the same.
fn fingerprint(key: Str<'_>) -> u64 {
    let bytes = key.bytes();
    let word = |part: &[u8]| part.iter().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
    let (first, last) = (&bytes[..bytes.len().min(8)], &bytes[bytes.len().saturating_sub(8)..]);
    word(first).rotate_left(29) ^ word(last) ^ bytes.len() as u64
}

/// Listens for as long as the module is loaded.
pub struct Watch;

impl Listener for Watch {
    fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
        if event.is_ours {
            return;
        }
        let standing = tracker::standing_of(ctx, event.key);
        let is_tracked = standing == Standing::Tracked;
        match event.happened {
            Happened::RenameFrom | Happened::MoveFrom => tracker::note_leaving(ctx, event.key),
            Happened::RenameTo | Happened::MoveTo => on_arrival(ctx, event, standing),
            _ if standing == Standing::Arriving => {}
            _ if event.of_sorted_set => {
                WRITTEN.store(fingerprint(event.key), Ordering::Relaxed);
                if is_tracked {
                    tracker::note_touched(ctx, event.key);
                }
            }
            Happened::Gone | Happened::Persist if is_tracked => tracker::forget(ctx, ctx.database(), event.key),
            Happened::Expire if is_tracked || WRITTEN.load(Ordering::Relaxed) == fingerprint(event.key) => {
                look_at_key(ctx, event.key, Came::AsItIs);
            }
            Happened::Restore => look_at_key(ctx, event.key, Came::Restored),
            Happened::CopyTo => look_at_key(ctx, event.key, Came::Copied),
            _ => {}
        }
    }

    fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
        match event {
            ServerEvent::BecameMaster | ServerEvent::Loaded => tracker::patrol_now(ctx),
            ServerEvent::BecameReplica => tracker::stop(ctx),
            ServerEvent::Flushed(database) => tracker::update(ctx, |tracking, _| tracking.flush(database)),
            ServerEvent::Swapped(one, other) => tracker::update(ctx, |tracking, _| tracking.swap(one, other)),
            ServerEvent::SlotsArrive(slots) => tracker::note_slots_arrive(ctx, slots),
            ServerEvent::SlotsArrived(slots) | ServerEvent::SlotsStayAway(slots) => {
                tracker::note_slots_settled(ctx, slots)
            }
            ServerEvent::Cron => {
                tracker::catch_up(ctx);
                healer::heal_touched(ctx);
                tracker::on_cron(ctx);
            }
            // What is loaded counts when it is served.
            ServerEvent::LoadsAside | ServerEvent::LoadAborted => {}
        }
    }
}

/// What RENAME or MOVE took from one place is at another one.
fn on_arrival(ctx: &mut Context, event: &KeyEvent<'_>, standing: Standing) {
    let left = tracker::note_arrived(ctx);
    let is_renamed = event.happened == Happened::RenameTo;
    if standing != Standing::Arriving && (!is_renamed || tracker::take_along(ctx, event.key, left) == Arrival::Unclear)
    {
        look_at_key(ctx, event.key, Came::Moved(left));
    }
    // Valkey 8.1 and 9.0 run handlers on the client itself and forget to give it its database back, so that after MOVE it would
    // go on in the other one (valkey#4024). We give it back; other servers do not mind.
    if let Some(database) = left.database.filter(|_| !is_renamed) {
        ctx.select(database);
    }
}

/// How a key came to be what it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// Somebody set its TTL.
    AsItIs,
    /// By RESTORE.
    Restored,
    /// By RENAME or MOVE.
    Moved(Left),
    Copied,
}

/// Looks what a key is now, and tracks it if it is an expiring set, or would be one but for what its way here did to it. If it
/// is none, then somebody has said so (EXPIRE), and it is forgotten.
fn look_at_key(ctx: &mut Context, name: Str<'_>, came: Came) {
    let now = ctx.now();
    let key = ReadKey::glance(ctx, name);
    // Not the context's: in a transaction, Valkey 9.1 gives the client's for a key that MOVE or COPY took somewhere else.
    let database = key.database().unwrap_or(key.ctx().database());
    let Some(mut set) = SortedSet::new(key) else {
        return tracker::forget(ctx, database, name);
    };
    let found = next_visit(&mut set);
    if found.is_none() && came == Came::AsItIs {
        drop(set);
        return tracker::forget(ctx, database, name);
    }
    let ttl = set.key().expires_at();
    let highest = set.last().map(|last| last.score);
    let members = set.len();
    drop(set);
    let is_off = match (came, highest) {
        (Came::Restored, Some(highest)) => {
            highest > time::to_score(now) && Kind::Expiring.may_have_held_before_restore(highest, ttl)
        }
        // Before it was healed, perhaps.
        (Came::Moved(left), Some(_)) => {
            // Another module that heard of RENAME first may have moved the set on: then nobody has said that it left.
            tracker::was_touched_on_leaving(ctx, left, ttl) || any_touched(ctx, ttl, |set| set.is_empty())
        }
        // The event of COPY does not say what was copied.
        (Came::Copied, Some(highest)) if found.is_none() => any_touched(ctx, ttl, |set| {
            set.key().expires_at() == ttl
                && set.len() == members
                && set.last().is_some_and(|last| last.score == highest)
        }),
        _ => false,
    };
    match found {
        Some(due) => tracker::update(ctx, |tracking, _| tracking.track(database, name.bytes(), due)),
        None if is_off => tracker::note_marker_off(ctx, database, name, ttl),
        None => tracker::forget(ctx, database, name),
    }
}

/// Whether what is now at the place of some set that was touched with this TTL is what is meant.
fn any_touched(ctx: &mut Context, ttl: Option<Millis>, is_meant: impl Fn(&mut SortedSet<'_, Reading>) -> bool) -> bool {
    let Some(ttl) = ttl else { return false };
    let here = ctx.database();
    let is_it = |ctx: &mut Context, place: &Place| {
        let name = OwnedStr::new(&place.key);
        let set = ctx.select(place.database).then(|| SortedSet::new(ReadKey::glance(ctx, name.as_str()))).flatten();
        set.is_some_and(|mut set| is_meant(&mut set))
    };
    let is_found = tracker::touched_with_ttl(ctx, ttl).iter().any(|place| is_it(ctx, place));
    ctx.select(here);
    is_found
}
