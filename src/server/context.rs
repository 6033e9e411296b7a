//! The context of one call: the clock, what is replicated, what is announced, what is logged.

use super::string::Str;
use crate::model::time::Millis;
use redis_module::raw::{self, RedisModuleCtx};
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The server's side of one call into the module (a command, a timer, an event); valid as long as that call.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    ctx: NonNull<RedisModuleCtx>,
    call: PhantomData<&'a ()>,
}

/// Classes of keyspace events.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum EventClass {
    /// `g`: DEL, EXPIRE and the like.
    Generic = raw::REDISMODULE_NOTIFY_GENERIC,
    /// `z`: sorted sets.
    SortedSet = raw::REDISMODULE_NOTIFY_ZSET,
    /// `d`: modules.
    Module = raw::REDISMODULE_NOTIFY_MODULE,
}

/// The server's clock, for the rare caller without a context.
pub fn now() -> Millis {
    // SAFETY: takes no arguments.
    let now = unsafe { api!(RedisModule_Milliseconds()) };
    u64::try_from(now).unwrap_or(0)
}

impl<'a> Context<'a> {
    /// # Safety
    /// `ctx` must be the context of a call that lasts at least for `'a`.
    pub(super) unsafe fn from_raw(ctx: *mut RedisModuleCtx) -> Context<'a> {
        Context { ctx: NonNull::new(ctx).expect("the server passes a context"), call: PhantomData }
    }

    /// The context of a callback that came through the `redis-module` crate.
    pub fn of(context: &'a redis_module::Context) -> Context<'a> {
        // SAFETY: the crate's context wraps the pointer that the server passed to the call under way.
        unsafe { Context::from_raw(context.ctx.cast()) }
    }

    pub(super) fn as_ptr(self) -> *mut RedisModuleCtx {
        self.ctx.as_ptr()
    }

    /// The server's clock. A command reads it once.
    pub fn now(self) -> Millis {
        now()
    }

    /// A random number below `bound`, which is not 0; from the server's own generator.
    pub fn random_below(self, bound: u64) -> u64 {
        let mut bytes = [0_u8; 8];
        // SAFETY: the buffer has as many bytes as are asked for.
        unsafe { api!(RedisModule_GetRandomBytes(bytes.as_mut_ptr(), bytes.len())) };
        // The high half of the product is uniform to one part in 2^64 / bound (D. Lemire, "Fast random integer
        // generation in an interval", 2019).
        let scaled = u128::from(u64::from_le_bytes(bytes)) * u128::from(bound);
        u64::try_from(scaled >> 64).unwrap_or(0)
    }

    pub(super) fn flags(self) -> c_int {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) }
    }

    /// Whether the client speaks RESP3.
    pub fn is_resp3(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_RESP3 as c_int != 0
    }

    /// Whether a script calls.
    pub fn is_in_script(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_LUA as c_int != 0
    }

    /// Whether this server may delete by itself what has expired: it is a master, not loading, and its writes are not
    /// paused, as they are by CLIENT PAUSE and during a failover. (A write then ends the server by an assertion.)
    pub fn may_write_by_itself(self) -> bool {
        // SAFETY: takes no arguments.
        self.is_master() && !self.is_loading() && unsafe { api!(RedisModule_AvoidReplicaTraffic()) } == 0
    }

    pub fn is_master(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_MASTER as c_int != 0
    }

    pub fn is_loading(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_LOADING as c_int != 0
    }

    /// Whether the command under way comes from the master or out of an AOF file: it has happened already.
    pub fn is_replayed(self) -> bool {
        let replayed = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        self.flags() & replayed as c_int != 0
    }

    /// Whether a child process saves the dataset: every page that is written meanwhile is copied.
    pub fn has_child(self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD as c_int != 0
    }

    /// The number of the database that keys are looked up in.
    pub fn database(self) -> i32 {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetSelectedDb(self.as_ptr())) }
    }

    /// Looks up keys in another database from now on; `false` if there is none of that number.
    pub fn select(self, database: i32) -> bool {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_SelectDb(self.as_ptr(), database)) == raw::REDISMODULE_OK as c_int }
    }

    /// Adds a sample to those that LATENCY shows, if it is at or above the server's threshold.
    pub fn add_latency(self, event: &CStr, latency: Millis) {
        // SAFETY: the name is a NUL-terminated constant.
        unsafe { api!(RedisModule_LatencyAddSample(event.as_ptr(), i64::try_from(latency).unwrap_or(i64::MAX))) }
    }

    /// Sends a native command to the replicas and the AOF, and counts it as a change of the dataset.
    pub fn replicate(self, command: &CStr, arguments: &[Str<'_>]) {
        // SAFETY: format `v` takes an array of valid strings and its length; the command is a NUL-terminated constant.
        let status = unsafe {
            api!(RedisModule_Replicate(
                self.as_ptr(),
                command.as_ptr(),
                c"v".as_ptr(),
                arguments.as_ptr(),
                arguments.len()
            ))
        };
        // It fails only for a command the server does not know, and ours are as old as sorted sets.
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
    }

    /// Announces a change of `key` to those who subscribed to keyspace events.
    pub fn notify(self, class: EventClass, event: &CStr, key: Str<'_>) {
        // SAFETY: all three are valid for the call.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent(self.as_ptr(), class as c_int, event.as_ptr(), key.as_ptr())) };
    }

    /// Tells WATCH and client-side caching that `key` has changed.
    pub fn signal_modified(self, key: Str<'_>) {
        // SAFETY: both are valid for the call.
        unsafe { api!(RedisModule_SignalModifiedKey(self.as_ptr(), key.as_ptr())) };
    }

    /// Writes a line to the server's log. The line is data, never a format.
    pub fn log(self, level: &CStr, line: &str) {
        let line: Vec<u8> = line.bytes().filter(|byte| !byte.is_ascii_control()).collect();
        let line = CString::new(line).unwrap_or_default();
        // SAFETY: the format asks for one NUL-terminated string, and gets it.
        unsafe { api!(RedisModule_Log(self.as_ptr(), level.as_ptr(), c"%s".as_ptr(), line.as_ptr())) };
    }
}
