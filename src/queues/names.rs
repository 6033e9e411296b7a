//! The names of the queues in each database, and when each queue is checked next. ZQ.LIST lists the names without a
//! keyspace scan. [`upkeep`](super::upkeep) checks the queues that are due.
//!
//! A name is added when a key becomes a queue: by a first write, a load, RESTORE, COPY, RENAME or MOVE. The name is
//! removed when the key is removed. But a key may get another type without an event. So code that uses a name opens the
//! key first, and removes the name if the key holds no queue.

use crate::base::time::Millis;
use crate::server::context::is_loading;
use crate::server::events::ServerEvent;
use crate::server::shared::Shared;
use crate::server::{Context, Str};
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::rc::Rc;

lazy_static! {
    static ref NAMES: Shared<QueueNames> = Shared::new(QueueNames::default());
}

pub type Name = Rc<[u8]>;

#[derive(Default)]
struct QueueNames {
    by_database: HashMap<i32, Queues>,
    /// The queues of a dataset that this replica loads while it still serves the old dataset. `None` if there is no
    /// such dataset.
    async_loaded: Option<Vec<(i32, Name)>>,
    /// Whether RENAME or MOVE has taken a queue from its old key, and no later event has found a queue at a new key.
    /// Before the server sends the event of the new key, another module may move the queue to a third key. Then the
    /// event finds no queue, and the flag stays true.
    is_moving: bool,
    next_number: u64,
}

#[derive(Default)]
struct Queues {
    names: BTreeSet<Name>,
    /// Most queues have no planned check, so `names` does not have the checks.
    planned: BTreeMap<Name, Check>,
    checks: BTreeSet<(Check, Name)>,
}

/// The time of a check, and a number that orders checks with the same time.
type Check = (Millis, u64);

impl QueueNames {
    /// Whether the server has no queue, not even one that RENAME or MOVE is moving.
    fn is_empty(&self) -> bool {
        self.by_database.is_empty() && !self.is_moving
    }

    /// Removes a name. Returns whether it was present.
    fn forget(&mut self, database: i32, name: &[u8]) -> bool {
        let Some(queues) = self.by_database.get_mut(&database) else { return false };
        let was_known = queues.names.remove(name);
        if let Some((name, check)) = queues.planned.remove_entry(name) {
            queues.checks.remove(&(check, name));
        }
        if queues.names.is_empty() {
            self.by_database.remove(&database);
        }
        was_known
    }

    /// Adds a queue if necessary, and sets the time of its next check.
    fn plan(&mut self, database: i32, name: &[u8], at: Option<Millis>) {
        let check = at.map(|at| (at, self.next_number));
        self.next_number += 1;
        let queues = self.by_database.entry(database).or_default();
        let known = queues.names.get(name).cloned();
        let name = known.unwrap_or_else(|| name.into());
        queues.names.insert(name.clone());
        if let Some(before) = queues.planned.remove(&name) {
            queues.checks.remove(&(before, name.clone()));
        }
        queues.planned.extend(check.map(|check| (name.clone(), check)));
        queues.checks.extend(check.map(|check| (check, name)));
    }

    /// Adds a queue if necessary. Sets the time of its next check to `at`, unless the planned time is earlier.
    fn bring_forward(&mut self, database: i32, name: &[u8], at: Option<Millis>) {
        let known = self.by_database.get(&database).filter(|queues| queues.names.contains(name));
        let is_earlier = |at, queues: &Queues| queues.planned.get(name).is_none_or(|&(planned, _)| at < planned);
        if known.is_none_or(|queues| at.is_some_and(|at| is_earlier(at, queues))) {
            self.plan(database, name, at);
        }
    }

    /// If a check is due, returns the queue with the earliest check.
    fn first_due(&self, now: Millis) -> Option<(i32, Name)> {
        let firsts = self.by_database.iter().filter_map(|(&database, queues)| Some((queues.checks.first()?, database)));
        let ((check, name), database) = firsts.min()?;
        (check.0 <= now).then(|| (database, name.clone()))
    }
}

/// The time of the first check of a queue that was loaded, renamed or copied. This check is due at once.
const SOON: Option<Millis> = Some(0);

