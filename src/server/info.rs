//! INFO: adds the module's section, and reads the server's sections.

use super::context::Context;
use super::panic::{call_under_way, catch_panic};
use redis_module::RedisLockIndicator;
use redis_module::raw::{RedisModuleInfoCtx, RedisModuleServerInfoData};
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::null_mut;

/// What the module adds to INFO.
pub trait Section {
    /// The module's version, for crash reports.
    const VERSION: &'static CStr;

    fn report(info: Info<'_>);
}

/// An INFO reply in progress.
#[derive(Clone, Copy)]
pub struct Info<'a>(*mut RedisModuleInfoCtx, PhantomData<&'a ()>);

impl Info<'_> {
    /// Begins a section of INFO. The server puts the module's name in front of `name`. If `name` is empty, the section
    /// has only the module's name.
    pub fn section(self, name: &CStr) {
        // SAFETY: the info context is valid during the call. The name is NUL-terminated.
        unsafe { api!(RedisModule_InfoAddSection(self.0, name.as_ptr())) };
    }

    pub fn text(self, name: &CStr, value: &CStr) {
        // SAFETY: as above. The value is NUL-terminated.
        unsafe { api!(RedisModule_InfoAddFieldCString(self.0, name.as_ptr(), value.as_ptr())) };
    }

    pub fn field(self, name: &CStr, value: u64) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldULongLong(self.0, name.as_ptr(), value)) };
    }
}

// SAFETY: the server calls INFO callbacks while its global lock is held.
unsafe impl RedisLockIndicator for Info<'_> {}

/// Adds a section to INFO, and the version to crash reports.
pub fn register<S: Section>(ctx: &Context) {
    // SAFETY: the context is that of the module's loading. The callback lives as long as the module.
    unsafe { api!(RedisModule_RegisterInfoFunc(ctx.as_ptr(), Some(callback::<S>))) };
}

unsafe extern "C" fn callback<S: Section>(info: *mut RedisModuleInfoCtx, for_crash_report: c_int) {
    let info = Info(info, PhantomData);
    if for_crash_report != 0 {
        report_crash(info, S::VERSION);
    } else {
        catch_panic(|| S::report(info));
    }
}

/// Adds the module's fields to a crash report. Reads no [`UnderLock`](super::under_lock::UnderLock) state, because a crash may
/// leave this state inconsistent.
fn report_crash(info: Info<'_>, version: &CStr) {
    let (is_in_call, has_begun) = call_under_way();
    info.section(c"");
    info.text(c"version", version);
    info.field(c"in_call", u64::from(is_in_call));
    info.field(c"call_has_begun", u64::from(has_begun));
}

/// Calls `look` with the data of `section`, a section of the server's INFO.
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

/// Whether clients are connected. While the server starts, no client is connected.
pub(super) fn has_clients(ctx: &Context) -> bool {
    let field = c"connected_clients".as_ptr();
    // SAFETY: the name is NUL-terminated, and the data are valid. A null pointer for the error is allowed.
    let clients = |data| unsafe { api!(RedisModule_ServerInfoGetFieldUnsigned(data, field, null_mut())) };
    with_server_info(ctx, c"clients", clients) > 0
}
