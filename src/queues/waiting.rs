//! Clients that wait for a job, and the clock that wakes them.
//!
//! The server itself knows who waits for which key, in which order, and asks them when the key is signalled as ready. What
//! it cannot know is that a queue becomes claimable by the passing of time: a job falls due, a lease ends, RATE opens.
//! So for every key that somebody waits for there is an entry here, with the next such moment, and one timer is armed
//! for the earliest of them. When it fires, the keys that have become claimable are signalled. Nobody waiting: no entry,
//! no timer. Far-off jobs: one timer, far off.
//!
//! Whatever changes a queue passes through [`changed`] (from [`OpenQueue::commit`]), which signals the key, or sets its
//! moment anew. Keys that come by other ways (RENAME, RESTORE, COPY, MOVE, SWAPDB) are signalled by the server; the first client
//! asked then looks at the queue, and sets its moment.

use super::OpenQueue;
use crate::model::queue::Claims;
use crate::model::time::{self, Millis};
use crate::server::blocking::Wait;
use crate::server::key::Mode;
use crate::server::shared::Shared;
use crate::server::timer::{Task, Timer};
use crate::server::{Context, OwnedStr, Str, survive};
use hashbrown::{Equivalent, HashMap};
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// How long to wait before looking again whether writes are allowed: after CLIENT PAUSE, a failover, a promotion.
const PAUSED: Millis = 50;

/// How many keys one firing of the timer looks at. The rest follows after the server has served its clients.
const BATCH: usize = 1000;

lazy_static! {
    static ref WAITING: Shared<Waiting> = Shared::new(Waiting::default());
}

#[derive(Default)]
struct Waiting {
    keys: HashMap<Place, Entry>,
    /// The moments of the entries that have one.
    schedule: BTreeSet<(Millis, Place)>,
    /// The armed timer, and when it fires.
    timer: Option<(Timer, Millis)>,
    figures: Figures,
}

/// For INFO.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// Clients that wait for a job.
    pub clients: u64,
    /// Clients that waited and got one.
    pub served: u64,
}

/// A key of one of the server's databases.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    database: i32,
    key: Rc<[u8]>,
}

/// A [`Place`] to be looked up.
#[derive(Hash)]
struct Lookup<'k>(i32, &'k [u8]);

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Lookup(self.database, &self.key).hash(state);
    }
}

impl Equivalent<Place> for Lookup<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.0 == place.database && *self.1 == *place.key
    }
}

#[derive(Default)]
struct Entry {
    /// Clients that wait for the key.
    clients: u64,
    /// When the queue becomes claimable, if it is not and nothing else happens.
    next: Option<Millis>,
}

impl Waiting {
    fn enter(&mut self, place: &Place) {
        self.keys.entry(place.clone()).or_default().clients += 1;
    }

    fn leave(&mut self, place: &Place) {
        let Some(entry) = self.keys.get_mut(place) else { return };
        entry.clients -= 1;
        if entry.clients == 0 {
            self.set_next(place, None);
            self.keys.remove(place);
        }
    }

    /// Sets the moment of a key, if somebody waits for it.
    fn set_next(&mut self, place: &Place, next: Option<Millis>) {
        let Some(entry) = self.keys.get_mut(place) else { return };
        let before = std::mem::replace(&mut entry.next, next);
        if before == next {
            return;
        }
        if let Some(before) = before {
            self.schedule.remove(&(before, place.clone()));
        }
        if let Some(next) = next {
            self.schedule.insert((next, place.clone()));
        }
    }

    fn place(&self, ctx: Context<'_>, key: Str<'_>) -> Option<Place> {
        if self.keys.is_empty() {
            return None;
        }
        self.keys.get_key_value(&Lookup(ctx.database(), key.bytes())).map(|(place, _)| place.clone())
    }

    /// Sees to it that the timer fires at the earliest moment. One that fires too early does no harm.
    fn arm(&mut self, ctx: Context<'_>, now: Millis) {
        let Some(&(next, _)) = self.schedule.first() else { return };
        if self.timer.as_ref().is_some_and(|&(_, fires)| fires <= next) {
            return;
        }
        self.arm_in(ctx, now, next.saturating_sub(now));
    }

    fn arm_in(&mut self, ctx: Context<'_>, now: Millis, delay: Millis) {
        if let Some((timer, _)) = self.timer.take() {
            timer.stop(ctx);
        }
        self.timer = Some((Timer::arm::<Alarm>(ctx, delay), now.saturating_add(delay)));
    }

    /// The keys whose moment has come, [`BATCH`] of them at the most, without their moments.
    fn take_due(&mut self, now: Millis) -> Vec<Place> {
        let mut due = Vec::new();
        while due.len() < BATCH && self.schedule.first().is_some_and(|&(next, _)| next <= now) {
            let Some((_, place)) = self.schedule.pop_first() else { break };
            if let Some(entry) = self.keys.get_mut(&place) {
                entry.next = None;
            }
            due.push(place);
        }
        due
    }
}

pub fn figures(holder: impl RedisLockIndicator) -> Figures {
    WAITING.with(holder, |waiting| waiting.figures)
}

/// Whether a client waits for the key.
pub fn is_waited_for(ctx: Context<'_>, key: Str<'_>) -> bool {
    WAITING.with(ctx, |waiting| waiting.place(ctx, key).is_some())
}

