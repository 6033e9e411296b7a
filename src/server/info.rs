//! INFO: what the module adds to it, and what the module reads there.

use super::context::Context;
use super::panic::enter_module;
use redis_module::RedisLockIndicator;
use redis_module::raw::{RedisModuleInfoCtx, RedisModuleServerInfoData};
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

/// Where the sections come from.
pub trait Report {
    fn report(info: Info<'_>);
}

/// An INFO reply under way.
#[derive(Clone, Copy)]
pub struct Info<'a> {
    info: NonNull<RedisModuleInfoCtx>,
    call: PhantomData<&'a ()>,
}

impl Info<'_> {
    /// Begins a section; the server puts the module's name in front. An empty name: the module's name alone.
    pub fn section(self, name: &CStr) {
        // SAFETY: the info context is valid during the call; the name is NUL-terminated.
        unsafe { api!(RedisModule_InfoAddSection(self.info.as_ptr(), name.as_ptr())) };
    }

    pub fn text(self, name: &CStr, value: &CStr) {
        // SAFETY: as above; the value is NUL-terminated.
        unsafe { api!(RedisModule_InfoAddFieldCString(self.info.as_ptr(), name.as_ptr(), value.as_ptr())) };
    }

    pub fn field(self, name: &CStr, value: u64) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldULongLong(self.info.as_ptr(), name.as_ptr(), value)) };
    }
}

// SAFETY: the server asks for INFO while its global lock is held.
unsafe impl RedisLockIndicator for Info<'_> {}

/// Registers what is reported.
pub fn register<R: Report>(ctx: &Context) {
    // SAFETY: the context is that of the module's loading; the callback lives as long as the module.
    unsafe { api!(RedisModule_RegisterInfoFunc(ctx.as_ptr(), Some(report::<R>))) };
}

unsafe extern "C" fn report<R: Report>(info: *mut RedisModuleInfoCtx, for_crash_report: c_int) {
    // A crash may have come in the middle of anything, and our state with it: the report does without us.
    if for_crash_report != 0 {
        return;
    }
    if let Some(info) = NonNull::new(info) {
        let info = Info { info, call: PhantomData };
        enter_module("info", || R::report(info));
    }
}

/// Shows `look` a section of the server's own.
pub(super) fn with_server_info<R>(
    ctx: &Context,
    section: &CStr,
    look: impl FnOnce(*mut RedisModuleServerInfoData) -> R,
) -> R {
    // SAFETY: the context is valid and the name NUL-terminated.
    let data = unsafe { api!(RedisModule_GetServerInfo(ctx.as_ptr(), section.as_ptr())) };
    let seen = look(data);
    // SAFETY: the data are freed once, and not used again.
    unsafe { api!(RedisModule_FreeServerInfo(ctx.as_ptr(), data)) };
    seen
}

/// Whether clients are connected. While the server starts, none is.
pub(super) fn has_clients(ctx: &Context) -> bool {
    let field = c"connected_clients".as_ptr();
    // SAFETY: the name is NUL-terminated, and the data are valid; without a place for it, no error is told.
    let clients = |data| unsafe { api!(RedisModule_ServerInfoGetFieldUnsigned(data, field, null_mut())) };
    with_server_info(ctx, c"clients", clients) > 0
}
