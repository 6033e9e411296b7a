//! What we learn from the server's events: sets that come, go, move, or are changed by plain commands.
//!
//! Handlers only note what happened; nothing is ever written from within one. They are called for everybody's keys, so
//! what most events need is one look into the index.

use super::patrol::next_visit;
use super::sweeper;
use crate::model::marker::Kind;
use crate::model::time::{self, Millis};
use crate::server::Context;
use crate::server::Str;
use crate::server::events::{KeyEvent, Listener, ServerEvent};
use crate::server::key::{Key, Mode};
use crate::server::zset::SortedSet;
use std::sync::atomic::{AtomicI32, Ordering};

/// How far the TTL of a set that was just restored may be off the marker: MIGRATE sends it as remaining time.
const RESTORED: Millis = 1000;

/// The database that the MOVE under way takes a key from. Valkey 8.1 and 9.0 run handlers on the client itself and forget to
/// give it its database back, so that after MOVE it would go on in the other one (valkey#4024). We give it back; other
/// servers do not mind.
static MOVED_FROM: AtomicI32 = AtomicI32::new(0);

/// Listens for as long as the module is loaded.
pub struct Watch;

impl Listener for Watch {
    fn on_key(ctx: Context<'_>, event: &KeyEvent<'_>) {
        if sweeper::is_announcing() || sweeper::is_arriving(ctx, event.key) {
            return;
        }
        match event.name {
            _ if event.of_sorted_set => {
                sweeper::touch(ctx, event.key, || Key::open(ctx, event.key, Mode::Glance).expires_at());
            }
            b"del" | b"expired" | b"evicted" | b"persist" => sweeper::forget(ctx, event.key),
            b"rename_from" => sweeper::leave(ctx, event.key),
            b"move_from" => {
                MOVED_FROM.store(ctx.database(), Ordering::Relaxed);
                sweeper::leave(ctx, event.key);
            }
            b"move_to" => {
                look(ctx, event.key, Came::Moved);
                ctx.select(MOVED_FROM.load(Ordering::Relaxed));
            }
            b"expire" => look(ctx, event.key, Came::AsItIs),
            b"restore" => look(ctx, event.key, Came::Restored),
            b"rename_to" | b"copy_to" => look(ctx, event.key, Came::Moved),
            _ => {}
        }
    }

    fn on_server(ctx: Context<'_>, event: ServerEvent<'_>) {
        match event {
            ServerEvent::BecameMaster | ServerEvent::Loaded => sweeper::patrol_now(ctx),
            ServerEvent::BecameReplica => sweeper::stop(ctx),
            ServerEvent::Flushed(database) => sweeper::change(ctx, |index, _| index.forget_database(database)),
            ServerEvent::Swapped(one, other) => sweeper::change(ctx, |index, _| index.swap(one, other)),
            ServerEvent::SlotsArrive(slots) => sweeper::keep_off(ctx, slots),
            ServerEvent::SlotsArrived(slots) | ServerEvent::SlotsStayAway(slots) => sweeper::take_over(ctx, slots),
            ServerEvent::Cron => sweeper::on_cron(ctx),
        }
    }
}

/// How a key came to be what it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// Somebody set its TTL.
    AsItIs,
    /// By RESTORE.
    Restored,
    /// By RENAME, MOVE or COPY.
    Moved,
}

/// Looks what a key is now, and tracks it if it is an expiring set, or would be one but for what its way here did to it. If it
/// is none, then somebody has said so (EXPIRE), and it is forgotten.
fn look(ctx: Context<'_>, name: Str<'_>, came: Came) {
    let now = ctx.now();
    let key = Key::open(ctx, name, Mode::Glance);
    // Not the context's: in a transaction, Valkey 9.1 gives the client's for a key that MOVE or COPY took somewhere else.
    let database = key.database().unwrap_or(ctx.database());
    let Some(mut set) = SortedSet::new(key) else {
        return sweeper::change(ctx, |index, _| index.forget(database, name.bytes()));
    };
    let found = next_visit(&mut set);
    let ttl = set.key().expires_at();
    let highest = set.last().map(|last| last.score);
    drop(set);
    let is_off = match (came, highest) {
        (Came::Restored, Some(highest)) => {
            highest > time::to_score(now) && Kind::Expiring.nearly_holds(highest, ttl, RESTORED)
        }
        // Before it was healed, perhaps.
        (Came::Moved, Some(_)) => sweeper::is_unhealed(ctx, ttl),
        _ => false,
    };
    match found {
        Some(due) => sweeper::change(ctx, |index, _| index.track(database, name.bytes(), due)),
        None if is_off => sweeper::heal(ctx, database, name),
        None => sweeper::change(ctx, |index, _| index.forget(database, name.bytes())),
    }
}
