//! What the server tells of by itself: keyspace events and server events.

use super::context::{Context, is_announced};
use super::panic::{enter_module, survive};
use super::slots::{self, Range};
use super::string::Str;
use redis_module::raw::{
    self, RedisModuleCtx, RedisModuleEvent, RedisModuleFlushInfo, RedisModuleString, RedisModuleSwapDbInfo,
};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// What happened to a key, as far as the module heeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It was deleted, has expired, or was evicted.
    Gone,
    /// It got a TTL, or another one.
    Expire,
    /// It lost its TTL.
    Persist,
    /// It was renamed: the old name, and then the new one.
    RenameFrom,
    RenameTo,
    /// It was moved to another database: told in the old one, and then in the new one.
    MoveFrom,
    MoveTo,
    /// A copy of another key was stored in it.
    CopyTo,
    Restore,
    /// The result of a command was stored in it in place of what it held: ZUNIONSTORE and its like.
    Store,
    SomethingElse,
}

impl Happened {
    /// By the name of the event.
    fn of(name: &[u8]) -> Happened {
        match name {
            b"del" | b"expired" | b"evicted" => Happened::Gone,
            b"expire" => Happened::Expire,
            b"persist" => Happened::Persist,
            b"rename_from" => Happened::RenameFrom,
            b"rename_to" => Happened::RenameTo,
            b"move_from" => Happened::MoveFrom,
            b"move_to" => Happened::MoveTo,
            b"copy_to" => Happened::CopyTo,
            b"restore" => Happened::Restore,
            name if name.ends_with(b"store") => Happened::Store,
            _ => Happened::SomethingElse,
        }
    }
}

/// A change of a key, by whomever.
pub struct KeyEvent<'a> {
    pub happened: Happened,
    pub key: Str<'a>,
    /// Whether it is about the value of a sorted set.
    pub of_sorted_set: bool,
    /// Whether it is one that we announce.
    pub is_ours: bool,
}

