//! What has to be done to queues that nobody touches: dead letters and expired jobs are dropped (DEADLEN, DEADTTL, TTL), pushes that wait behind a
//! job that has died take its place (AGAIN), groups without jobs go, and `zq.dead`
//! is announced when the end of a lease was the end of its job.
//!
//! Each queue says when it is next worth a look ([`Queue::next_upkeep`](crate::model::queue::Queue::next_upkeep)); [`names`] has the queues
//! by that moment, or by an earlier one. Commands plan a look only when the moment becomes earlier; a look that finds
//! nothing to do corrects it. The cron asks whether a look is due, and arms a timer then. A queue that is read, renamed or
//! copied is looked at soon.
//!
//! Queues take turns. Each gets one look, in which a bounded number of dead letters is dropped; a queue that has more to
//! do comes behind those that are due already. A round ends when its looks have cost a fixed amount, and the next round follows after a rest.
//! So a queue waits for one look at each of the others at most, however much they have to do.
//!
//! Only a master does this, for the keys that it may change ([`Context::may_serve`]). A replica keeps its plans, for the day on which it is promoted.
//! Up to when deaths have been announced is not stored, so after a restart or a promotion a key is announced once more if it
//! still holds a job that died at the end of its lease and that no command has touched since.

use super::{OpenQueue, Stored, names};
use crate::model::queue::Queue;
use crate::model::time::Millis;
use crate::server::context::EventClass;
use crate::server::events::ServerEvent;
use crate::server::key::Writing;
use crate::server::timer::Timer;
use crate::server::{Context, OwnedStr, Str, catch_panic};
use lazy_static::lazy_static;
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

/// Jobs that became dead letters, for INFO.
static DEAD_LETTERS: AtomicU64 = AtomicU64::new(0);
/// Jobs and occurrences whose TTL was over, for INFO.
static EXPIRED: AtomicU64 = AtomicU64::new(0);
/// Deaths up to here are not counted: they were counted before the restart, or by the former master.
static COUNTED_FROM: AtomicU64 = AtomicU64::new(0);

lazy_static! {
    static ref TIMER: Timer = Timer::new(run_round);
}

/// Returns how many jobs have become dead letters on this server while it was the master.
pub fn dead_letters() -> u64 {
    DEAD_LETTERS.load(Relaxed)
}

/// Counts jobs that became dead letters.
pub fn count_dead_letters(count: u64) {
    DEAD_LETTERS.fetch_add(count, Relaxed);
}

/// Returns how many jobs and occurrences this server has dropped because their TTL was over.
pub fn expired() -> u64 {
    EXPIRED.load(Relaxed)
}

/// Counts jobs and occurrences whose TTL was over.
pub fn count_expired(count: u64) {
    EXPIRED.fetch_add(count, Relaxed);
}

/// What is kept with a queue. Not with its name, so that a command that changes nothing about it need not look there.
pub(super) struct Upkeep {
    /// Deaths at the ends of leases have been announced up to here.
    told: AtomicU64,
    /// A look is planned for this moment or an earlier one.
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

/// Disarms the timer, for the unloading of the module.
pub fn stop(ctx: &Context) {
    TIMER.disarm(ctx);
}

pub fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
    match event {
        ServerEvent::Cron => on_cron(ctx),
        ServerEvent::BecameMaster | ServerEvent::Loaded => COUNTED_FROM.store(ctx.now(), Relaxed),
        _ => {}
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
    !TIMER.is_armed(ctx) && names::is_due(ctx, now)
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
        let Some((database, name)) = names::take_due(ctx, now, now.saturating_add(RETRY)) else { return };
        // One that we cannot deal with must not keep the others waiting.
        let done =
            catch_panic(
                || if ctx.select(database) { look_at_queue(ctx, OwnedStr::new(&name).as_str(), now) } else { 0 },
            );
        cost += LOOK + done.unwrap_or(0);
    }
    if needs_round(ctx, now) {
        TIMER.arm(ctx, REST);
    }
}

/// Looks at a queue, and does what is due. Answers how much there was to clean up.
fn look_at_queue(ctx: &mut Context, name: Str<'_>, now: Millis) -> usize {
    let due = look_at_stored(ctx, name, |stored| {
        let told = stored.upkeep.told.load(Relaxed);
        let has_died = stored.queue.next_death(told).is_some_and(|death| death <= now);
        let deaths = stored.queue.deaths(told.max(COUNTED_FROM.load(Relaxed)), now);
        (has_died, deaths, stored.queue.has_to_clean_up(now))
    });
    let Some((has_died, deaths, has_to_clean_up)) = due else {
        names::forget(ctx, name);
        return 0;
    };
    if (has_died || has_to_clean_up) && !ctx.may_serve(name) {
        return 0;
    }
    count_dead_letters(deaths);
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
    match next {
        // One that has more to do comes behind those that are due already.
        Some(next) => names::plan(ctx, name, next.map(|next| next.max(now))),
        None => names::forget(ctx, name),
    }
    // Runs other people's code: comes last.
    if has_died {
        ctx.notify(EventClass::Module, super::wire::Event::Dead.name(), name);
    }
    done
}

/// Looks at what is stored, if there is a queue.
fn look_at_stored<R>(ctx: &mut Context, name: Str<'_>, look: impl FnOnce(&Stored) -> R) -> Option<R> {
    let open = OpenQueue::open_notouch(ctx, name).ok()?;
    open.stored().map(look)
}
