//! What has to be done to queues that nobody touches: dead letters are dropped (DEADLEN, DEADTTL), groups without jobs go, and `zq.dead`
//! is announced when the end of a lease was the end of its job.
//!
//! Each queue says when it is next worth a look ([`Queue::next_upkeep`](crate::model::queue::Queue::next_upkeep)); its name stands in
//! an agenda by that moment, or by an earlier one. Commands enter a queue only when its moment becomes earlier; a look that finds
//! nothing to do corrects the entry. The cron asks the agenda, and arms a timer if a look is due. A queue that is read, renamed or
//! copied is looked at soon.
//!
//! Queues that are due stand in a line. Each gets one look, in which a bounded number of dead letters is dropped; a queue that has more to
//! do goes to the end of the line. A round ends when its looks have cost a fixed amount, and the next round follows after a rest. So a
//! queue waits for one look at each of the others at most, however much they have to do.
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

/// What a round may cost: a dead letter that is dropped, or a group that goes, costs 1.
const ROUND: usize = 256;
/// What a look costs.
const LOOK: usize = 2;
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
    /// The number of the next queue that stands in line.
    next_number: u64,
}

/// The queues of a database, by when to look at them.
#[derive(Default)]
struct Agenda {
    places: BTreeMap<Name, Place>,
    /// The queues that are due or to be looked at soon. The numbers run through all databases.
    line: BTreeMap<u64, Name>,
    by_time: BTreeSet<(Millis, Name)>,
}

#[derive(Clone, Copy)]
enum Place {
    InLine(u64),
    At(Millis),
}

impl Agenda {
    fn set(&mut self, name: &[u8], place: Option<Place>) {
        let known = self.places.remove_entry(name);
        let name = known.map_or_else(
            || Name::from(name),
            |(name, before)| {
                match before {
                    Place::InLine(number) => drop(self.line.remove(&number)),
                    Place::At(at) => drop(self.by_time.remove(&(at, name.clone()))),
                }
                name
            },
        );
        match place {
            Some(Place::InLine(number)) => drop(self.line.insert(number, name.clone())),
            Some(Place::At(at)) => drop(self.by_time.insert((at, name.clone()))),
            None => return,
        }
        self.places.extend(place.map(|place| (name, place)));
    }

    fn first_due(&self, now: Millis) -> Option<&Name> {
        self.by_time.first().filter(|(at, _)| *at <= now).map(|(_, name)| name)
    }
}

impl State {
    fn is_due(&self, now: Millis) -> bool {
        self.agendas.values().any(|agenda| !agenda.line.is_empty() || agenda.first_due(now).is_some())
    }

    /// Puts a queue at the end of the line, unless it stands there already.
    fn line_up(&mut self, database: i32, name: &[u8]) {
        let agenda = self.agendas.entry(database).or_default();
        if !matches!(agenda.places.get(name), Some(Place::InLine(_))) {
            agenda.set(name, Some(Place::InLine(self.next_number)));
            self.next_number += 1;
        }
    }

    fn bring_forward(&mut self, database: i32, name: &[u8], at: Millis) {
        let agenda = self.agendas.entry(database).or_default();
        let is_later = match agenda.places.get(name) {
            Some(Place::InLine(_)) => false,
            Some(&Place::At(before)) => at < before,
            None => true,
        };
        if is_later {
            agenda.set(name, Some(Place::At(at)));
        }
    }

    /// The queue that stands first in line. It will be due again after [`RETRY`], if nobody says otherwise.
    fn take_due(&mut self, now: Millis) -> Option<(i32, Name)> {
        // With each look, the next one that is due lines up, also while others stand in line again and again.
        let due: Vec<_> =
            self.agendas.iter().filter_map(|(&db, agenda)| Some((db, agenda.first_due(now)?.clone()))).collect();
        for (database, name) in due {
            self.line_up(database, &name);
        }
        let first = |(&database, agenda): (&i32, &Agenda)| Some((*agenda.line.first_key_value()?.0, database));
        let (number, database) = self.agendas.iter().filter_map(first).min()?;
        let agenda = self.agendas.get_mut(&database)?;
        let name = agenda.line.get(&number)?.clone();
        agenda.set(&name, Some(Place::At(now.saturating_add(RETRY))));
        Some((database, name))
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
    let database = ctx.database();
    STATE.with(ctx, |state| state.bring_forward(database, name.bytes(), at));
}

/// There is a queue in this key of which nothing is known yet.
pub(super) fn look_soon(holder: &impl RedisLockIndicator, database: i32, name: &[u8]) {
    STATE.with(holder, |state| state.line_up(database, name));
}

/// There is no queue in this key any more.
pub(super) fn forget(holder: &impl RedisLockIndicator, database: i32, name: &[u8]) {
    STATE.with(holder, |state| {
        if let Some(agenda) = state.agendas.get_mut(&database) {
            agenda.set(name, None);
        }
    });
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
    let mut cost = 0;
    while cost < ROUND {
        // The cron asks again, until this server may: a timer would spin meanwhile.
        if !ctx.may_write_by_itself() {
            return;
        }
        let Some((database, name)) = STATE.with(ctx, |state| state.take_due(now)) else { return };
        // One that we cannot deal with must not keep the others waiting.
        let done =
            survive(|| if ctx.select(database) { look_at_queue(ctx, OwnedStr::new(&name).as_str(), now) } else { 0 });
        cost += LOOK + done.unwrap_or(0);
    }
    if needs_round(ctx, now) {
        TIMER.arm(ctx, REST);
    }
}

/// Looks at a queue, and does what is due. Answers how much there was to clean up.
fn look_at_queue(ctx: &mut Context, name: Str<'_>, now: Millis) -> usize {
    let due = look_at_stored(ctx, name, |stored| {
        let next_death = stored.queue.next_death(stored.upkeep.told.load(Relaxed));
        (next_death.is_some_and(|death| death <= now), stored.queue.has_to_clean_up(now))
    });
    let Some((has_died, has_to_clean_up)) = due else {
        set_next_look(ctx, name, None, now);
        names::forget(ctx, name);
        return 0;
    };
    if (has_died || has_to_clean_up) && !ctx.may_serve(name) {
        return 0;
    }
    let mut done = 0;
    if has_to_clean_up && let Ok(mut open) = OpenQueue::<Writing>::open(ctx, name) {
        done = open.change(|queue: &mut Queue, effects| queue.clean_up(now, |effect| effects.add(effect)));
        open.commit_replayed(now);
    }
    let next = look_at_stored(ctx, name, |stored| {
        stored.upkeep.told.store(now, Relaxed);
        let next = next_look(stored, now);
        stored.upkeep.planned.store(next.unwrap_or(NEVER), Relaxed);
        next
    });
    set_next_look(ctx, name, next.flatten(), now);
    // Runs other people's code: comes last.
    if has_died {
        ctx.notify(EventClass::Module, super::wire::Event::Dead.name(), name);
    }
    done
}

fn set_next_look(ctx: &Context, name: Str<'_>, at: Option<Millis>, now: Millis) {
    let database = ctx.database();
    STATE.with(ctx, |state| match at {
        Some(at) if at <= now => state.line_up(database, name.bytes()),
        at => state.agendas.entry(database).or_default().set(name.bytes(), at.map(Place::At)),
    });
}

/// Looks at what is stored, if there is a queue.
fn look_at_stored<R>(ctx: &mut Context, name: Str<'_>, look: impl FnOnce(&Stored) -> R) -> Option<R> {
    let open = OpenQueue::glance(ctx, name).ok()?;
    open.stored().map(look)
}