/// A change of the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent<'a> {
    /// This server is a master from now on.
    BecameMaster,
    BecameReplica,
    /// A replica begins to load a dataset next to the one that it serves.
    LoadsAside,
    /// That dataset has been dropped.
    LoadAborted,
    /// A dataset has been loaded, from a file or from a master.
    Loaded,
    /// A database is empty, or the whole dataset has given way to one that was loaded next to it (`Loaded` follows); `None`: all
    /// databases.
    Flushed(Option<i32>),
    Swapped(i32, i32),
    /// The keys of these slots begin to arrive, and are not ours yet.
    SlotsArrive(&'a [Range]),
    /// They are ours from now on.
    SlotsArrived(&'a [Range]),
    /// They do not come, and have been dropped.
    SlotsStayAway(&'a [Range]),
    /// The server's housekeeping, `hz` times a second.
    Cron,
}

/// What listens.
pub trait Listener {
    fn on_key(ctx: &mut Context, event: &KeyEvent<'_>);
    fn on_server(ctx: &mut Context, event: ServerEvent<'_>);
}

/// Both listen. If the first fails, the second hears of it all the same.
impl<A: Listener, B: Listener> Listener for (A, B) {
    fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
        survive(|| A::on_key(ctx, event));
        B::on_key(ctx, event);
    }

    fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
        survive(|| A::on_server(ctx, event));
        B::on_server(ctx, event);
    }
}

/// Classes of keyspace events. Each costs every client of the server some 500 instructions a command, so a family of commands subscribes
/// when its first key is there, not before.
#[derive(Clone, Copy)]
pub struct Classes(c_int);

impl Classes {
    pub const NONE: Classes = Classes(0);
    /// A key goes, or another one comes to its name.
    pub const KEYS: Classes =
        Classes(raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED);
    /// The same, and the value of a sorted set changes.
    pub const SORTED_SETS: Classes = Classes(Classes::KEYS.0 | raw::REDISMODULE_NOTIFY_ZSET);
}

type Callback = unsafe extern "C" fn(*mut RedisModuleCtx, c_int, *const c_char, *mut RedisModuleString) -> c_int;

/// What keyspace events are passed to.
static CALLBACK: OnceLock<Callback> = OnceLock::new();

/// The classes that the server passes to it.
static SUBSCRIBED: AtomicI32 = AtomicI32::new(0);

/// Whether the keyspace events of these classes are told already.
pub fn is_subscribed(classes: Classes) -> bool {
    classes.0 & !SUBSCRIBED.load(Ordering::Relaxed) == 0
}

/// Subscribes to the keyspace events of these classes, until the module is unloaded. Returns `false` if that is done already. At any
/// time: the server appends to the end of a list, also while it walks through it to tell of an event.
pub fn subscribe(ctx: &Context, classes: Classes) -> bool {
    let subscribed = SUBSCRIBED.load(Ordering::Relaxed);
    // Of a class that is subscribed to twice, the server tells twice.
    let new = classes.0 & !subscribed;
    if new == 0 {
        return false;
    }
    // SAFETY: the context is one of the module's; the callback lives as long as the module.
    unsafe { api!(RedisModule_SubscribeToKeyspaceEvents(ctx.as_ptr(), new, CALLBACK.get().copied())) };
    SUBSCRIBED.store(subscribed | new, Ordering::Relaxed);
    true
}

/// Listens to the server's events until the module is unloaded, and to those keyspace events that are [subscribed](subscribe) to.
pub fn listen<L: Listener>(ctx: &Context) {
    CALLBACK.get_or_init(|| key_event::<L>);
    // The module may have been unloaded, and be loaded again.
    SUBSCRIBED.store(0, Ordering::Relaxed);
    let events = [
        raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
        raw::REDISMODULE_EVENT_LOADING,
        raw::REDISMODULE_EVENT_FLUSHDB,
        raw::REDISMODULE_EVENT_SWAPDB,
        raw::REDISMODULE_EVENT_CRON_LOOP,
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
    ];
    for id in events.into_iter().chain([slots::event_number()]) {
        let event = RedisModuleEvent { id, dataver: 1 };
        // SAFETY: the context is that of the module's loading; the callback lives as long as the module. A server that does not know the
        // event answers an error, and never calls.
        unsafe { api!(RedisModule_SubscribeToServerEvent(ctx.as_ptr(), event, Some(server_event::<L>))) };
    }
}

unsafe extern "C" fn key_event<L: Listener>(
    ctx: *mut RedisModuleCtx,
    class: c_int,
    name: *const c_char,
    key: *mut RedisModuleString,
) -> c_int {
    let is_ours = is_announced(name);
    // SAFETY: the server passes a context, a NUL-terminated name and a key that last as long as this call.
    let (mut ctx, name, key) = unsafe { (Context::from_raw(ctx), CStr::from_ptr(name), Str::from_raw(key)) };
    // Events come one at a time: no need to lock the bus.
    if let Some(key) = key {
        let of_sorted_set = class & raw::REDISMODULE_NOTIFY_ZSET != 0;
        let event = KeyEvent { happened: Happened::of(name.to_bytes()), key, of_sorted_set, is_ours };
        enter_module("key-event", || L::on_key(&mut ctx, &event));
    }
    raw::REDISMODULE_OK as c_int
}

/// The structure that comes with an event; `None` if the server passes none, or a version of it whose layout is not known here.
///
/// # Safety
/// `data` must be null or what the server passed with an event, for as long as `'a`. Version 1 of that structure must be a `T`.
pub(super) unsafe fn details<'a, T>(data: *const c_void) -> Option<&'a T> {
    let data = NonNull::new(data.cast_mut())?;
    // SAFETY: every such structure begins with its version.
    let version = unsafe { data.cast::<u64>().read() };
    // SAFETY: as the caller vouches.
    (version == 1).then(|| unsafe { data.cast::<T>().as_ref() })
}

unsafe extern "C" fn server_event<L: Listener>(
    ctx: *mut RedisModuleCtx,
    event: RedisModuleEvent,
    detail: u64,
    data: *mut c_void,
) {
    // SAFETY: the server passes a context that lasts as long as this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    let ranges;
    let event = match (event.id, detail) {
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, 0) => ServerEvent::BecameMaster,
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, _) => ServerEvent::BecameReplica,
        (raw::REDISMODULE_EVENT_LOADING, raw::REDISMODULE_SUBEVENT_LOADING_ENDED) => ServerEvent::Loaded,
        (raw::REDISMODULE_EVENT_FLUSHDB, raw::REDISMODULE_SUBEVENT_FLUSHDB_END) => {
            // SAFETY: for this event the server passes this structure.
            let Some(info) = (unsafe { details::<RedisModuleFlushInfo>(data) }) else { return };
            ServerEvent::Flushed(u32::try_from(info.dbnum).is_ok().then_some(info.dbnum))
        }
        (raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD, raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED) => {
            ServerEvent::LoadsAside
        }
        (raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD, raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_ABORTED) => {
            ServerEvent::LoadAborted
        }
        (raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD, raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED) => {
            ServerEvent::Flushed(None)
        }
        (raw::REDISMODULE_EVENT_SWAPDB, _) => {
            // SAFETY: for this event the server passes this structure.
            let Some(info) = (unsafe { details::<RedisModuleSwapDbInfo>(data) }) else { return };
            ServerEvent::Swapped(info.dbnum_first, info.dbnum_second)
        }
        (raw::REDISMODULE_EVENT_CRON_LOOP, _) => ServerEvent::Cron,
        (id, detail) if id == slots::event_number() => {
            let Some(step) = slots::step_of(detail) else { return };
            // SAFETY: the data came with this event.
            ranges = unsafe { slots::ranges_of(data) };
            match step {
                slots::Step::Started => ServerEvent::SlotsArrive(&ranges),
                slots::Step::Completed => ServerEvent::SlotsArrived(&ranges),
                slots::Step::Failed => ServerEvent::SlotsStayAway(&ranges),
            }
        }
        _ => return,
    };
    enter_module("server-event", || L::on_server(&mut ctx, event));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn only_structures_of_a_known_layout_are_read() {
        for (version, is_known) in [(0, false), (1, true), (2, false)] {
            let info = RedisModuleFlushInfo { version, sync: 0, dbnum: 7 };
            // SAFETY: version 1 has this layout.
            let read = unsafe { details::<RedisModuleFlushInfo>((&raw const info).cast()) };
            assert_eq!(read.map(|info| info.dbnum), is_known.then_some(7));
        }
        // SAFETY: null is allowed.
        assert!(unsafe { details::<RedisModuleFlushInfo>(null()) }.is_none());
    }
}
