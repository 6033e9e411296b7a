//! The clients that wait for a job. The [`model`] decides which client to wake and when to check a queue. This file
//! tells the model about changes, wakes the client, and sets the timer.
//!
//! After a change of a queue, [`OpenQueue::commit`](super::OpenQueue::commit) calls [`note_queue_changed`]. When
//! RENAME, RESTORE, COPY or MOVE writes a queue to a key, [`wake_first`] wakes the first client that waits for the key.
//! The woken client checks the queue ([`waiter`]).

mod model;
mod waiter;

pub use waiter::{Waiter, on_server, start};

use crate::base::db_key::{DbKey, DbKeyRef};
use crate::base::time::Millis;
use crate::server::blocking::Blocked;
use crate::server::timer::Timer;
use crate::server::under_lock::UnderLock;
use crate::server::{Context, Str};
use hashbrown::HashMap;
use lazy_static::lazy_static;
use model::{Client, Waiting};
use redis_module::RedisLockIndicator;

lazy_static! {
    static ref STATE: UnderLock<Waiters> = UnderLock::new(Waiters::default());
    /// The timer of the next check. [`start`] sets its task.
    static ref TIMER: Timer = Timer::without_task();
}

#[derive(Default)]
struct Waiters {
    waiting: Waiting<DbKey>,
    clients: HashMap<Client, Blocked>,
    last_client: Client,
    stats: WaitingStats,
}

#[derive(Clone, Copy, Default)]
pub struct WaitingStats {
    pub clients: u64,
    pub served: u64,
    /// How often this module has checked a queue for a job for a waiting client.
    pub checks: u64,
}

/// Calls [`update`] with `change`. If `change` returns a client, wakes this client, which must wait for a key of the
/// current database.
fn update_and_wake(ctx: &Context, now: Millis, change: impl FnOnce(&mut Waiting<DbKey>) -> Option<Client>) {
    let Some(client) = update(ctx, now, change) else { return };
    STATE.with(ctx, |state| {
        if let Some(blocked) = state.clients.get(&client) {
            ctx.wake(blocked);
        }
    });
}

/// Calls `change` with the model, and arms or disarms the timer as the model requests. Returns the result of `change`.
fn update<R>(ctx: &Context, now: Millis, change: impl FnOnce(&mut Waiting<DbKey>) -> R) -> R {
    STATE.with(ctx, |state| {
        let result = change(&mut state.waiting);
        TIMER.set(ctx, state.waiting.alarm(now));
        result
    })
}

pub fn stats(holder: &impl RedisLockIndicator) -> WaitingStats {
    STATE.with(holder, |state| state.stats)
}

fn is_unused(ctx: &Context) -> bool {
    STATE.with(ctx, |state| state.waiting.is_empty())
}

pub fn is_waited_for(ctx: &Context, key: Str<'_>) -> bool {
    STATE.with(ctx, |state| {
        !state.waiting.is_empty()
            && state.waiting.is_waited_for(&DbKeyRef { database: ctx.database(), name: key.bytes() })
    })
}

/// Tells the model that the queue in `key` has changed, and that a job can be claimed at `next`. If `next` is not in
/// the future, wakes the first client that waits for the key.
pub(super) fn note_queue_changed(ctx: &Context, key: Str<'_>, now: Millis, next: Option<Millis>) {
    let db_key = DbKeyRef { database: ctx.database(), name: key.bytes() };
    update_and_wake(ctx, now, |waiting| waiting.checked(&db_key, now, next, true));
}

/// Disarms the timer, before the module is unloaded.
pub fn stop(ctx: &Context) {
    TIMER.disarm(ctx);
}

/// Wakes the first client that waits for a key. Called when RENAME, RESTORE, COPY or MOVE has written a queue to the
/// key.
pub(super) fn wake_first(ctx: &Context, database: i32, key: Str<'_>) {
    if !is_unused(ctx) {
        let (now, db_key) = (ctx.now(), DbKeyRef { database, name: key.bytes() });
        update_and_wake(ctx, now, |waiting| waiting.checked(&db_key, now, Some(now), true));
    }
}
