//! How a command becomes known to the server, with all that clients may ask about it, and how it is entered.

use super::blocking;
use super::context::Context;
use super::panic::survive;
use super::slots;
use super::string::Str;
use crate::error::Error;
use crate::model::time::digits;
use redis_module::raw::{self, RedisModuleCommandArg, RedisModuleCommandKeySpec, RedisModuleCtx, RedisModuleString};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};

/// A command: what the server is told of it, and what it does.
pub trait Command {
    const SPEC: Spec;

    /// Runs the command. `arguments` are those after the command's name. Replies unless it returns an error, which is
    /// then the reply.
    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error>;
}

/// What the server is told of a command: COMMAND INFO, COMMAND DOCS, COMMAND GETKEYS and ACL rules follow from it.
pub struct Spec {
    pub name: &'static CStr,
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    pub since: &'static CStr,
    /// Flags as `RedisModule_CreateCommand` takes them: `write`, `readonly`, `deny-oom`, `fast`.
    pub flags: &'static CStr,
    /// Number of arguments with the name; negative: at least that many.
    pub arity: c_int,
    pub keys: Keys,
    pub arguments: &'static [Arg],
}

/// Which arguments are keys.
#[derive(Clone, Copy)]
pub enum Keys {
    None,
    /// The first one.
    First(Access),
    /// As many as the first argument says, right after it: `numkeys key [key ...]`.
    Counted(Access),
    /// The same behind a key in which the result is stored: `destination numkeys key [key ...]`.
    Stored {
        stored: Access,
        counted: Access,
    },
}

impl Keys {
    /// Whether the server has to ask which arguments are keys.
    fn are_counted(self) -> bool {
        !matches!(self, Keys::None | Keys::First(_))
    }

    /// The keys among the arguments, by index, and what is done to each. None where their number is no number, not positive,
    /// or more than there are arguments: the server then finds no keys, and the command itself answers the error.
    fn among(self, arguments: &[Str<'_>]) -> Vec<(usize, Access)> {
        let counted = |numkeys: usize, access| {
            let count = counted_keys(arguments.get(numkeys..).unwrap_or_default());
            (0..count).map(move |key| (numkeys + 1 + key, access))
        };
        match self {
            Keys::None => Vec::new(),
            Keys::First(access) => vec![(0, access)],
            Keys::Counted(access) => counted(0, access).collect(),
            Keys::Stored { stored, counted: access } => {
                let mut keys: Vec<_> = counted(1, access).collect();
                if !keys.is_empty() {
                    keys.insert(0, (0, stored));
                }
                keys
            }
        }
    }
}

/// What a command does to its keys.
#[derive(Clone, Copy)]
pub enum Access {
    /// Reads the value and tells it.
    Read,
    /// Adds to the value.
    Insert,
    /// Changes what is there.
    Update,
    /// Reads the value, tells it, and takes parts of it away.
    Take,
    /// Takes parts of the value away.
    Delete,
    /// Changes what is there, and tells it.
    Exchange,
}

impl Access {
    const fn flags(self) -> u64 {
        (match self {
            Access::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
            Access::Insert => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_INSERT,
            Access::Update => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE,
            Access::Take => {
                raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_DELETE
            }
            Access::Delete => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
            Access::Exchange => {
                raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE
            }
        }) as u64
    }
}

/// An argument, as COMMAND DOCS shows it.
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

    /// Bytes, and also durations and times, which have units.
    pub const fn string(name: &'static CStr) -> Arg {
        Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING)
    }

    pub const fn integer(name: &'static CStr) -> Arg {
        Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER)
    }

    /// A keyword that stands by itself.
    pub const fn flag(name: &'static CStr, token: &'static CStr) -> Arg {
        Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN).after(token)
    }

    /// Exactly one of several.
    pub const fn one_of(name: &'static CStr, parts: &'static [Arg]) -> Arg {
        let mut arg = Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF);
        arg.parts = parts;
        arg
    }

    /// Several in this order.
    pub const fn block(name: &'static CStr, parts: &'static [Arg]) -> Arg {
        let mut arg = Arg::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK);
        arg.parts = parts;
        arg
    }

    /// The keyword in front of the argument.
    pub const fn after(mut self, token: &'static CStr) -> Arg {
        self.token = Some(token);
        self
    }

    /// The version that brought it, if the command is older.
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
}

/// A row of the table of commands.
pub struct Entry {
    spec: &'static Spec,
    handler: unsafe extern "C" fn(*mut RedisModuleCtx, *mut *mut RedisModuleString, c_int) -> c_int,
}

impl Entry {
    pub const fn of<C: Command>() -> Entry {
        Entry { spec: &C::SPEC, handler: enter::<C> }
    }
}

