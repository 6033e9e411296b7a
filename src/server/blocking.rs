//! Clients that wait, each until the module has it asked whether it can be served now.
//!
//! A client is blocked on a name of its own ([`crate::model::waiting::name`]), so that the server asks nobody else. When it is woken
//! ([`Context::wake`]) it is asked after the command or transaction under way. How depends on the server:
//!
//! - From Redis 7.2 on, every Valkey: the server asks the clients of a name that is signalled although there is no such key, if they
//!   were blocked so (`REDISMODULE_BLOCK_UNBLOCK_DELETED`).
//! - Redis 7.0 asks only the clients of a key that exists. `RedisModule_UnblockClient` is left: it calls the callback of the time-out
//!   at once, and then nothing keeps the client from being unblocked. So the module looks first whether it can be served. It does both
//!   in the event loop's `BEFORE_SLEEP`, right after which the server finishes what was unblocked: were a client timed out, killed or
//!   redirected in between, it would get two replies or none.

use super::authority;
use super::context::Context;
use super::panic::enter_module;
use super::reply;
use super::shared::Shared;
use super::string::OwnedStr;
use crate::model::time::Millis;
use hashbrown::HashMap;
use lazy_static::lazy_static;
use redis_module::raw::{self, RedisModuleBlockedClient, RedisModuleCtx, RedisModuleEvent, RedisModuleString};
use std::collections::VecDeque;
use std::ffi::{c_int, c_longlong, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a blocked client waits for.
pub trait Wait: Sized + 'static {
    /// The client was woken: whether it can be served now. Neither replies nor replicates. If it can, [`serve`](Wait::serve) follows at
    /// once.
    fn is_servable(&mut self, ctx: &mut Context) -> bool;

    /// Serves the client, and replies.
    fn serve(&mut self, ctx: &mut Context);

    /// The key that serves it.
    fn key(&self) -> OwnedStr;

    /// The time is up: replies.
    fn time_out(&mut self, ctx: &mut Context);

    /// The client waits no more: it was served, its time was up, or it has gone away.
    fn end(self, ctx: &mut Context);
}

/// A client that waits. To wake it is of no effect once its [`Wait::end`] has been called.
pub struct Blocked {
    name: OwnedStr,
    /// Where the [`Wait`] lies, or lay. Looked up in [`Asked`] and never followed: another client may have its own there by then, and be
    /// asked without need.
    wait: *mut c_void,
}

/// How Redis 7.0 asks a client.
#[derive(Clone, Copy)]
struct Waking {
    client: *mut RedisModuleBlockedClient,
    is_servable: unsafe fn(*mut RedisModuleCtx, *mut c_void) -> bool,
}

/// For Redis 7.0.
#[derive(Default)]
struct Asked {
    /// The clients that are blocked, by where their [`Wait`] lies: from the moment at which they are blocked until it ends.
    blocked: HashMap<*mut c_void, Waking>,
    /// Those that are to be asked; some may have ended since.
    woken: VecDeque<*mut c_void>,
}

lazy_static! {
    static ref ASKED: Shared<Asked> = Shared::new(Asked::default());
}

/// Redis 7.0: the client that is served by the callback of its time-out.
static SERVED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

fn asks_by_name() -> bool {
    has_api!(RedisModule_BlockClientOnKeysWithFlags)
}

/// The context of the command under way, if its client can still be blocked.
static COMMAND: AtomicPtr<RedisModuleCtx> = AtomicPtr::new(null_mut());

/// Runs a command, which must not panic. It may block its client once.
pub(super) fn as_command<R>(ctx: &mut Context, run: impl FnOnce(&mut Context) -> R) -> R {
    // Calls nest where those who listen for events call commands of the module.
    let outer = COMMAND.swap(ctx.as_ptr(), Ordering::Relaxed);
    let result = run(ctx);
    COMMAND.store(outer, Ordering::Relaxed);
    result
}

