//! Clients that wait for a job, and what wakes them: the server's side of [`crate::model::waiting`], which decides.
//!
//! Whatever changes a queue passes through [`note_queue_changed`] (from [`OpenQueue::commit`]), which has the first client asked, or sets the moment
//! at which to look at the queue. Of queues that come by other ways the server tells ([`Watch`]); the client that is asked then looks at
//! the queue, and sets its moment. When a moment has come, a timer looks at the queue ([`look_at_due`]).

use super::OpenQueue;
use super::claiming::{Want, claim, reply_nothing, settle_rate};
use crate::error::Error;
use crate::model::place::{Place, PlaceRef};
use crate::model::time::{Micros, Millis};
use crate::model::waiting::name::name;
use crate::model::waiting::{Client, Turn, Waiting};
use crate::server::blocking::{Blocked, Wait};
use crate::server::events::{Happened, KeyEvent, Listener, ServerEvent};
use crate::server::key::{ReadKey, Writing};
use crate::server::shared::Shared;
use crate::server::timer::Timer;
use crate::server::{Context, OwnedStr, Str, survive};
use hashbrown::HashMap;
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;

lazy_static! {
    static ref STATE: Shared<State> = Shared::new(State::default());
    static ref TIMER: Timer = Timer::new(look_at_due);
}

#[derive(Default)]
struct State {
    waiting: Waiting<Place>,
    /// The clients that wait.
    clients: HashMap<Client, Blocked>,
    /// How many clients have ever waited.
    last_client: Client,
    figures: Figures,
}

/// For INFO.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// Clients that wait for a job.
    pub clients: u64,
    /// Clients that waited and got one.
    pub served: u64,
    /// Looks at queues for their sake.
    pub looks: u64,
}

/// As [`update`], and has the client asked that the model names. It waits in the context's database.
fn update_and_ask(ctx: &Context, now: Millis, whom: impl FnOnce(&mut Waiting<Place>) -> Option<Client>) {
    let Some(client) = update(ctx, now, whom) else { return };
    STATE.with(ctx, |state| {
        if let Some(blocked) = state.clients.get(&client) {
            ctx.wake(blocked);
        }
    });
}

/// Changes what is waited for, and sets the timer as the model wants it then.
fn update<R>(ctx: &Context, now: Millis, change: impl FnOnce(&mut Waiting<Place>) -> R) -> R {
    STATE.with(ctx, |state| {
        let result = change(&mut state.waiting);
        TIMER.set(ctx, state.waiting.alarm(now));
        result
    })
}

pub fn figures(holder: &impl RedisLockIndicator) -> Figures {
    STATE.with(holder, |state| state.figures)
}

fn is_unused(ctx: &Context) -> bool {
    STATE.with(ctx, |state| state.waiting.is_empty())
}

/// Whether a client waits for the key.
pub fn is_waited_for(ctx: &Context, key: Str<'_>) -> bool {
    STATE.with(ctx, |state| {
        !state.waiting.is_empty()
            && state.waiting.is_waited_for(&PlaceRef { database: ctx.database(), key: key.bytes() })
    })
}

/// A command has changed the queue in `key`, or a client has claimed from it. It is claimable from `next` on if nothing else happens.
/// If that is now, the first of those who wait is asked.
pub(super) fn note_queue_changed(ctx: &Context, key: Str<'_>, now: Millis, next: Option<Millis>) {
    let place = PlaceRef { database: ctx.database(), key: key.bytes() };
    update_and_ask(ctx, now, |waiting| waiting.looked(&place, now, next, true));
}

/// Disarms the timer, for the unloading of the module.
pub fn stop(ctx: &Context) {
    TIMER.disarm(ctx);
}

/// Listens to what the server does.
pub struct Watch;

