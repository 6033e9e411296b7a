//! Zeitset: a Redis module for expiring sorted sets, rate limits, queues and leaderboards.
//!
//! | place                                 | contents                                                         |
//! |---------------------------------------|------------------------------------------------------------------|
//! | `sets`, `limits`, `queues`, `boards`  | the families: commands, keys and algorithms of each, in a folder |
//! | `args`, `error`                       | a command's arguments and errors, for all families               |
//! | `server`                              | safe wrappers over the module API, and the only unsafe code      |
//! | `base`                                | what more than one family needs, without a server                |
//!
//! A family uses no other family. A family's commands are in `commands`, one per file. Its algorithms are pure
//! functions without a server, with `now` as a parameter: `sets/index`, `limits/model`, `queues/model`,
//! `queues/waiting/model`, `boards/model`.
//!
//! Dependencies have one direction: families → args → server → base, error.

mod args;
mod base;
mod boards;
mod error;
mod limits;
mod queues;
mod server;
mod sets;

use server::events::Listeners;
use server::info::Info;
use server::module::{self, Module};
use server::register::{register, set_options};
use server::{Context, Str, data_type, setting};
use std::ffi::{CStr, c_int};

// Unit tests run without a server, so they cannot use its allocator.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: server::alloc::ServerAlloc = server::alloc::ServerAlloc;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version holds no NUL"),
};

/// The version in MODULE LIST: 10000 × major + 100 × minor + patch.
const VERSION_NUMBER: c_int = 10_000 * number(env!("CARGO_PKG_VERSION_MAJOR"))
    + 100 * number(env!("CARGO_PKG_VERSION_MINOR"))
    + number(env!("CARGO_PKG_VERSION_PATCH"));

const fn number(text: &str) -> c_int {
    match c_int::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("part of a version is no number"),
    }
}

const MODULE: Module = Module { name: c"zeitset", version: VERSION_NUMBER, load, unload };

module::entries!(super::MODULE);

/// Loads the module: `loadmodule libzeitset.so [plain] [cell]`.
///
/// With `plain`, the module has only the ZEXP and ZRL commands, and no data types. So a running server can unload the
/// module. With `cell`, CL.THROTTLE is another name for ZRL.THROTTLE.
fn load(ctx: &mut Context, arguments: &[Str<'_>]) -> Result<(), String> {
    let (mut is_plain, mut is_cell) = (false, false);
    for word in arguments {
        let option = match word.bytes() {
            word if word.eq_ignore_ascii_case(b"plain") => &mut is_plain,
            word if word.eq_ignore_ascii_case(b"cell") => &mut is_cell,
            _ => return Err("unknown argument; expected 'plain' or 'cell'".into()),
        };
        if std::mem::replace(option, true) {
            return Err("duplicate argument".into());
        }
    }
    if let Some(function) = server::missing() {
        return Err(format!("this server lacks {function}; expected Redis 7.0.5 or later, or Valkey"));
    }
    let missing = server::native::missing(|command| ctx.has_command(command));
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|command| command.to_string_lossy()).collect();
        return Err(format!("the server lacks {}; remove 'rename-command'", names.join(", ")));
    }
    server::slots::find_out_product(ctx);
    server::log_panics();
    setting::register(ctx, &sets::settings::FLAGS, &sets::settings::NUMBERS)?;
    set_options(ctx);
    let refused = |name: &CStr| format!("the server refused the command {}", name.to_string_lossy());
    register(ctx, sets::commands::COMMANDS, Some("sortedset")).map_err(refused)?;
    register(ctx, limits::commands::COMMANDS, Some("string")).map_err(refused)?;
    if is_cell {
        register(ctx, limits::commands::CELL, Some("string"))
            .map_err(|_| "the server refused the command CL.THROTTLE; unload redis-cell or omit 'cell'")?;
    }
    if !is_plain {
        if !(data_type::register::<queues::QueueValue>(ctx) && data_type::register::<boards::Board>(ctx)) {
            return Err("the server refused a data type".into());
        }
        for (commands, effects) in [
            (boards::commands::COMMANDS, boards::commands::EFFECTS),
            (queues::commands::COMMANDS, queues::commands::EFFECTS),
        ] {
            register(ctx, commands, None).map_err(refused)?;
            register(ctx, effects, Some("admin dangerous")).map_err(refused)?;
        }
    }
    server::info::register::<Section>(ctx);
    server::events::listen(ctx, LISTENERS);
    queues::waiting::start(ctx);
    sets::start(ctx);
    Ok(())
}

/// The section `zeitset` of INFO.
struct Section;

impl server::info::Section for Section {
    const VERSION: &CStr = VERSION;

    fn report(info: Info<'_>) {
        info.section(c"");
        info.text(c"version", VERSION);
        [sets::report, limits::report, queues::report, boards::report].into_iter().for_each(|family| family(info));
    }
}

fn unload(ctx: &mut Context) {
    sets::stop(ctx);
    queues::waiting::stop(ctx);
    queues::upkeep::stop(ctx);
    server::authority::stop();
}

/// The listeners of keyspace events (`key`) and of server events (`server`), in the order in which they are called.
/// `sets::key_events` is the last one, because it may select another database.
const LISTENERS: Listeners = Listeners {
    key: &[queues::key_events::on_key, sets::key_events::on_key],
    server: &[
        server::eviction::on_server,
        queues::waiting::on_server,
        queues::registry::on_server,
        queues::upkeep::on_server,
        sets::key_events::on_server,
    ],
};
