//! The queues of each database: their names, for ZQ.LIST, so that nobody has to walk through all keys; and when each is next worth a look
//! of the [upkeep](super::upkeep).
//!
//! A name is noted when a queue comes to a key: by a first write, a load, RESTORE, COPY, RENAME or MOVE. It is forgotten when the key
//! goes. Keys can also become something else without an event that says so, so whoever reads a name looks at its key first, and
//! forgets it if there is no queue.

use super::OpenQueue;
use crate::model::time::Millis;
use crate::server::context::is_loading;
use crate::server::events::{EventKind, KeyEvent, ServerEvent};
use crate::server::key::ReadKey;
use crate::server::shared::Shared;
use crate::server::{Context, OwnedStr, Str};
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
    /// The queues of a dataset that a replica loads next to the one that it serves. `None`: it does not.
    loaded_aside: Option<Vec<(i32, Name)>>,
    /// A queue is on its way to another key: RENAME and MOVE announce both, one after the other. Other modules may move and delete keys in
    /// between, so this holds until some queue has come.
    is_moving: bool,
    /// Of the next look that is planned.
    next_number: u64,
}

/// The queues of a database.
#[derive(Default)]
struct Queues {
    by_name: BTreeMap<Name, Option<Look>>,
    looks: BTreeSet<(Look, Name)>,
}

/// When a queue is to be looked at; of those of one moment, the first planned comes first.
type Look = (Millis, u64);

impl QueueNames {
    /// Whether there is no queue in the whole server, so that none can come by RENAME, MOVE or COPY.
    fn is_empty(&self) -> bool {
        self.by_database.is_empty() && !self.is_moving
    }

    /// Answers whether the name was known.
    fn forget(&mut self, database: i32, name: &[u8]) -> bool {
        let Some(queues) = self.by_database.get_mut(&database) else { return false };
        let known = queues.by_name.remove_entry(name);
        if let Some((name, Some(look))) = &known {
            queues.looks.remove(&(*look, name.clone()));
        }
        if queues.by_name.is_empty() {
            self.by_database.remove(&database);
        }
        known.is_some()
    }

    /// Notes a queue.
    fn insert(&mut self, database: i32, name: &[u8]) {
        let by_name = &mut self.by_database.entry(database).or_default().by_name;
        if !by_name.contains_key(name) {
            by_name.insert(name.into(), None);
        }
    }

    /// Notes a queue, and when to look at it.
    fn plan(&mut self, database: i32, name: &[u8], at: Option<Millis>) {
        let look = at.map(|at| (at, self.next_number));
        self.next_number += 1;
        let queues = self.by_database.entry(database).or_default();
        let name = queues.by_name.get_key_value(name).map_or_else(|| name.into(), |(known, _)| known.clone());
        if let Some(before) = queues.by_name.insert(name.clone(), look).flatten() {
            queues.looks.remove(&(before, name.clone()));
        }
        queues.looks.extend(look.map(|look| (look, name)));
    }

    /// As [`plan`](Self::plan), unless a look at the queue is planned for that moment or an earlier one.
    fn bring_forward(&mut self, database: i32, name: &[u8], at: Millis) {
        let planned = self.by_database.get(&database).and_then(|queues| *queues.by_name.get(name)?);
        if planned.is_none_or(|(planned, _)| at < planned) {
            self.plan(database, name, Some(at));
        }
    }

    /// The queue to be looked at first of those that are due.
    fn first_due(&self, now: Millis) -> Option<(i32, Name)> {
        let firsts = self.by_database.iter().filter_map(|(&database, queues)| Some((queues.looks.first()?, database)));
        let ((look, name), database) = firsts.min()?;
        (look.0 <= now).then(|| (database, name.clone()))
    }
}

/// When to look at a queue of which nothing is known yet: at once.
const SOON: Millis = 0;

/// A queue has come to this key of the present database.
pub(super) fn note_queue(ctx: &Context, name: Str<'_>) {
    NAMES.with(ctx, |names| names.insert(ctx.database(), name.bytes()));
}

/// The queue in this key of the present database is to be looked at then, if not before.
pub(super) fn bring_forward(ctx: &Context, name: Str<'_>, at: Millis) {
    NAMES.with(ctx, |names| names.bring_forward(ctx.database(), name.bytes(), at));
}

/// The queue in this key of the present database is to be looked at then, and not before.
pub(super) fn plan(ctx: &Context, name: Str<'_>, at: Option<Millis>) {
    NAMES.with(ctx, |names| names.plan(ctx.database(), name.bytes(), at));
}

/// Whether a queue is to be looked at.
pub(super) fn is_due(ctx: &Context, now: Millis) -> bool {
    NAMES.with(ctx, |names| names.first_due(now).is_some())
}

/// The first queue that is to be looked at; `again`: when it is to be looked at next, if nobody says otherwise.
pub(super) fn take_due(ctx: &Context, now: Millis, again: Millis) -> Option<(i32, Name)> {
    NAMES.with(ctx, |names| {
        let (database, name) = names.first_due(now)?;
        names.plan(database, &name, Some(again));
        Some((database, name))
    })
}

/// A queue has been read. While a dataset is loaded, it belongs there. RESTORE announces by an event what becomes of it.
pub(super) fn note_loaded(holder: &impl RedisLockIndicator, database: i32, name: &[u8]) {
    if !is_loading() {
        return;
    }
    NAMES.with(holder, |names| match &mut names.loaded_aside {
        Some(loaded) => loaded.push((database, name.into())),
        None => names.bring_forward(database, name, SOON),
    });
}

/// The dataset that was loaded next to the one that was served has taken its place.
fn take_over_loaded(ctx: &Context) {
    NAMES.with(ctx, |names| {
        for (database, name) in names.loaded_aside.take().unwrap_or_default() {
            names.bring_forward(database, &name, SOON);
        }
    });
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
            let queues = names.by_database.get(&database)?;
            queues.by_name.range((from.clone(), Bound::Unbounded)).next().map(|(name, _)| name.clone())
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
    OpenQueue::open_notouch(ctx, name).is_ok_and(|open| !open.is_new())
}

pub fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
    // RESTORE is asked in any case: not every server tells the name of the key that it reads.
    if event.kind != EventKind::Restore && NAMES.with(ctx, |names| names.is_empty()) {
        return;
    }
    match event.kind {
        EventKind::Gone | EventKind::RenameFrom | EventKind::MoveFrom => {
            let (database, name) = (ctx.database(), event.key.bytes());
            NAMES.with(ctx, |names| {
                let was_known = names.forget(database, name);
                names.is_moving |= was_known && event.kind != EventKind::Gone;
            });
        }
        EventKind::Restore | EventKind::RenameTo | EventKind::MoveTo | EventKind::CopyTo => {
            let key = ReadKey::open_notouch(ctx, event.key);
            let holds_queue = key.value::<super::Stored>().is_ok_and(|value| value.is_some());
            let database = key.database();
            drop(key);
            if let Some(database) = database.filter(|_| holds_queue) {
                NAMES.with(ctx, |names| {
                    names.is_moving = false;
                    names.bring_forward(database, event.key.bytes(), SOON);
                });
            }
        }
        _ => {}
    }
}

pub fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
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
            let swapped = [(one, second), (other, first)].into_iter();
            names.by_database.extend(swapped.filter_map(|(database, queues)| Some((database, queues?))));
        }
        _ => {}
    });
}
