//! The module's settings, in CONFIG and redis.conf.

use super::context::Context;
use super::module;
use redis_module::configuration::{ConfigurationFlags, register_bool_configuration, register_i64_configuration};
use redis_module::raw;
use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// A setting that is `yes` or `no`.
pub struct Flag {
    name: &'static str,
    default: bool,
    value: AtomicBool,
}

impl Flag {
    pub const fn new(name: &'static str, default: bool) -> Flag {
        Flag { name, default, value: AtomicBool::new(default) }
    }

    pub fn get(&self) -> bool {
        self.value.load(Ordering::Relaxed)
    }
}

/// An integer setting with a range.
pub struct Number {
    name: &'static str,
    default: u32,
    range: RangeInclusive<u32>,
    value: AtomicI64,
}

impl Number {
    pub const fn new(name: &'static str, default: u32, range: RangeInclusive<u32>) -> Number {
        assert!(*range.start() <= default && default <= *range.end());
        Number { name, default, range, value: AtomicI64::new(default as i64) }
    }

    pub fn get(&self) -> u32 {
        u32::try_from(self.value.load(Ordering::Relaxed)).unwrap_or(self.default)
    }
}

/// Registers the settings and loads their values from redis.conf or MODULE LOADEX. The module must call this function
/// once while it is loaded, before it creates data types and timers. If this function returns an error, the module must
/// refuse to load.
///
/// After a module is loaded, the server checks the module's settings. If a setting is invalid or unknown, the server
/// unloads the module. A module with data types or armed timers cannot be unloaded. Redis 7.2 and later, and all
/// versions of Valkey, crash when they try to unload such a module.
pub fn register(ctx: &mut Context, flags: &[&'static Flag], numbers: &[&'static Number]) -> Result<(), &'static str> {
    let of_crate = redis_module::Context::new(ctx.as_ptr().cast());
    // The server prefixes each name with the module's name and a dot.
    for Flag { name, default, value } in flags {
        register_bool_configuration(&of_crate, name, value, *default, ConfigurationFlags::DEFAULT, None);
    }
    for Number { name, default, range, value } in numbers {
        let [default, min, max] = [*default, *range.start(), *range.end()].map(i64::from);
        register_i64_configuration(&of_crate, name, value, default, min, max, ConfigurationFlags::DEFAULT, None);
    }
    // SAFETY: the context is that of the module's loading.
    if unsafe { api!(RedisModule_LoadConfigs(ctx.as_ptr())) } != raw::REDISMODULE_OK as c_int {
        return Err("invalid value for a setting; see the line above");
    }
    if module::has_unknown_settings(ctx) {
        return Err("unknown setting in MODULE LOADEX");
    }
    Ok(())
}
