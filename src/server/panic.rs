//! Panics, which are defects of the module. If the current call has changed nothing and sent no reply, [`catch_panic`]
//! catches the panic. The panic hook logs the message, and the client gets an error.
//!
//! A panic after the first change ends the server, as the server's own assertions do. At that moment, a change or a
//! reply can be incomplete. The server sends replication and replies only after the call, so replicas and the AOF still
//! have the state before the call. A panic in a data type's callback that cannot return an error, for example when a
//! value is saved, also ends the server.

use redis_module::raw::RedisModuleCtx;
use std::ffi::CString;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sends panic messages to the server's log. A daemon has no standard error.
pub fn log_panics() {
    panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        let line: String = format!("zeitset: {info}").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let line = CString::new(line).unwrap_or_default();
        let no_context: *mut RedisModuleCtx = null_mut();
        // SAFETY: the log accepts a null context. The format takes one NUL-terminated string.
        unsafe { api!(RedisModule_Log(no_context, c"warning".as_ptr(), c"%s".as_ptr(), line.as_ptr())) };
    }));
}

// With panic = "abort", a panic would end the server.
#[cfg(not(panic = "unwind"))]
compile_error!("the module must be built with panic = \"unwind\"");

/// Whether the current call has changed a key or begun a reply. Only the server's main thread uses this flag.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether the server is executing code of the module. Crash reports contain this flag.
static IN_CALL: AtomicBool = AtomicBool::new(false);

/// Returns the flags [`IN_CALL`] and [`HAS_BEGUN`], for crash reports. Each flag is one atomic value, so a crash cannot
/// leave it inconsistent.
pub(super) fn call_under_way() -> (bool, bool) {
    (IN_CALL.load(Ordering::Relaxed), HAS_BEGUN.load(Ordering::Relaxed))
}

/// Notes that the current call changes a key or begins a reply. After this, a panic in the call ends the server.
pub(super) fn note_irreversible() {
    HAS_BEGUN.store(true, Ordering::Relaxed);
}

/// Runs a function and returns its result. If the function panics, returns `None`. But if the function had already
/// [begun a change or a reply](note_irreversible), the panic ends the server.
pub fn catch_panic<R>(run: impl FnOnce() -> R) -> Option<R> {
    // Calls nest: a listener of keyspace events may call commands of the module.
    let (was_in_call, had_begun) = (IN_CALL.swap(true, Ordering::Relaxed), HAS_BEGUN.swap(false, Ordering::Relaxed));
    let result = catch_unwind(AssertUnwindSafe(run)).ok();
    if result.is_none() && HAS_BEGUN.load(Ordering::Relaxed) {
        std::process::abort();
    }
    IN_CALL.store(was_in_call, Ordering::Relaxed);
    HAS_BEGUN.store(had_begun, Ordering::Relaxed);
    result
}

#[cfg(test)]
mod tests;