/// Notes that the queue in `key` is claimable from `next` on if nothing else happens. If that is so now, those who wait are
/// asked.
pub(super) fn changed(ctx: Context<'_>, key: Str<'_>, now: Millis, next: Option<Millis>) {
    let later = next.filter(|&next| next > now);
    note(ctx, key, now, later);
    if next.is_some() && later.is_none() {
        ctx.signal_ready(key);
    }
}

/// Notes when the queue in `key` is to be looked at again.
fn note(ctx: Context<'_>, key: Str<'_>, now: Millis, next: Option<Millis>) {
    WAITING.with(ctx, |waiting| {
        if let Some(place) = waiting.place(ctx, key) {
            waiting.set_next(&place, next);
            waiting.arm(ctx, now);
        }
    });
}

/// Disarms the timer, for the unloading of the module.
pub fn stop(ctx: Context<'_>) {
    if let Some((timer, _)) = WAITING.with(ctx, |waiting| waiting.timer.take()) {
        timer.stop(ctx);
    }
}

/// The timer.
struct Alarm;

impl Task for Alarm {
    fn run(ctx: Context<'_>) {
        let now = ctx.now();
        let due = WAITING.with(ctx, |waiting| {
            waiting.timer = None;
            // On a replica, only clients of a writable one can wait; they are woken when it is promoted.
            if ctx.may_write_by_itself() {
                waiting.take_due(now)
            } else {
                if !waiting.schedule.is_empty() {
                    waiting.arm_in(ctx, now, PAUSED);
                }
                Vec::new()
            }
        });
        for place in due {
            // One that we cannot deal with must not keep the clients of the others waiting.
            survive(|| {
                if ctx.select(place.database) {
                    look(ctx, OwnedStr::new(&place.key).as_str(), now);
                }
            });
        }
        WAITING.with(ctx, |waiting| {
            if waiting.timer.is_none() {
                waiting.arm(ctx, now);
            }
        });
    }
}

/// Looks at a queue whose moment may have come.
fn look(ctx: Context<'_>, key: Str<'_>, now: Millis) {
    crate::server::fault!("look");
    if let Ok(open) = OpenQueue::open(ctx, key, Mode::Glance) {
        let next = open.queue().next_wake(now);
        drop(open);
        changed(ctx, key, now, next);
    }
}

/// A client that waits for a job.
pub struct Waiter {
    places: Vec<Place>,
    lease: Millis,
    count: u64,
    reply: fn(Context<'_>, Str<'_>, &Claims<'_>),
    time_out: fn(Context<'_>),
}

impl Waiter {
    /// Lets the client of the command under way wait for a job of any of the keys, for `timeout` ms (0: for ever).
    pub fn block(
        ctx: Context<'_>,
        keys: &[Str<'_>],
        timeout: Millis,
        (lease, count): (Millis, u64),
        reply: fn(Context<'_>, Str<'_>, &Claims<'_>),
        time_out: fn(Context<'_>),
    ) {
        let now = ctx.now();
        let database = ctx.database();
        let mut places: Vec<_> = keys.iter().map(|key| Place { database, key: key.bytes().into() }).collect();
        places.sort_unstable();
        places.dedup();
        WAITING.with(ctx, |waiting| {
            places.iter().for_each(|place| waiting.enter(place));
            waiting.figures.clients += 1;
        });
        ctx.block_on(keys, timeout, Waiter { places, lease, count, reply, time_out });
        for &key in keys {
            look(ctx, key, now);
        }
    }

    /// From now on the client does not count as waiting.
    fn leave(&mut self, ctx: Context<'_>) {
        let places = std::mem::take(&mut self.places);
        if places.is_empty() {
            return;
        }
        WAITING.with(ctx, |waiting| {
            places.iter().for_each(|place| waiting.leave(place));
            waiting.figures.clients -= 1;
        });
    }
}

impl Wait for Waiter {
    fn serve<'a>(&mut self, ctx: Context<'a>, key: Str<'a>) -> bool {
        let now = ctx.now();
        // Only looking: most of those who are asked find nothing.
        let Ok(open) = OpenQueue::open(ctx, key, Mode::Glance) else { return false };
        let next = open.queue().next_wake(now);
        drop(open);
        if next != Some(now) || !may_serve(ctx) {
            note(ctx, key, now, next);
            return false;
        }
        let Ok(mut open) = OpenQueue::open(ctx, key, Mode::Write) else { return false };
        let deadline = now.saturating_add(self.lease).min(time::MAX);
        self.leave(ctx);
        WAITING.with(ctx, |waiting| waiting.figures.served += 1);
        let (reply, count) = (self.reply, self.count);
        open.change(|queue, effects| {
            let claims = queue.claim(now, deadline, count);
            claims.effects().for_each(|effect| effects.add(&effect));
            reply(ctx, key, &claims);
        });
        // The server asks the clients behind this one right now, without being told to. But it does not come back to those
        // before it, whom it asked when the clock may have shown less: if jobs are left, the timer sees to them.
        open.commit_and(now, note);
        true
    }

    fn time_out(&mut self, ctx: Context<'_>) {
        (self.time_out)(ctx);
    }

    fn end(mut self, ctx: Context<'_>) {
        self.leave(ctx);
    }
}

/// Whether a claim may be written now. On a writable replica it may, as any command of a client there.
fn may_serve(ctx: Context<'_>) -> bool {
    !ctx.is_master() || ctx.may_write_by_itself()
}