impl Context {
    /// Whether the client can be made to wait: not in a transaction, not in a script, not for another module.
    pub fn may_block(&self) -> bool {
        let forbids = raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING
            | raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_REPLICATED
            | raw::REDISMODULE_CTX_FLAGS_LOADING;
        self.flags() & forbids as c_int == 0
    }

    /// Lets the client wait until it is woken and can be served, or for `timeout` ms; 0: without an end. `name` is what the server
    /// believes it to wait for. The command must not reply.
    ///
    /// Panics outside of a command that [may block](Context::may_block), and if the command has blocked its client already.
    pub fn block<W: Wait>(&self, name: &[u8], timeout: Millis, wait: W) -> Blocked {
        let command = COMMAND.swap(null_mut(), Ordering::Relaxed);
        assert!(self.may_block() && command == self.as_ptr(), "a client is blocked once, by its own command");
        reply::owe_nothing();
        let timeout = c_longlong::try_from(timeout).unwrap_or(c_longlong::MAX / 2);
        let name = OwnedStr::new(name);
        let mut names: [*mut RedisModuleString; 1] = [name.as_str().as_ptr()];
        let wait = Box::into_raw(Box::new(wait)).cast::<c_void>();
        let (ctx, names, deleted) =
            (self.as_ptr(), names.as_mut_ptr(), raw::REDISMODULE_BLOCK_UNBLOCK_DELETED as c_int);
        let (serve, time_out, end) = (Some(serve::<W> as _), Some(time_out::<W> as _), Some(end::<W> as _));
        let client = if asks_by_name() {
            // SAFETY: the array holds one valid string, of which the server takes its own reference. The private data are freed by the
            // last callback, which the server calls once.
            unsafe {
                api!(RedisModule_BlockClientOnKeysWithFlags(
                    ctx, serve, time_out, end, timeout, names, 1, wait, deleted
                ))
            }
        } else {
            // SAFETY: as above.
            unsafe { api!(RedisModule_BlockClientOnKeys(ctx, serve, time_out, end, timeout, names, 1, wait)) }
        };
        if !asks_by_name() {
            let is_first = ASKED.with(self, |asked| {
                asked.blocked.insert(wait, Waking { client, is_servable: is_servable::<W> });
                asked.blocked.len() == 1
            });
            if is_first {
                self.watch_loop(true);
            }
        }
        Blocked { name, wait }
    }

    /// Has the client asked whether it can be served. The database must be the one in which it was blocked.
    pub fn wake(&self, client: &Blocked) {
        if asks_by_name() {
            // SAFETY: both are valid for the call.
            unsafe { api!(RedisModule_SignalKeyAsReady(self.as_ptr(), client.name.as_str().as_ptr())) };
        } else {
            ASKED.with(self, |asked| asked.woken.push_back(client.wait));
        }
    }

    /// Redis 7.0: listens to the event loop, which costs every round of it a little, or no more.
    fn watch_loop(&self, watch: bool) {
        let event = RedisModuleEvent { id: raw::REDISMODULE_EVENT_EVENTLOOP, dataver: 1 };
        let callback = watch.then_some(before_sleep as _);
        // SAFETY: the context is valid; the callback lives as long as the module.
        unsafe { api!(RedisModule_SubscribeToServerEvent(self.as_ptr(), event, callback)) };
    }
}

/// Redis 7.0: asks those who were woken, and those who are woken meanwhile.
unsafe extern "C" fn before_sleep(ctx: *mut RedisModuleCtx, _event: RedisModuleEvent, detail: u64, _data: *mut c_void) {
    if detail != raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP {
        return;
    }
    // SAFETY: the server passes a context that lasts as long as this call.
    let holder = unsafe { Context::from_raw(ctx) };
    authority::begin_turn(&holder);
    while let Some(wait) = ASKED.with(&holder, |asked| asked.woken.pop_front()) {
        let Some(woken) = ASKED.with(&holder, |asked| asked.blocked.get(&wait).copied()) else { continue };
        // SAFETY: the client is blocked, so its data are still there. The `Context` above is only a proof.
        if unsafe { (woken.is_servable)(ctx, wait) } {
            SERVED.store(wait, Ordering::Relaxed);
            // SAFETY: as above. The server calls `time_out` now.
            unsafe { api!(RedisModule_UnblockClient(woken.client, null_mut())) };
            SERVED.store(null_mut(), Ordering::Relaxed);
        }
    }
    authority::end_turn(&holder);
}

