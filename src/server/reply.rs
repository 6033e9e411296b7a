//! Replies, written straight to the client.
//!
//! How many are still owed is counted, so that a panic amid a reply can end it in good order: what is missing of it becomes an
//! error and nulls (in a script: nulls). A reply cut short would have the client, or the script, take the next one for the rest of this.

use super::context::Context;
use super::panic::enter_module;
use super::string::Str;
use crate::error::Error;
use redis_module::raw;
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Replies owed to the client of the call under way; an array of n elements pays one and owes n more. Used by one thread only,
/// the server's main one.
static OWED: AtomicI64 = AtomicI64::new(0);

/// Whether something of the reply under way has gone out.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

fn owe_elements(more: i64) {
    HAS_BEGUN.store(true, Ordering::Relaxed);
    OWED.store(OWED.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// The client of the call under way has been blocked, and gets its reply later.
pub(super) fn owe_nothing() {
    OWED.store(0, Ordering::Relaxed);
}

impl Context {
    /// Enters what replies once, or not at all. `None` if it panicked: the client has then got an error.
    pub(super) fn replying<R>(&mut self, place: &'static str, run: impl FnOnce(&mut Context) -> R) -> Option<R> {
        // Calls nest where those who listen for events call commands of the module.
        let outer = OWED.swap(1, Ordering::Relaxed);
        let outer_has_begun = HAS_BEGUN.swap(false, Ordering::Relaxed);
        let result = enter_module(place, || run(self));
        if result.is_none() {
            // The scripts of Valkey 9.1 do not get over an error within an array: no later script can call anything.
            let takes_error = !(HAS_BEGUN.load(Ordering::Relaxed) && self.is_in_script());
            if OWED.load(Ordering::Relaxed) > 0 && takes_error {
                self.reply_error(Error::Internal);
            }
            while OWED.load(Ordering::Relaxed) > 0 {
                self.reply_null();
            }
        }
        debug_assert!(matches!(OWED.load(Ordering::Relaxed), 0 | 1), "a reply has too few parts, or too many");
        OWED.store(outer, Ordering::Relaxed);
        HAS_BEGUN.store(outer_has_begun, Ordering::Relaxed);
        result
    }

    pub fn reply_integer(&self, value: i64) {
        owe_elements(-1);
        // SAFETY: the context is that of the command under way.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.as_ptr(), value)) };
    }

    /// A count, or a moment, or anything else that cannot be negative.
    pub fn reply_count(&self, value: u64) {
        self.reply_integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub fn reply_bool(&self, value: bool) {
        self.reply_integer(i64::from(value));
    }

    pub fn reply_null(&self) {
        owe_elements(-1);
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithNull(self.as_ptr())) };
    }

    /// A null where an array would stand.
    pub fn reply_null_array(&self) {
        owe_elements(-1);
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithNullArray(self.as_ptr())) };
    }

    /// A double in RESP3. In RESP2 a string, which older servers write with more digits than are needed.
    pub fn reply_double(&self, value: f64) {
        owe_elements(-1);
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithDouble(self.as_ptr(), value)) };
    }

    pub fn reply_string(&self, value: Str<'_>) {
        owe_elements(-1);
        // SAFETY: as above, and the string is valid.
        unsafe { api!(RedisModule_ReplyWithString(self.as_ptr(), value.as_ptr())) };
    }

    pub fn reply_bytes(&self, value: &[u8]) {
        owe_elements(-1);
        // SAFETY: as above; the bytes are copied.
        unsafe { api!(RedisModule_ReplyWithStringBuffer(self.as_ptr(), value.as_ptr().cast(), value.len())) };
    }

    /// `+OK`.
    pub fn reply_ok(&self) {
        owe_elements(-1);
        // SAFETY: as above, and the text is a NUL-terminated constant.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.as_ptr(), c"OK".as_ptr())) };
    }

    /// The head of a map (in RESP2 a flat array) of `length` pairs, which have to follow.
    pub fn reply_map(&self, length: usize) {
        owe_elements(2 * length as i64 - 1);
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithMap(self.as_ptr(), length as c_long)) };
    }

    /// The head of an array of `length` replies, which have to follow.
    pub fn reply_array(&self, length: usize) {
        owe_elements(length as i64 - 1);
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithArray(self.as_ptr(), length as c_long)) };
    }

    pub fn reply_integers(&self, values: &[i64]) {
        self.reply_array(values.len());
        values.iter().for_each(|&value| self.reply_integer(value));
    }

    /// The head of a set (in RESP2 an array) of `length` replies, which have to follow.
    pub fn reply_set(&self, length: usize) {
        owe_elements(length as i64 - 1);
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithSet(self.as_ptr(), length as c_long)) };
    }

    /// An array of as many items as there are, which is known when the last one has been replied. Each is replied by `each`, as `parts`
    /// elements of the array.
    pub fn reply_items<T>(&self, parts: usize, items: impl Iterator<Item = T>, mut each: impl FnMut(&Context, T)) {
        owe_elements(-1);
        // SAFETY: as above.
        unsafe { api!(RedisModule_ReplyWithArray(self.as_ptr(), c_long::from(raw::REDISMODULE_POSTPONED_LEN))) };
        let mut array = GrowingArray { ctx: self, length: 0 };
        for item in items {
            owe_elements(parts as i64);
            array.length += parts as c_long;
            each(self, item);
        }
    }

    pub fn reply_error(&self, error: Error) {
        owe_elements(-1);
        // SAFETY: as above, and the text is a NUL-terminated constant.
        unsafe {
            match error {
                Error::Arity => api!(RedisModule_WrongArity(self.as_ptr())),
                other => api!(RedisModule_ReplyWithError(self.as_ptr(), other.text().as_ptr())),
            }
        };
    }
}

/// An array under way, within one call of [`Context::reply_items`].
struct GrowingArray<'a> {
    ctx: &'a Context,
    length: c_long,
}

impl Drop for GrowingArray<'_> {
    fn drop(&mut self) {
        // SAFETY: this array is the innermost one of postponed length: one that was begun later has ended with the call that began it.
        unsafe { api!(RedisModule_ReplySetArrayLength(self.ctx.as_ptr(), self.length)) }
    }
}
