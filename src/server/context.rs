//! The context of one call: clock, replication, keyspace events, log.
//!
//! Each call of the server into the module creates one [`Context`], which is borrowed and never copied. A command or an
//! event can run code of other modules, and this code can free any value. Opening an expired key sends an event. So
//! each function that calls a command, sends an event or opens a key borrows the context mutably. An open key also
//! borrows its context. So while a key is open, the compiler prevents calls of these functions. `refused.rs` tests
//! this.

use super::native;
use super::string::{OwnedStr, Str};
use crate::base::time::{Micros, Millis};
use redis_module::raw::{self, RedisModuleCtx};
use smallvec::SmallVec;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{array, io, iter};

/// The server's context of one call into the module. The server calls the module for a command, a timer or an event.
pub struct Context(NonNull<RedisModuleCtx>);

/// The name of the event that the module is sending.
static OWN_EVENT: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Whether the module is sending this event. The server passes the name's pointer to the listeners, so the pointer
/// identifies the event. If another module sends an event of the same name at this time, its pointer differs.
pub(super) fn is_own_event(event: *const c_char) -> bool {
    std::ptr::eq(OWN_EVENT.load(Ordering::Relaxed), event)
}

#[derive(Clone, Copy)]
#[repr(i32)]
pub enum EventClass {
    /// The class `g` of keyspace events: DEL, EXPIRE and other commands for all types.
    Generic = raw::REDISMODULE_NOTIFY_GENERIC,
    /// The class `$`: strings.
    String = raw::REDISMODULE_NOTIFY_STRING,
    /// The class `z`: sorted sets.
    SortedSet = raw::REDISMODULE_NOTIFY_ZSET,
    /// The class `d`: events of modules.
    Module = raw::REDISMODULE_NOTIFY_MODULE,
}

/// The keyspace events to send for a change.
#[must_use = "call `send`"]
#[derive(Default)]
pub struct PendingEvents(SmallVec<[(EventClass, &'static CStr); 2]>);

impl PendingEvents {
    pub fn add(&mut self, class: EventClass, event: &'static CStr) {
        self.0.push((class, event));
    }

    pub fn append(&mut self, later: PendingEvents) {
        if self.0.is_empty() {
            *self = later;
        } else {
            self.0.extend(later.0);
        }
    }

    /// Sends the events. Listeners of other modules run and may do anything to any key.
    pub fn send(self, ctx: &mut Context, key: Str<'_>) {
        for &(class, event) in &self.0 {
            ctx.notify(class, event, key);
        }
    }
}

/// Returns the server's time, for callers without a context.
pub fn now() -> Millis {
    // SAFETY: takes no arguments.
    let now = unsafe { api!(RedisModule_Milliseconds()) };
    u64::try_from(now).unwrap_or(0)
}

/// Returns the server's monotonic clock in ms. Corrections of the wall clock do not change it.
pub fn monotonic() -> Millis {
    // SAFETY: takes no arguments.
    unsafe { api!(RedisModule_MonotonicMicroseconds()) / 1000 }
}

/// Returns the CPU time that the calling thread has used so far.
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: every system has this clock, and the module may write to the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the wall clock in nanoseconds. The module API has no such function.
pub fn now_nanos() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(0)
}

/// Whether this server is a master, for callers without a context.
pub fn is_master() -> bool {
    // SAFETY: without a context, the server returns the flags that do not depend on a call.
    let flags = unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) };
    flags & raw::REDISMODULE_CTX_FLAGS_MASTER as c_int != 0
}

/// Whether the server is loading a dataset. Also true for an asynchronous load, during which the server serves the old
/// dataset.
pub fn is_loading() -> bool {
    let loading = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING;
    // SAFETY: as above.
    let flags = unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) };
    flags & loading as c_int != 0
}

impl Context {
    /// # Safety
    /// `ctx` must be the context of a call that lasts as long as the result. The call must have no other [`Context`].
    pub(super) unsafe fn from_raw(ctx: *mut RedisModuleCtx) -> Context {
        Context(NonNull::new(ctx).expect("the server passes a context"))
    }

