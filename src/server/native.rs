//! The server's own commands that the module replicates or calls.
//!
//! If `rename-command` had removed one of these commands, the server could not replicate some changes, and replicas and
//! the AOF would silently differ from the master. So the module checks all these commands when it is loaded. A test
//! compares the list with the sources.

use super::context::Context;
use super::string::OwnedStr;
use std::ffi::{CStr, c_int};
use std::io;

const NEEDED: [&CStr; 11] = [
    c"DUMP",
    c"PERSIST",
    c"PEXPIREAT",
    c"RESTORE",
    c"SET",
    c"SETRANGE",
    c"ZADD",
    c"ZCOUNT",
    c"ZRANGE",
    c"ZREM",
    c"ZREMRANGEBYSCORE",
];

/// The server must have UNLINK or DEL. The module replicates DEL only if the server lacks UNLINK.
pub(super) const UNLINK: &CStr = c"UNLINK";
pub(super) const DEL: &CStr = c"DEL";

/// Returns the needed commands that the server does not know.
pub fn missing(ctx: &Context) -> Vec<&'static CStr> {
    let mut missing: Vec<_> = NEEDED.into_iter().filter(|command| !is_known(ctx, command)).collect();
    if ![UNLINK, DEL].iter().any(|command| is_known(ctx, command)) {
        missing.push(UNLINK);
    }
    missing
}

/// Whether the server has a command of this name. Does not call the command.
fn is_known(ctx: &Context, command: &CStr) -> bool {
    let name = OwnedStr::new(command.to_bytes());
    let (mut words, mut count): (_, c_int) = ([name.as_str().as_ptr()], 0);
    // SAFETY: the context is valid, and the array holds one valid string.
    let keys = unsafe { api!(RedisModule_GetCommandKeys(ctx.as_ptr(), words.as_mut_ptr(), 1, &raw mut count)) };
    if keys.is_null() {
        // If the command exists, the server reports a missing argument instead.
        return io::Error::last_os_error().raw_os_error() != Some(libc::ENOENT);
    }
    // SAFETY: the module owns the array and does not use it again.
    unsafe { api!(RedisModule_Free(keys.cast())) };
    true
}
