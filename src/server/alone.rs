//! For unit tests that make strings: the server's functions for them, without a server, on blocks of the test's own.

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};
use std::ffi::c_char;
use std::slice;
use std::sync::Once;

static ONCE: Once = Once::new();

/// To be called first by a test that makes strings.
pub fn without_a_server() {
    ONCE.call_once(|| {
        // SAFETY: written once, and before any string is made: whoever makes one has called this.
        unsafe { raw::RedisModule_CreateString = Some(create) };
        // SAFETY: as above.
        unsafe { raw::RedisModule_StringPtrLen = Some(bytes) };
        // SAFETY: as above.
        unsafe { raw::RedisModule_FreeString = Some(free) };
    });
}

unsafe extern "C" fn create(_: *mut RedisModuleCtx, start: *const c_char, len: usize) -> *mut RedisModuleString {
    // SAFETY: the caller vouches for the bytes.
    let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), len) };
    Box::into_raw(Box::new(bytes.to_vec())).cast()
}

unsafe extern "C" fn bytes(string: *const RedisModuleString, len: *mut usize) -> *const c_char {
    // SAFETY: every string comes from `create`.
    let bytes = unsafe { &*string.cast::<Vec<u8>>() };
    // SAFETY: the caller has room for the length.
    unsafe { *len = bytes.len() };
    bytes.as_ptr().cast()
}

unsafe extern "C" fn free(_: *mut RedisModuleCtx, string: *mut RedisModuleString) {
    // SAFETY: it comes from `create`, and is freed once.
    drop(unsafe { Box::from_raw(string.cast::<Vec<u8>>()) });
}