/// The way from the server into a command, and back with its reply.
///
/// A panic is caught here, logged by the panic hook, and answered as an error. It may have come between a change and its
/// replication; so the keys of a writing command then go to the replicas and the AOF as they are.
unsafe extern "C" fn enter<C: Command>(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server passes a context that lasts as long as this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    // SAFETY: the server keeps the arguments alive and unchanged as long as this call.
    let arguments = unsafe { Str::arguments(argv, argc) }.get(1..).unwrap_or_default();
    if C::SPEC.keys.are_counted() && ctx.asks_for_key_positions() {
        survive(|| ctx.tell_key_positions(&C::SPEC.keys.among(arguments)));
        return raw::REDISMODULE_OK as c_int;
    }
    let run = |ctx: &mut Context| C::run(ctx, arguments).unwrap_or_else(|error| ctx.reply_error(error));
    let outcome = blocking::as_command(&mut ctx, |ctx| ctx.replying("command", run));
    if outcome.is_none() && C::SPEC.flags.to_bytes().starts_with(b"write") {
        for (at, access) in C::SPEC.keys.among(arguments) {
            if let Some(&key) = arguments.get(at).filter(|_| !matches!(access, Access::Read)) {
                ctx.replicate_whole(key);
            }
        }
    }
    raw::REDISMODULE_OK as c_int
}

