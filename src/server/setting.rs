//! Settings of the module, as the server shows, checks and changes them: CONFIG, redis.conf.

use super::context::Context;
use redis_module::configuration::{ConfigurationFlags, register_bool_configuration, register_i64_configuration};
use std::sync::atomic::{AtomicBool, AtomicI64};

fn of_crate(ctx: &Context) -> redis_module::Context {
    redis_module::Context::new(ctx.as_ptr().cast())
}

/// Makes a number known; the server puts the module's name and a dot in front of `name`.
pub fn number(ctx: &Context, name: &str, value: &'static AtomicI64, default: i64, (min, max): (i64, i64)) {
    register_i64_configuration(&of_crate(ctx), name, value, default, min, max, ConfigurationFlags::DEFAULT, None);
}

/// Makes a `yes` or `no` known.
pub fn flag(ctx: &Context, name: &str, value: &'static AtomicBool, default: bool) {
    register_bool_configuration(&of_crate(ctx), name, value, default, ConfigurationFlags::DEFAULT, None);
}

/// Sets what redis.conf says. To be called once, when all settings are known.
pub fn apply(ctx: &Context) {
    // SAFETY: the context is that of the module's loading.
    unsafe { api!(RedisModule_LoadConfigs(ctx.as_ptr())) };
}
