//! The string in an open key.

use super::key::{Key, KeyType, Mode, Writing};
use crate::base::time::Millis;
use redis_module::raw;
use std::ffi::c_int;
use std::slice;

/// An open key that holds a string, or a missing key that becomes a string with [`set`](StringValue::set).
pub struct StringValue<'k, M: Mode> {
    /// The open key. Callers use this field to get the context, to change the TTL, or to close the key.
    pub key: Key<'k, M>,
    is_missing: bool,
}

impl<'k, M: Mode> StringValue<'k, M> {
    /// Wraps an open key. Returns `None` if the key holds a value that is not a string.
    pub fn new(key: Key<'k, M>) -> Option<StringValue<'k, M>> {
        let key_type = key.key_type();
        matches!(key_type, KeyType::Empty | KeyType::String)
            .then_some(StringValue { key, is_missing: key_type == KeyType::Empty })
    }

    /// Returns the time at which the key expires, in Unix ms. `None` if the key has no TTL or is missing.
    pub fn expires_at(&self) -> Option<Millis> {
        if self.is_missing { None } else { self.key.handle.expires_at() }
    }

    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Returns the string, or `None` if the key is missing. As a side effect, the server may store a short string in
    /// another encoding. The value stays the same.
    pub fn bytes(&mut self) -> Option<&[u8]> {
        if self.is_missing {
            return None;
        }
        let (mut len, mode) = (0, raw::REDISMODULE_READ as c_int);
        // SAFETY: the handle is open and holds a string.
        let start = unsafe { api!(RedisModule_StringDMA(self.key.handle.as_ptr(), &raw mut len, mode)) };
        // SAFETY: the server guarantees `len` bytes, which do not change while the key is borrowed.
        Some(unsafe { slice::from_raw_parts(start.cast::<u8>(), len) })
    }
}

impl StringValue<'_, Writing> {
    /// Sets the string. If the length stays the same, the bytes are written in place and the key keeps its TTL.
    /// Otherwise a new string replaces the old one, because the server would reserve twice the memory for a string that
    /// grows. Returns whether the key keeps its TTL.
    pub fn set(&mut self, bytes: &[u8]) -> bool {
        let key = self.key.writable();
        // SAFETY: the handle is open. The length of a missing key is 0.
        let fits = !self.is_missing && unsafe { api!(RedisModule_ValueLength(key)) } == bytes.len();
        if !fits {
            // SAFETY: the handle is open for writing. The old value is not used again.
            unsafe { api!(RedisModule_DeleteKey(key)) };
            // SAFETY: the handle is open for writing and holds nothing. The length is valid for a string.
            let status = unsafe { api!(RedisModule_StringTruncate(key, bytes.len())) };
            debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
            self.is_missing = false;
        }
        self.set_part(0, bytes);
        fits
    }

    /// Overwrites the string with `bytes` from `at` on. Panics if the string is too short.
    pub fn set_part(&mut self, at: usize, bytes: &[u8]) {
        let (mut len, mode) = (0, raw::REDISMODULE_WRITE as c_int);
        // SAFETY: the handle is open for writing and holds a string.
        let start = unsafe { api!(RedisModule_StringDMA(self.key.writable(), &raw mut len, mode)) };
        assert!(!start.is_null(), "the key holds a string");
        // SAFETY: the server lends `len` bytes for writing, until the next call on the key.
        let text = unsafe { slice::from_raw_parts_mut(start.cast::<u8>(), len) };
        text[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