unsafe fn is_servable<W: Wait>(ctx: *mut RedisModuleCtx, wait: *mut c_void) -> bool {
    // SAFETY: the pointer is the box made for this client; callbacks of one client come one at a time.
    let wait = unsafe { &mut *wait.cast::<W>() };
    // SAFETY: the caller's context lasts as long as this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    enter_module("is-servable", || wait.is_servable(&mut ctx)).unwrap_or(false)
}

/// # Safety
/// The context must be that of a callback of a client blocked by [`Context::block`].
unsafe fn private_data(ctx: *mut RedisModuleCtx) -> *mut c_void {
    // SAFETY: as the caller vouches.
    unsafe { api!(RedisModule_GetBlockedClientPrivateData(ctx)) }
}

unsafe extern "C" fn serve<W: Wait>(
    ctx: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the server calls this for such a client.
    let wait = unsafe { private_data(ctx) };
    // SAFETY: these are the client's data and context.
    if unsafe { is_servable::<W>(ctx, wait) } {
        // SAFETY: as above.
        unsafe { serve_now::<W>(ctx, wait) };
        raw::REDISMODULE_OK as c_int
    } else {
        raw::REDISMODULE_ERR as c_int
    }
}

/// # Safety
/// The context must be that of a callback of a client, and `wait` its data.
unsafe fn serve_now<W: Wait>(ctx: *mut RedisModuleCtx, wait: *mut c_void) {
    // SAFETY: as the caller vouches.
    let wait = unsafe { &mut *wait.cast::<W>() };
    // SAFETY: the context lasts as long as this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    if ctx.replying("serve", |ctx| wait.serve(ctx)).is_none() {
        // As in a command (src/server/command.rs): it may have changed the key and not replicated that.
        ctx.replicate_whole(wait.key().as_str());
    }
}

unsafe extern "C" fn time_out<W: Wait>(
    ctx: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: as in `serve`.
    let wait = unsafe { private_data(ctx) };
    // SAFETY: the context lasts as long as this call. The `Context` is only a proof, and not used when the next one is made.
    let holder = unsafe { Context::from_raw(ctx) };
    let is_woken = ASKED.with(&holder, |asked| asked.woken.contains(&wait));
    // Redis 7.0: what woke it came before what ends its waiting now, so it is asked first.
    // SAFETY: these are the client's data and context.
    if SERVED.load(Ordering::Relaxed) == wait || is_woken && unsafe { is_servable::<W>(ctx, wait) } {
        // SAFETY: as above.
        unsafe { serve_now::<W>(ctx, wait) };
        return raw::REDISMODULE_OK as c_int;
    }
    // SAFETY: the pointer is the box made for this client; callbacks of one client come one at a time.
    let wait = unsafe { &mut *wait.cast::<W>() };
    // SAFETY: the context lasts as long as this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    ctx.replying("time-out", |ctx| wait.time_out(ctx));
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn end<W: Wait>(ctx: *mut RedisModuleCtx, wait: *mut c_void) {
    // SAFETY: the context lasts as long as this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    if !asks_by_name() {
        let is_last = ASKED.with(&ctx, |asked| {
            asked.blocked.remove(&wait);
            asked.blocked.is_empty()
        });
        if is_last {
            ctx.watch_loop(false);
        }
    }
    // SAFETY: the private data are the box made for this client, and this is the last that is done with them.
    let wait = unsafe { Box::from_raw(wait.cast::<W>()) };
    enter_module("end-of-wait", || wait.end(&mut ctx));
}