/// Adds a queue of the current database if necessary. Sets the time of its next check to `at`, unless the planned time
/// is earlier.
pub(super) fn bring_forward(ctx: &Context, name: Str<'_>, at: Option<Millis>) {
    NAMES.with(ctx, |names| names.bring_forward(ctx.database(), name.bytes(), at));
}

/// Sets when a queue of the current database is checked next.
pub(super) fn plan(ctx: &Context, name: Str<'_>, at: Option<Millis>) {
    NAMES.with(ctx, |names| names.plan(ctx.database(), name.bytes(), at));
}

pub(super) fn is_due(ctx: &Context, now: Millis) -> bool {
    NAMES.with(ctx, |names| names.first_due(now).is_some())
}

/// If a check is due, returns the queue with the earliest check, and plans the queue's next check for `again`.
pub(super) fn take_due(ctx: &Context, now: Millis, again: Millis) -> Option<(i32, Name)> {
    NAMES.with(ctx, |names| {
        let (database, name) = names.first_due(now)?;
        names.plan(database, &name, Some(again));
        Some((database, name))
    })
}

/// Adds a queue of the dataset that is being loaded. Does nothing during a RESTORE: [`arrived`] then adds the queue.
pub(super) fn note_loaded(holder: &impl RedisLockIndicator, database: i32, name: &[u8]) {
    if !is_loading() {
        return;
    }
    NAMES.with(holder, |names| match &mut names.async_loaded {
        Some(loaded) => loaded.push((database, name.into())),
        None => names.bring_forward(database, name, SOON),
    });
}

/// Adds the queues of a loaded dataset (`async_loaded`) when the replica begins to serve it.
fn take_over_loaded(ctx: &Context) {
    NAMES.with(ctx, |names| {
        for (database, name) in names.async_loaded.take().unwrap_or_default() {
            names.bring_forward(database, &name, SOON);
        }
    });
}

/// Removes a queue's name from the names of the current database.
pub fn forget(ctx: &Context, name: Str<'_>) {
    NAMES.with(ctx, |names| names.forget(ctx.database(), name.bytes()));
}

/// Returns the first name of a queue in the current database after `from`.
pub fn next(ctx: &Context, from: Bound<Name>) -> Option<Name> {
    NAMES.with(ctx, |names| {
        let queues = names.by_database.get(&ctx.database())?;
        queues.names.range((from, Bound::Unbounded)).next().cloned()
    })
}

/// Whether the server has no queue, not even one that RENAME or MOVE is moving.
pub(super) fn is_empty(ctx: &Context) -> bool {
    NAMES.with(ctx, |names| names.is_empty())
}

/// Removes the name of a key that was removed. `is_moving`: RENAME or MOVE writes the key's value to another key.
pub(super) fn left(ctx: &Context, name: &[u8], is_moving: bool) {
    let database = ctx.database();
    NAMES.with(ctx, |names| {
        let was_known = names.forget(database, name);
        names.is_moving |= was_known && is_moving;
    });
}

/// Adds a queue that RESTORE, COPY, RENAME or MOVE has written to a key.
pub(super) fn arrived(ctx: &Context, database: i32, name: &[u8]) {
    NAMES.with(ctx, |names| {
        names.is_moving = false;
        names.bring_forward(database, name, SOON);
    });
}

pub fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
    if event == ServerEvent::Loaded {
        return take_over_loaded(ctx);
    }
    NAMES.with(ctx, |names| match event {
        ServerEvent::AsyncLoadStarted => names.async_loaded = Some(Vec::new()),
        ServerEvent::AsyncLoadAborted => names.async_loaded = None,
        ServerEvent::Flushed(None) => names.by_database.clear(),
        ServerEvent::Flushed(Some(database)) => drop(names.by_database.remove(&database)),
        ServerEvent::Swapped(one, other) => {
            let [first, second] = [one, other].map(|database| names.by_database.remove(&database));
            let swapped = [(one, second), (other, first)].into_iter();
            names.by_database.extend(swapped.filter_map(|(database, queues)| Some((database, queues?))));
        }
        _ => {}
    });
}
