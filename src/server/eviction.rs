//! One warning in the log if the server may evict values of the module's own types.
//!
//! Under a policy `allkeys-*`, a server that reaches its `maxmemory` evicts whole queues and leaderboards. Replies do
//! not show that. Reading the policy takes longer than many commands, so only the cron job reads it, and only after a
//! value was created.

use super::context::Context;
use super::events::ServerEvent;
use super::info::with_server_info;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether a value was created since the cron job last read `maxmemory-policy`.
static CREATED: AtomicBool = AtomicBool::new(false);
static WARNED: AtomicBool = AtomicBool::new(false);

/// Notes that a value of the module's own types was created or loaded.
pub(super) fn note_created() {
    CREATED.store(true, Relaxed);
}

pub fn on_server(ctx: &mut Context, event: ServerEvent<'_>) {
    if event != ServerEvent::Cron || WARNED.load(Relaxed) || !CREATED.swap(false, Relaxed) {
        return;
    }
    if let Some(policy) = policy(ctx).filter(|policy| policy.starts_with("allkeys-")) {
        WARNED.store(true, Relaxed);
        let line = format!("zeitset: maxmemory-policy {policy}: the server may evict whole queues and leaderboards");
        ctx.log(c"warning", &line);
    }
}

/// Returns the server's `maxmemory-policy`, as INFO has it. CONFIG GET would fail if `rename-command` has removed
/// CONFIG.
fn policy(ctx: &Context) -> Option<String> {
    // SAFETY: the name is NUL-terminated, and the data are valid.
    let field = |data| unsafe { api!(RedisModule_ServerInfoGetFieldC(data, c"maxmemory_policy".as_ptr())) };
    with_server_info(ctx, c"memory", |data| {
        let field = field(data);
        // SAFETY: a field that is not null is NUL-terminated, and lives as long as the data.
        (!field.is_null()).then(|| unsafe { CStr::from_ptr(field) }.to_string_lossy().into_owned())
    })
}