/// How many keys stand behind `numkeys`. 0 where it is no number, not positive, or more than there are arguments: the
/// server then finds no keys, and the command itself answers the error.
fn counted_keys(arguments: &[Str<'_>]) -> usize {
    let Some((numkeys, rest)) = arguments.split_first() else { return 0 };
    let keys = digits(numkeys.bytes()).and_then(|keys| usize::try_from(keys).ok());
    keys.filter(|&keys| keys <= rest.len()).unwrap_or(0)
}

impl Context {
    /// Whether the server calls a command only to learn which of its arguments are keys.
    fn asks_for_key_positions(&self) -> bool {
        // SAFETY: the context is that of the call under way.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.as_ptr())) != 0 }
    }

    /// The answer to that: which arguments, and what is done to each.
    fn tell_key_positions(&self, keys: &[(usize, Access)]) {
        for (at, access) in keys {
            // The command's name stands before the arguments.
            let Ok(position) = c_int::try_from(at + 1) else { continue };
            // SAFETY: as above, and the position is that of an argument.
            unsafe { api!(RedisModule_KeyAtPosWithFlags(self.as_ptr(), position, access.flags() as c_int)) };
        }
    }
}

/// A command that the server would not take.
#[derive(Debug)]
pub struct Refused(pub &'static CStr);

/// Tells the server how the module wants to be treated.
pub fn set_options(ctx: &Context) {
    let options = raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    let options = options as c_int | slots::module_option();
    // SAFETY: the context is valid. The first option means that we signal changed keys ourselves, so that a call which
    // changes nothing breaks nobody's WATCH; the second that we ask for errors while loading (src/server/io.rs), so that
    // a payload cut short does not end the server; the third that a replica may serve its old dataset while it loads the new one
    // (`repl-diskless-load swapdb`): nothing in the module refers to values, and what we know of keys is forgotten when the new one
    // takes their place (src/server/events.rs); the fourth that we let slots be that are still arriving.
    unsafe { api!(RedisModule_SetModuleOptions(ctx.as_ptr(), options)) };
}

/// Makes commands known. `further` are their ACL categories besides those by flags, with blanks between them.
pub fn register(ctx: &Context, table: &[Entry], further: Option<&'static str>) -> Result<(), Refused> {
    table.iter().try_for_each(|entry| register_one(ctx, entry, further).ok_or(Refused(entry.spec.name)))
}

fn register_one(ctx: &Context, entry: &Entry, further: Option<&'static str>) -> Option<()> {
    let spec = entry.spec;
    let (first, last, step) = match spec.keys {
        Keys::First(_) => (1, 1, 1),
        Keys::None | Keys::Counted(_) => (0, 0, 0),
        // Found without counting; as the server has it of ZUNIONSTORE.
        Keys::Stored { .. } => (1, 1, 1),
    };
    let flags = flags(spec);
    // SAFETY: the context is that of the module's loading; the strings are NUL-terminated constants.
    let status = unsafe {
        api!(RedisModule_CreateCommand(
            ctx.as_ptr(),
            spec.name.as_ptr(),
            Some(entry.handler),
            flags.as_ptr(),
            first,
            last,
            step
        ))
    };
    is_ok(status)?;
    // SAFETY: as above; the command has just been created.
    let command = unsafe { api!(RedisModule_GetCommand(ctx.as_ptr(), spec.name.as_ptr())) };
    describe(command, spec)?;
    // Since Redis 7.2; before, commands of modules are in no category.
    if has_api!(RedisModule_SetCommandACLCategories) {
        let categories = categories(spec, further);
        // SAFETY: the command exists, the categories are the server's own.
        is_ok(unsafe { api!(RedisModule_SetCommandACLCategories(command, categories.as_ptr())) })?;
    }
    Some(())
}

/// The flags as the server takes them. A command with counted keys is asked for their positions, besides being described
/// by a key spec: a cluster of Redis 7.0 redirects by the answer, and cannot by the spec.
fn flags(spec: &Spec) -> CString {
    let mut flags = spec.flags.to_bytes().to_vec();
    if spec.keys.are_counted() {
        flags.extend_from_slice(b" getkeys-api");
    }
    CString::new(flags).expect("flags hold no NUL")
}

/// The ACL categories that the server gives to commands of its own by their flags, but not to those of modules: without
/// them, `-@write` would leave our writes allowed.
fn categories(spec: &Spec, further: Option<&'static str>) -> CString {
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
    let categories: Vec<_> = by_flags.chain(further).collect();
    CString::new(categories.join(" ")).expect("categories hold no NUL")
}

fn is_ok(status: c_int) -> Option<()> {
    (status == raw::REDISMODULE_OK as c_int).then_some(())
}

/// The layout of the structures below, for servers whose own has grown since.
static LAYOUT: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<RedisModuleCommandArg>(),
};

fn describe(command: *mut raw::RedisModuleCommand, spec: &Spec) -> Option<()> {
    let mut lists = Vec::new();
    let arguments = arguments(spec.arguments, &mut lists);
    let mut keys = key_specs(spec.keys);
    let info = raw::RedisModuleCommandInfo {
        version: &raw const LAYOUT,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: spec.since.as_ptr(),
        history: null_mut(),
        tips: null(),
        arity: spec.arity,
        key_specs: keys.as_mut_ptr(),
        args: arguments,
    };
    // SAFETY: every list ends with a zeroed element, every string with a NUL, and all live until the call returns; the
    // server copies what it keeps.
    is_ok(unsafe { api!(RedisModule_SetCommandInfo(command, &raw const info)) })
}

/// The server's form of a list of arguments. The lists themselves, nested ones too, are kept alive in `lists`.
fn arguments(of: &[Arg], lists: &mut Vec<Vec<RedisModuleCommandArg>>) -> *mut RedisModuleCommandArg {
    if of.is_empty() {
        return null_mut();
    }
    // The key specs come in the order of the arguments they are about, which are never parts of others.
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
    // SAFETY: all its fields are pointers and integers, for which zero is a value; it ends the list.
    list.push(unsafe { std::mem::zeroed() });
    let start = list.as_mut_ptr();
    lists.push(list);
    start
}

fn text(text: Option<&'static CStr>) -> *const c_char {
    text.map_or(null(), CStr::as_ptr)
}

fn no_key_spec() -> RedisModuleCommandKeySpec {
    // SAFETY: all its fields are pointers and integers, for which zero is a value; it ends the list.
    unsafe { std::mem::zeroed() }
}

/// The list, ended by a zeroed one.
fn key_specs(keys: Keys) -> Vec<RedisModuleCommandKeySpec> {
    match keys {
        Keys::None => vec![no_key_spec()],
        Keys::First(access) => vec![one_key(access), no_key_spec()],
        Keys::Counted(access) => vec![counted_key_spec(1, access), no_key_spec()],
        Keys::Stored { stored, counted } => vec![one_key(stored), counted_key_spec(2, counted), no_key_spec()],
    }
}

/// The first argument.
fn one_key(access: Access) -> RedisModuleCommandKeySpec {
    let mut spec = key_spec(1, access);
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    spec.fk.range.lastkey = 0;
    spec.fk.range.keystep = 1;
    spec
}

/// As many arguments as the one at `position` says, right behind it.
fn counted_key_spec(position: c_int, access: Access) -> RedisModuleCommandKeySpec {
    let mut spec = key_spec(position, access);
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
    // SAFETY: the union holds plain integers, of which this is the variant just named.
    let keynum = unsafe { &mut spec.fk.keynum };
    keynum.keynumidx = 0;
    keynum.firstkey = 1;
    keynum.keystep = 1;
    spec
}

fn key_spec(position: c_int, access: Access) -> RedisModuleCommandKeySpec {
    let mut spec = no_key_spec();
    spec.flags = access.flags();
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.bs.index.pos = position;
    spec
}
