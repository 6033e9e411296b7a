//! Registers commands with the server, and calls their functions.

use super::blocking::CallingClient;
use super::context::Context;
use super::panic::catch_panic;
use super::slots;
use super::string::Str;
use crate::base::time::digits;
use crate::error::Error;
use redis_module::raw::{self, RedisModuleCommandArg, RedisModuleCommandKeySpec, RedisModuleCtx, RedisModuleString};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};

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
    /// The first argument, of a command that carries effects. The server passes the command to the module whatever the
    /// number of arguments is, so that the module counts what it cannot read.
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
struct KeySpec {
    /// The index of the key, or of `numkeys`, among the arguments.
    at: usize,
    access: Access,
    is_counted: bool,
}

impl Keys {
    fn specs(self) -> impl Iterator<Item = KeySpec> {
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
    fn are_counted(self) -> bool {
        matches!(self, Keys::Counted(_) | Keys::Stored { .. })
    }

    /// Returns the indexes of the keys among the arguments, and the access to each key. Returns no keys if `numkeys` is
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
    name: &'static CStr,
    kind: raw::RedisModuleCommandArgType,
    token: Option<&'static CStr>,
    since: Option<&'static CStr>,
    flags: c_int,
    parts: &'static [Arg],
}

impl Arg {
    const fn new(name: &'static CStr, kind: raw::RedisModuleCommandArgType) -> Arg {
        Arg { name, kind, token: None, since: None, flags: raw::REDISMODULE_CMD_ARG_NONE as c_int, parts: &[] }
    }

    pub const fn key(name: &'static CStr) -> Arg {
        Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY)
    }

    /// An argument of any bytes. Durations and times are strings, too, because they have units.
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

    /// Sets the keyword in front of the argument.
    pub const fn after(mut self, token: &'static CStr) -> Arg {
        self.token = Some(token);
        self
    }

