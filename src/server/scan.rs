//! A walk through all keys of a database, a few at a time, while clients go on working.

use super::context::Context;
use super::key::{ReadKey, Reading};
use super::panic::enter_module;
use super::string::Str;
use super::zset::SortedSet;
use redis_module::raw::{RedisModuleCtx, RedisModuleKey, RedisModuleScanCursor, RedisModuleString};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Where a walk stands. A key that is there during the whole walk is met at least once.
pub struct Cursor(NonNull<RedisModuleScanCursor>);

type Visit<'v> = &'v mut dyn FnMut(Str<'_>, &mut SortedSet<'_, Reading>);

impl Cursor {
    pub fn new() -> Cursor {
        // SAFETY: takes no arguments.
        let cursor = unsafe { api!(RedisModule_ScanCursorCreate()) };
        Cursor(NonNull::new(cursor).expect("the server's allocator never returns null"))
    }

    /// Shows the sorted sets among the next few keys of the context's database to `visit`. `false` at the end of the walk.
    pub fn step(&mut self, ctx: &Context, mut visit: impl FnMut(Str<'_>, &mut SortedSet<'_, Reading>)) -> bool {
        let mut visit: Visit<'_> = &mut visit;
        let data: *mut Visit<'_> = &raw mut visit;
        // SAFETY: the cursor is ours; the callback is called during this call only, with `data` as it is.
        unsafe { api!(RedisModule_Scan(ctx.as_ptr(), self.0.as_ptr(), Some(show), data.cast())) != 0 }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // SAFETY: the cursor is ours, and not used again.
        unsafe { api!(RedisModule_ScanCursorDestroy(self.0.as_ptr())) }
    }
}

unsafe extern "C" fn show(
    ctx: *mut RedisModuleCtx,
    name: *mut RedisModuleString,
    key: *mut RedisModuleKey,
    data: *mut c_void,
) {
    // SAFETY: the server passes what lasts as long as this call, and `data` as `step` gave it.
    let (ctx, name, visit) = unsafe { (Context::from_raw(ctx), Str::from_raw(name), &mut *data.cast::<Visit<'_>>()) };
    // SAFETY: the handle is open during this call, and closed by the server.
    let key = unsafe { ReadKey::lent(&ctx, key) };
    enter_module("scan", || {
        if let (Some(name), Some(mut set)) = (name, SortedSet::new(key)) {
            visit(name, &mut set);
        }
    });
}
