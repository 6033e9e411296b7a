//! The names of the queues in each database, and when each queue is checked next. With the names, ZQ.LIST needs no
//! keyspace scan. [`upkeep`](super::upkeep) checks the queues that are due.
//!
//! A name is added when a key becomes a queue: by a first write, a load, RESTORE, COPY, RENAME or MOVE. The name is
//! removed when the key is removed. But a key may get another type without an event. So code that uses a name opens the
//! key first, and removes the name if the key holds no queue.

use crate::base::time::Millis;
use crate::server::context::is_loading;
use crate::server::events::ServerEvent;
use crate::server::under_lock::UnderLock;
use crate::server::{Context, Str};
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::rc::Rc;

lazy_static! {
    static ref REGISTRY: UnderLock<Registry> = UnderLock::new(Registry::default());
}

pub type Name = Rc<[u8]>;

#[derive(Default)]
struct Registry {
    by_database: HashMap<i32, Queues>,
    /// The queues of a new dataset that this replica loads while it still serves the old dataset. The setting
    /// `repl-diskless-load swapdb` causes such a load. `None` if no such load is in progress.
    async_loaded: Option<Vec<(i32, Name)>>,
    /// Whether a queue may be between two keys: RENAME or MOVE has removed a queue from its old key, and no event has
    /// found a queue in a new key since. If another module has moved the queue to a third key before the event of the
    /// new key, that event finds no queue, and the flag stays true.
    has_queue_between_keys: bool,
    next_number: u64,
}

#[derive(Default)]
struct Queues {
    names: BTreeSet<Name>,
    /// The next check of each queue that has a scheduled check. Most queues have none, so this map is separate from
    /// `names`.
    check_by_name: BTreeMap<Name, Check>,
    names_by_check: BTreeSet<(Check, Name)>,
}

/// The time of a check, and a number that orders checks with the same time.
type Check = (Millis, u64);

impl Registry {
    /// Whether the server has no queue, not even one that RENAME or MOVE is moving.
    fn is_empty(&self) -> bool {
        self.by_database.is_empty() && !self.has_queue_between_keys
    }

    /// Removes a name. Returns whether it was present.
    fn remove(&mut self, database: i32, name: &[u8]) -> bool {
        let Some(queues) = self.by_database.get_mut(&database) else { return false };
        let was_known = queues.names.remove(name);
        if let Some((name, check)) = queues.check_by_name.remove_entry(name) {
            queues.names_by_check.remove(&(check, name));
        }
        if queues.names.is_empty() {
            self.by_database.remove(&database);
        }
        was_known
    }

    /// Adds the queue's name if it is missing, and sets the time of the queue's next check.
    fn schedule(&mut self, database: i32, name: &[u8], at: Option<Millis>) {
        let check = at.map(|at| (at, self.next_number));
        self.next_number += 1;
        let queues = self.by_database.entry(database).or_default();
        let known = queues.names.get(name).cloned();
        let name = known.unwrap_or_else(|| name.into());
        queues.names.insert(name.clone());
        if let Some(before) = queues.check_by_name.remove(&name) {
            queues.names_by_check.remove(&(before, name.clone()));
        }
        queues.check_by_name.extend(check.map(|check| (name.clone(), check)));
        queues.names_by_check.extend(check.map(|check| (check, name)));
    }

    /// Adds the queue's name if it is missing. Sets the time of the queue's next check to `at`, unless an earlier check
    /// is scheduled.
    fn schedule_by(&mut self, database: i32, name: &[u8], at: Option<Millis>) {
        let known = self.by_database.get(&database).filter(|queues| queues.names.contains(name));
        let is_earlier = |at, queues: &Queues| queues.check_by_name.get(name).is_none_or(|&(next, _)| at < next);
        if known.is_none_or(|queues| at.is_some_and(|at| is_earlier(at, queues))) {
            self.schedule(database, name, at);
        }
    }

    /// If a check is due, returns the queue with the earliest check.
    fn first_due(&self, now: Millis) -> Option<(i32, Name)> {
        let firsts =
            self.by_database.iter().filter_map(|(&database, queues)| Some((queues.names_by_check.first()?, database)));
        let ((check, name), database) = firsts.min()?;
        (check.0 <= now).then(|| (database, name.clone()))
    }
}

/// The time of the first check of a queue that was loaded, renamed or copied. This check is due at once.
const DUE_NOW: Option<Millis> = Some(0);

