//! An open key, its type and its TTL.
//!
//! A key is opened for [`Reading`] or for [`Writing`], and only a key open for writing has the methods that change it.
//! An open key borrows the context ([`super::context`]), so one key is open at a time. While a key is open, no other
//! code can free its value, and no other reference into the value exists. [`WriteKey::close`] returns the context.

use super::context::Context;
use super::panic::note_irreversible;
use super::string::Str;
use crate::base::time::Millis;
use redis_module::raw::{self, RedisModuleKey};
use std::ffi::c_int;
use std::ops::Deref;
use std::ptr::NonNull;

/// The mode of an open key: [`Reading`] or [`Writing`].
pub trait Mode: 'static {
    const WRITES: bool;

    /// A reference to the context. A key open for reading keeps a shared reference, a key open for writing an exclusive
    /// one.
    type Keeps<'k>: Deref<Target = Context>;

    fn keep(ctx: &mut Context) -> Self::Keeps<'_>;
}

pub enum Reading {}

impl Mode for Reading {
    const WRITES: bool = false;

    type Keeps<'k> = &'k Context;

    fn keep(ctx: &mut Context) -> &Context {
        ctx
    }
}

/// A key open in this mode can be read and changed. The module, not the server, signals the change to WATCH and
/// client-side caching ([`super::register::set_options`]).
pub enum Writing {}

impl Mode for Writing {
    const WRITES: bool = true;

    type Keeps<'k> = &'k mut Context;

    fn keep(ctx: &mut Context) -> &mut Context {
        ctx
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    Empty,
    SortedSet,
    String,
    Other,
}

/// The server's handle of an open key, closed when dropped.
pub(super) struct KeyHandle {
    /// `None` if a missing key was opened for reading.
    key: Option<NonNull<RedisModuleKey>>,
    is_lent: bool,
}

impl KeyHandle {
    /// Returns the handle, or null for a missing key. Every reading function of the API accepts null as an empty key.
    pub fn as_ptr(&self) -> *mut RedisModuleKey {
        self.key.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    pub fn key_type(&self) -> KeyType {
        // SAFETY: the handle is open, or null for a missing key.
        let kind = unsafe { api!(RedisModule_KeyType(self.as_ptr())) } as isize;
        match kind {
            raw::REDISMODULE_KEYTYPE_EMPTY => KeyType::Empty,
            raw::REDISMODULE_KEYTYPE_ZSET => KeyType::SortedSet,
            raw::REDISMODULE_KEYTYPE_STRING => KeyType::String,
            _ => KeyType::Other,
        }
    }

    /// Returns the time at which the key expires, in Unix ms. `None` if the key has no TTL.
    ///
    /// If the key is open for writing, it must exist: Redis 8.6 crashes otherwise. So commands get the time from
    /// [`Text`](super::text::Text) and [`SortedSet`](super::zset::SortedSet), which check that the key exists.
    pub fn expires_at(&self) -> Option<Millis> {
        let key = self.key?;
        // SAFETY: the handle is open.
        let at = unsafe { api!(RedisModule_GetAbsExpire(key.as_ptr())) };
        u64::try_from(at).ok()
    }
}

impl Drop for KeyHandle {
    fn drop(&mut self) {
        if let Some(key) = self.key.filter(|_| !self.is_lent) {
            // SAFETY: the handle is open. The module owns it and does not use it again.
            unsafe { api!(RedisModule_CloseKey(key.as_ptr())) }
        }
    }
}

/// An open key, closed when dropped.
pub struct Key<'k, M: Mode> {
    // The handle is declared before the context, so that the key is closed before the context is released.
    pub(super) handle: KeyHandle,
    pub(super) kept: M::Keeps<'k>,
}

pub type ReadKey<'k> = Key<'k, Reading>;
pub type WriteKey<'k> = Key<'k, Writing>;

impl<'k, M: Mode> Key<'k, M> {
    pub fn open(ctx: &'k mut Context, name: Str<'_>) -> Key<'k, M> {
        Key::open_in(ctx, name, 0)
    }

    /// Opens a key without changing its LRU or LFU data. If the server supports NOSTATS, counts no hit and no miss.
    pub fn open_notouch(ctx: &'k mut Context, name: Str<'_>) -> Key<'k, M> {
        Key::open_in(ctx, name, quiet_modes())
    }

    fn open_in(ctx: &'k mut Context, name: Str<'_>, modes: u32) -> Key<'k, M> {
        // tests/server/panics.rs makes a debug build panic here.
        debug_assert!(name.bytes() != b"zeitset:panic:before", "as ordered: %s%n");
        let write = if M::WRITES { raw::REDISMODULE_WRITE } else { 0 };
        let mode = raw::REDISMODULE_READ | write | modes;
        // SAFETY: context and name are valid. The server takes its own reference to the name.
        let key = unsafe { api!(RedisModule_OpenKey(ctx.as_ptr(), name.as_ptr(), mode as c_int)) };
        Key { handle: KeyHandle { key: NonNull::new(key.cast()), is_lent: false }, kept: M::keep(ctx) }
    }

    /// Returns the context, for calls that are safe while a key is open.
    pub fn ctx(&self) -> &Context {
        &self.kept
    }

    pub fn key_type(&self) -> KeyType {
        self.handle.key_type()
    }

    /// Returns the key's database. `None` if a missing key was opened for reading.
    pub fn database(&self) -> Option<i32> {
        let key = self.handle.key?;
        // SAFETY: the handle is open.
        Some(unsafe { api!(RedisModule_GetDbIdFromModuleKey(key.as_ptr())) })
    }
}

impl<'k> ReadKey<'k> {
    /// Wraps a key that the server has opened, and that the server will close.
    ///
    /// # Safety
    /// `key` must be an open handle or null, and stay open for `'k`.
    pub(super) unsafe fn lent(ctx: &'k Context, key: *mut RedisModuleKey) -> ReadKey<'k> {
        Key { handle: KeyHandle { key: NonNull::new(key), is_lent: true }, kept: ctx }
    }

    /// Returns the context, like [`ctx`](Key::ctx). The returned reference may outlive this key.
    pub fn shared_ctx(&self) -> &'k Context {
        self.kept
    }
}

impl<'k> WriteKey<'k> {
    /// Returns the handle for changing the key. If a missing key is opened for writing, it has a handle, too.
    pub(super) fn writable(&mut self) -> *mut RedisModuleKey {
        note_irreversible();
        self.handle.key.expect("the server opens any key for writing").as_ptr()
    }

    /// Sets the time at which the key expires. The key must exist.
    pub fn expire_at(&mut self, at: Millis) {
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        // SAFETY: the handle is open for writing.
        let status = unsafe { api!(RedisModule_SetAbsExpire(self.writable(), at)) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
    }

    /// Removes the key's TTL. The key must exist.
    pub fn persist(&mut self) {
        // SAFETY: as above.
        let status = unsafe { api!(RedisModule_SetAbsExpire(self.writable(), raw::REDISMODULE_NO_EXPIRE.into())) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
    }

    /// Closes the key and returns its context.
    pub fn close(self) -> &'k mut Context {
        self.kept
    }

    /// Removes the key and closes it. A background thread frees a large value.
    pub fn unlink(mut self) -> &'k mut Context {
        // SAFETY: the handle is open for writing. The removed value is not used again.
        unsafe { api!(RedisModule_UnlinkKey(self.writable())) };
        self.close()
    }
}

/// Returns the flags for opening a key without side effects, as far as this server supports them. Redis from 7.2
/// supports all these flags. Earlier versions support only `NOTOUCH`.
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
