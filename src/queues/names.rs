//! The names of the queues, for ZQ.LIST: so that nobody has to walk through all keys.
//!
//! A name is noted when a queue comes to a key: by a first write, a load, RESTORE, COPY, RENAME or MOVE. It is forgotten when the key
//! goes. Keys can also become something else without an event that says so, so whoever reads a name looks at its key first, and
//! forgets it if there is no queue.

use super::{OpenQueue, upkeep};
use crate::server::context::is_loading;
use crate::server::events::{Happened, KeyEvent, Listener, ServerEvent};
use crate::server::key::ReadKey;
use crate::server::shared::Shared;
use crate::server::{Context, OwnedStr, Str};
use lazy_static::lazy_static;
use redis_module::RedisLockIndicator;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

lazy_static! {
    static ref NAMES: Shared<Names> = Shared::new(Names::default());
}

type Name = Box<[u8]>;

#[derive(Default)]
struct Names {
    by_database: HashMap<i32, BTreeSet<Name>>,
    /// The queues of a dataset that a replica loads next to the one that it serves. `None`: it does not.
    loaded_aside: Option<Vec<(i32, Name)>>,
    /// A queue is on its way to another key: RENAME and MOVE announce both, one after the other. Other modules may move and delete keys in
    /// between, so this holds until some queue has come.
    is_moving: bool,
}

impl Names {
    /// Whether there is no queue in the whole server, so that none can come by RENAME, MOVE or COPY.
    fn is_empty(&self) -> bool {
        self.by_database.is_empty() && !self.is_moving
    }

    /// Answers whether the name was known.
    fn forget(&mut self, database: i32, name: &[u8]) -> bool {
        let Some(names) = self.by_database.get_mut(&database) else { return false };
        let was_known = names.remove(name);
        if names.is_empty() {
            self.by_database.remove(&database);
        }
        was_known
    }

    fn insert(&mut self, database: i32, name: &[u8]) {
        self.by_database.entry(database).or_default().insert(name.into());
    }
}

/// A queue has come to this key of the present database.
pub(super) fn note_queue(ctx: &Context, name: Str<'_>) {
    note_queue_in(ctx, ctx.database(), name);
}

fn note_queue_in(ctx: &Context, database: i32, name: Str<'_>) {
    NAMES.with(ctx, |names| names.insert(database, name.bytes()));
}

/// A queue has been read. While a dataset is loaded, it belongs there. RESTORE announces by an event what becomes of it.
pub(super) fn note_loaded(holder: &impl RedisLockIndicator, database: i32, name: &[u8]) {
    if !is_loading() {
        return;
    }
    let is_served = NAMES.with(holder, |names| match &mut names.loaded_aside {
        Some(loaded) => {
            loaded.push((database, name.into()));
            false
        }
        None => {
            names.insert(database, name);
            true
        }
    });
    if is_served {
        upkeep::look_soon(holder, database, name);
    }
}

/// The dataset that was loaded next to the one that was served has taken its place.
fn take_over_loaded(ctx: &Context) {
    for (database, name) in NAMES.with(ctx, |names| names.loaded_aside.take()).unwrap_or_default() {
        NAMES.with(ctx, |names| names.insert(database, &name));
        upkeep::look_soon(ctx, database, &name);
    }
}

/// There is no queue in this key of the present database.
pub(super) fn forget(ctx: &Context, name: Str<'_>) {
    NAMES.with(ctx, |names| names.forget(ctx.database(), name.bytes()));
}

/// The names behind `after` in the present database, in order, up to `count` of those that `is_shown` lets pass.
pub fn list(
    ctx: &mut Context,
    after: Option<&[u8]>,
    count: usize,
    is_shown: impl Fn(Str<'_>) -> bool,
) -> Vec<OwnedStr> {
    let database = ctx.database();
    let mut from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(Name::from(after)));
    let mut listed = Vec::new();
    while listed.len() < count {
        let next = NAMES.with(ctx, |names| {
            let names = names.by_database.get(&database)?;
            names.range((from.clone(), Bound::Unbounded)).next().cloned()
        });
        let Some(next) = next else { break };
        let name = OwnedStr::new(&next);
        if is_queue(ctx, name.as_str()) {
            if is_shown(name.as_str()) {
                listed.push(name);
            }
        } else {
            NAMES.with(ctx, |names| names.forget(database, &next));
        }
        from = Bound::Excluded(next);
    }
    listed
}

fn is_queue(ctx: &mut Context, name: Str<'_>) -> bool {
    OpenQueue::glance(ctx, name).is_ok_and(|open| !open.is_new())
}

/// Listens to what becomes of keys.
pub struct Watch;

impl Listener for Watch {
    fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
        // RESTORE is asked in any case: not every server tells the name of the key that it reads.
        if event.happened != Happened::Restore && NAMES.with(ctx, |names| names.is_empty()) {
            return;
        }
        match event.happened {
            Happened::Gone | Happened::RenameFrom | Happened::MoveFrom => {
                let (database, name) = (ctx.database(), event.key.bytes());
                let was_known = NAMES.with(ctx, |names| {
                    let was_known = names.forget(database, name);
                    names.is_moving |= was_known && event.happened != Happened::Gone;
                    was_known
                });
                if was_known {
                    upkeep::forget(ctx, database, name);
                }
            }
            Happened::Restore | Happened::RenameTo | Happened::MoveTo | Happened::CopyTo => {
                let key = ReadKey::glance(ctx, event.key);
                let holds_queue = key.value::<super::Stored>().is_ok_and(|value| value.is_some());
                let database = key.database();
                drop(key);
                if let Some(database) = database.filter(|_| holds_queue) {
                    NAMES.with(ctx, |names| names.is_moving = false);
                    note_queue_in(ctx, database, event.key);
                    upkeep::look_soon(ctx, database, event.key.bytes());
                }
            }
            _ => {}
        }
    }

    fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
        if event == ServerEvent::Loaded {
            return take_over_loaded(ctx);
        }
        NAMES.with(ctx, |names| match event {
            ServerEvent::LoadsAside => names.loaded_aside = Some(Vec::new()),
            ServerEvent::LoadAborted => names.loaded_aside = None,
            ServerEvent::Flushed(None) => names.by_database.clear(),
            ServerEvent::Flushed(Some(database)) => drop(names.by_database.remove(&database)),
            ServerEvent::Swapped(one, other) => {
                let [first, second] = [one, other].map(|database| names.by_database.remove(&database));
                for (database, set) in [(one, second), (other, first)] {
                    if let Some(set) = set {
                        names.by_database.insert(database, set);
                    }
                }
            }
            _ => {}
        });
    }
}
