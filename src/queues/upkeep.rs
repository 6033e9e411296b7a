//! What has to be done to queues that nobody touches: dead letters go (DEADLEN, DEADTTL), and `zq.dead` is announced when the end of a
//! lease was the end of its job.
//!
//! Each queue says when it is next worth a look ([`Queue::next_upkeep`](crate::model::queue::Queue::next_upkeep)); its name stands in
//! an agenda by that moment, or by an earlier one. Commands enter a queue only when its moment becomes earlier; a look that finds
//! nothing to do corrects the entry. The cron asks the agenda, and arms a timer if a look is due. A round takes a bounded number of
//! looks and drops, and the next round follows after a rest. A queue that is read, renamed or copied is entered to be looked at soon.
//!
//! Only a master does this, for the keys that it may change ([`Context::may_serve`]). A replica keeps its agenda, for the day on which it is promoted.
//! Up to when deaths have been announced is not stored, so after a restart or a promotion a key is announced once more if it
//! still holds a job that died at the end of its lease and that no command has touched since.

use super::{OpenQueue, Stored, names};
use crate::model::queue::Queue;
use crate::model::time::Millis;
use crate::server::context::EventClass;
use crate::server::events::{KeyEvent, Listener, ServerEvent};
use crate::server::key::Writing;
use crate::server::shared::Shared;
use crate::server::timer::Timer;
use crate::server::{Context, OwnedStr, Str, survive};
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A round looks at this many queues at most.
const LOOKS: usize = 64;
/// At most this many of these looks may drop dead letters, each as many as a write does.
const DROPPING: usize = 4;
/// Between two rounds, ms.
const REST: Millis = 10;
/// A queue that cannot be dealt with now is looked at again after this time, ms.
const RETRY: Millis = 1000;
/// There is nothing to do.
const NEVER: Millis = Millis::MAX;

lazy_static! {
    static ref STATE: Shared<State> = Shared::new(State::default());
    static ref TIMER: Timer = Timer::new(run_round);
}

type Name = Rc<[u8]>;

#[derive(Default)]
struct State {
    agendas: HashMap<i32, Agenda>,
}

/// The queues of a database, by when to look at them.
#[derive(Default)]
struct Agenda {
    moments: BTreeMap<Name, Millis>,
    by_time: BTreeSet<(Millis, Name)>,
}

impl Agenda {
    fn set(&mut self, name: &[u8], at: Option<Millis>) {
        let known = self.moments.remove_entry(name);
        let name = known.map_or_else(
            || Name::from(name),
            |(name, before)| {
                self.by_time.remove(&(before, name.clone()));
                name
            },
        );
        if let Some(at) = at {
            self.by_time.insert((at, name.clone()));
            self.moments.insert(name, at);
        }
    }

    fn bring_forward(&mut self, name: &[u8], at: Millis) {
        if self.moments.get(name).is_none_or(|&before| at < before) {
            self.set(name, Some(at));
        }
    }

    fn first(&self) -> Option<&(Millis, Name)> {
        self.by_time.first()
    }
}

impl State {
    fn is_due(&self, now: Millis) -> bool {
        self.agendas.values().filter_map(Agenda::first).any(|&(at, _)| at <= now)
    }

    /// A queue that is due. It will be due again after [`RETRY`], if nobody says otherwise.
    fn take_due(&mut self, now: Millis) -> Option<(i32, Name)> {
        self.agendas.iter_mut().find_map(|(&database, agenda)| {
            let name = agenda.first().filter(|(at, _)| *at <= now).map(|(_, name)| name.clone())?;
            agenda.set(&name, Some(now.saturating_add(RETRY)));
            Some((database, name))
        })
    }
}

/// What is kept with a queue. Not in the agenda, so that a command that changes nothing about it need not look there.
pub(super) struct Upkeep {
    /// Deaths at the ends of leases have been announced up to here.
    told: AtomicU64,
    /// The queue is in the agenda at this moment or before.
    planned: AtomicU64,
}

impl Upkeep {
    pub fn new() -> Upkeep {
        Upkeep { told: AtomicU64::new(0), planned: AtomicU64::new(NEVER) }
    }
}

/// A command has changed the queue. If it is to be looked at before it was planned, answers when.
pub(super) fn moved_forward(stored: &Stored, now: Millis) -> Option<Millis> {
    let Upkeep { told, planned } = &stored.upkeep;
    // The clock may have been set back, and jobs that were dead are claimed again.
    if told.load(Relaxed) > now {
        told.store(now, Relaxed);
    }
    let next = next_look(stored, now).filter(|&next| next < planned.load(Relaxed));
    next.inspect(|&next| planned.store(next, Relaxed))
}

fn next_look(stored: &Stored, now: Millis) -> Option<Millis> {
    stored.queue.next_upkeep(now, stored.upkeep.told.load(Relaxed))
}

/// To be called when [`moved_forward`] has said so.
pub(super) fn plan_look(ctx: &Context, name: Str<'_>, at: Millis) {
    plan_look_in(ctx, ctx.database(), name.bytes(), at);
}

