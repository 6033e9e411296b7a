//! The context of one call: the clock, what is replicated, what is announced, what is logged.
//!
//! There is one [`Context`] for each call of the server into the module. It is lent, never copied. What may run other people's
//! code takes it by `&mut`: to call a command, to announce an event, and to open a key (the server may find that the key has
//! expired, and announce that). An open key borrows the context that it was opened with. So the compiler refuses to run other
//! people's code, which may free any value, while a key is open; and it refuses to open a second key next to the first. Each of
//! these is an error between `let mut key = WriteKey::open(ctx, name);` and `key.holds();`:
//!
//! | statement                                                                               | refused as |
//! |-----------------------------------------------------------------------------------------|------------|
//! | `ctx.notify(class, event, name);`, `ctx.count_above(name, 1);`                          | E0499      |
//! | `let other = WriteKey::open(ctx, name);`, `ReadKey::open(ctx, name);`                   | E0499      |
//! | `let both = (key.value_mut::<Board>(), key.value_mut::<Board>());`, with both in use    | E0499      |
//! | `key.close();`, `key.unlink();`, `key.set_value(board);`                                | E0382      |
//! | with `ReadKey::open`: `key.unlink();`, `key.expire_at(at);`, `key.value_mut::<Board>();` | E0599      |

use super::native;
use super::string::Str;
use crate::model::random::Random;
use crate::model::time::{Micros, Millis};
use redis_module::raw::{self, RedisModuleCtx};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The server's side of one call into the module (a command, a timer, an event). It is made where the server enters, and lent from
/// there.
pub struct Context(NonNull<RedisModuleCtx>);

/// The name of the event that we announce right now.
static ANNOUNCED: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Whether an event is one that we announce. The server passes the name on as it got it, so it is ours if it is the very same
/// string; one of the same name that other people's code brings about meanwhile is not.
pub(super) fn is_announced(event: *const c_char) -> bool {
    std::ptr::eq(ANNOUNCED.load(Ordering::Relaxed), event)
}

/// Classes of keyspace events.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum EventClass {
    /// `g`: DEL, EXPIRE and the like.
    Generic = raw::REDISMODULE_NOTIFY_GENERIC,
    /// `$`: strings.
    String = raw::REDISMODULE_NOTIFY_STRING,
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

/// The same clock in microseconds.
fn micros() -> Micros {
    if has_api!(RedisModule_Microseconds) {
        // SAFETY: takes no arguments.
        return u64::try_from(unsafe { api!(RedisModule_Microseconds()) }).unwrap_or(0);
    }
    // Redis 7.0 goes by the same clock of the system.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Micros::try_from(since_epoch.as_micros()).unwrap_or(Micros::MAX)
}

/// The processor time that the calling thread has used so far.
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is one that every system has, and the structure is ours to be written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The same clock in nanoseconds, which the server does not tell.
pub fn now_nanos() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(0)
}

/// Whether this server is a master, for the same.
pub fn is_master() -> bool {
    // SAFETY: without a context, the server answers what does not depend on a call.
    let flags = unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) };
    flags & raw::REDISMODULE_CTX_FLAGS_MASTER as c_int != 0
}

/// Whether the server loads a dataset, perhaps next to the one that it serves; for the same.
pub fn is_loading() -> bool {
    let loading = raw::REDISMODULE_CTX_FLAGS_LOADING | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING;
    // SAFETY: as above.
    let flags = unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) };
    flags & loading as c_int != 0
}

impl Context {
    /// # Safety
    /// `ctx` must be the context of a call that lasts as long as what is returned; no other [`Context`] may be made for that call.
    pub(super) unsafe fn from_raw(ctx: *mut RedisModuleCtx) -> Context {
        Context(NonNull::new(ctx).expect("the server passes a context"))
    }

    pub(super) fn as_ptr(&self) -> *mut RedisModuleCtx {
        self.0.as_ptr()
    }

    /// The server's clock. A command reads it once.
    pub fn now(&self) -> Millis {
        now()
    }

    /// The server's clock in microseconds, for a command that needs it so fine; instead of [`now`](Context::now).
    pub fn micros(&self) -> Micros {
        micros()
    }

    /// Random numbers, from a seed of the server's own generator.
    pub fn random(&self) -> Random {
        let mut seed = [0_u8; 32];
        // SAFETY: the buffer has as many bytes as are asked for.
        unsafe { api!(RedisModule_GetRandomBytes(seed.as_mut_ptr(), seed.len())) };
        Random::from_seed(seed)
    }