impl Listener for Watch {
    /// The key holds another value than before.
    fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
        let has_come =
            matches!(event.happened, Happened::RenameTo | Happened::Restore | Happened::CopyTo | Happened::MoveTo);
        if !has_come || is_unused(ctx) {
            return;
        }
        // Not the context's: in a transaction, Valkey 9.1 gives the client's for a key that MOVE or COPY took somewhere else.
        let database = ReadKey::glance(ctx, event.key).database().unwrap_or(ctx.database());
        let (now, place) = (ctx.now(), PlaceRef { database, key: event.key.bytes() });
        update_and_ask(ctx, now, |waiting| waiting.replaced(&place, now));
    }

    fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
        match event {
            ServerEvent::Cron => on_cron(ctx),
            // What could not be served may be served from now on, or may be another queue.
            ServerEvent::BecameMaster
            | ServerEvent::Loaded
            | ServerEvent::Swapped(..)
            | ServerEvent::SlotsArrived(_)
            | ServerEvent::SlotsStayAway(_) => {
                let now = ctx.now();
                update(ctx, now, |waiting| waiting.look_at_all(now));
            }
            _ => {}
        }
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

/// What the timer does: looks at the queues whose moment has come.
fn look_at_due(ctx: &mut Context) {
    let clock = ctx.micros();
    let now = clock / 1000;
    // On a replica, only clients of a writable one can wait; they are woken when it is promoted.
    let due = STATE.with(ctx, |state| state.waiting.fired(now, || ctx.may_write_by_itself()));
    for place in due {
        // One that we cannot deal with must not keep the clients of the others waiting.
        survive(|| {
            if ctx.select(place.database) {
                look_at_queue(ctx, OwnedStr::new(&place.key).as_str(), clock);
            }
        });
    }
    update(ctx, now, |_| ());
}

/// Looks at a queue whose moment may have come.
fn look_at_queue(ctx: &mut Context, key: Str<'_>, clock: Micros) {
    crate::server::fault!("look");
    let now = clock / 1000;
    STATE.with(ctx, |state| state.figures.looks += 1);
    let (next, is_unsettled) = match OpenQueue::glance(ctx, key) {
        Ok(open) => (open.queue().next_wake(now), open.queue().needs_settling(now)),
        Err(_) => (None, false),
    };
    let is_ready = is_unsettled || next == Some(now);
    let allowed = is_ready && ctx.may_serve(key);
    if is_unsettled && allowed {
        return settle_rate(ctx, key, clock);
    }
    let next = if is_ready { Some(now) } else { next };
    let place = PlaceRef { database: ctx.database(), key: key.bytes() };
    update_and_ask(ctx, now, |waiting| waiting.looked(&place, now, next, allowed));
}

/// A client that waits for a job.
pub struct Waiter {
    number: Client,
    /// The user that it belongs to.
    user: Option<OwnedStr>,
    /// What it waits for, in its own order; nothing any more once it was served, or its time was up.
    places: Vec<Place>,
    /// What it is served from, and when.
    turn: Option<(Place, Micros)>,
    want: Want<'static>,
}

