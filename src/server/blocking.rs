//! Blocked clients. To wake a blocked client, the module makes the server check the client. If the client can be
//! served, the module serves it during the check.
//!
//! Each client is blocked on a separate name, so the server checks no other client. After [`Context::wake`], the server
//! checks the client when the current command or transaction has ended. The mechanism depends on the server:
//!
//! - Redis from 7.2, every Valkey: with `REDISMODULE_BLOCK_UNBLOCK_DELETED`, the server checks the clients of a
//!   signalled name even if no such key exists.
//! - Redis 7.0 checks only the clients of an existing key. So the module itself checks whether the client can be
//!   served. If so, the module calls `RedisModule_UnblockClient`, which runs the time-out callback at once and always
//!   unblocks the client. The module does this in the event loop's `BEFORE_SLEEP`, right before the server finishes
//!   unblocked clients. So no time-out, kill or redirection comes in between, and the client gets one reply.

use super::authority;
use super::context::Context;
use super::panic::{catch_panic, note_irreversible};
use super::string::OwnedStr;
use super::under_lock::UnderLock;
use crate::base::time::Millis;
use hashbrown::HashMap;
use lazy_static::lazy_static;
use redis_module::raw::{self, RedisModuleBlockedClient, RedisModuleCtx, RedisModuleEvent, RedisModuleString};
use std::collections::VecDeque;
use std::ffi::{c_int, c_longlong, c_void};
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A blocked client's request.
pub trait Wait: Sized + 'static {
    /// Whether the woken client can be served now. Neither replies nor replicates. If the result is true,
    /// [`serve`](Wait::serve) runs next.
    fn is_servable(&mut self, ctx: &mut Context) -> bool;

    fn serve(&mut self, ctx: &mut Context);

    fn time_out(&mut self, ctx: &mut Context);

    /// Called when the client no longer waits, because it was served, timed out, or disconnected.
    fn end(self, ctx: &mut Context);
}

/// The client that calls a command with the flag `blocking`. Only [`enter_blocking`](super::command::enter_blocking)
/// creates this value, and the value does not outlive the call. So no timer, event or other command can block a client,
/// and no command can block its client twice.
pub struct CallingClient<'c>(PhantomData<&'c ()>);

impl<'c> CallingClient<'c> {
    pub(super) fn of(_: &'c ()) -> CallingClient<'c> {
        CallingClient(PhantomData)
    }

    /// Returns a [`Blockable`], with which the command can block its client. `None` in a transaction, in a script, in
    /// another module's call, or if the command comes from a master or an AOF file.
    pub fn blockable(self, ctx: &Context) -> Option<Blockable<'c>> {
        ctx.may_block().then_some(Blockable(self))
    }
}

/// The right of a command to block its client. Blocking uses up this right.
pub struct Blockable<'c>(CallingClient<'c>);

/// A blocked client, which can be woken. After its [`Wait::end`], waking has no effect.
pub struct Blocked {
    name: OwnedStr,
    /// The address of the [`Wait`]. The address is only looked up in [`BlockedClients`] and never dereferenced, because
    /// the [`Wait`] may be freed. If a later [`Wait`] gets the same address, its client is checked needlessly.
    wait: *mut c_void,
}

/// A blocked client, and a function that calls [`Wait::is_servable`]. Used only on Redis 7.0.
#[derive(Clone, Copy)]
struct Waking {
    client: *mut RedisModuleBlockedClient,
    is_servable: unsafe fn(*mut RedisModuleCtx, *mut c_void) -> bool,
}

/// The blocked clients and the woken clients. Used only on Redis 7.0.
#[derive(Default)]
struct BlockedClients {
    /// The blocked clients, by the address of their [`Wait`]. A client stays here until its [`Wait::end`].
    blocked: HashMap<*mut c_void, Waking>,
    /// The clients to check. The list can contain clients that are no longer blocked.
    woken: VecDeque<*mut c_void>,
}

lazy_static! {
    static ref BLOCKED: UnderLock<BlockedClients> = UnderLock::new(BlockedClients::default());
}

