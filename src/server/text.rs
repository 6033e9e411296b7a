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

    /// See [`Key::expires_at`].
    pub fn expires_at(&self) -> Option<Millis> {
        self.key.expires_at()
    }

    pub fn is_missing(&self) -> bool {
        self.len.is_none()
    }

    /// Shows the string, and the key's TTL on demand, to `look` if it has at most `longest` bytes. `None` if it is longer, or the key
    /// is not there. The server keeps a short string in another form once it has been looked at; what it says stays the same.
    pub fn read<R>(&mut self, longest: usize, look: impl FnOnce(&[u8], &dyn Fn() -> Option<Millis>) -> R) -> Option<R> {
        self.len.filter(|&len| len <= longest)?;
        let mut len = 0;
        let mode = raw::REDISMODULE_READ as c_int;
        // SAFETY: the handle is open and holds a string.
        let start = unsafe { api!(RedisModule_StringDMA(self.key.handle.as_ptr(), &raw mut len, mode)) };
        // SAFETY: the server says that `len` bytes stand there; nobody changes them while the key is borrowed.
        let text = unsafe { slice::from_raw_parts(start.cast::<u8>(), len) };
        Some(look(text, &|| self.key.expires_at()))
    }
}

impl<'k> Text<'k, Writing> {
    /// Sets the string, in place where its length stays the same. The key keeps its TTL.
    pub fn set(&mut self, bytes: &[u8]) {
        let key = self.key.writable();
        if self.len != Some(bytes.len()) {
            // SAFETY: the handle is open for writing and holds a string or nothing. The length is one that strings may have.
            let status = unsafe { api!(RedisModule_StringTruncate(key, bytes.len())) };
            debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
            self.len = Some(bytes.len());
        }
        let (mut len, mode) = (0, raw::REDISMODULE_WRITE as c_int);
        // SAFETY: the handle is open for writing and holds a string.
        let start = unsafe { api!(RedisModule_StringDMA(key, &raw mut len, mode)) };
        assert!(!start.is_null() && len == bytes.len(), "the string has the length it was given");
        // SAFETY: the server lends `len` bytes to be written, until the next call on the key.
        unsafe { slice::from_raw_parts_mut(start.cast::<u8>(), len) }.copy_from_slice(bytes);
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