/// Adds the queue's name to the current database if it is missing. Sets the time of the queue's next check to `at`,
/// unless an earlier check is scheduled.
pub(super) fn schedule_by(ctx: &Context, name: Str<'_>, at: Option<Millis>) {
    REGISTRY.with(ctx, |registry| registry.schedule_by(ctx.database(), name.bytes(), at));
}

/// Sets the time of the next check of a queue in the current database.
pub(super) fn schedule(ctx: &Context, name: Str<'_>, at: Option<Millis>) {
    REGISTRY.with(ctx, |registry| registry.schedule(ctx.database(), name.bytes(), at));
}

pub(super) fn is_due(ctx: &Context, now: Millis) -> bool {
    REGISTRY.with(ctx, |registry| registry.first_due(now).is_some())
}

/// If a check is due, returns the queue with the earliest check, and sets the time of its next check to `retry_at`.
pub(super) fn take_due(ctx: &Context, now: Millis, retry_at: Millis) -> Option<(i32, Name)> {
    REGISTRY.with(ctx, |registry| {
        let (database, name) = registry.first_due(now)?;
        registry.schedule(database, &name, Some(retry_at));
        Some((database, name))
    })
}

/// Adds a queue of the dataset that is being loaded. Does nothing during a RESTORE: [`note_arrived`] then adds the
/// queue.
pub(super) fn note_loaded(holder: &impl RedisLockIndicator, database: i32, name: &[u8]) {
    if !is_loading() {
        return;
    }
    REGISTRY.with(holder, |registry| match &mut registry.async_loaded {
        Some(loaded) => loaded.push((database, name.into())),
        None => registry.schedule_by(database, name, DUE_NOW),
    });
}

/// Adds the queues of a loaded dataset (`async_loaded`) when the replica begins to serve it.
fn take_over_loaded(ctx: &Context) {
    REGISTRY.with(ctx, |registry| {
        for (database, name) in registry.async_loaded.take().unwrap_or_default() {
            registry.schedule_by(database, &name, DUE_NOW);
        }
    });
}

/// Removes a queue's name from the names of the current database.
pub fn remove(ctx: &Context, name: Str<'_>) {
    REGISTRY.with(ctx, |registry| registry.remove(ctx.database(), name.bytes()));
}

/// Returns the first name of a queue in the current database after `from`.
pub fn next(ctx: &Context, from: Bound<Name>) -> Option<Name> {
    REGISTRY.with(ctx, |registry| {
        let queues = registry.by_database.get(&ctx.database())?;
        queues.names.range((from, Bound::Unbounded)).next().cloned()
    })
}

/// Whether the server has no queue, not even one that RENAME or MOVE is moving.
pub(super) fn is_empty(ctx: &Context) -> bool {
    REGISTRY.with(ctx, |registry| registry.is_empty())
}

/// Removes the name of a key that was removed. `is_moved` is true if RENAME or MOVE writes the key's value to another
/// key.
pub(super) fn note_gone(ctx: &Context, name: &[u8], is_moved: bool) {
    let database = ctx.database();
    REGISTRY.with(ctx, |registry| {
        let was_known = registry.remove(database, name);
        registry.has_queue_between_keys |= was_known && is_moved;
    });
}

/// Adds a queue that RESTORE, COPY, RENAME or MOVE has written to a key.
pub(super) fn note_arrived(ctx: &Context, database: i32, name: &[u8]) {
    REGISTRY.with(ctx, |registry| {
        registry.has_queue_between_keys = false;
        registry.schedule_by(database, name, DUE_NOW);
    });
}

pub fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
    if event == ServerEvent::Loaded {
        return take_over_loaded(ctx);
    }
    REGISTRY.with(ctx, |registry| match event {
        ServerEvent::AsyncLoadStarted => registry.async_loaded = Some(Vec::new()),
        ServerEvent::AsyncLoadAborted => registry.async_loaded = None,
        ServerEvent::Flushed(None) => registry.by_database.clear(),
        ServerEvent::Flushed(Some(database)) => drop(registry.by_database.remove(&database)),
        ServerEvent::Swapped(one, other) => {
            let [first, second] = [one, other].map(|database| registry.by_database.remove(&database));
            let swapped = [(one, second), (other, first)].into_iter();
            registry.by_database.extend(swapped.filter_map(|(database, queues)| Some((database, queues?))));
        }
        _ => {}
    });
}
