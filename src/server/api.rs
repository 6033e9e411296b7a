//! Calls of the module API, and structures that the server passes. When the server loads the module, it sets a pointer
//! to each function of the API.

use std::ffi::c_void;
use std::ptr::NonNull;

/// Calls a function of the module API. The caller says in a SAFETY comment why the arguments are valid.
///
/// The server sets the pointers once, before any of our code runs. [`missing`] checks that the server has set the
/// pointers of all required functions.
macro_rules! api {
    ($name:ident($($argument:expr),* $(,)?)) => {
        (redis_module::raw::$name.expect(concat!("the server lacks ", stringify!($name))))($($argument),*)
    };
}

/// Whether the server has this function of the module API.
macro_rules! has_api {
    ($name:ident) => {{
        // SAFETY: the pointer is read by value. The server wrote it before the module ran and does not write it again.
        unsafe { redis_module::raw::$name }.is_some()
    }};
}

/// Returns the name of a required API function that the server lacks. Only the newest required function is checked,
/// because a server that has it has all required functions: Redis from 7.0.5 on, and every Valkey.
pub fn missing() -> Option<&'static str> {
    (!has_api!(RedisModule_GetAbsExpire)).then_some("RedisModule_GetAbsExpire")
}

/// Returns the structure that comes with an event. Returns `None` if the server passes no structure, or a structure of
/// an unknown version.
///
/// # Safety
/// `data` must be null or the structure of an event, valid for `'a`. Version 1 of that structure must be a `T`.
pub(super) unsafe fn details<'a, T>(data: *const c_void) -> Option<&'a T> {
    let data = NonNull::new(data.cast_mut())?;
    // SAFETY: every such structure begins with its version.
    let version = unsafe { data.cast::<u64>().read() };
    // SAFETY: the caller guarantees it.
    (version == 1).then(|| unsafe { data.cast::<T>().as_ref() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_module::raw::RedisModuleFlushInfo;
    use std::ptr::null;

    #[test]
    fn only_structures_of_a_known_layout_are_read() {
        for (version, is_known) in [(0, false), (1, true), (2, false)] {
            let info = RedisModuleFlushInfo { version, sync: 0, dbnum: 7 };
            // SAFETY: version 1 has this layout.
            let read = unsafe { details::<RedisModuleFlushInfo>((&raw const info).cast()) };
            assert_eq!(read.map(|info| info.dbnum), is_known.then_some(7));
        }
        // SAFETY: null is allowed.
        assert!(unsafe { details::<RedisModuleFlushInfo>(null()) }.is_none());
    }
}
