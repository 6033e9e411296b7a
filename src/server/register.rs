//! Registers the module's commands with the server: names, flags, ACL categories, key positions and the data of COMMAND
//! DOCS. Also declares the module's options.

use super::command::{Arg, Command, KeySpec, Keys, Spec};
use super::context::Context;
use super::slots;
use redis_module::raw::{self, RedisModuleCommandArg, RedisModuleCommandKeySpec};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};

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

/// Registers commands. `extra` lists further ACL categories, separated by blanks. [`categories`] derives the other
/// categories from the flags. If the server refuses a command, returns the command's name.
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
