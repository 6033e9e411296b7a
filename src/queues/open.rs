//! A queue in its key: opened, changed, committed.

use super::waiting;
use super::wire::Words;
use crate::error::Error;
use crate::model::queue::{Change, Effect, Queue};
use crate::model::time::Millis;
use crate::server::context::EventClass;
use crate::server::key::{Key, Mode};
use crate::server::{Context, Str};
use std::sync::atomic::{AtomicU64, Ordering};

/// Jobs claimed from all queues, for INFO.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

pub fn claimed() -> u64 {
    CLAIMED.load(Ordering::Relaxed)
}

/// An open queue. A missing key is an empty queue, and becomes a key with the first effect.
///
/// Changes are made at once, but become whole only with [`commit`](OpenQueue::commit).
#[must_use = "changes must be committed"]
pub struct OpenQueue<'a> {
    ctx: Context<'a>,
    name: Str<'a>,
    key: Key<'a>,
    /// The queue of a key that holds none yet.
    new: Option<Queue>,
    effects: Words,
}

impl<'a> OpenQueue<'a> {
    /// Opens a queue; an error if the key holds another type.
    pub fn open(ctx: Context<'a>, name: Str<'a>, mode: Mode) -> Result<OpenQueue<'a>, Error> {
        let key = Key::open(ctx, name, mode);
        let new = if key.value::<Queue>()?.is_some() { None } else { Some(Queue::new()) };
        Ok(OpenQueue { ctx, name, key, new, effects: Words::new() })
    }

    pub fn name(&self) -> Str<'a> {
        self.name
    }

    pub fn queue(&self) -> &Queue {
        match &self.new {
            Some(new) => new,
            None => self.key.value().ok().flatten().expect("the key held a queue when it was opened"),
        }
    }

    /// Runs `change` on the queue, and has it hand over the effects of what it did. The queue must be open for writing.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut Queue, &mut Recorder<'_>) -> R) -> R {
        let is_new = self.new.is_some();
        let queue = match &mut self.new {
            Some(new) => new,
            None => self.key.value_mut().ok().flatten().expect("the key held a queue when it was opened"),
        };
        change(queue, &mut Recorder { effects: &mut self.effects, is_new })
    }

    /// Makes the changes whole: their effects go to the replicas and to the AOF, to WATCH and client-side caching, to those
    /// who listen for events, and to those who wait for a job. Without an effect, nothing of this. `now` as the
    /// changes had it.
    pub fn commit(self, now: Millis) {
        self.commit_and(now, waiting::changed);
    }

    /// As [`commit`](OpenQueue::commit), but those who wait are told by `tell`, which gets the next moment at which the queue
    /// is claimable. It is called only if somebody waits.
    pub(super) fn commit_and(mut self, now: Millis, tell: impl FnOnce(Context<'a>, Str<'a>, Millis, Option<Millis>)) {
        if self.effects.effects() == 0 {
            return;
        }
        crate::server::fault!("queue-changed");
        let next = waiting::is_waited_for(self.ctx, self.name).then(|| self.queue().next_wake(now));
        if let Some(new) = self.new.take() {
            self.key.set_value(new);
        }
        let OpenQueue { ctx, name, key, effects, .. } = self;
        // Events run other people's code, which might do anything to the key.
        drop(key);
        effects.send(name, |command, arguments| ctx.replicate(command, arguments));
        ctx.signal_modified(name);
        if let Some(next) = next {
            tell(ctx, name, now, next);
        }
        for event in effects.happened().events() {
            ctx.notify(EventClass::Module, event.name(), name);
        }
    }
}

/// Takes down effects.
pub struct Recorder<'e> {
    effects: &'e mut Words,
    is_new: bool,
}

impl Recorder<'_> {
    pub fn add(&mut self, effect: &Effect<'_>) {
        if matches!(effect.change, Change::Claim { .. }) {
            CLAIMED.fetch_add(1, Ordering::Relaxed);
        }
        self.effects.add(effect);
    }

    /// Takes down an effect that changes nothing but makes the key, if there is none yet.
    pub fn add_if_new(&mut self, effect: &Effect<'_>) {
        if self.is_new {
            self.add(effect);
        }
    }
}
