//! Zeitset: sorted sets that know the time. A Redis module; this file is its table of contents.
//!
//! | folder      | what lives there                                                                         |
//! |-------------|------------------------------------------------------------------------------------------|
//! | `model`     | what the commands compute: pure, without a server, `now` always a parameter               |
//! | `server`    | the module API made safe: the only unsafe code                                             |
//! | `expiring`  | the sorted sets that expire: the one place that changes, replicates and announces them     |
//! | `limits`    | the rate limits: the one place that changes, replicates and announces them                 |
//! | `queues`    | the queues: the one place that changes, replicates and announces them; waiting clients     |
//! | `boards`    | leaderboards as keys: the one place that changes, replicates and announces them            |
//! | `config`    | the module's settings                                                                      |
//! | `info`      | its section of INFO                                                                        |
//! | `commands`  | one command, one file; `commands/mod.rs` is the table of all of them                       |
//!
//! Dependencies go one way: commands → expiring → server, commands → model; the model imports none of the others.

mod boards;
mod commands;
mod config;
mod error;
mod expiring;
mod info;
mod limits;
mod model;
mod queues;
mod server;

use model::board::Board;
use server::{Context, Str, command, data_type, module, setting};
use std::ffi::{CStr, c_int};

// Unit tests run without a server, and so without its allocator.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: server::alloc::ServerAlloc = server::alloc::ServerAlloc;

struct Zeitset;

impl module::Module for Zeitset {
    const NAME: &'static CStr = c"zeitset";
    const VERSION: c_int = config::VERSION_NUMBER;

    /// `loadmodule libzeitset.so [plain] [cell]`. With `plain`, only the families that live in plain values are there (ZEXP, ZRL), and
    /// the module can be unloaded from a running server; the server never lets go of one that has data types of its own. With `cell`,
    /// ZRL.THROTTLE has the name CL.THROTTLE as well.
    fn load(ctx: &mut Context, arguments: &[Str<'_>]) -> Result<(), String> {
        register(ctx, arguments)
    }

    fn unload(ctx: &mut Context) {
        expiring::stop(ctx);
        queues::waiting::stop(ctx);
        queues::upkeep::stop(ctx);
        server::authority::stop();
    }
}

module::entries!(super::Zeitset);

fn register(ctx: &mut Context, arguments: &[Str<'_>]) -> Result<(), String> {
    let (mut is_plain, mut is_cell) = (false, false);
    for word in arguments {
        let option = match word.bytes() {
            word if word.eq_ignore_ascii_case(b"plain") => &mut is_plain,
            word if word.eq_ignore_ascii_case(b"cell") => &mut is_cell,
            _ => return Err("unknown arguments; those there are are `plain` and `cell`".into()),
        };
        if std::mem::replace(option, true) {
            return Err("an argument is given twice".into());
        }
    }
    if let Some(function) = server::missing() {
        return Err(format!("Redis 7.0.5 or later, or Valkey, is needed: this server lacks {function}"));
    }
    let missing = server::native::missing(ctx);
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|command| command.to_string_lossy()).collect();
        return Err(format!("the server does not know {}; is there a `rename-command`?", names.join(", ")));
    }
    server::product::find_out(ctx);
    server::log_panics();
    setting::register(ctx, config::SETTINGS)?;
    command::set_options(ctx);
    let refused = |command::Refused(name)| format!("the server refused the command {}", name.to_string_lossy());
    command::register(ctx, commands::PLAIN, Some("sortedset")).map_err(refused)?;
    if is_cell {
        command::register(ctx, commands::CELL, Some("sortedset")).map_err(|command::Refused(_)| {
            "the server refused the command CL.THROTTLE; is redis-cell loaded? `cell` is to take its place"
        })?;
    }
    if !is_plain {
        if !(data_type::register::<queues::Stored>(ctx) && data_type::register::<Board>(ctx)) {
            return Err("the server refused a data type".into());
        }
        command::register(ctx, commands::TYPED, None).map_err(refused)?;
        command::register(ctx, commands::EFFECTS, Some("admin dangerous")).map_err(refused)?;
    }
    #[cfg(feature = "panic-test")]
    command::register(ctx, server::fault::COMMANDS, None).map_err(refused)?;
    server::info::register::<info::Zeitset>(ctx);
    server::events::listen::<Watches>(ctx);
    expiring::start(ctx);
    Ok(())
}

/// Listeners, in the order in which they run. `expiring::watch` is the last one, since it may select another database.
type Watches = (queues::waiting::Watch, (queues::names::Watch, (queues::upkeep::Watch, expiring::watch::Watch)));