impl Waiter {
    /// Lets the client of the command under way wait for a job of any of the keys, for `timeout` ms (0: without an end). `clock` as the
    /// command read it.
    pub fn block(ctx: &mut Context, keys: &[Str<'_>], timeout: Millis, want: Want<'static>, clock: Micros) {
        let now = clock / 1000;
        let (database, user) = (ctx.database(), ctx.user_name());
        let places: Vec<_> = keys.iter().map(|key| Place::new(database, key.bytes())).collect();
        let number = STATE.with(ctx, |state| {
            state.last_client += 1;
            let number = state.last_client;
            places.iter().for_each(|place| state.waiting.enter(place, number, now));
            state.figures.clients += 1;
            number
        });
        // All keys lie in one slot.
        let name = name(number, keys.first().map_or(b"", |key| key.bytes()));
        let blocked = ctx.block(&name, timeout, Waiter { number, user, places, turn: None, want });
        STATE.with(ctx, |state| state.clients.insert(number, blocked));
        for &key in keys {
            look_at_queue(ctx, key, clock);
        }
    }

    /// From now on the client does not count as waiting. `served`: by this key.
    fn leave(&mut self, ctx: &Context, served: Option<&Place>, now: Millis) {
        let places = std::mem::take(&mut self.places);
        if places.is_empty() {
            return;
        }
        let number = self.number;
        update(ctx, now, |waiting| {
            for place in &places {
                if served == Some(place) {
                    waiting.serve(place, number);
                } else {
                    waiting.leave(place, number, now);
                }
            }
        });
        STATE.with(ctx, |state| {
            state.figures.clients -= 1;
            state.clients.remove(&number);
        });
    }

    /// The first of its keys that has a job for this client. None while that depends on a client that came earlier.
    fn find_turn(&self, ctx: &mut Context, now: Millis) -> Option<&Place> {
        for (nth, place) in self.places.iter().enumerate() {
            let turn = |ctx: &Context| STATE.with(ctx, |state| state.waiting.turn(place, self.number, now));
            if turn(ctx) == Turn::Look && self.look(ctx, place, now) {
                return Some(place);
            }
            if turn(ctx) == Turn::Wait {
                STATE.with(ctx, |state| state.waiting.wait_behind(place, &self.places[nth + 1..], self.number));
                return None;
            }
        }
        None
    }

    /// Looks whether it is this client's turn to claim from the queue. If it is that of another client, has that one asked.
    fn look(&self, ctx: &mut Context, place: &Place, now: Millis) -> bool {
        if !ctx.select(place.database) {
            return false;
        }
        STATE.with(ctx, |state| state.figures.looks += 1);
        let name = OwnedStr::new(&place.key);
        let next = OpenQueue::glance(ctx, name.as_str()).ok().and_then(|open| open.queue().next_wake(now));
        let allowed = next == Some(now) && ctx.may_serve(name.as_str());
        let mut is_its_turn = false;
        update_and_ask(ctx, now, |waiting| {
            let first = waiting.looked(place, now, next, allowed);
            is_its_turn = first == Some(self.number);
            first.filter(|_| !is_its_turn)
        });
        is_its_turn
    }

    /// Whether the ACL lets the client's user claim from these keys still: the server has asked when the command came.
    fn may_still_claim(&self, ctx: &Context) -> bool {
        let Some(user) = &self.user else { return true };
        // A client whose user was deleted is another's for a moment, and is then disconnected.
        if ctx.user_name().is_none_or(|name| name.as_str().bytes() != user.as_str().bytes()) {
            return false;
        }
        let count = self.places.len().to_string();
        let head = [&b"ZQ.CLAIM"[..], count.as_bytes()].into_iter();
        let keys = self.places.iter().map(|place| &*place.key);
        let words: Vec<_> = head.chain(keys).chain([&b"LEASE"[..], b"1"]).map(OwnedStr::new).collect();
        let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
        ctx.user().is_some_and(|user| user.may_run(&words))
    }
}

impl Wait for Waiter {
    fn is_servable(&mut self, ctx: &mut Context) -> bool {
        let clock = ctx.micros();
        self.turn = self.find_turn(ctx, clock / 1000).map(|place| (place.clone(), clock));
        self.turn.is_some()
    }

    fn serve(&mut self, ctx: &mut Context) {
        let Some((place, clock)) = self.turn.clone() else { return self.time_out(ctx) };
        let (key, now) = (OwnedStr::new(&place.key), clock / 1000);
        if !self.may_still_claim(ctx) {
            self.leave(ctx, None, now);
            return ctx.reply_error(Error::NoPermission);
        }
        let Ok(open) = OpenQueue::<Writing>::open(ctx, key.as_str()) else { return self.time_out(ctx) };
        self.leave(open.ctx(), Some(&place), now);
        STATE.with(open.ctx(), |state| state.figures.served += 1);
        claim(open, key.as_str(), clock, &self.want);
    }

    fn key(&self) -> OwnedStr {
        OwnedStr::new(self.turn.as_ref().map_or(b"", |(place, _)| &place.key))
    }

    fn time_out(&mut self, ctx: &mut Context) {
        self.leave(ctx, None, ctx.now());
        reply_nothing(ctx);
    }

    fn end(mut self, ctx: &mut Context) {
        self.leave(ctx, None, ctx.now());
    }
}
