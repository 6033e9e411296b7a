//! Zeitset: sorted sets that know the time. A Redis module; this file is its table of contents.
//!
//! | folder      | what lives there                                                                         |
//! |-------------|------------------------------------------------------------------------------------------|
//! | `model`     | what the commands compute: pure, without a server, `now` always a parameter               |
//! | `server`    | the module API made safe: the only unsafe code                                             |
//! | `expiring`  | the sorted sets that expire: the one place that changes, replicates and announces them     |
//! | `queues`    | the queues: the one place that changes, replicates and announces them; who waits for a job |
//! | `boards`    | leaderboards as keys: the one place that changes, replicates and announces them            |
//! | `config`    | the module's settings                                                                      |
//! | `info`      | its section of INFO                                                                        |
//! | `commands`  | one command, one file; `commands/mod.rs` is the table of all of them                       |
//!
//! Dependencies go one way: commands → expiring → server, commands → model; the model imports nothing of ours.

mod boards;
mod commands;
mod config;
mod error;
mod expiring;
mod info;
mod model;
mod queues;
mod server;

use config::{DUTY, SLICE_US, SWEEP, SWEEP_MAX_DUTY, SWEEP_SLICE_US};
use expiring::{sweeper, watch::Watch};
use redis_module::configuration::ConfigurationFlags;
use redis_module::{RedisString, Status, redis_module};
use server::Context;

#[cfg(not(test))]
type Allocator = server::alloc::ServerAlloc;
#[cfg(not(test))]
const ALLOCATOR: Allocator = server::alloc::ServerAlloc;

// Unit tests run without a server, and so without its allocator.
#[cfg(test)]
type Allocator = std::alloc::System;
#[cfg(test)]
const ALLOCATOR: Allocator = std::alloc::System;

redis_module! {
    name: "zeitset",
    version: 1,
    allocator: (Allocator, ALLOCATOR),
    data_types: [],
    init: load,
    deinit: unload,
    configurations: [
        i64: [
            ["sweep-slice-us", &SWEEP_SLICE_US, SLICE_US.default, SLICE_US.min, SLICE_US.max, ConfigurationFlags::DEFAULT, None],
            ["sweep-max-duty", &SWEEP_MAX_DUTY, DUTY.default, DUTY.min, DUTY.max, ConfigurationFlags::DEFAULT, None],
        ],
        string: [],
        bool: [
            ["sweep", &SWEEP, true, ConfigurationFlags::DEFAULT, None],
        ],
        enum: [],
        module_args_as_configuration: false,
    ]
}

fn load(ctx: &redis_module::Context, _arguments: &[RedisString]) -> Status {
    let ctx = Context::of(ctx);
    if let Some(function) = server::missing() {
        ctx.log(c"warning", &format!("zeitset needs Redis 7.0.5 or later, or Valkey: this server lacks {function}"));
        return Status::Err;
    }
    server::log_panics();
    if !queues::register(ctx) {
        ctx.log(c"warning", "zeitset: the server refused the data type zeitqueue");
        return Status::Err;
    }
    if !server::data_type::register::<model::board::Board>(ctx) {
        ctx.log(c"warning", "zeitset: the server refused the data type zeitboard");
        return Status::Err;
    }
    if let Err(server::command::Refused(name)) = server::command::register_module(ctx, commands::TABLE) {
        ctx.log(c"warning", &format!("zeitset: the server refused the command {}", name.to_string_lossy()));
        return Status::Err;
    }
    server::info::register::<info::Zeitset>(ctx);
    server::events::listen::<Watch>(ctx);
    // On a running server the data are there already.
    sweeper::patrol_now(ctx);
    Status::Ok
}

fn unload(ctx: &redis_module::Context) -> Status {
    sweeper::stop(Context::of(ctx));
    queues::waiting::stop(Context::of(ctx));
    Status::Ok
}
