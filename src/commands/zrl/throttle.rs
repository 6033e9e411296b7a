//! `ZRL.THROTTLE key max_burst count period [quantity]`
//!
//! redis-cell's CL.THROTTLE under another name: the same arguments, the same arithmetic (GCRA: `count` per `period`
//! seconds, on top of it bursts of `max_burst`), the same five fields in seconds, and the same string under the key. What would
//! overflow there is an error here. `loadmodule ... cell` gives it the name CL.THROTTLE as well.

use crate::commands::args::Args;
use crate::error::Error;
use crate::limits::{Limit, figures};
use crate::model::limit::Stored;
use crate::model::limit::throttle::{MILLISECOND, OutOfRange, Outcome, Policy, throttle};
use crate::model::time::Millis;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::context::now_nanos;
use crate::server::{Context, Str};
use std::ffi::CStr;

impl From<OutOfRange> for Error {
    fn from(_: OutOfRange) -> Error {
        Error::Throttle
    }
}

pub struct Throttle;

/// The same under the name that redis-cell gave it.
pub struct Cell;

const ARGUMENTS: &[Arg] = &[
    Arg::key(c"key"),
    Arg::integer(c"max_burst"),
    Arg::integer(c"count"),
    Arg::integer(c"period"),
    Arg::integer(c"quantity").optional(),
];

const fn spec(name: &'static CStr, since: &'static CStr) -> Spec {
    Spec {
        name,
        summary: c"Takes units from a leaky bucket, as CL.THROTTLE of redis-cell does.",
        complexity: c"O(1)",
        since,
        flags: c"write deny-oom fast",
        arity: -5,
        keys: Keys::First(Access::Exchange),
        arguments: ARGUMENTS,
    }
}

impl Command for Throttle {
    const SPEC: Spec = spec(c"ZRL.THROTTLE", c"0.1.0");

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = now_nanos();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let policy = Policy::new(args.integer()?, args.integer()?, args.integer()?)?;
        let quantity = if args.is_empty() { 1 } else { args.integer()? };
        args.finish().map_err(|_| Error::Arity)?;

        let mut limit = Limit::open(ctx, key)?;
        let stored = limit.read(|stored| match stored {
            None => Ok(None),
            Some(Stored::Throttle(arrival)) => Ok(Some(arrival)),
            Some(_) => Err(Error::OtherAlgorithm),
        })?;
        let (verdict, outcome) = throttle(policy, now, quantity, stored)?;
        let (ctx, news) = match outcome {
            Outcome::AsItWas => limit.commit(None),
            Outcome::Set(arrival) => limit.commit(Some(arrival.change())),
            Outcome::Empty => limit.remove(),
        };
        if verdict.allowed {
            figures::count_allowed();
            figures::count_units(u64::try_from(quantity).unwrap_or(0));
        } else {
            figures::count_denied(ctx, [key], Millis::try_from(now / MILLISECOND).unwrap_or(Millis::MAX));
        }
        news.announce(ctx, key);
        ctx.reply_array(5);
        ctx.reply_bool(!verdict.allowed);
        ctx.reply_integer(policy.limit);
        ctx.reply_integer(verdict.remaining);
        ctx.reply_integer(verdict.retry_after);
        ctx.reply_integer(verdict.reset_after);
        Ok(())
    }
}

impl Command for Cell {
    const SPEC: Spec = spec(c"CL.THROTTLE", c"0.2.0");

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        Throttle::run(ctx, arguments)
    }
}
