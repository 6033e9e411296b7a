//! Clients that wait for keys, as BLPOP has them wait.
//!
//! The server keeps the clients of a key in the order in which they came. When the key is signalled as ready (by its
//! creation, or by [`Context::signal_ready`]) it goes through all of them, after the command or transaction that did it, and
//! asks each whether it can be served now.

use super::context::Context;
use super::panic::survive;
use super::string::Str;
use crate::model::time::Millis;
use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};
use std::ffi::{c_int, c_longlong, c_void};

/// What a blocked client waits for.
pub trait Wait: Sized + 'static {
    /// `key` is ready, perhaps. Replies and returns true, or does nothing at all and returns false: the client waits on.
    /// (A Redis 7.0 asserts that nothing was replicated for a client that is not served.)
    fn serve<'a>(&mut self, ctx: Context<'a>, key: Str<'a>) -> bool;

    /// The time is up: replies.
    fn time_out(&mut self, ctx: Context<'_>);

    /// The client waits no more: it was served, its time was up, or it has gone away.
    fn end(self, ctx: Context<'_>);
}

impl Context<'_> {
    /// Whether the client can be made to wait: not in a transaction, not in a script, not for another module.
    pub fn may_block(self) -> bool {
        let forbids = raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING
            | raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_REPLICATED
            | raw::REDISMODULE_CTX_FLAGS_LOADING;
        self.flags() & forbids as c_int == 0
    }

    /// Lets the client wait until one of the keys serves it, or for `timeout` ms; 0: for ever. The command must not reply.
    pub fn block_on<W: Wait>(self, keys: &[Str<'_>], timeout: Millis, wait: W) {
        let timeout = c_longlong::try_from(timeout).unwrap_or(c_longlong::MAX / 2);
        let count = c_int::try_from(keys.len()).unwrap_or(c_int::MAX);
        let wait = Box::into_raw(Box::new(wait)).cast::<c_void>();
        // SAFETY: a `Str` is a pointer to a valid string, of which the server takes its own reference; the array is only
        // read. The private data are freed by the last callback, which the server calls once.
        unsafe {
            api!(RedisModule_BlockClientOnKeys(
                self.as_ptr(),
                Some(serve::<W>),
                Some(time_out::<W>),
                Some(end::<W>),
                timeout,
                keys.as_ptr().cast_mut().cast::<*mut RedisModuleString>(),
                count,
                wait
            ))
        };
    }

    /// Has the server ask the clients that wait for the key, in their order. Without such clients, nothing happens.
    pub fn signal_ready(self, key: Str<'_>) {
        // SAFETY: both are valid for the call.
        unsafe { api!(RedisModule_SignalKeyAsReady(self.as_ptr(), key.as_ptr())) };
    }
}

/// # Safety
/// The context must be that of a callback of a client blocked by [`Context::block_on`] with a `W`.
unsafe fn waiting<'a, W>(ctx: *mut RedisModuleCtx) -> &'a mut W {
    // SAFETY: as the caller vouches.
    let wait = unsafe { api!(RedisModule_GetBlockedClientPrivateData(ctx)) };
    // SAFETY: the pointer is the box made for this client; callbacks of one client come one at a time.
    unsafe { &mut *wait.cast::<W>() }
}

unsafe extern "C" fn serve<W: Wait>(
    ctx: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the server calls this for a client of ours.
    let wait = unsafe { waiting::<W>(ctx) };
    // SAFETY: as above; the key lasts as long as this call.
    let key = unsafe { Str::from_raw(api!(RedisModule_GetBlockedClientReadyKey(ctx))) };
    // SAFETY: the context lasts as long as this call.
    let ctx = unsafe { Context::from_raw(ctx) };
    let Some(key) = key else { return raw::REDISMODULE_ERR as c_int };
    let served = ctx.replying(|| {
        fault!("serve");
        wait.serve(ctx, key)
    });
    if served.is_none() {
        // As in a command (src/server/command.rs): it may have changed the key and not replicated that.
        ctx.replicate_whole(key);
    }
    match served {
        Some(false) => raw::REDISMODULE_ERR as c_int,
        Some(true) | None => raw::REDISMODULE_OK as c_int,
    }
}

unsafe extern "C" fn time_out<W: Wait>(
    ctx: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: as in `serve`.
    let wait = unsafe { waiting::<W>(ctx) };
    // SAFETY: as in `serve`.
    let ctx = unsafe { Context::from_raw(ctx) };
    ctx.replying(|| {
        fault!("time-out");
        wait.time_out(ctx);
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn end<W: Wait>(ctx: *mut RedisModuleCtx, wait: *mut c_void) {
    // SAFETY: the private data are the box made for this client, and this is the last that is done with them.
    let wait = unsafe { Box::from_raw(wait.cast::<W>()) };
    // SAFETY: the context lasts as long as this call.
    let ctx = unsafe { Context::from_raw(ctx) };
    survive(|| {
        fault!("end-of-wait");
        wait.end(ctx);
    });
}
