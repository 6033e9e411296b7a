//! The two entries by which the server loads and unloads the module ([`entries!`]).
//!
//! The `redis-module` crate has a macro for them. What it makes also warns, at every start on servers that know no defrag
//! callbacks, that it skips those, of which this module has none.

use super::context::Context;
use super::panic::survive;
use super::string::Str;
use redis_module::raw;
pub use redis_module::raw::{RedisModuleCtx, RedisModuleString};
pub use std::ffi::c_int;
use std::ffi::{CStr, c_char};

/// What the server loads.
pub trait Module {
    const NAME: &'static CStr;
    /// As MODULE LIST shows it.
    const VERSION: c_int;

    /// Makes everything known to the server. `arguments` are those of `loadmodule`.
    fn load(ctx: &mut Context, arguments: &[Str<'_>]) -> Result<(), String>;

    fn unload(ctx: &mut Context);
}

/// Makes the entries, which the server finds by their names.
macro_rules! entries {
    ($module:ty) => {
        #[allow(unsafe_code, non_snake_case, reason = "the names are the server's")]
        mod entries {
            use $crate::server::module::{self, RedisModuleCtx, RedisModuleString, c_int};

            #[unsafe(no_mangle)]
            unsafe extern "C" fn RedisModule_OnLoad(
                ctx: *mut RedisModuleCtx,
                argv: *mut *mut RedisModuleString,
                argc: c_int,
            ) -> c_int {
                // SAFETY: the arguments are the server's.
                unsafe { module::load::<$module>(ctx, argv, argc) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn RedisModule_OnUnload(ctx: *mut RedisModuleCtx) -> c_int {
                // SAFETY: the argument is the server's.
                unsafe { module::unload::<$module>(ctx) }
            }
        }
    };
}
pub(crate) use entries;

/// # Safety
/// To be called by the server alone, when it loads the module.
pub unsafe fn load<M: Module>(ctx: *mut RedisModuleCtx, argv: *mut *mut RedisModuleString, argc: c_int) -> c_int {
    let name = M::NAME.as_ptr().cast_mut().cast::<c_char>();
    // SAFETY: the context is the server's, and the name NUL-terminated. (Nothing may be allocated before this.)
    let status = unsafe { raw::Export_RedisModule_Init(ctx, name, M::VERSION, raw::REDISMODULE_APIVER_1 as c_int) };
    if status != raw::REDISMODULE_OK as c_int {
        return status;
    }
    // SAFETY: the server keeps context and arguments as long as this call, for which this is the one context.
    let (mut ctx, arguments) = unsafe { (Context::from_raw(ctx), Str::arguments(argv, argc)) };
    match survive(|| M::load(&mut ctx, arguments)).unwrap_or_else(|| Err("internal error".into())) {
        Ok(()) => raw::REDISMODULE_OK as c_int,
        Err(reason) => {
            ctx.log(c"warning", &format!("zeitset: {reason}"));
            raw::REDISMODULE_ERR as c_int
        }
    }
}

/// # Safety
/// To be called by the server alone, when it unloads the module.
pub unsafe fn unload<M: Module>(ctx: *mut RedisModuleCtx) -> c_int {
    // SAFETY: the server keeps the context as long as this call, for which this is the one context.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    survive(|| M::unload(&mut ctx));
    raw::REDISMODULE_OK as c_int
}
