//! Keyspace events and server events.

use super::api::details;
use super::context::{Context, is_own_event};
use super::panic::catch_panic;
use super::slots::{self, SlotRange};
use super::string::Str;
use super::under_lock::UnderLock;
use lazy_static::lazy_static;
use redis_module::raw::{
    self, RedisModuleCtx, RedisModuleEvent, RedisModuleFlushInfo, RedisModuleString, RedisModuleSwapDbInfo,
};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::sync::atomic::{AtomicI32, Ordering};

/// The kinds of changes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key was deleted, has expired, or was evicted.
    Gone,
    /// The key was renamed. `RenameFrom` is about the old name, `RenameTo` about the new one.
    RenameFrom,
    RenameTo,
    /// The key was moved to another database. `MoveFrom` is sent in the old database, `MoveTo` in the new one.
    MoveFrom,
    MoveTo,
    /// The key was created or replaced by COPY.
    CopyTo,
    Restore,
    /// A command such as ZUNIONSTORE created or replaced a sorted set.
    StoreSortedSet,
    /// Members of a sorted set were removed by name.
    RemoveMembers,
    /// Members of a sorted set were removed by rank, score or name order. Commands that pop members, such as ZPOPMIN,
    /// send this event after the first removal. The other commands send it after the last removal.
    RemoveRange,
    /// Members were added to a sorted set, or got another score.
    ChangeScores,
    Other,
}

impl EventKind {
    fn of(class: c_int, name: &[u8]) -> EventKind {
        if class & raw::REDISMODULE_NOTIFY_ZSET as c_int != 0 {
            return match name {
                b"zrem" => EventKind::RemoveMembers,
                b"zpopmin" | b"zpopmax" => EventKind::RemoveRange,
                _ if name.starts_with(b"zremrangeby") => EventKind::RemoveRange,
                _ if name.ends_with(b"store") => EventKind::StoreSortedSet,
                _ => EventKind::ChangeScores,
            };
        }
        match name {
            b"del" | b"expired" | b"evicted" => EventKind::Gone,
            b"rename_from" => EventKind::RenameFrom,
            b"rename_to" => EventKind::RenameTo,
            b"move_from" => EventKind::MoveFrom,
            b"move_to" => EventKind::MoveTo,
            b"copy_to" => EventKind::CopyTo,
            b"restore" => EventKind::Restore,
            _ => EventKind::Other,
        }
    }
}

pub struct KeyEvent<'a> {
    pub kind: EventKind,
    pub key: Str<'a>,
    /// Whether the module sent the event.
    pub is_ours: bool,
}

/// An event that is not about a single key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent<'a> {
    BecameMaster,
    BecameReplica,
    /// The replica begins to load a new dataset, and still serves the old one.
    AsyncLoadStarted,
    /// The replica has stopped loading the new dataset, has dropped it, and still serves the old one.
    AsyncLoadAborted,
    /// The server has loaded a dataset from a file or a master.
    Loaded,
    /// A database was emptied, or all databases if the value is `None`. This event also means that a replica has loaded
    /// a dataset in the background (`repl-diskless-load swapdb`) and replaced the old one. `Loaded` follows in that
    /// case.
    Flushed(Option<i32>),
    Swapped(i32, i32),
    /// The import of these cluster slots has begun, and their keys begin to arrive. This server does not own the slots
    /// yet.
    SlotImportStarted(&'a [SlotRange]),
    /// The import of these cluster slots has ended. Either this server owns the slots from now on, or the import failed
    /// and the server has dropped the keys of the slots.
    SlotImportEnded(&'a [SlotRange]),
    /// The server runs its cron job, which it does `hz` times a second.
    Cron,
}

/// The listeners of events, in the order of their calls. If a listener panics, the next listeners still run.
pub struct Listeners {
    pub key: &'static [fn(&mut Context, &KeyEvent<'_>)],
    pub server: &'static [fn(&mut Context, ServerEvent<'_>)],
}

/// Classes of keyspace events. Each event of a subscribed class adds about 500 instructions to the command that causes
/// the event. So the module subscribes to a class only when the first key that needs it exists.
#[derive(Clone, Copy)]
pub struct Classes(c_int);

impl Classes {
    pub const NONE: Classes = Classes(0);
    /// The classes of generic, expired and evicted events. The server sends such an event when a key is deleted,
    /// renamed, moved, copied or restored, when it expires, and when it is evicted.
    pub const KEYS: Classes =
        Classes(raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED);
    /// The classes of [`KEYS`](Classes::KEYS), and the class of sorted set events.
    pub const SORTED_SETS: Classes = Classes(Classes::KEYS.0 | raw::REDISMODULE_NOTIFY_ZSET);
}

