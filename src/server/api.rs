//! How a function of the module API is called: by a pointer that the server filled in when it loaded the module.

/// Calls a function of the module API. To be used inside `unsafe`, whose comment says why the arguments are right.
///
/// The pointers are set once, before any of our code runs; [`missing`] names those that every supported server has.
macro_rules! api {
    ($name:ident($($argument:expr),* $(,)?)) => {
        (redis_module::raw::$name.expect(concat!("the server lacks ", stringify!($name))))($($argument),*)
    };
}

/// Whether the server has a function that not every supported one has.
macro_rules! has_api {
    ($name:ident) => {{
        // SAFETY: the pointer is read by value; the server wrote it before the module ran, and nobody writes it again.
        unsafe { redis_module::raw::$name }.is_some()
    }};
}

/// The name of a function that we cannot do without and the server does not have. `None` on Redis from 7.0.5 on and on
/// every Valkey.
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
