//! Iterates over all keys of a database, a few at a time, so that clients do not wait.

use super::context::Context;
use super::key::{ReadKey, Reading};
use super::panic::catch_panic;
use super::string::Str;
use super::zset::SortedSet;
use redis_module::raw::{RedisModuleCtx, RedisModuleKey, RedisModuleScanCursor, RedisModuleString};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The cursor of a keyspace scan. A key that exists during the whole scan is visited at least once.
pub struct ScanCursor(NonNull<RedisModuleScanCursor>);

type Visit<'v> = &'v mut dyn FnMut(Str<'_>, &mut SortedSet<'_, Reading>);

impl ScanCursor {
    pub fn new() -> ScanCursor {
        // SAFETY: takes no arguments.
        let cursor = unsafe { api!(RedisModule_ScanCursorCreate()) };
        ScanCursor(NonNull::new(cursor).expect("the server's allocator never returns null"))
    }

    /// Calls `visit` with the sorted sets among the next few keys of the database. Returns `false` at the end of the
    /// scan.
    pub fn step(&mut self, ctx: &Context, mut visit: impl FnMut(Str<'_>, &mut SortedSet<'_, Reading>)) -> bool {
        let mut visit: Visit<'_> = &mut visit;
        let data: *mut Visit<'_> = &raw mut visit;
        // SAFETY: the module owns the cursor. The server calls `show` only during this call, with `data` unchanged.
        unsafe { api!(RedisModule_Scan(ctx.as_ptr(), self.0.as_ptr(), Some(show), data.cast())) != 0 }
    }
}

impl Drop for ScanCursor {
    fn drop(&mut self) {
        // SAFETY: the module owns the cursor and does not use it again.
        unsafe { api!(RedisModule_ScanCursorDestroy(self.0.as_ptr())) }
    }
}

unsafe extern "C" fn show(
    ctx: *mut RedisModuleCtx,
    name: *mut RedisModuleString,
    key: *mut RedisModuleKey,
    data: *mut c_void,
) {
    // SAFETY: the server passes arguments that are valid during this call, and the `data` of `step`.
    let (ctx, name, visit) = unsafe { (Context::from_raw(ctx), Str::from_raw(name), &mut *data.cast::<Visit<'_>>()) };
    // SAFETY: the handle is open during this call, and the server closes it.
    let key = unsafe { ReadKey::lent(&ctx, key) };
    catch_panic(|| {
        if let (Some(name), Some(mut set)) = (name, SortedSet::new(key)) {
            visit(name, &mut set);
        }
    });
}