    pub(super) fn flags(&self) -> c_int {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetContextFlags(self.as_ptr())) }
    }

    /// Whether the client speaks RESP3.
    pub fn is_resp3(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_RESP3 as c_int != 0
    }

    /// Whether a script calls.
    pub fn is_in_script(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_LUA as c_int != 0
    }

    pub fn is_master(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_MASTER as c_int != 0
    }

    pub fn is_loading(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_LOADING as c_int != 0
    }

    /// Whether the command under way comes from the master or out of an AOF file: it has happened already.
    pub fn is_replayed(&self) -> bool {
        let replayed = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        self.flags() & replayed as c_int != 0
    }

    /// Whether the server holds more than its `maxmemory`.
    pub fn is_out_of_memory(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_OOM as c_int != 0
    }

    /// Whether a child process saves the dataset: every page that is written meanwhile is copied.
    pub fn has_child(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD as c_int != 0
    }

    /// The number of the database that keys are looked up in.
    pub fn database(&self) -> i32 {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetSelectedDb(self.as_ptr())) }
    }

    /// Looks up keys in another database from now on; `false` if there is none of that number.
    pub fn select(&self, database: i32) -> bool {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_SelectDb(self.as_ptr(), database)) == raw::REDISMODULE_OK as c_int }
    }

    /// Adds a sample to those that LATENCY shows, if it is at or above the server's threshold.
    pub fn add_latency(&self, event: &CStr, latency: Millis) {
        // SAFETY: the name is a NUL-terminated constant.
        unsafe { api!(RedisModule_LatencyAddSample(event.as_ptr(), i64::try_from(latency).unwrap_or(i64::MAX))) }
    }

    /// Sends a command to the replicas and the AOF, and counts it as a change of the dataset. A native one is on the list of
    /// [`native`]; where the server does not know UNLINK, DEL goes instead.
    pub fn replicate(&self, command: &CStr, arguments: &[Str<'_>]) {
        let is_known = self.try_replicate(command, arguments)
            || command == native::UNLINK && self.try_replicate(native::DEL, arguments);
        debug_assert!(is_known, "{command:?} was renamed away");
    }

    /// `false` if the server does not know the command: nothing is replicated.
    fn try_replicate(&self, command: &CStr, arguments: &[Str<'_>]) -> bool {
        let (ctx, command) = (self.as_ptr(), command.as_ptr());
        // With as many arguments as the format has letters, the server makes room for them once.
        let status = match arguments {
            // SAFETY: format `s` takes a valid string; the command is a NUL-terminated constant.
            [one, two] => unsafe {
                api!(RedisModule_Replicate(ctx, command, c"ss".as_ptr(), one.as_ptr(), two.as_ptr()))
            },
            // SAFETY: as above.
            [one, two, three] => unsafe {
                api!(RedisModule_Replicate(ctx, command, c"sss".as_ptr(), one.as_ptr(), two.as_ptr(), three.as_ptr()))
            },
            // SAFETY: as above.
            [one, two, three, four] => unsafe {
                let (one, two, three, four) = (one.as_ptr(), two.as_ptr(), three.as_ptr(), four.as_ptr());
                api!(RedisModule_Replicate(ctx, command, c"ssss".as_ptr(), one, two, three, four))
            },
            // SAFETY: format `v` takes an array of valid strings and its length; the command as above.
            many => unsafe { api!(RedisModule_Replicate(ctx, command, c"v".as_ptr(), many.as_ptr(), many.len())) },
        };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Announces a change of `key` to those who subscribed to keyspace events. Their code runs now, and may do anything to any key.
    pub fn notify(&mut self, class: EventClass, event: &CStr, key: Str<'_>) {
        let outer = ANNOUNCED.swap(event.as_ptr().cast_mut(), Ordering::Relaxed);
        // SAFETY: all three are valid for the call.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent(self.as_ptr(), class as c_int, event.as_ptr(), key.as_ptr())) };
        ANNOUNCED.store(outer, Ordering::Relaxed);
    }

    /// Sends a message to the subscribers of a channel, in a cluster to those of all nodes. It runs nobody's code: subscribers are
    /// clients, and the message waits in their output buffers.
    pub fn publish(&self, channel: Str<'_>, message: Str<'_>) {
        // SAFETY: all three are valid for the call; the server takes references of its own to both strings.
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
        // SAFETY: the format asks for one NUL-terminated string, and gets it.
        unsafe { api!(RedisModule_Log(self.as_ptr(), level.as_ptr(), c"%s".as_ptr(), line.as_ptr())) };
    }
}