lazy_static! {
    static ref LISTENERS: UnderLock<Listeners> = UnderLock::new(Listeners { key: &[], server: &[] });
}

static SUBSCRIBED: AtomicI32 = AtomicI32::new(0);

/// Whether the module has subscribed to all of these classes.
pub fn is_subscribed(classes: Classes) -> bool {
    classes.0 & !SUBSCRIBED.load(Ordering::Relaxed) == 0
}

/// Subscribes to the keyspace events of these classes, until the module is unloaded. Returns `false` if the module had
/// already subscribed to all these classes.
///
/// The module may call this function at any time, even in an event handler: the server only appends the subscription to
/// its list.
pub fn subscribe(ctx: &Context, classes: Classes) -> bool {
    let subscribed = SUBSCRIBED.load(Ordering::Relaxed);
    // The server sends an event once per subscription, so each class is subscribed to once.
    let new = classes.0 & !subscribed;
    if new == 0 {
        return false;
    }
    // SAFETY: the context is one of the module's. The callback lives as long as the module.
    unsafe { api!(RedisModule_SubscribeToKeyspaceEvents(ctx.as_ptr(), new, Some(key_event))) };
    SUBSCRIBED.store(subscribed | new, Ordering::Relaxed);
    true
}

/// Passes server events, and the [subscribed](subscribe) keyspace events, to `listeners` until the module is unloaded.
pub fn listen(ctx: &Context, listeners: Listeners) {
    LISTENERS.with(ctx, |all| *all = listeners);
    // The module may have been unloaded and loaded again.
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
        // SAFETY: the context is that of the module's loading. The callback lives as long as the module. A
        // server that does not know the event returns an error and never calls back.
        unsafe { api!(RedisModule_SubscribeToServerEvent(ctx.as_ptr(), event, Some(server_event))) };
    }
}

/// Runs `job` after the current command, transaction or script, before the server serves another client. The server
/// replicates the job's changes together with the command's. Returns `false` if the server cannot run the job: before
/// Redis 7.2, while the server loads a dataset, and on a read-only replica.
pub fn run_after_command(ctx: &Context, job: fn(&mut Context)) -> bool {
    if !has_api!(RedisModule_AddPostNotificationJob) {
        return false;
    }
    // SAFETY: the context is valid. `run_job` gets the function's address back, and there is nothing to free.
    let status =
        unsafe { api!(RedisModule_AddPostNotificationJob(ctx.as_ptr(), Some(run_job), job as *mut c_void, None)) };
    status == raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn run_job(ctx: *mut RedisModuleCtx, job: *mut c_void) {
    // SAFETY: the server passes a context that is valid during this call. `job` is the address of such a function.
    let (mut ctx, job) = unsafe { (Context::from_raw(ctx), mem::transmute::<*mut c_void, fn(&mut Context)>(job)) };
    catch_panic(|| job(&mut ctx));
}

unsafe extern "C" fn key_event(
    ctx: *mut RedisModuleCtx,
    class: c_int,
    name: *const c_char,
    key: *mut RedisModuleString,
) -> c_int {
    let is_ours = is_own_event(name);
    // No listener needs the module's own changes of members.
    if is_ours && class & raw::REDISMODULE_NOTIFY_ZSET as c_int != 0 {
        return raw::REDISMODULE_OK as c_int;
    }
    // SAFETY: the server passes a context, a NUL-terminated name and a key that are valid during this call.
    let (mut ctx, name, key) = unsafe { (Context::from_raw(ctx), CStr::from_ptr(name), Str::from_raw(key)) };
    // The server sends events one at a time, so the module needs no lock.
    if let Some(key) = key {
        let event = KeyEvent { kind: EventKind::of(class, name.to_bytes()), key, is_ours };
        for listener in LISTENERS.with(&ctx, |listeners| listeners.key) {
            catch_panic(|| listener(&mut ctx, &event));
        }
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn server_event(ctx: *mut RedisModuleCtx, event: RedisModuleEvent, detail: u64, data: *mut c_void) {
    // SAFETY: the server passes a context that is valid during this call.
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
            ServerEvent::AsyncLoadStarted
        }
        (raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD, raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_ABORTED) => {
            ServerEvent::AsyncLoadAborted
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
            let Some(is_beginning) = slots::is_beginning(detail) else { return };
            // SAFETY: the data came with this event.
            ranges = unsafe { slots::ranges_of(data) };
            if is_beginning { ServerEvent::SlotImportStarted(&ranges) } else { ServerEvent::SlotImportEnded(&ranges) }
        }
        _ => return,
    };
    for listener in LISTENERS.with(&ctx, |listeners| listeners.server) {
        catch_panic(|| listener(&mut ctx, event));
    }
}
