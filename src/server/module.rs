//! The two entries by which the server loads and unloads the module ([`entries!`]).
//!
//! The `redis-module` crate has a macro for them. What it makes also warns, at every start on servers that know no defrag
//! callbacks, that it skips those, of which this module has none.

use super::context::Context;
use super::info;
use super::panic::survive;
use super::string::Str;
use redis_module::raw;
pub use redis_module::raw::{RedisModuleCtx, RedisModuleString};
use std::ffi::CStr;
pub use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let is_probe = IS_PROBING.load(Ordering::Relaxed);
    let name = if is_probe { PROBE } else { M::NAME }.as_ptr().cast_mut();
    // SAFETY: the context is the server's, and the name NUL-terminated. (Nothing may be allocated before this.)
    let status = unsafe { raw::Export_RedisModule_Init(ctx, name, M::VERSION, raw::REDISMODULE_APIVER_1 as c_int) };
    if is_probe || status != raw::REDISMODULE_OK as c_int {
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
    if IS_PROBING.load(Ordering::Relaxed) {
        return raw::REDISMODULE_OK as c_int;
    }
    // SAFETY: the server keeps the context as long as this call, for which this is the one context.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    survive(|| M::unload(&mut ctx));
    raw::REDISMODULE_OK as c_int
}

/// The name under which the library is loaded as a probe: as a module that has nothing.
const PROBE: &CStr = c"zeitset-probe";

/// Whether the server is loading or unloading the probe.
static IS_PROBING: AtomicBool = AtomicBool::new(false);

/// Whether the server would not load a module now that has nothing. That is so if the MODULE LOADEX under way has settings that no
/// module has taken so far. The server has no function that tells, and tells too late: it asks when the module has been loaded, and
/// then has to unload it. A probe can be unloaded, so it is loaded first.
///
/// While the server starts, the answer is `false`: the settings of all modules wait together then, and the server itself looks
/// at the end whether any is left.
pub(super) fn is_probe_refused(ctx: &mut Context) -> bool {
    if !info::has_clients(ctx) {
        return false;
    }
    let mut library = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is one of this library's, and the structure is ours to be written.
    let status = unsafe { libc::dladdr((&raw const IS_PROBING).cast(), library.as_mut_ptr()) };
    // SAFETY: zero is a value of all its fields.
    let path = unsafe { library.assume_init() }.dli_fname;
    if status == 0 || path.is_null() {
        return false;
    }
    // SAFETY: the name of a library is NUL-terminated, and stays as long as it is loaded.
    let path = unsafe { CStr::from_ptr(path) };
    IS_PROBING.store(true, Ordering::Relaxed);
    let is_refused = ctx.refuses(c"MODULE", [b"LOADEX", path.to_bytes()]);
    if !is_refused {
        ctx.refuses(c"MODULE", [b"UNLOAD", PROBE.to_bytes()]);
    }
    IS_PROBING.store(false, Ordering::Relaxed);
    is_refused
}
