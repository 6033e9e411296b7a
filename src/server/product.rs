//! Which product the server is: Redis, or Valkey, whose ways have parted since Redis 7.2. Little depends on it: what is new
//! in both has the same numbers with different meanings, and each has bugs of its own.

use super::context::Context;
use super::info::with_server_info;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_VALKEY: AtomicBool = AtomicBool::new(false);

/// Asks the server. To be called first when the module is loaded.
pub fn find_out(ctx: &Context) {
    // SAFETY: the name is NUL-terminated, and the data are valid.
    let version = |data| unsafe { api!(RedisModule_ServerInfoGetFieldC(data, c"valkey_version".as_ptr())) };
    let is_valkey = with_server_info(ctx, c"server", |data| !version(data).is_null());
    IS_VALKEY.store(is_valkey, Ordering::Relaxed);
}

pub fn is_valkey() -> bool {
    IS_VALKEY.load(Ordering::Relaxed)
}
