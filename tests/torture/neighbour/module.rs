//! An evil neighbour: another module that runs commands within any keyspace event, and so in the middle of the commands
//! of the module under test. It is only for tests (tests/torture/neighbour/mod.rs) and is not shipped.
//!
//! - `EVIL.ON events command [argument ...]`: runs the command in every event with this name (`zadd`), in events whose
//!   names begin so (`zexp.*`), or in all events (`*`). `{key}` in an argument stands for the event's key. Each call
//!   adds a rule to the earlier ones.
//! - `EVIL.ONCE ...`: the same, but only for the next such event.
//! - `EVIL.TIMER duration`: arms a timer that does nothing. The duration is in ms.
//! - `EVIL.OFF`: removes all rules. Replies how many commands ran since the last EVIL.OFF.
//!
//! The commands are replicated as those of a client, and run in the event's database. They run only on a master, and
//! cause no further commands by their own events. Their errors are ignored.
//!
//! The server sends the event `new` in the middle of its own function that adds a key. If a command then removes,
//! replaces or moves this key, the server itself crashes, also during a plain SET. So in the event `new`, the module
//! runs no command that names the event's key (except ZQ and ZLB commands, which remove no key), and no command that
//! changes a whole database.

use redis_module::alloc::RedisAlloc;
use redis_module::{
    CallOptionsBuilder, CallResult, Context, ContextFlags, NotifyEvent, RedisError, RedisResult, RedisString,
    RedisValue, redis_module,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

struct Rule {
    events: Vec<u8>,
    command: Vec<Vec<u8>>,
    is_once: bool,
}

struct State {
    rules: Vec<Rule>,
    is_running: bool,
    runs: i64,
}

static STATE: Mutex<State> = Mutex::new(State { rules: Vec::new(), is_running: false, runs: 0 });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rule {
    fn is_for(&self, event: &[u8]) -> bool {
        match self.events.strip_suffix(b"*") {
            Some(beginning) => event.starts_with(beginning),
            None => event == self.events,
        }
    }

    /// Whether the server itself survives the command during the event.
    fn is_survivable(&self, event: &[u8], key: &[u8]) -> bool {
        let command = self.command_for(key);
        let whole: [&[u8]; 3] = [b"FLUSHALL", b"FLUSHDB", b"SWAPDB"];
        let removes_no_key = [&b"ZQ."[..], b"ZLB."].iter().any(|family| command[0].starts_with(family));
        let is_about_key = !removes_no_key && command.iter().any(|word| word == key);
        event != b"new" || !(whole.contains(&&command[0][..]) || is_about_key)
    }

    fn command_for(&self, key: &[u8]) -> Vec<Vec<u8>> {
        const KEY: &[u8] = b"{key}";
        let fill = |word: &Vec<u8>| match word.windows(KEY.len()).position(|part| part == KEY) {
            Some(at) => [&word[..at], key, &word[at + KEY.len()..]].concat(),
            None => word.clone(),
        };
        self.command.iter().map(fill).collect()
    }
}

fn add(arguments: Vec<RedisString>, is_once: bool) -> RedisResult {
    let mut words = arguments.iter().skip(1).map(|word| word.as_slice().to_vec());
    let events = words.next().ok_or(RedisError::WrongArity)?;
    let command: Vec<_> = words.collect();
    if command.is_empty() {
        return Err(RedisError::WrongArity);
    }
    state().rules.push(Rule { events, command, is_once });
    Ok(RedisValue::SimpleStringStatic("OK"))
}

fn on(_: &Context, arguments: Vec<RedisString>) -> RedisResult {
    add(arguments, false)
}

fn once(_: &Context, arguments: Vec<RedisString>) -> RedisResult {
    add(arguments, true)
}

fn off(_: &Context, _: Vec<RedisString>) -> RedisResult {
    let mut state = state();
    state.rules.clear();
    Ok(std::mem::take(&mut state.runs).into())
}

fn timer(ctx: &Context, arguments: Vec<RedisString>) -> RedisResult {
    let ms = arguments.get(1).ok_or(RedisError::WrongArity)?.parse_unsigned_integer()?;
    ctx.create_timer(Duration::from_millis(ms), |_, ()| {}, ());
    Ok(RedisValue::SimpleStringStatic("OK"))
}

fn handle(ctx: &Context, _: NotifyEvent, event: &str, key: &[u8]) {
    let flags = ctx.get_flags();
    if !flags.contains(ContextFlags::MASTER) || flags.contains(ContextFlags::LOADING) {
        return;
    }
    let commands: Vec<_> = {
        let mut state = state();
        if state.is_running {
            return;
        }
        let is_due = |rule: &Rule| rule.is_for(event.as_bytes()) && rule.is_survivable(event.as_bytes(), key);
        let commands: Vec<_> =
            state.rules.iter().filter(|rule| is_due(rule)).map(|rule| rule.command_for(key)).collect();
        state.rules.retain(|rule| !(rule.is_once && is_due(rule)));
        state.is_running = !commands.is_empty();
        commands
    };
    let options = CallOptionsBuilder::new().replicate().errors_as_replies().build();
    for words in &commands {
        let Ok(name) = std::str::from_utf8(&words[0]) else { continue };
        let arguments: Vec<&[u8]> = words[1..].iter().map(Vec::as_slice).collect();
        // The reply is ignored.
        let _: CallResult<'static> = ctx.call_ext(name, &options, arguments.as_slice());
        state().runs += 1;
    }
    if !commands.is_empty() {
        state().is_running = false;
    }
}

redis_module! {
    name: "evil",
    version: 1,
    allocator: (RedisAlloc, RedisAlloc),
    data_types: [],
    commands: [
        ["EVIL.ON", on, "", 0, 0, 0, ""],
        ["EVIL.ONCE", once, "", 0, 0, 0, ""],
        ["EVIL.TIMER", timer, "", 0, 0, 0, ""],
        ["EVIL.OFF", off, "", 0, 0, 0, ""],
    ],
    event_handlers: [
        [@ALL @MISSED @NEW: handle],
    ],
}
