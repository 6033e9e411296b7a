//! Clients that wait for a job, and what wakes them: the server's side of [`crate::model::waiting`], which decides.
//!
//! Whatever changes a queue passes through [`note_queue_changed`] (from [`OpenQueue::commit`]), which has the first client asked, or sets the moment
//! at which to look at the queue. Of queues that come by other ways the server tells ([`Watch`]); the client that is asked then looks at
//! the queue, and sets its moment. When a moment has come, a timer looks at the queue ([`look_at_due`]).

use super::OpenQueue;
use super::claiming::{Want, claim, reply_nothing, settle_rate};
use crate::model::place::{Place, PlaceRef};
use crate::model::time::{Micros, Millis};
use crate::model::waiting::name::name;
use crate::model::waiting::{Client, Waiting};
use crate::server::blocking::{Blocked, Wait};
use crate::server::events::{Happened, KeyEvent, Listener, ServerEvent};
use crate::server::key::{ReadKey, Writing};
use crate::server::shared::Shared;
use crate::server::timer::Timer;
use crate::server::{Context, OwnedStr, Str, survive};
use hashbrown::{Equivalent, HashMap};
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
    clients: HashMap<Client, Asked>,
    /// How many clients have ever waited.
    last_client: Client,
    figures: Figures,
}

/// How to ask a client.
struct Asked {
    blocked: Blocked,
    /// The queues for whose sake it was asked, until it looks at them.
    places: Vec<Place>,
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

/// As [`update`], and has the client asked that the model names.
fn update_and_ask(
    ctx: &Context,
    place: PlaceRef<'_>,
    now: Millis,
    whom: impl FnOnce(&mut Waiting<Place>) -> Option<Client>,
) {
    let Some(client) = update(ctx, now, whom) else { return };
    STATE.with(ctx, |state| {
        let Some(asked) = state.clients.get_mut(&client) else { return };
        if !asked.places.iter().any(|asked| place.equivalent(asked)) {
            asked.places.push(place.to_place());
        }
        ctx.wake(&asked.blocked);
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
    update_and_ask(ctx, place, now, |waiting| waiting.looked(&place, now, next, true));
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
        update_and_ask(ctx, place, now, |waiting| waiting.replaced(&place, now));
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
    update_and_ask(ctx, place, now, |waiting| waiting.looked(&place, now, next, allowed));
}

/// A client that waits for a job.
pub struct Waiter {
    number: Client,
    /// What it waits for; nothing any more once it was served, or its time was up.
    places: Vec<Place>,
    /// What it is served from, and when.
    turn: Option<(Place, Micros)>,
    want: Want<'static>,
}

impl Waiter {
    /// Lets the client of the command under way wait for a job of any of the keys, for `timeout` ms (0: without an end).
    pub fn block(ctx: &mut Context, keys: &[Str<'_>], timeout: Millis, want: Want<'static>) {
        let clock = ctx.micros();
        let now = clock / 1000;
        let database = ctx.database();
        let mut places: Vec<_> = keys.iter().map(|key| Place::new(database, key.bytes())).collect();
        places.sort_unstable();
        places.dedup();
        let number = STATE.with(ctx, |state| {
            state.last_client += 1;
            let number = state.last_client;
            places.iter().for_each(|place| state.waiting.enter(place, number, now));
            state.figures.clients += 1;
            number
        });
        // All keys lie in one slot.
        let name = name(number, keys.first().map_or(b"", |key| key.bytes()));
        let blocked = ctx.block(&name, timeout, Waiter { number, places, turn: None, want });
        STATE.with(ctx, |state| state.clients.insert(number, Asked { blocked, places: Vec::new() }));
        for &key in keys {
            look_at_queue(ctx, key, clock);
        }
    }

    /// From now on the client does not count as waiting.
    fn leave(&mut self, ctx: &Context) {
        let places = std::mem::take(&mut self.places);
        if places.is_empty() {
            return;
        }
        let (number, now, served) = (self.number, ctx.now(), self.turn.as_ref().map(|(place, _)| place));
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

    /// Whether it is this client's turn to claim from the queue.
    fn may_claim(&self, ctx: &mut Context, place: &Place, now: Millis) -> bool {
        if !ctx.select(place.database) {
            return false;
        }
        STATE.with(ctx, |state| state.figures.looks += 1);
        let name = OwnedStr::new(&place.key);
        let Ok(open) = OpenQueue::glance(ctx, name.as_str()) else { return false };
        let next = open.queue().next_wake(now);
        drop(open);
        let allowed = next == Some(now) && ctx.may_serve(name.as_str());
        let mut is_its_turn = false;
        update_and_ask(ctx, PlaceRef { database: place.database, key: &place.key }, now, |waiting| {
            let first = waiting.looked(place, now, next, allowed);
            is_its_turn = first == Some(self.number);
            first.filter(|_| !is_its_turn)
        });
        is_its_turn
    }
}

impl Wait for Waiter {
    fn is_servable(&mut self, ctx: &mut Context) -> bool {
        let asked =
            STATE.with(ctx, |state| state.clients.get_mut(&self.number).map(|asked| std::mem::take(&mut asked.places)));
        // For the sake of the others it leaves, and then they are looked at again.
        let clock = ctx.micros();
        let place = asked.unwrap_or_default().into_iter().find(|place| self.may_claim(ctx, place, clock / 1000));
        self.turn = place.map(|place| (place, clock));
        self.turn.is_some()
    }

    fn serve(&mut self, ctx: &mut Context) {
        let key = self.key();
        let Some((_, clock)) = self.turn else { return self.time_out(ctx) };
        let Ok(open) = OpenQueue::<Writing>::open(ctx, key.as_str()) else { return self.time_out(ctx) };
        self.leave(open.ctx());
        STATE.with(open.ctx(), |state| state.figures.served += 1);
        claim(open, key.as_str(), clock, &self.want);
    }

    fn key(&self) -> OwnedStr {
        OwnedStr::new(self.turn.as_ref().map_or(b"", |(place, _)| &place.key))
    }

    fn time_out(&mut self, ctx: &mut Context) {
        self.leave(ctx);
        reply_nothing(ctx);
    }

    fn end(mut self, ctx: &mut Context) {
        self.leave(ctx);
    }
}
