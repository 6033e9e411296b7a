//! The string in an open key.

use super::context::Context;
use super::key::{Access, Holds, Key, Writing};
use crate::model::time::Millis;
use redis_module::raw;
use std::ffi::c_int;
use std::slice;

/// An open key that holds a string, or nothing (which becomes a string when one is set).
pub struct Text<'k, A: Access> {
    key: Key<'k, A>,
    /// `None`: there is no string.
    len: Option<usize>,
}

impl<'k, A: Access> Text<'k, A> {
    /// `None` when the key holds something else.
    pub fn new(key: Key<'k, A>) -> Option<Text<'k, A>> {
        match key.holds() {
            Holds::Nothing => Some(Text { key, len: None }),
            Holds::String => {
                // SAFETY: the handle is open and holds a string.
                let len = unsafe { api!(RedisModule_ValueLength(key.handle.as_ptr())) };
                Some(Text { key, len: Some(len) })
            }
            _ => None,
        }
    }

    /// See [`Key::ctx`].
    pub fn ctx(&self) -> &Context {
        self.key.ctx()
    }

    /// See [`Key::expires_at`]. Redis 8.6 crashes when it is asked for the TTL of a missing key that is open for writing.
    pub fn expires_at(&self) -> Option<Millis> {
        self.len.and_then(|_| self.key.expires_at())
    }

    pub fn is_missing(&self) -> bool {
        self.len.is_none()
    }

    pub fn len(&self) -> Option<usize> {
        self.len
    }

    /// Shows the string, and the key's TTL on demand, to `look`: no bytes if the key is not there. The server keeps a short string in
    /// another encoding once it has been read. Its value stays the same.
    pub fn read<R>(&mut self, look: impl FnOnce(&[u8], &dyn Fn() -> Option<Millis>) -> R) -> R {
        let mut len = 0;
        let mode = raw::REDISMODULE_READ as c_int;
        let text: &[u8] = if self.is_missing() {
            &[]
        } else {
            // SAFETY: the handle is open and holds a string.
            let start = unsafe { api!(RedisModule_StringDMA(self.key.handle.as_ptr(), &raw mut len, mode)) };
            // SAFETY: the server says that `len` bytes stand there; nobody changes them while the key is borrowed.
            unsafe { slice::from_raw_parts(start.cast::<u8>(), len) }
        };
        look(text, &|| self.key.expires_at())
    }
}

impl<'k> Text<'k, Writing> {
    /// Sets the string. The key keeps its TTL if the length stays the same: then the string is written in place. Otherwise it is a new
    /// one, because the server reserves twice the memory for a string that grows.
    pub fn set(&mut self, bytes: &[u8]) {
        let key = self.key.writable();
        if self.len != Some(bytes.len()) {
            // SAFETY: the handle is open for writing; what it held is not looked at again.
            unsafe { api!(RedisModule_DeleteKey(key)) };
            // SAFETY: the handle is open for writing and holds nothing. The length is one that strings may have.
            let status = unsafe { api!(RedisModule_StringTruncate(key, bytes.len())) };
            debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
            self.len = Some(bytes.len());
        }
        self.set_part(0, bytes);
    }

    /// Writes `bytes` into the string, in place from `at` on. The string must be that long.
    pub fn set_part(&mut self, at: usize, bytes: &[u8]) {
        let (mut len, mode) = (0, raw::REDISMODULE_WRITE as c_int);
        // SAFETY: the handle is open for writing and holds a string.
        let start = unsafe { api!(RedisModule_StringDMA(self.key.writable(), &raw mut len, mode)) };
        assert!(!start.is_null() && self.len == Some(len), "the string has the length it was given");
        // SAFETY: the server lends `len` bytes to be written, until the next call on the key.
        let text = unsafe { slice::from_raw_parts_mut(start.cast::<u8>(), len) };
        text[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// See [`WriteKey::expire_at`](super::key::WriteKey::expire_at).
    pub fn expire_at(&mut self, at: Millis) {
        self.key.expire_at(at);
    }

    /// See [`WriteKey::close`](super::key::WriteKey::close).
    pub fn close(self) -> &'k mut Context {
        self.key.close()
    }

    /// See [`WriteKey::unlink`](super::key::WriteKey::unlink).
    pub fn unlink(self) -> &'k mut Context {
        self.key.unlink()
    }
}
