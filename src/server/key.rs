//! A key, opened: its type and its time-to-live.

use super::context::Context;
use super::string::Str;
use crate::model::time::Millis;
use redis_module::raw::{self, RedisModuleKey};
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// What a key is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    /// To look without a trace: the key's age for eviction stays as it is, and where the server can, so do its statistics.
    Glance,
    /// Opening for writing alone signals nothing to WATCH or to client-side caching: we told the server that we
    /// signal changes ourselves ([`super::command::set_options`]).
    Write,
}

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Nothing,
    SortedSet,
    SomethingElse,
}

/// An open key, closed when dropped. While one is open, no command may be called on the same key: the command might
/// free what the handle points to.
pub struct Key<'a> {
    /// `None`: opened for reading and not there.
    key: Option<NonNull<RedisModuleKey>>,
    is_lent: bool,
    call: PhantomData<Context<'a>>,
}

impl<'a> Key<'a> {
    pub fn open(ctx: Context<'a>, name: Str<'_>, mode: Mode) -> Key<'a> {
        let mode = match mode {
            Mode::Read => raw::REDISMODULE_READ,
            Mode::Glance => raw::REDISMODULE_READ | quiet_modes(),
            Mode::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: context and name are valid; the server takes its own reference to the name.
        let key = unsafe { api!(RedisModule_OpenKey(ctx.as_ptr(), name.as_ptr(), mode as c_int)) };
        Key { key: NonNull::new(key.cast()), is_lent: false, call: PhantomData }
    }

    /// A key that the server has opened for us and closes itself.
    ///
    /// # Safety
    /// `key` must be an open handle, or null, and stay open for `'a`.
    pub(super) unsafe fn lent(_ctx: Context<'a>, key: *mut RedisModuleKey) -> Key<'a> {
        Key { key: NonNull::new(key), is_lent: true, call: PhantomData }
    }

    /// The handle, or null where the key is not there: every function of the API takes that for an empty key.
    pub(super) fn as_ptr(&self) -> *mut RedisModuleKey {
        self.key.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    pub fn holds(&self) -> Holds {
        // SAFETY: the handle is open, or null, which means an empty key.
        let kind = unsafe { api!(RedisModule_KeyType(self.as_ptr())) } as isize;
        match kind {
            raw::REDISMODULE_KEYTYPE_EMPTY => Holds::Nothing,
            raw::REDISMODULE_KEYTYPE_ZSET => Holds::SortedSet,
            _ => Holds::SomethingElse,
        }
    }

    /// The number of the database the key is in. `None`: opened for reading and not there.
    pub fn database(&self) -> Option<i32> {
        let key = self.key?;
        // SAFETY: the handle is open.
        Some(unsafe { api!(RedisModule_GetDbIdFromModuleKey(key.as_ptr())) })
    }

    /// When the server removes the key: Unix ms. `None`: never, or the key is not there.
    pub fn expires_at(&self) -> Option<Millis> {
        let key = self.key?;
        // SAFETY: the handle is open.
        let at = unsafe { api!(RedisModule_GetAbsExpire(key.as_ptr())) };
        u64::try_from(at).ok()
    }

    /// Lets the server remove the key at that moment. The key must be open for writing and hold something.
    pub fn expire_at(&mut self, at: Millis) {
        let Some(key) = self.key else { return };
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        // SAFETY: the handle is open.
        let status = unsafe { api!(RedisModule_SetAbsExpire(key.as_ptr(), at)) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
    }

    /// Removes the key. A large value is freed by a thread in the background. The key must be open for writing.
    pub fn unlink(&mut self) {
        // SAFETY: the handle is open.
        unsafe { api!(RedisModule_UnlinkKey(self.as_ptr())) };
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.filter(|_| !self.is_lent) {
            // SAFETY: the handle is open and ours, and is not used again.
            unsafe { api!(RedisModule_CloseKey(key.as_ptr())) }
        }
    }
}

/// The flags for looking without a trace that the server knows: all of them since Redis 7.2, before that one.
fn quiet_modes() -> u32 {
    let known = if has_api!(RedisModule_GetOpenKeyModesAll) {
        // SAFETY: takes no arguments.
        unsafe { api!(RedisModule_GetOpenKeyModesAll()) }.unsigned_abs()
    } else {
        raw::REDISMODULE_OPEN_KEY_NOTOUCH
    };
    known
        & (raw::REDISMODULE_OPEN_KEY_NOTOUCH
            | raw::REDISMODULE_OPEN_KEY_NONOTIFY
            | raw::REDISMODULE_OPEN_KEY_NOSTATS
            | raw::REDISMODULE_OPEN_KEY_NOEXPIRE)
}
