//! An open queue: a command changes it, and then commits the changes.

use super::wire::{APPLY, EncodedEffects};
use super::{QueueValue, registry, stored, totals, waiting};
use crate::base::packed::Unreadable;
use crate::base::time::Millis;
use crate::error::Error;
use crate::queues::model::{Change, Effect, JobChange, Queue};
use crate::server::context::EventClass;
use crate::server::key::{Key, Mode, Reading, Writing};
use crate::server::uncommitted::Uncommitted;
use crate::server::{Context, Str};
use std::sync::atomic::{AtomicU64, Ordering};

static REJECTED: AtomicU64 = AtomicU64::new(0);

pub fn rejected_effects() -> u64 {
    REJECTED.load(Ordering::Relaxed)
}

/// Counts and logs effects that this server got from a master or an AOF file, and rejected. Without these effects, the
/// queue in `key` differs from the master's queue. `first` names the first rejected effect, and the reason.
pub fn report_rejected(ctx: &Context, key: Option<Str<'_>>, count: u64, first: &Unreadable) {
    REJECTED.fetch_add(count, Ordering::Relaxed);
    let key = key.map_or("?".to_owned(), |key| key.to_string());
    ctx.log(c"warning", &format!("zeitset: rejected {count} replicated effects on the queue {key}: {first}"));
}

/// An open queue. If the key is missing, the queue is empty, and a commit with effects creates the key.
#[must_use = "changes must be committed"]
pub struct OpenQueue<'k, M: Mode> {
    name: Str<'k>,
    key: Key<'k, M>,
    /// If the key is missing, an empty queue. A commit with effects stores it in the key.
    new: Option<Queue>,
    effects: EncodedEffects,
    uncommitted: Uncommitted,
}

impl<'k, M: Mode> OpenQueue<'k, M> {
    /// Opens a queue. Returns an error if the key holds another type.
    pub fn open(ctx: &'k mut Context, name: Str<'k>) -> Result<OpenQueue<'k, M>, Error> {
        OpenQueue::of(Key::open(ctx, name), name)
    }

    fn of(key: Key<'k, M>, name: Str<'k>) -> Result<OpenQueue<'k, M>, Error> {
        let new = if key.value::<QueueValue>()?.is_some() { None } else { Some(Queue::new()) };
        Ok(OpenQueue { name, key, new, effects: EncodedEffects::default(), uncommitted: Uncommitted::default() })
    }

    pub fn ctx(&self) -> &Context {
        self.key.ctx()
    }

    pub fn is_new(&self) -> bool {
        self.new.is_some()
    }

    pub fn queue(&self) -> &Queue {
        match &self.new {
            Some(new) => new,
            None => &self.stored().expect("the key held a queue when it was opened").queue,
        }
    }

    pub(super) fn stored(&self) -> Option<&QueueValue> {
        self.key.value().ok().flatten()
    }
}

impl<'k> OpenQueue<'k, Reading> {
    /// Opens a queue for reading, without changing the key's access time and the server's statistics.
    pub fn open_notouch(ctx: &'k mut Context, name: Str<'k>) -> Result<OpenQueue<'k, Reading>, Error> {
        OpenQueue::of(Key::open_notouch(ctx, name), name)
    }
}

impl<'k> OpenQueue<'k, Writing> {
    /// Opens a queue, lets `change` edit it, and commits. `change` must record an effect for each edit. `now` is the
    /// time of the edits.
    pub fn edit<R>(
        ctx: &'k mut Context,
        name: Str<'k>,
        now: Millis,
        change: impl FnOnce(&mut Queue, &mut Recorder<'_>) -> R,
    ) -> Result<R, Error> {
        let mut open = OpenQueue::open(ctx, name)?;
        let result = open.change(change);
        open.commit(now);
        Ok(result)
    }

    /// Calls `change`, which must record an effect for each change. [`commit`](Self::commit) replicates the effects.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut Queue, &mut Recorder<'_>) -> R) -> R {
        let (queue, ctx) = match &mut self.new {
            Some(new) => (new, self.key.ctx()),
            None => {
                let value: Option<(&mut QueueValue, _)> = self.key.value_mut().ok().flatten();
                let (stored, ctx) = value.expect("the key held a queue when it was opened");
                (&mut stored.queue, ctx)
            }
        };
        let before = queue.expired_leases();
        let recorder = &mut Recorder { ctx, effects: &mut self.effects, uncommitted: &mut self.uncommitted };
        let result = change(queue, recorder);
        // The server that ran a replayed command has counted the expired leases.
        if queue.expired_leases() > before && !ctx.is_replayed() {
            totals::EXPIRED_LEASES.fetch_add(queue.expired_leases() - before, Ordering::Relaxed);
        }
        result
    }

