//! The server's product: Redis or Valkey. The two have diverged since Redis 7.2. Newer numbers in the API have
//! different meanings in the two products, and each product has its own bugs.

use super::context::Context;
use super::info::with_server_info;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_VALKEY: AtomicBool = AtomicBool::new(false);

/// Finds out whether the server is Redis or Valkey. The module must call this function first when it is loaded.
pub fn find_out(ctx: &Context) {
    // SAFETY: the name is NUL-terminated, and the data are valid.
    let version = |data| unsafe { api!(RedisModule_ServerInfoGetFieldC(data, c"valkey_version".as_ptr())) };
    let is_valkey = with_server_info(ctx, c"server", |data| !version(data).is_null());
    IS_VALKEY.store(is_valkey, Ordering::Relaxed);
}

pub fn is_valkey() -> bool {
    IS_VALKEY.load(Ordering::Relaxed)
}
