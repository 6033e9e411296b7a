//! The queue's data type `zeitqueue`: saving, AOF rewriting, memory usage, digest.

use super::registry;
use super::totals::Contribution;
use super::wire::{APPLY, EncodedEffects};
use crate::base::relocate::{Mover, Relocate};
use crate::base::time::{Millis, NEVER};
use crate::queues::model::Queue;
use crate::server::OwnedStr;
use crate::server::context::monotonic;
use crate::server::data_type::{DataType, Handle};
use crate::server::events::Classes;
use crate::server::io::{Digest, Loader, Rewriter, Saver};
use crate::server::key::WriteKey;
use redis_module::RedisLockIndicator;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum number of effects in one command of a rewritten AOF file.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 64 * 1024;

/// The upkeep deletes a queue that has been unused ([`Queue::is_unused`]) for this time in ms.
const KEPT_UNUSED: Millis = 3_600_000;
/// The time at which this server became a master or loaded its dataset, by the monotonic clock. A queue counts as
/// unused from this time on at the earliest.
static UNUSED_FROM: AtomicU64 = AtomicU64::new(0);

pub(super) fn restart_unused_times() {
    UNUSED_FROM.store(monotonic(), Relaxed);
}

/// A queue, its contribution to the totals, and the times of its checks.
pub struct QueueValue {
    pub queue: Queue,
    contribution: Contribution,
    pub(super) upkeep: Upkeep,
}

impl QueueValue {
    pub fn new(queue: Queue) -> QueueValue {
        let contribution = Contribution::of(&queue);
        QueueValue { queue, contribution, upkeep: Upkeep::new() }
    }

    /// If the queue is unused, its next check begins to measure again for how long it is unused. Called when RENAME,
    /// MOVE, COPY or RESTORE has written the queue to a key, and while clients wait for the queue.
    pub fn note_use(&self) {
        self.upkeep.unused_since.store(NEVER, Relaxed);
    }

    /// Makes INFO include a change of the queue in `key`. Notes the queue for [`update_totals`], or updates the totals
    /// at once if too many queues are noted. Must be called after each change.
    pub fn note_changed(key: &WriteKey<'_>) {
        let Ok(Some(QueueValue { queue, contribution, .. })) = key.value() else { return };
        if !contribution.is_outdated.load(Relaxed) {
            match key.note_changed::<QueueValue>() {
                true => contribution.is_outdated.store(true, Relaxed),
                false => contribution.update(queue),
            }
        }
    }
}

/// Updates the totals for all queues that [`QueueValue::note_changed`] has noted.
pub(super) fn update_totals(holder: &impl RedisLockIndicator) {
    HANDLE.read_changed(holder, |stored| stored.contribution.update(&stored.queue));
}

/// The upkeep's state for one queue. The state is stored with the queue, so most commands need no lookup in
/// [`registry`].
pub(super) struct Upkeep {
    /// The time of the last check. If a job's lease expired by this time, and the job became a dead letter, the event
    /// `zq.dead` has been sent.
    pub announced_until: AtomicU64,
    /// The scheduled time of the next check. The scheduled time in [`registry`] can differ from this field. After a
    /// load, RESTORE, RENAME, MOVE or COPY, the check in [`registry`] is due at once. If a check was not allowed to
    /// change the queue, [`registry`] schedules the next check a second later. This field then keeps its old value.
    pub scheduled: AtomicU64,
    /// The time since which the queue has been unused, by the monotonic clock, so that a step of the wall clock deletes
    /// no queue. [`NEVER`] if the queue was in use at its last change or check. Also [`NEVER`] from a load, RENAME,
    /// MOVE, COPY or RESTORE to the next change or check.
    pub unused_since: AtomicU64,
}

impl Upkeep {
    pub fn new() -> Upkeep {
        let [announced_until, scheduled, unused_since] = [0, NEVER, NEVER].map(AtomicU64::new);
        Upkeep { announced_until, scheduled, unused_since }
    }