    /// Sets the version that added the argument, if the command is older.
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
    fn least(&self) -> c_int {
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
    fn varies(&self) -> bool {
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

/// Calls a command's function from its handler. The function replies or returns an error. It gets the arguments after
/// the command's name.
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

pub fn set_options(ctx: &Context) {
    let options = raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    let options = options as c_int | slots::module_option();
    // SAFETY: the context is valid. The options declare four facts. (1) The module signals changed keys itself, so a
    // call without a change does not break WATCH. (2) The module checks for errors while loading (src/server/io.rs), so
    // a truncated payload does not end the server. (3) A replica may serve its old dataset while it loads the new one
    // (`repl-diskless-load swapdb`). The module keeps no references to values, and forgets the old keys when the new
    // dataset replaces them (src/server/events.rs). (4) The module does not touch the keys of slots that are being
    // imported.
    unsafe { api!(RedisModule_SetModuleOptions(ctx.as_ptr(), options)) };
}

/// Registers commands. `extra` lists further ACL categories, separated by blanks. [`categories`] derives the others
/// from the flags. If the server refuses a command, returns the command's name.
pub fn register(ctx: &Context, table: &[Command], extra: Option<&'static str>) -> Result<(), &'static CStr> {
    table.iter().try_for_each(|command| register_one(ctx, command, extra).ok_or(command.spec.name))
}

fn register_one(ctx: &Context, command: &Command, extra: Option<&'static str>) -> Option<()> {
    let spec = command.spec;
    // Only a key that is the first argument is at a fixed position. The server describes ZUNIONSTORE in the same way.
    let is_first = c_int::from(matches!(spec.keys, Keys::First(_) | Keys::OfEffects(_) | Keys::Stored { .. }));
    let flags = flags(spec);
    // SAFETY: the context is that of the module's loading. The strings are NUL-terminated constants.
    let status = unsafe {
        api!(RedisModule_CreateCommand(
            ctx.as_ptr(),
            spec.name.as_ptr(),
            Some(command.handler),
            flags.as_ptr(),
            is_first,
            is_first,
            is_first
        ))
    };
    is_ok(status)?;
    // SAFETY: as above. The command has just been created.
    let command = unsafe { api!(RedisModule_GetCommand(ctx.as_ptr(), spec.name.as_ptr())) };
    describe(command, spec)?;
    // Before Redis 7.2, commands of modules have no categories.
    if has_api!(RedisModule_SetCommandACLCategories) {
        let categories = categories(spec, extra);
        // SAFETY: the command exists, and the categories are the server's own.
        is_ok(unsafe { api!(RedisModule_SetCommandACLCategories(command, categories.as_ptr())) })?;
    }
    Some(())
}

/// Returns the flags in the server's form. If a command has a `numkeys` argument, adds the flag `getkeys-api`, so that
/// the server asks the command for the positions of its keys. Redis 7.0 needs these positions in a cluster, where it
/// ignores the key specs.
fn flags(spec: &Spec) -> CString {
    let mut flags = spec.flags.to_bytes().to_vec();
    if spec.keys.are_counted() {
        flags.extend_from_slice(b" getkeys-api");
    }
    CString::new(flags).expect("flags hold no NUL")
}

/// Returns the ACL categories. The server derives the categories of its own commands from their flags, but not those of
/// a module's commands. Without explicit categories, `-@write` would not forbid the module's write commands.
fn categories(spec: &Spec, extra: Option<&'static str>) -> CString {
    let flags = spec.flags.to_str().unwrap_or_default();
    let has = |flag: &str| flags.split(' ').any(|word| word == flag);
    let by_flags = [
        ("write", has("write")),
        ("read", has("readonly")),
        ("fast", has("fast")),
        ("slow", !has("fast")),
        ("blocking", has("blocking")),
    ];
    let by_flags = by_flags.into_iter().filter_map(|(category, applies)| applies.then_some(category));
    let categories: Vec<_> = by_flags.chain(extra).collect();
    CString::new(categories.join(" ")).expect("categories hold no NUL")
}

fn is_ok(status: c_int) -> Option<()> {
    (status == raw::REDISMODULE_OK as c_int).then_some(())
}

/// Returns the number of arguments including the command's name. If the number varies, returns the negative minimum.
fn arity(spec: &Spec) -> c_int {
    if matches!(spec.keys, Keys::OfEffects(_)) {
        return -1;
    }
    let least = 1 + spec.arguments.iter().map(Arg::least).sum::<c_int>();
    if spec.arguments.iter().any(Arg::varies) { -least } else { least }
}

/// The sizes of the structures in a command's description. A newer server needs these sizes, because its own structures
/// may be larger.
static LAYOUT: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<RedisModuleCommandArg>(),
};

fn describe(command: *mut raw::RedisModuleCommand, spec: &Spec) -> Option<()> {
    let mut lists = Vec::new();
    let arguments = arguments(spec.arguments, &mut lists);
    // A zeroed element ends the list.
    let mut keys: Vec<_> = spec.keys.specs().map(key_spec).chain([no_key_spec()]).collect();
    let info = raw::RedisModuleCommandInfo {
        version: &raw const LAYOUT,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: spec.since.as_ptr(),
        history: null_mut(),
        tips: null(),
        arity: arity(spec),
        key_specs: keys.as_mut_ptr(),
        args: arguments,
    };
    // SAFETY: every list ends with a zeroed element and every string with a NUL. All live until the call returns,
    // and the server copies what it keeps.
    is_ok(unsafe { api!(RedisModule_SetCommandInfo(command, &raw const info)) })
}

/// Returns the server's form of a list of arguments. `lists` keeps the returned list and its nested lists alive.
fn arguments(of: &[Arg], lists: &mut Vec<Vec<RedisModuleCommandArg>>) -> *mut RedisModuleCommandArg {
    if of.is_empty() {
        return null_mut();
    }
    // The key specs are in the order of the key arguments, which are never nested.
    let mut key_specs = 0..;
    let mut list: Vec<_> = of
        .iter()
        .map(|arg| RedisModuleCommandArg {
            name: arg.name.as_ptr(),
            type_: arg.kind,
            key_spec_index: match arg.kind {
                raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY => key_specs.next().unwrap_or(-1),
                _ => -1,
            },
            token: text(arg.token),
            summary: null(),
            since: text(arg.since),
            flags: arg.flags,
            deprecated_since: null(),
            subargs: arguments(arg.parts, lists),
            display_text: null(),
        })
        .collect();
    // SAFETY: all fields are pointers and integers, for which zero is valid. The element ends the list.
    list.push(unsafe { std::mem::zeroed() });
    let start = list.as_mut_ptr();
    lists.push(list);
    start
}

fn text(text: Option<&'static CStr>) -> *const c_char {
    text.map_or(null(), CStr::as_ptr)
}

fn no_key_spec() -> RedisModuleCommandKeySpec {
    // SAFETY: all fields are pointers and integers, for which zero is valid.
    unsafe { std::mem::zeroed() }
}

fn key_spec(KeySpec { at, access, is_counted }: KeySpec) -> RedisModuleCommandKeySpec {
    let mut spec = no_key_spec();
    spec.flags = access as u64;
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    // The command's name precedes the arguments.
    spec.bs.index.pos = at as c_int + 1;
    if is_counted {
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
        // SAFETY: the union holds plain integers, and the line above selects this variant.
        let keynum = unsafe { &mut spec.fk.keynum };
        (keynum.keynumidx, keynum.firstkey, keynum.keystep) = (0, 1, 1);
    } else {
        spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        spec.fk.range.lastkey = 0;
        spec.fk.range.keystep = 1;
    }
    spec
}
