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
use model::board::Board;
use model::queue::Queue;
use redis_module::configuration::ConfigurationFlags;
use redis_module::{RedisString, Status, redis_module};
use server::{Context, command, data_type};

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

/// `loadmodule libzeitset.so [plain]`. With `plain`, only the families that live in plain sorted sets are there (ZEXP, ZRL), and
/// the module can be unloaded from a running server; the server never lets go of one that has data types of its own.
fn load(ctx: &redis_module::Context, arguments: &[RedisString]) -> Status {
    let ctx = Context::of(ctx);
    match server::survive(|| register(ctx, arguments)).unwrap_or_else(|| Err("internal error".into())) {
        Ok(()) => Status::Ok,
        Err(reason) => {
            ctx.log(c"warning", &format!("zeitset: {reason}"));
            Status::Err
        }
    }
}

fn register(ctx: Context<'_>, arguments: &[RedisString]) -> Result<(), String> {
    let is_plain = match arguments {
        [] => false,
        [word] if word.as_slice().eq_ignore_ascii_case(b"plain") => true,
        _ => return Err("unknown arguments; the only one there is is `plain`".into()),
    };
    if let Some(function) = server::missing() {
        return Err(format!("Redis 7.0.5 or later, or Valkey, is needed: this server lacks {function}"));
    }
    server::product::find_out(ctx);
    server::log_panics();
    command::set_options(ctx);
    let refused = |command::Refused(name)| format!("the server refused the command {}", name.to_string_lossy());
    command::register(ctx, commands::PLAIN, Some("sortedset")).map_err(refused)?;
    if !is_plain {
        if !(data_type::register::<Queue>(ctx) && data_type::register::<Board>(ctx)) {
            return Err("the server refused a data type".into());
        }
        command::register(ctx, commands::TYPED, None).map_err(refused)?;
    }
    #[cfg(feature = "panic-test")]
    command::register(ctx, server::fault::COMMANDS, None).map_err(refused)?;
    server::info::register::<info::Zeitset>(ctx);
    server::events::listen::<Watch>(ctx);
    // On a running server the data are there already.
    sweeper::patrol_now(ctx);
    Ok(())
}

fn unload(ctx: &redis_module::Context) -> Status {
    server::survive(|| {
        sweeper::stop(Context::of(ctx));
        queues::waiting::stop(Context::of(ctx));
    });
    Status::Ok
}