    /// Returns how long the queue has been unused, in ms.
    fn unused_for(&self) -> Millis {
        let since = self.unused_since.load(Relaxed).max(UNUSED_FROM.load(Relaxed));
        monotonic().saturating_sub(since)
    }
}

/// Updates, during a check, the time since which the queue has been unused. Returns whether this time is so long ago
/// that the upkeep must delete the queue. `is_waited_for` is true if clients wait for jobs of the queue.
pub(super) fn check_use(stored: &QueueValue, is_waited_for: bool, now: Millis) -> bool {
    let since = &stored.upkeep.unused_since;
    if !stored.queue.is_unused() || is_waited_for || stored.queue.is_ahead(now) {
        since.store(NEVER, Relaxed);
    } else if since.load(Relaxed) == NEVER {
        since.store(monotonic(), Relaxed);
    }
    stored.upkeep.unused_for() >= KEPT_UNUSED
}

/// Updates the upkeep's state after a change of the queue. If the queue must be checked before the scheduled time,
/// stores and returns the new time. Otherwise, returns `None`.
pub(super) fn earlier_check(stored: &QueueValue, now: Millis) -> Option<Millis> {
    let Upkeep { announced_until, scheduled, unused_since } = &stored.upkeep;
    unused_since.store(if stored.queue.is_unused() { monotonic() } else { NEVER }, Relaxed);
    // If the clock was set back, `announced_until` may be in the future.
    if announced_until.load(Relaxed) > now {
        announced_until.store(now, Relaxed);
    }
    let next = next_check(stored, now).filter(|&next| next < scheduled.load(Relaxed));
    next.inspect(|&next| scheduled.store(next, Relaxed))
}

pub(super) fn next_check(stored: &QueueValue, now: Millis) -> Option<Millis> {
    let upkeep = stored.queue.next_upkeep(now, stored.upkeep.announced_until.load(Relaxed));
    let unused = stored.queue.is_unused().then(|| {
        let left = KEPT_UNUSED.saturating_sub(stored.upkeep.unused_for());
        now.saturating_add(left)
    });
    upkeep.into_iter().chain(unused).min()
}

impl Clone for QueueValue {
    fn clone(&self) -> QueueValue {
        QueueValue::new(self.queue.clone())
    }
}

static HANDLE: Handle<QueueValue> = Handle::new();

impl Relocate for QueueValue {
    fn relocate(&mut self, from: usize, mover: &mut impl Mover) -> Option<usize> {
        self.queue.relocate(from, mover)
    }
}

impl DataType for QueueValue {
    const NAME: &'static CStr = c"zeitqueue";
    const NUMBER: c_int = 1;
    const EVENTS: Classes = Classes::KEYS;

    fn handle() -> &'static Handle<QueueValue> {
        &HANDLE
    }

    fn load(from: &mut Loader<'_>) -> Result<QueueValue, String> {
        let queue = Queue::decode(from).map_err(|why| why.to_string())?;
        if let Some((database, name)) = from.key() {
            registry::note_loaded(from, database, name.bytes());
        }
        Ok(QueueValue::new(queue))
    }

    fn save(&self, to: &mut Saver<'_>) {
        self.queue.encode(to);
    }

    fn rewrite(&self, to: &mut Rewriter<'_>) {
        let mut emit = |effects: &EncodedEffects| {
            to.emit(APPLY, &[OwnedStr::new(effects.bytes())]);
        };
        let mut effects = EncodedEffects::default();
        for effect in self.queue.rebuild() {
            effects.add(&effect);
            if effects.effects() >= BATCH || effects.bytes().len() >= BATCH_BYTES {
                emit(&effects);
                effects = EncodedEffects::default();
            }
        }
        if effects.effects() > 0 {
            emit(&effects);
        }
    }

    fn digest(&self, to: &mut Digest<'_>) {
        self.queue.encode(to);
        to.end_sequence();
    }

    fn memory_usage(&self) -> usize {
        size_of::<Contribution>() + size_of::<Upkeep>() + self.queue.memory_usage()
    }

    fn free_effort(&self) -> usize {
        self.queue.free_effort()
    }
}
