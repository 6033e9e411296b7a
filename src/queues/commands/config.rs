//! `ZQ.CONFIG key [MAXATTEMPTS n] [BACKOFF base max] [JITTER percent] [AGING duration] [MAXLEN n] [DEADLEN n]
//! [DEADTTL duration] [CONCURRENCY n] [RATE limit window] [GROUPCONCURRENCY n] [GROUPRATE limit window]
//! [ORDERED yes | no] [PAUSED yes | no]`
//!
//! Sets the given settings, and creates an empty queue if the key is missing. 0 turns a setting off (`BACKOFF 0 0`,
//! `RATE 0 0`). Without options, returns the settings, or null if the key is missing. A new MAXATTEMPTS applies only to
//! later pushes.

use super::{after, reply_settings};
use crate::args::{Args, Keyword};
use crate::base::time::Millis;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::queues::model::{Change, Effect, Notation, Rate, Settings};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::{Reading, Writing};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.CONFIG",
    summary: c"Sets or returns the settings of a queue.",
    complexity: c"O(1); O(N) with N the number of jobs of the queue when AGING or ORDERED changes; O(G) with G the number of groups with jobs when GROUPCONCURRENCY or GROUPRATE changes",
    since: c"0.1.0",
    // The command does not have the flag deny-oom, so operators can read the settings and pause a queue even if memory
    // is short. In this case, `run` refuses only to create a queue.
    flags: c"write",
    keys: Keys::First(Access::Exchange),
    arguments: &[
        Arg::key(c"key"),
        Arg::integer(c"maxattempts").after(c"MAXATTEMPTS").optional().since(c"0.3.0"),
        Arg::block(c"backoff", &[Arg::string(c"base"), Arg::string(c"max")]).after(c"BACKOFF").optional(),
        Arg::integer(c"jitter").after(c"JITTER").optional().since(c"0.2.0"),
        Arg::string(c"aging").after(c"AGING").optional(),
        Arg::integer(c"maxlen").after(c"MAXLEN").optional(),
        Arg::integer(c"deadlen").after(c"DEADLEN").optional().since(c"0.2.0"),
        Arg::string(c"deadttl").after(c"DEADTTL").optional().since(c"0.2.0"),
        Arg::integer(c"concurrency").after(c"CONCURRENCY").optional(),
        Arg::block(c"rate", &[Arg::integer(c"limit"), Arg::string(c"window")]).after(c"RATE").optional(),
        Arg::integer(c"groupconcurrency").after(c"GROUPCONCURRENCY").optional().since(c"0.2.0"),
        Arg::block(c"grouprate", &[Arg::integer(c"limit"), Arg::string(c"window")]).after(c"GROUPRATE").optional().since(c"0.2.0"),
        Arg::one_of(c"ordered", &[Arg::flag(c"yes", c"yes"), Arg::flag(c"no", c"no")]).after(c"ORDERED").optional().since(c"0.2.0"),
        Arg::one_of(c"paused", &[Arg::flag(c"yes", c"yes"), Arg::flag(c"no", c"no")]).after(c"PAUSED").optional(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let [key, options @ ..] = arguments else { return Err(Error::Arity) };
    if options.is_empty() {
        let open = OpenQueue::<Reading>::open(ctx, *key)?;
        let ctx = open.ctx();
        if open.is_new() {
            ctx.reply_null();
            return Ok(());
        }
        ctx.reply_map(Settings::FIELDS.len());
        reply_settings(ctx, open.queue().settings());
        return Ok(());
    }
    // Refuses invalid options before the key is opened. The second call of `read` changes the queue's settings.
    read(options, now, &mut Settings::default())?;
    let mut open = OpenQueue::<Writing>::open(ctx, *key)?;
    if open.is_new() && open.ctx().is_out_of_memory() {
        return Err(Error::OutOfMemory);
    }
    let mut settings = *open.queue().settings();
    read(options, now, &mut settings)?;
    if open.queue().is_too_long_for(&settings) {
        return Err(Error::TooManyUpdates);
    }
    let is_new = open.is_new();
    open.change(|queue, effects| {
        // Even if no setting changes, a missing key is created, which needs an effect.
        if !effects.add_if_some(queue.configure(now, settings)) && is_new {
            effects.add(&Effect { at: now, change: Change::Configure(settings) });
        }
    });
    open.commit(now);
    ctx.reply_ok();
    Ok(())
}

fn read(options: &[Str<'_>], now: Millis, settings: &mut Settings) -> Result<(), Error> {
    let mut args = Args::new(options);
    let mut given = Vec::new();
    while let Some(keyword) = args.trailing_keyword()? {
        let mut fields = Settings::FIELDS.iter().filter(|field| field.option.as_bytes() == keyword.bytes()).peekable();
        if fields.peek().is_none() || given.contains(&keyword) {
            return Err(Error::Syntax);
        }
        for field in fields {
            let value = value(&mut args, now, field.notation)?;
            if !field.put(settings, value) {
                return Err(Error::OutOfRange);
            }
        }
        given.push(keyword);
    }
    // The window may be 0 only if the limit is 0 (off).
    let without_window = |rate: Option<Rate>| rate.is_some_and(|rate| rate.limit > 0 && rate.window == 0);
    if without_window(settings.rate) || without_window(settings.group_rate) {
        return Err(Error::Duration);
    }
    *settings = settings.normal();
    Ok(())
}

fn value(args: &mut Args<'_>, now: Millis, notation: Notation) -> Result<u64, Error> {
    match notation {
        Notation::Number => args.count(),
        Notation::Millis => args.wait().and_then(|duration| after(now, duration).map(|_| duration)),
        Notation::Switch => match args.trailing_keyword()?.as_ref().map(Keyword::bytes) {
            Some(b"YES") => Ok(1),
            Some(b"NO") => Ok(0),
            _ => Err(Error::Syntax),
        },
    }
}