/// There is a queue in this key of which nothing is known yet.
pub(super) fn look_soon(holder: &impl RedisLockIndicator, database: i32, name: &[u8]) {
    plan_look_in(holder, database, name, 0);
}

/// There is no queue in this key any more.
pub(super) fn forget(holder: &impl RedisLockIndicator, database: i32, name: &[u8]) {
    STATE.with(holder, |state| {
        if let Some(agenda) = state.agendas.get_mut(&database) {
            agenda.set(name, None);
        }
    });
}

fn plan_look_in(holder: &impl RedisLockIndicator, database: i32, name: &[u8], at: Millis) {
    STATE.with(holder, |state| state.agendas.entry(database).or_default().bring_forward(name, at));
}

/// Disarms the timer, for the unloading of the module.
pub fn stop(ctx: &Context) {
    TIMER.disarm(ctx);
}

/// Listens to what the server does.
pub struct Watch;

impl Listener for Watch {
    fn on_key(_ctx: &mut Context, _event: &KeyEvent<'_>) {}

    fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
        match event {
            ServerEvent::Cron => on_cron(ctx),
            ServerEvent::Flushed(None) => STATE.with(ctx, |state| state.agendas.clear()),
            ServerEvent::Flushed(Some(database)) => drop(STATE.with(ctx, |state| state.agendas.remove(&database))),
            ServerEvent::Swapped(one, other) => STATE.with(ctx, |state| {
                let [first, second] = [one, other].map(|database| state.agendas.remove(&database));
                let moved = [(one, second), (other, first)];
                state.agendas.extend(moved.into_iter().filter_map(|(database, agenda)| Some((database, agenda?))));
            }),
            _ => {}
        }
    }
}

fn on_cron(ctx: &mut Context) {
    TIMER.catch_up(ctx);
    let now = ctx.now();
    if needs_round(ctx, now) && ctx.may_write_by_itself() {
        TIMER.arm(ctx, 1);
    }
}

/// Whether a look is due, and no round will come for it.
fn needs_round(ctx: &Context, now: Millis) -> bool {
    !TIMER.is_armed(ctx) && STATE.with(ctx, |state| state.is_due(now))
}

/// What the timer does.
fn run_round(ctx: &mut Context) {
    let now = ctx.now();
    let mut dropping = 0;
    for _ in 0..LOOKS {
        // The cron asks again, until this server may: a timer would spin meanwhile.
        if !ctx.may_write_by_itself() {
            return;
        }
        if dropping == DROPPING {
            break;
        }
        let Some((database, name)) = STATE.with(ctx, |state| state.take_due(now)) else { return };
        // One that we cannot deal with must not keep the others waiting.
        let has_dropped = survive(|| ctx.select(database) && look_at_queue(ctx, OwnedStr::new(&name).as_str(), now));
        dropping += usize::from(has_dropped.unwrap_or(false));
    }
    if needs_round(ctx, now) {
        TIMER.arm(ctx, REST);
    }
}

/// Looks at a queue, and does what is due. Answers whether it has dropped anything.
fn look_at_queue(ctx: &mut Context, name: Str<'_>, now: Millis) -> bool {
    let due = look_at_stored(ctx, name, |stored| {
        let next_death = stored.queue.next_death(stored.upkeep.told.load(Relaxed));
        (next_death.is_some_and(|death| death <= now), stored.queue.has_to_drop(now))
    });
    let Some((has_died, has_to_drop)) = due else {
        set_next_look(ctx, name, None);
        names::forget(ctx, name);
        return false;
    };
    if (has_died || has_to_drop) && !ctx.may_serve(name) {
        return false;
    }
    if has_to_drop && let Ok(mut open) = OpenQueue::<Writing>::open(ctx, name) {
        open.change(|queue: &mut Queue, effects| queue.drop_dead(now, |effect| effects.add(effect)));
        open.commit_replayed(now);
    }
    let next = look_at_stored(ctx, name, |stored| {
        stored.upkeep.told.store(now, Relaxed);
        let next = next_look(stored, now);
        stored.upkeep.planned.store(next.unwrap_or(NEVER), Relaxed);
        next
    });
    set_next_look(ctx, name, next.flatten());
    // Runs other people's code: comes last.
    if has_died {
        ctx.notify(EventClass::Module, super::wire::Event::Dead.name(), name);
    }
    has_to_drop
}

fn set_next_look(ctx: &Context, name: Str<'_>, at: Option<Millis>) {
    let database = ctx.database();
    STATE.with(ctx, |state| state.agendas.entry(database).or_default().set(name.bytes(), at));
}

/// Looks at what is stored, if there is a queue.
fn look_at_stored<R>(ctx: &mut Context, name: Str<'_>, look: impl FnOnce(&Stored) -> R) -> Option<R> {
    let open = OpenQueue::glance(ctx, name).ok()?;
    open.stored().map(look)
}
