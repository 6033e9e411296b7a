//! The functions by which the server loads and unloads the module ([`entries!`]).
//!
//! The module does not use the `redis-module` crate's macro for these functions, because on some servers the macro's
//! code logs a needless warning at every start.

use super::context::Context;
use super::info;
use super::panic::catch_panic;
use super::string::Str;
use redis_module::raw;
pub use redis_module::raw::{RedisModuleCtx, RedisModuleString};
use std::ffi::CStr;
pub use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// The module's description for the server.
pub struct Module {
    pub name: &'static CStr,
    /// The version in MODULE LIST.
    pub version: c_int,
    /// Registers everything with the server. The slice holds the arguments of `loadmodule`.
    pub load: fn(&mut Context, &[Str<'_>]) -> Result<(), String>,
    pub unload: fn(&mut Context),
}

/// Defines the functions that the server looks up by name.
macro_rules! entries {
    ($module:path) => {
        #[allow(unsafe_code, non_snake_case, reason = "the names are the server's")]
        mod entries {
            use $crate::server::module::{self, RedisModuleCtx, RedisModuleString, c_int};

            #[unsafe(no_mangle)]
            unsafe extern "C" fn RedisModule_OnLoad(
                ctx: *mut RedisModuleCtx,
                argv: *mut *mut RedisModuleString,
                argc: c_int,
            ) -> c_int {
                // SAFETY: the server passes the arguments.
                unsafe { module::load(&$module, ctx, argv, argc) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn RedisModule_OnUnload(ctx: *mut RedisModuleCtx) -> c_int {
                // SAFETY: the server passes the argument.
                unsafe { module::unload(&$module, ctx) }
            }
        }
    };
}
pub(crate) use entries;

/// # Safety
/// Only the server may call this, when it loads the module.
pub unsafe fn load(module: &Module, ctx: *mut RedisModuleCtx, argv: *mut *mut RedisModuleString, argc: c_int) -> c_int {
    let is_probe = IS_PROBING.load(Ordering::Relaxed);
    let name = if is_probe { PROBE } else { module.name }.as_ptr().cast_mut();
    // SAFETY: the context is the server's, and the name is NUL-terminated. (The module may allocate nothing before this
    // call.)
    let status = unsafe { raw::Export_RedisModule_Init(ctx, name, module.version, raw::REDISMODULE_APIVER_1 as c_int) };
    if is_probe {
        return status;
    }
    // SAFETY: the server keeps the context and the arguments during this call. No other `Context` exists for the call.
    let (mut ctx, arguments) = unsafe { (Context::from_raw(ctx), Str::arguments(argv, argc)) };
    let loaded = if status == raw::REDISMODULE_OK as c_int {
        catch_panic(|| (module.load)(&mut ctx, arguments)).unwrap_or_else(|| Err("internal error".into()))
    } else {
        // The only reason for this status: a module of this name exists.
        Err("the module is loaded already; remove the second 'loadmodule'".into())
    };
    match loaded {
        Ok(()) => raw::REDISMODULE_OK as c_int,
        Err(reason) => {
            ctx.log(c"warning", &format!("zeitset: {reason}"));
            raw::REDISMODULE_ERR as c_int
        }
    }
}

/// # Safety
/// Only the server may call this, when it unloads the module.
pub unsafe fn unload(module: &Module, ctx: *mut RedisModuleCtx) -> c_int {
    if IS_PROBING.load(Ordering::Relaxed) {
        return raw::REDISMODULE_OK as c_int;
    }
    // SAFETY: the server keeps the context during this call. No other `Context` exists for the call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    catch_panic(|| (module.unload)(&mut ctx));
    raw::REDISMODULE_OK as c_int
}

/// The name of the probe, an empty module with which [`has_unknown_settings`] tests whether the server accepts the
/// settings. The probe is this library, loaded a second time: [`load`] then registers only this name.
const PROBE: &CStr = c"zeitset-probe";

/// Whether the server is loading or unloading the module [`PROBE`].
static IS_PROBING: AtomicBool = AtomicBool::new(false);

/// Whether the current MODULE LOADEX contains settings that no module has registered.
///
/// No API function tells this in advance. The server checks the settings only after it has loaded a module, and unloads
/// the module if the check fails. So this function loads the probe, a module that can always be unloaded, and returns
/// whether the server refuses the probe.
///
/// While the server starts, this function returns `false`. At this time, the settings of all modules wait to be
/// registered. The server itself checks at the end of its start that no unregistered setting is left.
pub(super) fn has_unknown_settings(ctx: &mut Context) -> bool {
    if !info::has_clients(ctx) {
        return false;
    }
    let mut library = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address lies in this library, and the module may write to the structure.
    let status = unsafe { libc::dladdr((&raw const IS_PROBING).cast(), library.as_mut_ptr()) };
    // SAFETY: zero is valid for all fields.
    let path = unsafe { library.assume_init() }.dli_fname;
    if status == 0 || path.is_null() {
        return false;
    }
    // SAFETY: a library's name is NUL-terminated, and exists as long as the library is loaded.
    let path = unsafe { CStr::from_ptr(path) };
    IS_PROBING.store(true, Ordering::Relaxed);
    let is_refused = ctx.refuses(c"MODULE", [b"LOADEX", path.to_bytes()]);
    if !is_refused {
        ctx.refuses(c"MODULE", [b"UNLOAD", PROBE.to_bytes()]);
    }
    IS_PROBING.store(false, Ordering::Relaxed);
    is_refused
}
