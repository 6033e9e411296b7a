//! The server's own commands that the module replicates or calls.
//!
//! If `rename-command` had removed one of these commands, the server could not replicate some changes, and replicas and
//! the AOF would silently differ from the master. So the module checks all these commands when it is loaded. A test
//! compares the list with the sources.

use std::ffi::CStr;

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

/// Returns the commands that the module needs and the server does not know.
pub fn missing(is_known: impl Fn(&CStr) -> bool) -> Vec<&'static CStr> {
    let mut missing: Vec<_> = NEEDED.into_iter().filter(|command| !is_known(command)).collect();
    if ![UNLINK, DEL].iter().any(|command| is_known(command)) {
        missing.push(UNLINK);
    }
    missing
}