    pub(super) fn as_ptr(&self) -> *mut RedisModuleCtx {
        self.0.as_ptr()
    }

    /// Returns the server's time in Unix ms. Each command calls this function only once.
    pub fn now(&self) -> Millis {
        now()
    }

    /// Returns the server's time in Unix microseconds. A command that needs microseconds calls this instead of
    /// [`now`](Context::now).
    pub fn micros(&self) -> Micros {
        if has_api!(RedisModule_Microseconds) {
            // SAFETY: takes no arguments.
            return u64::try_from(unsafe { api!(RedisModule_Microseconds()) }).unwrap_or(0);
        }
        // Redis 7.0 uses the same system clock.
        Micros::try_from(now_nanos() / 1000).unwrap_or(0)
    }

    pub(super) fn flags(&self) -> c_int {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) }
    }

    pub fn is_resp3(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_RESP3 as c_int != 0
    }

    pub fn is_master(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_MASTER as c_int != 0
    }

    pub fn is_loading(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_LOADING as c_int != 0
    }

    /// Whether the current command comes from the master or from an AOF file. Such a command has already been executed
    /// once.
    pub fn is_replayed(&self) -> bool {
        let replayed = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        self.flags() & replayed as c_int != 0
    }

    /// Whether the server uses more than its `maxmemory`.
    pub fn is_out_of_memory(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_OOM as c_int != 0
    }

    /// Whether a child process is saving the dataset. Meanwhile, the system copies every memory page that the server
    /// changes.
    pub fn has_child(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD as c_int != 0
    }

    pub fn database(&self) -> i32 {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetSelectedDb(self.as_ptr())) }
    }

    /// Selects another database. Returns `false` if it does not exist.
    pub fn select(&self, database: i32) -> bool {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_SelectDb(self.as_ptr(), database)) == raw::REDISMODULE_OK as c_int }
    }

    /// Adds a sample to the server's latency monitor (LATENCY) if `latency` reaches its threshold.
    pub fn add_latency(&self, event: &CStr, latency: Millis) {
        // SAFETY: the name is a NUL-terminated constant.
        unsafe { api!(RedisModule_LatencyAddSample(event.as_ptr(), i64::try_from(latency).unwrap_or(i64::MAX))) }
    }

    /// Whether the server has a command of this name. Does not call the command.
    pub fn has_command(&self, command: &CStr) -> bool {
        let name = OwnedStr::new(command.to_bytes());
        let (mut words, mut count): (_, c_int) = ([name.as_str().as_ptr()], 0);
        // SAFETY: the context is valid, and the array holds one valid string.
        let keys = unsafe { api!(RedisModule_GetCommandKeys(self.as_ptr(), words.as_mut_ptr(), 1, &raw mut count)) };
        if keys.is_null() {
            // If the command exists, the server reports a missing argument instead.
            return io::Error::last_os_error().raw_os_error() != Some(libc::ENOENT);
        }
        // SAFETY: the module owns the array and does not use it again.
        unsafe { api!(RedisModule_Free(keys.cast())) };
        true
    }

    /// Sends a command to replicas and the AOF, and counts it as a change of the dataset. A command of the server must
    /// be in the list of [`native`]. If the server lacks UNLINK, this function sends DEL instead.
    pub fn replicate(&self, command: &CStr, arguments: &[Str<'_>]) {
        let is_known = self.try_replicate(command, arguments)
            || command == native::UNLINK && self.try_replicate(native::DEL, arguments);
        check_replicated(command, arguments[0], is_known);
    }

    /// Replicates a command as [`replicate`](Context::replicate) does. Takes the arguments after the key as bytes,
    /// which is faster, because the module then creates no strings.
    pub fn replicate_bytes(&self, command: &CStr, key: Str<'_>, arguments: &[&[u8]]) {
        let mut format = *b"sbbbbbbbb\0";
        let Some(end) = format.get_mut(1 + arguments.len()) else {
            let strings: Vec<_> = arguments.iter().copied().map(OwnedStr::new).collect();
            return self
                .replicate(command, &iter::once(key).chain(strings.iter().map(OwnedStr::as_str)).collect::<Vec<_>>());
        };
        *end = 0;
        let [a, b, c, d, e, f, g, h] = array::from_fn(|at| arguments.get(at).copied().unwrap_or_default());
        // SAFETY: format `s` takes a valid string, and each `b` a pointer and a length. The server ignores arguments
        // that the format does not name. The command is a NUL-terminated constant, and the format ends with NUL.
        #[rustfmt::skip]
        let status = unsafe {
            api!(RedisModule_Replicate(
                self.as_ptr(), command.as_ptr(), format.as_ptr().cast::<c_char>(), key.as_ptr(),
                a.as_ptr(), a.len(), b.as_ptr(), b.len(), c.as_ptr(), c.len(), d.as_ptr(), d.len(),
                e.as_ptr(), e.len(), f.as_ptr(), f.len(), g.as_ptr(), g.len(), h.as_ptr(), h.len()
            ))
        };
        check_replicated(command, key, status == raw::REDISMODULE_OK as c_int);
    }

    /// Replicates a command. Returns `false` if the server does not know a command of this name.
    fn try_replicate(&self, command: &CStr, arguments: &[Str<'_>]) -> bool {
        let (ctx, command) = (self.as_ptr(), command.as_ptr());
        // A format with one letter per argument makes the server allocate only once.
        let status = match arguments {
            // SAFETY: format `s` takes a valid string. The command is a NUL-terminated constant.
            [one, two, three] => unsafe {
                api!(RedisModule_Replicate(ctx, command, c"sss".as_ptr(), one.as_ptr(), two.as_ptr(), three.as_ptr()))
            },
            // SAFETY: format `v` takes an array of valid strings and its length. The command is NUL-terminated.
            many => unsafe { api!(RedisModule_Replicate(ctx, command, c"v".as_ptr(), many.as_ptr(), many.len())) },
        };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Sends a keyspace event about `key`. Listeners of other modules run now and may do anything to any key.
    pub fn notify(&mut self, class: EventClass, event: &CStr, key: Str<'_>) {
        let outer = OWN_EVENT.swap(event.as_ptr().cast_mut(), Ordering::Relaxed);
        // SAFETY: all three are valid for the call.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent(self.as_ptr(), class as c_int, event.as_ptr(), key.as_ptr())) };
        OWN_EVENT.store(outer, Ordering::Relaxed);
    }

    /// Sends a message to the subscribers of a channel. In a cluster, the message reaches subscribers on all nodes. No
    /// code of other modules runs, because the message only waits in the output buffers of clients.
    pub fn publish(&self, channel: Str<'_>, message: Str<'_>) {
        // SAFETY: all three are valid for the call. The server takes its own references to both strings.
        unsafe { api!(RedisModule_PublishMessage(self.as_ptr(), channel.as_ptr(), message.as_ptr())) };
    }

    /// Tells WATCH and client-side caching that `key` has changed.
    pub fn signal_modified(&self, key: Str<'_>) {
        // SAFETY: both are valid for the call.
        unsafe { api!(RedisModule_SignalModifiedKey(self.as_ptr(), key.as_ptr())) };
    }

    /// Writes a line to the server's log. The line is data, never a format.
    pub fn log(&self, level: &CStr, line: &str) {
        let line: Vec<u8> = line.bytes().filter(|byte| !byte.is_ascii_control()).collect();
        let line = CString::new(line).unwrap_or_default();
        // SAFETY: the format takes one NUL-terminated string.
        unsafe { api!(RedisModule_Log(self.as_ptr(), level.as_ptr(), c"%s".as_ptr(), line.as_ptr())) };
    }
}

/// In debug builds, panics if `is_known` is false, which means that the server does not know `command`, and did not
/// replicate it.
fn check_replicated(command: &CStr, key: Str<'_>, is_known: bool) {
    // tests/server/panics.rs makes a debug build panic here.
    debug_assert!(key.bytes() != b"zeitset:panic:during", "as ordered: %s%n");
    debug_assert!(is_known, "{command:?} was renamed away");
}