    /// Replicates the changes, signals WATCH and client-side caching, wakes waiting clients, and sends the keyspace
    /// events. Does nothing if there are no effects. `now` is the time of the changes.
    ///
    /// A commit first drops the dead letters that exceed DEADLEN or DEADTTL.
    pub fn commit(mut self, now: Millis) {
        if self.effects.effects() > 0 {
            self.change(|queue, effects| queue.drop_dead(now, |effect| effects.add(effect)));
        }
        self.commit_replayed(now);
    }

    /// Deletes the key of an unused queue ([`Queue::is_unused`]). Replicas and the AOF get UNLINK.
    pub fn delete_unused(self) {
        if self.is_new() || !self.queue().is_unused() {
            return;
        }
        self.key.ctx().replicate(c"UNLINK", &[self.name]);
        let (name, ctx) = (self.name, self.key.unlink());
        ctx.signal_modified(name);
        ctx.notify(EventClass::Generic, c"del", name);
    }

    /// Does the same as [`commit`](Self::commit), but drops no dead letters. The effects of a master already contain
    /// these drops, and the upkeep drops dead letters itself.
    pub fn commit_replayed(self, now: Millis) {
        if self.effects.effects() == 0 {
            return;
        }
        let next = waiting::is_waited_for(self.ctx(), self.name).then(|| self.queue().next_claimable(now));
        let OpenQueue { name, key, new, effects, mut uncommitted } = self;
        uncommitted.committed();
        let (is_new, mut check_at) = (new.is_some(), None);
        // A new value sends the event `new` at once. If a listener then changes this queue, the listener's change must
        // come after this change on replicas, too. So this function replicates first.
        key.ctx().replicate_bytes(APPLY, name, &[effects.bytes()]);
        let ctx = match new {
            Some(new) => {
                let stored = QueueValue::new(new);
                check_at = stored::earlier_check(&stored, now);
                key.set_value(stored)
            }
            None => {
                QueueValue::note_changed(&key);
                if let Ok(Some(stored)) = key.value::<QueueValue>() {
                    check_at = stored::earlier_check(stored, now);
                }
                key.close()
            }
        };
        if is_new || check_at.is_some() {
            registry::schedule_by(ctx, name, check_at);
        }
        ctx.signal_modified(name);
        if let Some(next) = next {
            waiting::note_queue_changed(ctx, name, now, next);
        }
        for &event in effects.happened() {
            ctx.notify(EventClass::Module, event, name);
        }
    }
}

pub struct Recorder<'e> {
    ctx: &'e Context,
    effects: &'e mut EncodedEffects,
    uncommitted: &'e mut Uncommitted,
}

impl<'e> Recorder<'e> {
    /// Returns the context. The caller may use it only for replies.
    pub fn ctx(&self) -> &'e Context {
        self.ctx
    }

    pub fn add(&mut self, effect: &Effect<'_>) {
        match effect.change {
            Change::Job { change: JobChange::Dead { .. }, .. } if !self.ctx.is_replayed() => {
                totals::DEAD_LETTERS.fetch_add(1, Ordering::Relaxed);
            }
            Change::Job { change: JobChange::Expire { .. }, .. } if !self.ctx.is_replayed() => {
                totals::EXPIRED_JOBS.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.uncommitted.note();
        self.effects.add(effect);
    }

    /// If there is an effect, records it and returns true. Otherwise, returns false.
    pub fn add_if_some(&mut self, effect: Option<Effect<'_>>) -> bool {
        effect.inspect(|effect| self.add(effect)).is_some()
    }
}
