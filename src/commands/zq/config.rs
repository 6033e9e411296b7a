//! `ZQ.CONFIG key [ATTEMPTS n] [BACKOFF base max] [JITTER percent] [AGING duration] [MAXLEN n] [DEADLEN n] [DEADTTL duration]
//! [CONCURRENCY n] [RATE limit window] [GROUPCONCURRENCY n] [GROUPRATE limit window] [ORDERED yes | no] [PAUSED yes | no]`
//!
//! Sets what is given and leaves the rest; 0 turns a setting off (`BACKOFF 0 0`, `RATE 0 0`). On a missing key it makes an
//! empty queue. Without options: the settings. ATTEMPTS applies to jobs pushed from then on.

use super::{SETTINGS, after, reply_settings};
use crate::commands::args::{Args, Keyword};
use crate::error::Error;
use crate::model::queue::{Change, Effect, Rate, Settings};
use crate::model::time::Millis;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::{Reading, Writing};
use crate::server::{Context, Str};

pub struct Config;

impl Command for Config {
    const SPEC: Spec = Spec {
        name: c"ZQ.CONFIG",
        summary: c"Sets or returns the settings of a queue.",
        complexity: c"O(1); O(N) with N the number of jobs of the queue when AGING or ORDERED changes; O(G) with G the number of groups with jobs when GROUPCONCURRENCY or GROUPRATE changes; O(M*log(N)) with M the number of claimed jobs when BACKOFF or JITTER changes",
        since: c"0.1.0",
        // Not deny-oom: an operator can always look, and pause. Only a new queue takes memory.
        flags: c"write",
        arity: -2,
        keys: Keys::First(Access::Exchange),
        arguments: &[
            Arg::key(c"key"),
            Arg::integer(c"attempts").after(c"ATTEMPTS").optional(),
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

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let [key, options @ ..] = arguments else { return Err(Error::Arity) };
        if options.is_empty() {
            let open = OpenQueue::<Reading>::open(ctx, *key)?;
            let ctx = open.ctx();
            ctx.reply_map(SETTINGS);
            reply_settings(ctx, open.queue().settings());
            return Ok(());
        }
        // What is wrong with the options is said before the key is looked at; then they are read again, onto its settings.
        read(options, now, &mut Settings::default())?;
        let mut open = OpenQueue::<Writing>::open(ctx, *key)?;
        if open.is_new() && open.ctx().is_out_of_memory() {
            return Err(Error::OutOfMemory);
        }
        let mut settings = *open.queue().settings();
        read(options, now, &mut settings)?;
        if open.queue().is_too_long_for(&settings) {
            return Err(Error::QueueTooLong);
        }
        open.change(|queue, effects| {
            match queue.configure(now, settings) {
                Some(effect) => effects.add(&effect),
                // Nothing changes, but the key has to be there from now on.
                None => effects.add_if_new(&Effect { at: now, change: Change::Configure(settings) }),
            }
        });
        open.commit(now);
        ctx.reply_ok();
        Ok(())
    }
}

/// Changes those settings that are given.
fn read(options: &[Str<'_>], now: Millis, settings: &mut Settings) -> Result<(), Error> {
    let mut args = Args::new(options);
    let mut given = Vec::new();
    while let Some(keyword) = args.trailing_keyword()? {
        let args = &mut args;
        match keyword.as_str() {
            "ATTEMPTS" => settings.attempts = args.attempts()?,
            "BACKOFF" => (settings.backoff_base, settings.backoff_max) = (within(args, now)?, within(args, now)?),
            "JITTER" => settings.jitter = percent(args)?,
            "DEADLEN" => settings.deadlen = args.units()?,
            "DEADTTL" => settings.deadttl = within(args, now)?,
            "AGING" => settings.aging = within(args, now)?,
            "MAXLEN" => settings.maxlen = args.units()?,
            "CONCURRENCY" => settings.concurrency = args.units()?,
            "RATE" => settings.rate = rate(args, now)?,
            "GROUPCONCURRENCY" => settings.group_concurrency = args.units()?,
            "GROUPRATE" => settings.group_rate = rate(args, now)?,
            "ORDERED" => settings.ordered = yes_or_no(args)?,
            "PAUSED" => settings.paused = yes_or_no(args)?,
            _ => return Err(Error::Syntax),
        }
        if given.contains(&keyword) {
            return Err(Error::Syntax);
        }
        given.push(keyword);
    }
    Ok(())
}

/// A duration, or 0.
fn within(args: &mut Args<'_>, now: Millis) -> Result<Millis, Error> {
    let duration = args.wait()?;
    after(now, duration)?;
    Ok(duration)
}

/// 0 to 100.
fn percent(args: &mut Args<'_>) -> Result<u32, Error> {
    args.attempts().and_then(|percent| if percent <= 100 { Ok(percent) } else { Err(Error::OutOfRange) })
}

/// `limit window`. A limit of 0 is no limit; a window of 0 goes with that one only.
fn rate(args: &mut Args<'_>, now: Millis) -> Result<Option<Rate>, Error> {
    let (limit, window) = (args.units()?, within(args, now)?);
    match (limit, window) {
        (0, _) => Ok(None),
        (_, 0) => Err(Error::Duration),
        _ => Ok(Some(Rate { limit, window })),
    }
}

fn yes_or_no(args: &mut Args<'_>) -> Result<bool, Error> {
    let keyword = args.trailing_keyword()?;
    match keyword.as_ref().map(Keyword::as_str) {
        Some("YES") => Ok(true),
        Some("NO") => Ok(false),
        _ => Err(Error::Syntax),
    }
}
