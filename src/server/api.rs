//! Calls of the module API. The server fills in a function pointer for each function when it loads the module.

/// Calls a function of the module API. The caller wraps the call in `unsafe` and says in a comment why the arguments are valid.
///
/// The server sets the pointers once, before any of our code runs. [`missing`] checks that the server has set the
/// pointers of all required functions.
macro_rules! api {
    ($name:ident($($argument:expr),* $(,)?)) => {
        (redis_module::raw::$name.expect(concat!("the server lacks ", stringify!($name))))($($argument),*)
    };
}

/// Whether the server has a function that some supported servers lack.
macro_rules! has_api {
    ($name:ident) => {{
        // SAFETY: the pointer is read by value. The server wrote it before the module ran and does not write it again.
        unsafe { redis_module::raw::$name }.is_some()
    }};
}

/// Returns the name of a required function that the server lacks, if any. Redis from 7.0.5 and every Valkey have all of
/// them.
pub fn missing() -> Option<&'static str> {
    [
        ("RedisModule_SetCommandInfo", has_api!(RedisModule_SetCommandInfo)),
        ("RedisModule_GetAbsExpire", has_api!(RedisModule_GetAbsExpire)),
        ("RedisModule_SetAbsExpire", has_api!(RedisModule_SetAbsExpire)),
        ("RedisModule_ReplyWithMap", has_api!(RedisModule_ReplyWithMap)),
    ]
    .into_iter()
    .find_map(|(name, present)| (!present).then_some(name))
}
