//! `ZRL.THROTTLE key max_burst count period [quantity]`
//!
//! redis-cell's CL.THROTTLE under another name. The arguments, the arithmetic (GCRA: `count` units per `period`
//! seconds, plus bursts of `max_burst`), the five reply fields in seconds and the stored string are the same. Unlike
//! redis-cell, the command returns an error on an overflow.

use crate::args::Args;
use crate::base::time::Millis;
use crate::error::Error;
use crate::limits::model::throttle::{Arrival, MILLISECOND, OutOfRange, ThrottlePolicy, ThrottleVerdict, throttle};
use crate::limits::model::{StoredLimit, Update};
use crate::limits::{Limit, stats};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::context::now_nanos;
use crate::server::{Context, Str};

impl From<OutOfRange> for Error {
    fn from(_: OutOfRange) -> Error {
        Error::Throttle
    }
}

pub const SPEC: Spec = Spec {
    name: c"ZRL.THROTTLE",
    summary: c"Takes units from a leaky bucket, as CL.THROTTLE of redis-cell does.",
    complexity: c"O(1)",
    since: c"0.1.0",
    flags: c"write deny-oom fast",
    keys: Keys::First(Access::Exchange),
    arguments: &[
        Arg::key(c"key"),
        Arg::integer(c"max_burst"),
        Arg::integer(c"count"),
        Arg::integer(c"period"),
        Arg::integer(c"quantity").optional(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = now_nanos();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let policy = ThrottlePolicy::new(args.integer()?, args.integer()?, args.integer()?)?;
    let quantity = if args.is_empty() { 1 } else { args.integer()? };
    args.finish().map_err(|_| Error::Arity)?;

    let mut limit = Limit::open(ctx, key)?;
    let stored = match limit.stored()? {
        None => None,
        Some(StoredLimit::Throttle(arrival)) => Some(arrival),
        Some(_) => return Err(Error::OtherAlgorithm),
    };
    let (verdict, left) = throttle(policy, now, quantity, stored)?;
    let update = (left != stored).then(|| left.map_or(Update::Remove, Arrival::update));
    let (ctx, events) = limit.commit(update);
    if verdict.allowed {
        stats::count_taken(u64::try_from(quantity).unwrap_or(0), true);
    } else {
        stats::count_denied(ctx, [key], Millis::try_from(now / MILLISECOND).unwrap_or(Millis::MAX));
    }
    events.send(ctx, key);
    let ThrottleVerdict { allowed, remaining, retry_after, reset_after } = verdict;
    ctx.reply_integers(&[i64::from(!allowed), policy.limit, remaining, retry_after, reset_after]);
    Ok(())
}
