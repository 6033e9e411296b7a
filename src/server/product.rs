//! Which product the server is: Redis, or Valkey, whose ways have parted since Redis 7.2. Little depends on it: what is new
//! in both has the same numbers with different meanings, and each has bugs of its own.

use super::context::Context;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_VALKEY: AtomicBool = AtomicBool::new(false);

/// Asks the server. To be called first when the module is loaded.
pub fn find_out(ctx: &Context) {
    // SAFETY: the context is valid and the name NUL-terminated.
    let data = unsafe { api!(RedisModule_GetServerInfo(ctx.as_ptr(), c"server".as_ptr())) };
    // SAFETY: the data are those just made, and the name is NUL-terminated.
    let version = unsafe { api!(RedisModule_ServerInfoGetFieldC(data, c"valkey_version".as_ptr())) };
    IS_VALKEY.store(!version.is_null(), Ordering::Relaxed);
    // SAFETY: the data are freed once, and neither they nor what they lent are used again.
    unsafe { api!(RedisModule_FreeServerInfo(ctx.as_ptr(), data)) };
}

pub fn is_valkey() -> bool {
    IS_VALKEY.load(Ordering::Relaxed)
}
