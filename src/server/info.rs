//! What the module adds to INFO.

use super::context::Context;
use super::panic::enter_module;
use redis_module::RedisLockIndicator;
use redis_module::raw::RedisModuleInfoCtx;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;

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
