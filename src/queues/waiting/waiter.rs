//! Blocked clients. A woken client checks its queues, and claims jobs. When the timer fires, [`check_due`] checks the
//! due queues. The clients and the timer are in [`super`].

use super::model::name::block_name;
use super::model::{Client, Turn};
use super::{STATE, TIMER, update, update_and_wake};
use crate::base::db_key::{DbKey, DbKeyRef};
use crate::base::time::{Micros, Millis};
use crate::error::Error;
use crate::queues::claiming::{ClaimRequest, claim, prepare_claim, reply_nothing};
use crate::queues::{OpenQueue, QueueValue};
use crate::server::blocking::{Blockable, Wait};
use crate::server::events::ServerEvent;
use crate::server::key::Writing;
use crate::server::{Context, OwnedStr, Str, catch_panic};

/// Sets the task of the timer: to check the due queues.
pub fn start(ctx: &Context) {
    TIMER.set_task(ctx, check_due);
}

pub fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
    match event {
        ServerEvent::Cron => on_cron(ctx),
        // After these events, a key may hold another queue, or the server may serve clients again. So all queues are
        // checked.
        ServerEvent::BecameMaster
        | ServerEvent::Loaded
        | ServerEvent::Swapped(..)
        | ServerEvent::SlotImportEnded(_) => {
            let now = ctx.now();
            update(ctx, now, |waiting| waiting.check_all(now));
        }
        _ => {}
    }
}

fn on_cron(ctx: &mut Context) {
    TIMER.catch_up(ctx);
    let now = ctx.now();
    STATE.with(ctx, |state| {
        if !state.waiting.is_empty() {
            TIMER.set(ctx, state.waiting.tick(now, || ctx.may_write_by_itself()));
        }
    });
}

/// Checks the due queues when the timer has fired.
fn check_due(ctx: &mut Context) {
    let clock = ctx.micros();
    let now = clock / 1000;
    // A writable replica may have waiting clients. The server wakes them only after its promotion.
    let due = STATE.with(ctx, |state| state.waiting.fired(now, || ctx.may_write_by_itself()));
    for db_key in due {
        // A queue whose check panics must not block the clients of other queues.
        catch_panic(|| {
            if ctx.select(db_key.database) {
                check_queue(ctx, OwnedStr::new(&db_key.name).as_str(), clock, None);
            }
        });
    }
    update(ctx, now, |_| ());
}

/// Checks a queue, and tells the model when the queue becomes claimable. If the queue is claimable now, wakes the first
/// client that waits for it.
///
/// `client` is the woken client that calls this function. Returns whether this client may claim now. Without `client`,
/// returns false. Only a call without `client` may change the queue, by [`prepare_claim`].
fn check_queue(ctx: &mut Context, key: Str<'_>, clock: Micros, client: Option<Client>) -> bool {
    let now = clock / 1000;
    STATE.with(ctx, |state| state.stats.checks += 1);
    let (next, is_unprepared) = match OpenQueue::open_notouch(ctx, key) {
        // A woken client must get a job. So another check must first carry out the declaration.
        Ok(open) if client.is_some() && open.queue().is_declaration_due(now) => (Some(now + 1), false),
        Ok(open) => {
            open.stored().into_iter().for_each(QueueValue::note_use);
            let queue = open.queue();
            let is_unprepared = client.is_none() && (queue.needs_settling(now) || queue.is_declaration_due(now));
            (queue.next_claimable(now), is_unprepared)
        }
        Err(_) => (None, false),
    };
    let is_ready = is_unprepared || next == Some(now);
    let allowed = is_ready && ctx.may_serve(key);
    if is_unprepared && allowed {
        prepare_claim(ctx, key, now);
        return false;
    }
    let next = if is_ready { Some(now) } else { next };
    let db_key = DbKeyRef { database: ctx.database(), name: key.bytes() };
    let mut first = None;
    update_and_wake(ctx, now, |waiting| {
        first = waiting.checked(&db_key, now, next, allowed);
        first.filter(|_| first != client)
    });
    first.is_some() && first == client
}

pub struct Waiter {
    number: Client,
    /// The client's user when the client began to wait.
    user: Option<OwnedStr>,
    /// The keys in the order of the command. Empty after the client was served or timed out.
    db_keys: Vec<DbKey>,
    /// The key whose queue will serve the client, and the time of the claim.
    turn: Option<(DbKey, Micros)>,
    request: ClaimRequest,
}

