//! A key, opened: its type and its time-to-live.
//!
//! A key is opened for [`Reading`] or for [`Writing`], and what only a key open for writing may do is there only for that one. One
//! key is open at a time: it borrows the context ([`super::context`]). So nothing runs meanwhile that could free what it holds,
//! and nobody else has a reference into it. [`WriteKey::close`] gives the context back.

use super::context::Context;
use super::string::Str;
use crate::model::time::Millis;
use redis_module::raw::{self, RedisModuleKey};
use std::ffi::c_int;
use std::ptr::NonNull;

/// What a key is opened for: [`Reading`] or [`Writing`].
pub trait Access: 'static {
    const WRITES: bool;

    /// How an open key keeps the context.
    type Keeps<'k>;

    fn keep(ctx: &mut Context) -> Self::Keeps<'_>;

    fn context<'s>(kept: &'s Self::Keeps<'_>) -> &'s Context;
}

pub enum Reading {}

impl Access for Reading {
    const WRITES: bool = false;

    type Keeps<'k> = &'k Context;

    fn keep(ctx: &mut Context) -> &Context {
        ctx
    }

    fn context<'s>(kept: &'s &Context) -> &'s Context {
        kept
    }
}

/// Opening for writing alone signals nothing to WATCH or to client-side caching: we told the server that we signal changes
/// ourselves ([`super::command::set_options`]).
pub enum Writing {}

impl Access for Writing {
    const WRITES: bool = true;

    type Keeps<'k> = &'k mut Context;

    fn keep(ctx: &mut Context) -> &mut Context {
        ctx
    }

    fn context<'s>(kept: &'s &mut Context) -> &'s Context {
        kept
    }
}

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Nothing,
    SortedSet,
    String,
    SomethingElse,
}

/// The server's handle of an open key; closed when dropped.
pub(super) struct Handle {
    /// `None`: opened for reading and not there.
    key: Option<NonNull<RedisModuleKey>>,
    is_lent: bool,
}

impl Handle {
    /// The handle, or null where the key is not there: every function of the API that reads takes that for an empty key.
    pub fn as_ptr(&self) -> *mut RedisModuleKey {
        self.key.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    pub fn holds(&self) -> Holds {
        // SAFETY: the handle is open, or null, which means an empty key.
        let kind = unsafe { api!(RedisModule_KeyType(self.as_ptr())) } as isize;
        match kind {
            raw::REDISMODULE_KEYTYPE_EMPTY => Holds::Nothing,
            raw::REDISMODULE_KEYTYPE_ZSET => Holds::SortedSet,
            raw::REDISMODULE_KEYTYPE_STRING => Holds::String,
            _ => Holds::SomethingElse,
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(key) = self.key.filter(|_| !self.is_lent) {
            // SAFETY: the handle is open and ours, and is not used again.
            unsafe { api!(RedisModule_CloseKey(key.as_ptr())) }
        }
    }
}

/// An open key, closed when dropped.
pub struct Key<'k, A: Access> {
    // In front of the context: the key is closed before the context is free again.
    pub(super) handle: Handle,
    pub(super) kept: A::Keeps<'k>,
}

pub type ReadKey<'k> = Key<'k, Reading>;
pub type WriteKey<'k> = Key<'k, Writing>;

impl<'k, A: Access> Key<'k, A> {
    pub fn open(ctx: &'k mut Context, name: Str<'_>) -> Key<'k, A> {
        let mode = if A::WRITES { raw::REDISMODULE_READ | raw::REDISMODULE_WRITE } else { raw::REDISMODULE_READ };
        Key::open_in(ctx, name, mode)
    }

    fn open_in(ctx: &'k mut Context, name: Str<'_>, mode: u32) -> Key<'k, A> {
        // SAFETY: context and name are valid; the server takes its own reference to the name.
        let key = unsafe { api!(RedisModule_OpenKey(ctx.as_ptr(), name.as_ptr(), mode as c_int)) };
        Key { handle: Handle { key: NonNull::new(key.cast()), is_lent: false }, kept: A::keep(ctx) }
    }

    /// What of the context does no harm to an open key.
    pub fn ctx(&self) -> &Context {
        A::context(&self.kept)
    }

    pub fn holds(&self) -> Holds {
        self.handle.holds()
    }

    /// The number of the database the key is in. `None`: opened for reading and not there.
    pub fn database(&self) -> Option<i32> {
        let key = self.handle.key?;
        // SAFETY: the handle is open.
        Some(unsafe { api!(RedisModule_GetDbIdFromModuleKey(key.as_ptr())) })
    }

    /// When the server removes the key: Unix ms. `None`: never, or the key is not there.
    pub fn expires_at(&self) -> Option<Millis> {
        let key = self.handle.key?;
        // SAFETY: the handle is open.
        let at = unsafe { api!(RedisModule_GetAbsExpire(key.as_ptr())) };
        u64::try_from(at).ok()
    }
}

impl<'k> ReadKey<'k> {
    /// Opens a key to look without a trace: its age for eviction stays as it is, and where the server can, so do its statistics.
    pub fn glance(ctx: &'k mut Context, name: Str<'_>) -> ReadKey<'k> {
        Key::open_in(ctx, name, raw::REDISMODULE_READ | quiet_modes())
    }

    /// A key that the server has opened for us and closes itself.
    ///
    /// # Safety
    /// `key` must be an open handle, or null, and stay open for `'k`.
    pub(super) unsafe fn lent(ctx: &'k Context, key: *mut RedisModuleKey) -> ReadKey<'k> {
        Key { handle: Handle { key: NonNull::new(key), is_lent: true }, kept: ctx }
    }

    /// As [`ctx`](Key::ctx), for as long as the context is borrowed by the key, even while that is being read.
    pub fn shared_ctx(&self) -> &'k Context {
        self.kept
    }
}

impl<'k> WriteKey<'k> {
    /// The handle: a key that is opened for writing has one, even if it holds nothing.
    pub(super) fn writable(&mut self) -> *mut RedisModuleKey {
        self.handle.key.expect("the server opens any key for writing").as_ptr()
    }

    /// Lets the server remove the key at that moment. The key must hold something.
    pub fn expire_at(&mut self, at: Millis) {
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        // SAFETY: the handle is open for writing.
        let status = unsafe { api!(RedisModule_SetAbsExpire(self.writable(), at)) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
    }

    /// Lets the key stay for good. The key must hold something.
    pub fn persist(&mut self) {
        // SAFETY: as above.
        let status = unsafe { api!(RedisModule_SetAbsExpire(self.writable(), raw::REDISMODULE_NO_EXPIRE.into())) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
    }

    /// Closes the key, and gives back the context it was opened with.
    pub fn close(self) -> &'k mut Context {
        self.kept
    }

    /// Removes the key, and closes it. A large value is freed by a thread in the background.
    pub fn unlink(mut self) -> &'k mut Context {
        // SAFETY: the handle is open for writing; what it held is not looked at again.
        unsafe { api!(RedisModule_UnlinkKey(self.writable())) };
        self.close()
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
