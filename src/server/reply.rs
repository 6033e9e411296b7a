//! Replies to the client.

use super::context::Context;
use super::panic::{catch_panic, note_irreversible};
use super::string::Str;
use crate::error::Error;
use redis_module::raw::{self, RedisModuleCtx};
use std::ffi::c_long;

impl Context {
    /// Runs a function that replies. If the function panics, the client gets an error.
    pub(super) fn replying(&mut self, run: impl FnOnce(&mut Context)) {
        if catch_panic(|| run(self)).is_none() {
            self.reply_error(Error::Internal);
        }
    }

    /// Returns the context for a call that replies. Notes that the reply has begun, so that a later panic ends the
    /// server.
    fn reply(&self) -> *mut RedisModuleCtx {
        note_irreversible();
        self.as_ptr()
    }

    pub fn reply_integer(&self, value: i64) {
        // SAFETY: the context is that of the command under way.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.reply(), value)) };
    }

    /// Replies with a number that cannot be negative, such as a count or a time.
    pub fn reply_count(&self, value: u64) {
        self.reply_integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub fn reply_bool(&self, value: bool) {
        self.reply_integer(i64::from(value));
    }

    pub fn reply_null(&self) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithNull(self.reply())) };
    }

    /// Replies with a null in place of an array.
    pub fn reply_null_array(&self) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithNullArray(self.reply())) };
    }

    /// Replies with a double, in RESP2 as a string.
    pub fn reply_double(&self, value: f64) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithDouble(self.reply(), value)) };
    }

    pub fn reply_string(&self, value: Str<'_>) {
        // SAFETY: as above, and the string is valid.
        unsafe { api!(RedisModule_ReplyWithString(self.reply(), value.as_ptr())) };
    }

    pub fn reply_bytes(&self, value: &[u8]) {
        // SAFETY: as above. The bytes are copied.
        unsafe { api!(RedisModule_ReplyWithStringBuffer(self.reply(), value.as_ptr().cast(), value.len())) };
    }

    pub fn reply_ok(&self) {
        // SAFETY: as above, and the text is a NUL-terminated constant.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.reply(), c"OK".as_ptr())) };
    }

    /// Begins a map of `length` pairs (in RESP2 a flat array). The caller then replies with the keys and values.
    pub fn reply_map(&self, length: usize) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithMap(self.reply(), length as c_long)) };
    }

    /// Begins an array of `length` elements. The caller then replies with the elements.
    pub fn reply_array(&self, length: usize) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithArray(self.reply(), length as c_long)) };
    }

    pub fn reply_integers(&self, values: &[i64]) {
        self.reply_array(values.len());
        values.iter().for_each(|&value| self.reply_integer(value));
    }

    /// Begins a set of `length` elements (in RESP2 an array). The caller then replies with the elements.
    pub fn reply_set(&self, length: usize) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithSet(self.reply(), length as c_long)) };
    }

    /// Replies with an array whose length is not known in advance. For each item, `each` must reply with `parts`
    /// elements of the array.
    pub fn reply_items<T>(&self, parts: usize, items: impl Iterator<Item = T>, mut each: impl FnMut(&Context, T)) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithArray(self.reply(), c_long::from(raw::REDISMODULE_POSTPONED_LEN))) };
        let mut length = 0;
        for item in items {
            length += parts as c_long;
            each(self, item);
        }
        // SAFETY: this array is the innermost one of postponed length: an array begun later is already finished.
        unsafe { api!(RedisModule_ReplySetArrayLength(self.as_ptr(), length)) };
    }

    pub fn reply_error(&self, error: Error) {
        // SAFETY: as above, and the text is a NUL-terminated constant.
        unsafe {
            match error {
                Error::Arity => api!(RedisModule_WrongArity(self.reply())),
                other => api!(RedisModule_ReplyWithError(self.reply(), other.text().as_ptr())),
            }
        };
    }
}
