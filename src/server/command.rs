//! Descriptions of the commands ([`Spec`]), and the functions through which the server calls a command ([`enter`],
//! [`enter_blocking`]).

use super::blocking::CallingClient;
use super::context::Context;
use super::panic::catch_panic;
use super::string::Str;
use crate::base::time::digits;
use crate::error::Error;
use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};
use std::ffi::{CStr, c_int};

/// A command's description for the server: the source of COMMAND INFO, COMMAND DOCS, COMMAND GETKEYS and the ACL rules.
pub struct Spec {
    pub name: &'static CStr,
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    pub since: &'static CStr,
    /// The flags for `RedisModule_CreateCommand`: `write`, `readonly`, `deny-oom`, `fast`.
    pub flags: &'static CStr,
    pub keys: Keys,
    pub arguments: &'static [Arg],
}

/// The arguments that are keys.
#[derive(Clone, Copy)]
pub enum Keys {
    None,
    First(Access),
    /// The only key is the first argument. Used for ZQ.APPLY and ZLB.APPLY, with which a master replicates changes. The
    /// server accepts any number of arguments, so that the module can count and log a command that it cannot read.
    OfEffects(Access),
    /// `numkeys key [key ...]`, from the first argument on.
    Counted(Access),
    /// `destination numkeys key [key ...]`. The result is stored in the destination.
    Stored {
        stored: Access,
        counted: Access,
    },
}

/// One key among the arguments, or `numkeys` and the keys after it.
pub(super) struct KeySpec {
    /// The index of the key, or of `numkeys`, among the arguments.
    pub at: usize,
    pub access: Access,
    pub is_counted: bool,
}

impl Keys {
    pub(super) fn specs(self) -> impl Iterator<Item = KeySpec> {
        let one = |access| KeySpec { at: 0, access, is_counted: false };
        let counted = |at, access| KeySpec { at, access, is_counted: true };
        let specs = match self {
            Keys::None => [None, None],
            Keys::First(access) | Keys::OfEffects(access) => [Some(one(access)), None],
            Keys::Counted(access) => [Some(counted(0, access)), None],
            Keys::Stored { stored, counted: access } => [Some(one(stored)), Some(counted(1, access))],
        };
        specs.into_iter().flatten()
    }

    /// Whether the server has to ask the module which arguments are keys.
    pub(super) fn are_counted(self) -> bool {
        matches!(self, Keys::Counted(_) | Keys::Stored { .. })
    }

    /// Returns the indexes of the keys among the arguments, and the access to each key. Returns `None` if `numkeys` is
    /// not a positive number or exceeds the number of arguments. The command itself then returns the error.
    fn among(self, arguments: &[Str<'_>]) -> Option<Vec<(usize, Access)>> {
        let mut keys = Vec::new();
        for KeySpec { at, access, is_counted } in self.specs() {
            if is_counted {
                let (numkeys, rest) = arguments.get(at..)?.split_first()?;
                let count = digits(numkeys.bytes()).and_then(|count| usize::try_from(count).ok())?;
                if !(1..=rest.len()).contains(&count) {
                    return None;
                }
                keys.extend((1..=count).map(|key| (at + key, access)));
            } else {
                keys.push((at, access));
            }
        }
        Some(keys)
    }
}

/// The access to a key. The values are the server's flags.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Access {
    /// Reads the value and returns it.
    Read = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
    /// Adds to the value.
    Insert = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT,
    /// Changes the value.
    Update = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE,
    /// Reads the value, returns it, and removes parts of it.
    Take = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_DELETE,
    /// Removes parts of the value.
    Delete = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
    /// Changes the value, and replies with data from the value.
    Exchange = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE,
}

/// An argument, as in COMMAND DOCS.
#[derive(Clone, Copy)]
pub struct Arg {
    pub(super) name: &'static CStr,
    pub(super) kind: raw::RedisModuleCommandArgType,
    pub(super) token: Option<&'static CStr>,
    pub(super) since: Option<&'static CStr>,
    pub(super) flags: c_int,
    pub(super) parts: &'static [Arg],
}

impl Arg {
    const fn new(name: &'static CStr, kind: raw::RedisModuleCommandArgType) -> Arg {
        Arg { name, kind, token: None, since: None, flags: raw::REDISMODULE_CMD_ARG_NONE as c_int, parts: &[] }
    }

