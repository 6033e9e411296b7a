//! Replacements for the server's string functions, for unit tests that create strings without a server.

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};
use std::ffi::c_char;
use std::slice;
use std::sync::Once;

static ONCE: Once = Once::new();

/// Replaces the server's string functions. A test that creates strings calls this function first.
pub fn without_a_server() {
    ONCE.call_once(|| {
        // SAFETY: written once, before any string exists: every test that creates a string calls this function first.
        unsafe { raw::RedisModule_CreateString = Some(create) };
        // SAFETY: as above.
        unsafe { raw::RedisModule_StringPtrLen = Some(bytes) };
        // SAFETY: as above.
        unsafe { raw::RedisModule_FreeString = Some(free) };
    });
}

unsafe extern "C" fn create(_: *mut RedisModuleCtx, start: *const c_char, len: usize) -> *mut RedisModuleString {
    // SAFETY: the caller guarantees that the bytes are valid.
    let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), len) };
    Box::into_raw(Box::new(bytes.to_vec())).cast()
}

unsafe extern "C" fn bytes(string: *const RedisModuleString, len: *mut usize) -> *const c_char {
    // SAFETY: every string comes from `create`.
    let bytes = unsafe { &*string.cast::<Vec<u8>>() };
    // SAFETY: the caller passes a valid pointer to the length.
    unsafe { *len = bytes.len() };
    bytes.as_ptr().cast()
}

unsafe extern "C" fn free(_: *mut RedisModuleCtx, string: *mut RedisModuleString) {
    // SAFETY: the string comes from `create` and is freed once.
    drop(unsafe { Box::from_raw(string.cast::<Vec<u8>>()) });
}
