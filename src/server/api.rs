//! Calls of the module API. The server fills in a function pointer for each function when it loads the module.

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

/// Returns the name of the newest required function, if the server lacks this function. Redis from 7.0.5 on and
/// every Valkey have it.
pub fn missing() -> Option<&'static str> {
    (!has_api!(RedisModule_GetAbsExpire)).then_some("RedisModule_GetAbsExpire")
}
