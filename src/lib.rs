//! Zeitset: sorted sets that know the time. A Redis module; this file is its table of contents.
//!
//! | folder      | what lives there                                                                         |
//! |-------------|------------------------------------------------------------------------------------------|
//! | `model`     | what the commands compute: pure, without a server, `now` always a parameter               |
//! | `server`    | the module API made safe: the only unsafe code                                             |
//! | `expiring`  | the sorted sets that expire: the one place that changes, replicates and announces them     |
//! | `commands`  | one command, one file; `commands/mod.rs` is the table of all of them                       |
//!
//! Dependencies go one way: commands → expiring → server, commands → model; the model imports nothing of ours.

mod commands;
mod error;
mod expiring;
mod model;
mod server;

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
}

fn load(ctx: &redis_module::Context, _arguments: &[RedisString]) -> Status {
    let ctx = Context::of(ctx);
    if let Some(function) = server::missing() {
        ctx.log(c"warning", &format!("zeitset needs Redis 7.0.5 or later, or Valkey: this server lacks {function}"));
        return Status::Err;
    }
    server::log_panics();
    if let Err(server::command::Refused(name)) = server::command::register_module(ctx, commands::TABLE) {
        ctx.log(c"warning", &format!("zeitset: the server refused the command {}", name.to_string_lossy()));
        return Status::Err;
    }
    Status::Ok
}