    pub const fn key(name: &'static CStr) -> Arg {
        Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY)
    }

    /// An argument of any bytes. Durations and times are strings, too, because a duration can have a unit and a time
    /// can be a date.
    pub const fn string(name: &'static CStr) -> Arg {
        Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING)
    }

    pub const fn integer(name: &'static CStr) -> Arg {
        Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER)
    }

    /// An argument that is a keyword without a value.
    pub const fn flag(name: &'static CStr, token: &'static CStr) -> Arg {
        Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN).after(token)
    }

    /// An argument that is exactly one of `parts`.
    pub const fn one_of(name: &'static CStr, parts: &'static [Arg]) -> Arg {
        let mut arg = Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF);
        arg.parts = parts;
        arg
    }

    /// An argument that consists of all `parts`, in this order.
    pub const fn block(name: &'static CStr, parts: &'static [Arg]) -> Arg {
        let mut arg = Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK);
        arg.parts = parts;
        arg
    }

    /// Declares that a keyword precedes the argument.
    pub const fn after(mut self, token: &'static CStr) -> Arg {
        self.token = Some(token);
        self
    }

    /// Sets the version that added this argument to an existing command.
    pub const fn since(mut self, version: &'static CStr) -> Arg {
        self.since = Some(version);
        self
    }

    pub const fn optional(mut self) -> Arg {
        self.flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL as c_int;
        self
    }

    pub const fn multiple(mut self) -> Arg {
        self.flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE as c_int;
        self
    }

    /// Returns the minimum number of strings that a client sends for this argument.
    pub(super) fn least(&self) -> c_int {
        if self.flags & raw::REDISMODULE_CMD_ARG_OPTIONAL as c_int != 0 {
            return 0;
        }
        let parts = self.parts.iter().map(Arg::least);
        match self.kind {
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN => 1,
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF => parts.min().unwrap_or(0),
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK => parts.sum(),
            _ => 1 + c_int::from(self.token.is_some()),
        }
    }

    /// Whether a client may send more strings for this argument than the minimum.
    pub(super) fn varies(&self) -> bool {
        self.flags != raw::REDISMODULE_CMD_ARG_NONE as c_int || self.parts.iter().any(Arg::varies)
    }
}

pub struct Command {
    pub spec: &'static Spec,
    pub handler: Handler,
}

type Handler = unsafe extern "C" fn(*mut RedisModuleCtx, *mut *mut RedisModuleString, c_int) -> c_int;

/// The function of a command that may block its client.
pub type RunBlocking = for<'a, 'c> fn(&mut Context, &'a [Str<'a>], CallingClient<'c>) -> Result<(), Error>;

/// Makes the table of commands. Each argument is the name of a command's Rust module, which has a `SPEC` and a
/// function `run`. If the command may block its client, `=> enter_blocking` follows the name.
macro_rules! commands {
    (@enter) => { $crate::server::command::enter };
    (@enter $enter:ident) => { $crate::server::command::$enter };
    ($($command:ident $(=> $enter:ident)?),* $(,)?) => {
        &[$({
            #[allow(unsafe_code)] // the macro writes it into modules that allow no other unsafe code
            unsafe extern "C" fn handler(
                ctx: *mut redis_module::raw::RedisModuleCtx,
                argv: *mut *mut redis_module::raw::RedisModuleString,
                argc: std::ffi::c_int,
            ) -> std::ffi::c_int {
                // SAFETY: the server calls this function with a command handler's arguments.
                unsafe { $crate::server::command::commands!(@enter $($enter)?)(ctx, argv, argc, &$command::SPEC, $command::run) }
            }
            $crate::server::command::Command { spec: &$command::SPEC, handler }
        }),*]
    };
}
pub(crate) use commands;

/// Calls a command's function `run` from its handler. `run` gets the arguments after the command's name. `run` replies,
/// or returns an error, which becomes the reply.
///
/// # Safety
/// `ctx`, `argv` and `argc` must come from the server's call of the handler.
#[inline]
pub unsafe fn enter(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
    spec: &Spec,
    run: impl for<'a> FnOnce(&mut Context, &'a [Str<'a>]) -> Result<(), Error>,
) -> c_int {
    // SAFETY: the context is valid during this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    // SAFETY: the server keeps the arguments alive and unchanged during this call.
    let arguments = unsafe { Str::arguments(argv, argc) }.get(1..).unwrap_or_default();
    if spec.keys.are_counted() && ctx.asks_for_key_positions() {
        catch_panic(|| ctx.tell_key_positions(spec.keys.among(arguments).unwrap_or_default()));
        return raw::REDISMODULE_OK as c_int;
    }
    ctx.replying(|ctx| run(ctx, arguments).unwrap_or_else(|error| ctx.reply_error(error)));
    raw::REDISMODULE_OK as c_int
}

/// Like [`enter`], for a command that may block its client.
///
/// # Safety
/// As [`enter`].
pub unsafe fn enter_blocking(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
    spec: &Spec,
    run: RunBlocking,
) -> c_int {
    let call = ();
    // SAFETY: the caller guarantees it.
    unsafe { enter(ctx, argv, argc, spec, |ctx, arguments| run(ctx, arguments, CallingClient::of(&call))) }
}

impl Context {
    /// Whether the server calls a command only to ask which of its arguments are keys.
    fn asks_for_key_positions(&self) -> bool {
        // SAFETY: the context is that of the current call.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.as_ptr())) != 0 }
    }

    fn tell_key_positions(&self, keys: Vec<(usize, Access)>) {
        for (at, access) in keys {
            // The command's name precedes the arguments. SAFETY: as above, and the position is that of an argument.
            unsafe { api!(RedisModule_KeyAtPosWithFlags(self.as_ptr(), at as c_int + 1, access as c_int)) };
        }
    }
}
