//! What becomes of the message of a panic: a line in the server's log.

use redis_module::raw::RedisModuleCtx;
use std::ffi::CString;
use std::panic::{self, PanicHookInfo};
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