/// The client whose time-out callback runs now. On Redis 7.0, the module serves a blocked client in this callback.
static SERVED_CLIENT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

fn wakes_by_name() -> bool {
    has_api!(RedisModule_BlockClientOnKeysWithFlags)
}

impl Context {
    /// Whether the current command's client can be blocked. The server cannot block a transaction, a script, another
    /// module's call, or a command from a master or an AOF file.
    fn may_block(&self) -> bool {
        let forbids = raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING
            | raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_REPLICATED
            | raw::REDISMODULE_CTX_FLAGS_LOADING;
        self.flags() & forbids as c_int == 0
    }

    /// Blocks the client until it is woken and can be served, but at most `timeout` ms. 0 means no time-out. `name` is
    /// the name on which the server blocks the client. The command must not reply.
    pub fn block<W: Wait>(&self, _: Blockable<'_>, name: &[u8], timeout: Millis, wait: W) -> Blocked {
        note_irreversible();
        let timeout = c_longlong::try_from(timeout).unwrap_or(c_longlong::MAX / 2);
        let name = OwnedStr::new(name);
        let mut names: [*mut RedisModuleString; 1] = [name.as_str().as_ptr()];
        let wait = Box::into_raw(Box::new(wait)).cast::<c_void>();
        let (ctx, names, deleted) =
            (self.as_ptr(), names.as_mut_ptr(), raw::REDISMODULE_BLOCK_UNBLOCK_DELETED as c_int);
        let (serve, time_out, end) = (Some(serve::<W> as _), Some(time_out::<W> as _), Some(end::<W> as _));
        let client = if wakes_by_name() {
            // SAFETY: the array holds one valid string, and the server takes its own reference to the string. The last
            // callback frees the private data, and the server calls it once.
            unsafe {
                api!(RedisModule_BlockClientOnKeysWithFlags(
                    ctx, serve, time_out, end, timeout, names, 1, wait, deleted
                ))
            }
        } else {
            // SAFETY: as above.
            unsafe { api!(RedisModule_BlockClientOnKeys(ctx, serve, time_out, end, timeout, names, 1, wait)) }
        };
        if !wakes_by_name() {
            let is_first = BLOCKED.with(self, |clients| {
                clients.blocked.insert(wait, Waking { client, is_servable: is_servable::<W> });
                clients.blocked.len() == 1
            });
            if is_first {
                self.watch_loop(true);
            }
        }
        Blocked { name, wait }
    }

    /// Makes the server check whether the client can be served. The client's database must be selected.
    pub fn wake(&self, client: &Blocked) {
        if wakes_by_name() {
            // SAFETY: both are valid for the call.
            unsafe { api!(RedisModule_SignalKeyAsReady(self.as_ptr(), client.name.as_str().as_ptr())) };
        } else {
            BLOCKED.with(self, |clients| clients.woken.push_back(client.wait));
        }
    }

    /// Redis 7.0: subscribes to the events of the event loop. If `watch` is false, unsubscribes, because a subscription
    /// costs a little in every iteration.
    fn watch_loop(&self, watch: bool) {
        let event = RedisModuleEvent { id: raw::REDISMODULE_EVENT_EVENTLOOP, dataver: 1 };
        let callback = watch.then_some(before_sleep as _);
        // SAFETY: the context is valid. The callback lives as long as the module.
        unsafe { api!(RedisModule_SubscribeToServerEvent(self.as_ptr(), event, callback)) };
    }
}

