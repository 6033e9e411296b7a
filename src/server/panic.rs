//! Panics: a defect of the module, not the end of a server that holds other people's data. Wherever the server enters the module, a
//! panic is stopped ([`survive`]) before it could reach the server's own frames; its message becomes a line in the server's log.

use redis_module::raw::RedisModuleCtx;
use std::ffi::CString;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::ptr::null_mut;

/// Sends the messages of panics to the server's log: a daemon has no standard error to read them from.
/// The command that panicked is answered with an error ([`super::command`]).
pub fn log_panics() {
    panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        let line: String = format!("zeitset: {info}").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let line = CString::new(line).unwrap_or_default();
        let no_context: *mut RedisModuleCtx = null_mut();
        // SAFETY: the log takes a null context; the format asks for one NUL-terminated string, and gets it.
        unsafe { api!(RedisModule_Log(no_context, c"warning".as_ptr(), c"%s".as_ptr(), line.as_ptr())) };
    }));
}

// Aborting, nothing could be caught: a panic would end the server.
#[cfg(not(panic = "unwind"))]
compile_error!("the module must be built with panic = \"unwind\"");

/// A place at which a test can have the module panic. Nothing at all in the module as it is shipped.
macro_rules! fault {
    ($place:expr) => {
        #[cfg(feature = "panic-test")]
        $crate::server::fault::pass($place);
        #[cfg(not(feature = "panic-test"))]
        let _ = $place;
    };
}
pub(crate) use fault;

/// Runs what may panic. `None` if it did; what it was at is then left as it stands.
pub fn survive<R>(run: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// As [`survive`], where the server enters the module: a place at which a test can have it panic ([`fault!`]).
pub(super) fn enter_module<R>(place: &'static str, run: impl FnOnce() -> R) -> Option<R> {
    survive(|| {
        fault!(place);
        run()
    })
}
