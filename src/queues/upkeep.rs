//! Background work for queues that no command changes. The upkeep
//!
//! - drops dead letters (DEADLEN, DEADTTL) and expired jobs (TTL),
//! - carries out the pushes that have waited for a lease to expire (AGAIN, DECLARE),
//! - removes groups without jobs, and queues that have been unused for an hour,
//! - sends the event `zq.dead` for jobs that became dead letters because their leases expired.
//!
//! Each queue computes when its next check is useful
//! ([`Queue::next_upkeep`](crate::queues::model::Queue::next_upkeep)). [`registry`] has the scheduled time of the
//! check. A command may make this time earlier, but not later, so a check may come too early. At its end, each check
//! schedules the next one. When a check is due, the server's cron arms a timer.
//!
//! The timer runs a round of checks. A check drops a bounded number of dead letters. If some remain, all queues that
//! are already due are checked before this queue is checked again. So a queue waits for at most one check of each other
//! queue. A round ends when the cost of its checks reaches [`MAX_ROUND_COST`]. The next round starts after
//! [`ROUND_PAUSE`].
//!
//! Only a master does this work, and only for keys that it may change ([`Context::may_serve`]). A replica keeps the
//! scheduled checks, in case it is promoted. The time of the last `zq.dead` event is not saved. So after a restart or a
//! promotion the event may be sent again for the same dead letters.

use super::stored::{self, next_check};
use super::totals::DEAD_LETTERS;
use super::{OpenQueue, QueueValue, registry, waiting};
use crate::base::time::{Millis, NEVER};
use crate::queues::model::Queue;
use crate::server::context::EventClass;
use crate::server::events::ServerEvent;
use crate::server::key::Writing;
use crate::server::timer::Timer;
use crate::server::{Context, OwnedStr, Str, catch_panic};
use lazy_static::lazy_static;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A round ends when the total cost of its checks reaches this number. Each dropped job, and each changed group, costs
/// 1.
const MAX_ROUND_COST: usize = 256;
/// The cost of the check of a queue. The cost of dropped jobs and changed groups is added to it.
const CHECK_COST: usize = 2;
/// The pause between two rounds of checks, in ms.
const ROUND_PAUSE: Millis = 10;
/// The time in ms after which a queue is checked again if the queue cannot be changed now.
const RETRY_UPKEEP: Millis = 1000;
/// The upkeep adds to the totals only jobs that became dead letters after this time. The former master, or this server
/// before its restart, has already counted the earlier dead letters.
static COUNTED_FROM: AtomicU64 = AtomicU64::new(0);

lazy_static! {
    static ref TIMER: Timer = Timer::new(run_round);
}

/// Disarms the timer, before the module is unloaded.
pub fn stop(ctx: &Context) {
    TIMER.disarm(ctx);
}

pub fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
    match event {
        ServerEvent::Cron => on_cron(ctx),
        ServerEvent::BecameMaster | ServerEvent::Loaded => {
            COUNTED_FROM.store(ctx.now(), Relaxed);
            stored::restart_unused_times();
        }
        _ => {}
    }
}

fn on_cron(ctx: &mut Context) {
    TIMER.catch_up(ctx);
    stored::update_totals(ctx);
    let now = ctx.now();
    // The clock may have been set back.
    COUNTED_FROM.fetch_min(now, Relaxed);
    if needs_round(ctx, now) && ctx.may_write_by_itself() {
        TIMER.arm(ctx, 1);
    }
}

fn needs_round(ctx: &Context, now: Millis) -> bool {
    !TIMER.is_armed(ctx) && registry::is_due(ctx, now)
}

fn run_round(ctx: &mut Context) {
    let now = ctx.now();
    let mut cost = 0;
    while cost < MAX_ROUND_COST {
        // While the server may not write, a timer would fire again and again without effect. So the timer stays off,
        // and the cron starts the next round when the server may write again.
        if !ctx.may_write_by_itself() {
            return;
        }
        let Some((database, name)) = registry::take_due(ctx, now, now.saturating_add(RETRY_UPKEEP)) else { return };
        // A queue whose upkeep panics must not block the other queues.
        let done =
            catch_panic(
                || if ctx.select(database) { process_queue(ctx, OwnedStr::new(&name).as_str(), now) } else { 0 },
            );
        cost += CHECK_COST + done.unwrap_or(0);
    }
    if needs_round(ctx, now) {
        TIMER.arm(ctx, ROUND_PAUSE);
    }
}

/// Checks a queue, and does the work that is due. Returns the cost of this work.
fn process_queue(ctx: &mut Context, name: Str<'_>, now: Millis) -> usize {
    let is_waited_for = waiting::is_waited_for(ctx, name);
    let due = with_stored(ctx, name, |stored| {
        let announced_until = stored.upkeep.announced_until.load(Relaxed);
        let has_new_dead_letters = stored.queue.new_dead_letters(announced_until, now) > 0;
        let new_dead_letters = stored.queue.new_dead_letters(announced_until.max(COUNTED_FROM.load(Relaxed)), now);
        let is_left_over = stored::check_use(stored, is_waited_for, now);
        (has_new_dead_letters, new_dead_letters, stored.queue.needs_upkeep(now), is_left_over)
    });
    let Some((has_new_dead_letters, new_dead_letters, needs_upkeep, is_left_over)) = due else {
        registry::remove(ctx, name);
        return 0;
    };
    if (has_new_dead_letters || needs_upkeep || is_left_over) && !ctx.may_serve(name) {
        return 0;
    }
    if is_left_over {
        if let Ok(open) = OpenQueue::<Writing>::open(ctx, name) {
            open.delete_unused();
        }
        return 1;
    }
    DEAD_LETTERS.fetch_add(new_dead_letters, Relaxed);
    let mut done = 0;
    if needs_upkeep && let Ok(mut open) = OpenQueue::<Writing>::open(ctx, name) {
        done = open.change(|queue: &mut Queue, effects| queue.run_upkeep(now, |effect| effects.add(effect)));
        open.commit_replayed(now);
    }
    let next = with_stored(ctx, name, |stored| {
        stored.upkeep.announced_until.store(now, Relaxed);
        let next = next_check(stored, now);
        stored.upkeep.scheduled.store(next.unwrap_or(NEVER), Relaxed);
        next
    });
    match next {
        // If the queue needs another check at once, all queues that are already due are checked first.
        Some(next) => registry::schedule(ctx, name, next.map(|next| next.max(now))),
        None => registry::remove(ctx, name),
    }
    // The event comes last, because it runs code of other modules.
    if has_new_dead_letters {
        ctx.notify(EventClass::Module, super::wire::DEAD_EVENT, name);
    }
    done
}

/// Calls `read` with the queue and returns its result. Returns `None` if the key holds no queue.
fn with_stored<R>(ctx: &mut Context, name: Str<'_>, read: impl FnOnce(&QueueValue) -> R) -> Option<R> {
    let open = OpenQueue::open_notouch(ctx, name).ok()?;
    open.stored().map(read)
}
