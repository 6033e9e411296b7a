//! A queue in its key: opened, changed, committed.

use super::wire::EncodedEffects;
use super::{Stored, names, upkeep, waiting};
use crate::error::Error;
use crate::model::queue::{Change, Effect, Queue};
use crate::model::time::Millis;
use crate::server::context::EventClass;
use crate::server::key::{Key, Mode, Reading, Writing};
use crate::server::uncommitted::Uncommitted;
use crate::server::{Context, Str};
use std::sync::atomic::{AtomicU64, Ordering};

/// Effects that came from a master or out of an AOF file and did not fit, for INFO.
static REJECTED: AtomicU64 = AtomicU64::new(0);

pub fn rejected_effects() -> u64 {
    REJECTED.load(Ordering::Relaxed)
}

/// Replicated effects did not fit the queue in `key`: it is not as its master's was. Counts that, and says so in the log.
pub fn report_rejected(ctx: &Context, key: Str<'_>, count: u64) {
    REJECTED.fetch_add(count, Ordering::Relaxed);
    ctx.log(c"warning", &format!("zeitset: rejected {count} replicated effects that do not fit the queue {key}"));
}

/// An open queue. A missing key is an empty queue, and becomes a key with the first effect.
#[must_use = "changes must be committed"]
pub struct OpenQueue<'k, M: Mode> {
    name: Str<'k>,
    key: Key<'k, M>,
    /// The queue of a key that holds none yet.
    new: Option<Queue>,
    effects: EncodedEffects,
    uncommitted: Uncommitted,
}

impl<'k, M: Mode> OpenQueue<'k, M> {
    /// Opens a queue; an error if the key holds another type.
    pub fn open(ctx: &'k mut Context, name: Str<'k>) -> Result<OpenQueue<'k, M>, Error> {
        OpenQueue::of(Key::open(ctx, name), name)
    }

    fn of(key: Key<'k, M>, name: Str<'k>) -> Result<OpenQueue<'k, M>, Error> {
        let new = if key.value::<Stored>()?.is_some() { None } else { Some(Queue::new()) };
        Ok(OpenQueue { name, key, new, effects: EncodedEffects::new(), uncommitted: Uncommitted::default() })
    }

    /// See [`Key::ctx`].
    pub fn ctx(&self) -> &Context {
        self.key.ctx()
    }

    /// Whether there is no key yet.
    pub fn is_new(&self) -> bool {
        self.new.is_some()
    }

    pub fn queue(&self) -> &Queue {
        match &self.new {
            Some(new) => new,
            None => &self.stored().expect("the key held a queue when it was opened").queue,
        }
    }

    /// What the key holds; `None`: nothing yet.
    pub(super) fn stored(&self) -> Option<&Stored> {
        self.key.value().ok().flatten()
    }
}

impl<'k> OpenQueue<'k, Reading> {
    /// Opens a queue to look without a trace.
    pub fn open_notouch(ctx: &'k mut Context, name: Str<'k>) -> Result<OpenQueue<'k, Reading>, Error> {
        OpenQueue::of(Key::open_notouch(ctx, name), name)
    }
}

/// Changes are made at once, but are replicated and announced only by [`commit`](OpenQueue::commit).
impl<'k> OpenQueue<'k, Writing> {
    /// Runs `change` on the queue, and has it hand over the effects of what it did.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut Queue, &mut Recorder<'_>) -> R) -> R {
        let (effects, uncommitted) = (&mut self.effects, &mut self.uncommitted);
        match &mut self.new {
            Some(new) => change(new, &mut Recorder { ctx: self.key.ctx(), effects, uncommitted, is_new: true }),
            None => {
                let value: Option<(&mut Stored, _)> = self.key.value_mut().ok().flatten();
                let (stored, ctx) = value.expect("the key held a queue when it was opened");
                change(&mut stored.queue, &mut Recorder { ctx, effects, uncommitted, is_new: false })
            }
        }
    }

    /// Replicates and announces the changes: their effects go to the replicas and to the AOF, to WATCH and client-side caching, to those
    /// who listen for events, and to those who wait for a job. Without an effect, nothing of this. `now` as the
    /// changes had it.
    ///
    /// A write is also the moment at which dead letters go that DEADLEN and DEADTTL no longer allow.
    pub fn commit(mut self, now: Millis) {
        if self.effects.effects() > 0 {
            self.change(|queue, effects| queue.drop_dead(now, |effect| effects.add(effect)));
        }
        self.commit_replayed(now);
    }

    /// As [`commit`](OpenQueue::commit), but nothing is dropped: effects from elsewhere say everything that happened.
    pub fn commit_replayed(self, now: Millis) {
        if self.effects.effects() == 0 {
            return;
        }
        let next = waiting::is_waited_for(self.ctx(), self.name).then(|| self.queue().next_wake(now));
        let OpenQueue { name, mut key, new, effects, mut uncommitted } = self;
        uncommitted.settle();
        let mut look_at = None;
        let ctx = match new {
            Some(new) => {
                let stored = Stored::new(new);
                look_at = upkeep::moved_forward(&stored, now);
                let ctx = key.set_value(stored);
                names::note_queue(ctx, name);
                ctx
            }
            None => {
                if let Ok(Some((stored, ctx))) = key.value_mut::<Stored>() {
                    stored.count(|| ctx.is_replayed());
                    look_at = upkeep::moved_forward(stored, now);
                }
                key.close()
            }
        };
        if let Some(look_at) = look_at {
            names::bring_forward(ctx, name, look_at);
        }
        effects.send(name, |command, arguments| ctx.replicate(command, arguments));
        ctx.signal_modified(name);
        if let Some(next) = next {
            waiting::note_queue_changed(ctx, name, now, next);
        }
        for event in effects.happened().names() {
            ctx.notify(EventClass::Module, event, name);
        }
    }
}

/// Takes down effects.
pub struct Recorder<'e> {
    ctx: &'e Context,
    effects: &'e mut EncodedEffects,
    uncommitted: &'e mut Uncommitted,
    is_new: bool,
}

impl<'e> Recorder<'e> {
    /// What of the context does no harm while the queue changes: to reply.
    pub fn ctx(&self) -> &'e Context {
        self.ctx
    }

    pub fn add(&mut self, effect: &Effect<'_>) {
        let count = match effect.change {
            Change::Bury { .. } => upkeep::count_dead_letters,
            Change::Expire { .. } => upkeep::count_expired,
            _ => |_| (),
        };
        if !self.ctx.is_replayed() {
            count(1);
        }
        self.uncommitted.note();
        self.effects.add(effect);
    }

    /// Takes down an effect that changes nothing but makes the key, if there is none yet.
    pub fn add_if_new(&mut self, effect: &Effect<'_>) {
        if self.is_new {
            self.add(effect);
        }
    }
}