/// Redis 7.0: checks the woken clients, including clients that are woken during these checks.
unsafe extern "C" fn before_sleep(ctx: *mut RedisModuleCtx, _event: RedisModuleEvent, detail: u64, _data: *mut c_void) {
    if detail != raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP {
        return;
    }
    // SAFETY: the server passes a context that is valid during this call.
    let holder = unsafe { Context::from_raw(ctx) };
    authority::begin_iteration(&holder);
    while let Some(wait) = BLOCKED.with(&holder, |clients| clients.woken.pop_front()) {
        let Some(woken) = BLOCKED.with(&holder, |clients| clients.blocked.get(&wait).copied()) else { continue };
        // SAFETY: the client is blocked, so its data still exist. The `Context` above serves only as proof of the lock.
        if unsafe { (woken.is_servable)(ctx, wait) } {
            SERVED_CLIENT.store(wait, Ordering::Relaxed);
            // SAFETY: as above. The server calls `time_out` now.
            unsafe { api!(RedisModule_UnblockClient(woken.client, null_mut())) };
            SERVED_CLIENT.store(null_mut(), Ordering::Relaxed);
        }
    }
    authority::end_iteration(&holder);
}

/// # Safety
/// `ctx` must be the context of a call, and `wait` the data of a blocked client.
unsafe fn is_servable<W: Wait>(ctx: *mut RedisModuleCtx, wait: *mut c_void) -> bool {
    // SAFETY: the pointer is the box made for this client. The server runs one callback of a client at a time.
    let wait = unsafe { &mut *wait.cast::<W>() };
    // SAFETY: the caller's context is valid during this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    catch_panic(|| wait.is_servable(&mut ctx)).unwrap_or(false)
}

/// Replies to a blocked client.
///
/// # Safety
/// [`Context::block`] must have blocked the client. `ctx` must be the context of a callback of this client, and `wait`
/// must be the client's data.
unsafe fn reply<W: Wait>(ctx: *mut RedisModuleCtx, wait: *mut c_void, reply: fn(&mut W, &mut Context)) -> c_int {
    // SAFETY: the pointer is the box made for this client. The server runs one callback of a client at a time.
    let wait = unsafe { &mut *wait.cast::<W>() };
    // SAFETY: the context is valid during this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    ctx.replying(|ctx| reply(wait, ctx));
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn serve<W: Wait>(ctx: *mut RedisModuleCtx, _: *mut *mut RedisModuleString, _: c_int) -> c_int {
    // SAFETY: the server calls this function for a client blocked by `Context::block`.
    let wait = unsafe { api!(RedisModule_GetBlockedClientPrivateData(ctx)) };
    // SAFETY: these are the client's data and context.
    if unsafe { is_servable::<W>(ctx, wait) } {
        // SAFETY: as above.
        unsafe { reply(ctx, wait, W::serve) }
    } else {
        raw::REDISMODULE_ERR as c_int
    }
}

unsafe extern "C" fn time_out<W: Wait>(ctx: *mut RedisModuleCtx, _: *mut *mut RedisModuleString, _: c_int) -> c_int {
    // SAFETY: the server calls this function for a client blocked by `Context::block`.
    let wait = unsafe { api!(RedisModule_GetBlockedClientPrivateData(ctx)) };
    // SAFETY: the context is valid during this call. The `Context` serves only as proof of the lock, and is not used
    // after the next one is made.
    let holder = unsafe { Context::from_raw(ctx) };
    let is_woken = BLOCKED.with(&holder, |clients| clients.woken.contains(&wait));
    // Redis 7.0: the client was woken before its time-out, so it is checked first.
    // SAFETY: these are the client's data and context.
    let is_served = SERVED_CLIENT.load(Ordering::Relaxed) == wait || is_woken && unsafe { is_servable::<W>(ctx, wait) };
    // SAFETY: as above.
    unsafe { reply(ctx, wait, if is_served { W::serve } else { W::time_out }) }
}

unsafe extern "C" fn end<W: Wait>(ctx: *mut RedisModuleCtx, wait: *mut c_void) {
    // SAFETY: the context is valid during this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    if !wakes_by_name() {
        let is_last = BLOCKED.with(&ctx, |clients| {
            clients.blocked.remove(&wait);
            clients.blocked.is_empty()
        });
        if is_last {
            ctx.watch_loop(false);
        }
    }
    // SAFETY: the private data are the box made for this client, and this callback is the last to use them.
    let wait = unsafe { Box::from_raw(wait.cast::<W>()) };
    catch_panic(|| wait.end(&mut ctx));
}