impl Waiter {
    /// Blocks the client of the current command until one of the keys has a claimable job, or for at most `timeout` ms
    /// (0 means no timeout). `clock` is the time of the command.
    pub fn block(
        ctx: &mut Context,
        client: Blockable<'_>,
        keys: &[Str<'_>],
        timeout: Millis,
        request: ClaimRequest,
        clock: Micros,
    ) {
        let now = clock / 1000;
        let (database, user) = (ctx.database(), ctx.user_name());
        let db_keys: Vec<_> = keys.iter().map(|key| DbKey::new(database, key.bytes())).collect();
        let number = STATE.with(ctx, |state| {
            state.last_client += 1;
            let number = state.last_client;
            db_keys.iter().for_each(|db_key| state.waiting.join(db_key, number, now));
            state.stats.clients += 1;
            number
        });
        // The server blocks the client on a key with this name. The name must be in the slot of the client's keys,
        // which are all in one slot.
        let name = block_name(number, keys.first().map_or(b"", |key| key.bytes()));
        let blocked = ctx.block(client, &name, timeout, Waiter { number, user, db_keys, turn: None, request });
        STATE.with(ctx, |state| state.clients.insert(number, blocked));
        for &key in keys {
            check_queue(ctx, key, clock, None);
        }
    }

    /// Removes the client from the model. `served` is the key that serves the client, if any.
    fn leave(&mut self, ctx: &Context, served: Option<&DbKey>, now: Millis) {
        let db_keys = std::mem::take(&mut self.db_keys);
        if db_keys.is_empty() {
            return;
        }
        let number = self.number;
        update(ctx, now, |waiting| {
            for db_key in &db_keys {
                if served == Some(db_key) {
                    waiting.serve(db_key, number);
                } else {
                    waiting.leave(db_key, number, now);
                }
            }
        });
        STATE.with(ctx, |state| {
            state.stats.clients -= 1;
            state.clients.remove(&number);
        });
    }

    /// Returns the first of the client's keys that has a job for this client. Returns `None` if no key has such a job,
    /// or if an earlier client must claim first.
    fn find_turn(&self, ctx: &mut Context, clock: Micros) -> Option<&DbKey> {
        let now = clock / 1000;
        for (nth, db_key) in self.db_keys.iter().enumerate() {
            let turn = |ctx: &Context| STATE.with(ctx, |state| state.waiting.turn(db_key, self.number, now));
            if turn(ctx) == Turn::Check
                && ctx.select(db_key.database)
                && check_queue(ctx, OwnedStr::new(&db_key.name).as_str(), clock, Some(self.number))
            {
                return Some(db_key);
            }
            if turn(ctx) == Turn::Wait {
                STATE.with(ctx, |state| state.waiting.wait_behind(db_key, &self.db_keys[nth + 1..], self.number));
                return None;
            }
        }
        None
    }

    /// Whether the client's user may still claim from the client's keys. The user's rights may have changed since the
    /// command.
    fn may_still_claim(&self, ctx: &Context) -> bool {
        let Some(user) = &self.user else { return true };
        // A client whose user was deleted has another user until the server disconnects the client.
        if ctx.user_name().is_none_or(|name| name.as_str().bytes() != user.as_str().bytes()) {
            return false;
        }
        let count = self.db_keys.len().to_string();
        let head = [&b"ZQ.CLAIM"[..], count.as_bytes()].into_iter();
        let keys = self.db_keys.iter().map(|db_key| &*db_key.name);
        let words: Vec<_> = head.chain(keys).chain([&b"LEASE"[..], b"1"]).map(OwnedStr::new).collect();
        let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
        ctx.user().is_some_and(|user| user.may_run(&words))
    }
}

impl Wait for Waiter {
    fn is_servable(&mut self, ctx: &mut Context) -> bool {
        let clock = ctx.micros();
        self.turn = self.find_turn(ctx, clock).map(|db_key| (db_key.clone(), clock));
        self.turn.is_some()
    }

    fn serve(&mut self, ctx: &mut Context) {
        let Some((db_key, clock)) = self.turn.clone() else { return self.time_out(ctx) };
        let (key, now) = (OwnedStr::new(&db_key.name), clock / 1000);
        if !self.may_still_claim(ctx) {
            self.leave(ctx, None, now);
            return ctx.reply_error(Error::NoPermission);
        }
        let Ok(open) = OpenQueue::<Writing>::open(ctx, key.as_str()) else { return self.time_out(ctx) };
        self.leave(open.ctx(), Some(&db_key), now);
        STATE.with(open.ctx(), |state| state.stats.served += 1);
        if !claim(open, key.as_str(), clock, &self.request) {
            reply_nothing(ctx);
        }
    }

    fn time_out(&mut self, ctx: &mut Context) {
        self.leave(ctx, None, ctx.now());
        reply_nothing(ctx);
    }

    fn end(mut self, ctx: &mut Context) {
        self.leave(ctx, None, ctx.now());
    }
}
