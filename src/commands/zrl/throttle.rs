//! `ZRL.THROTTLE key max_burst count period [quantity]`
//!
//! redis-cell's CL.THROTTLE under another name: the same arguments, the same arithmetic (GCRA: `count` per `period`
//! seconds, on top of it bursts of `max_burst`), the same five fields in seconds. Times are rounded up to whole seconds,
//! so whoever waits them succeeds. What would overflow there is an error here.

use super::{charge, refuse};
use crate::commands::args::Args;
use crate::error::Error;
use crate::expiring::limit::{self, LimitSet};
use crate::model::limit::leaky::{self, Bucket, Rate};
use crate::model::limit::{Assessed, RetryAfter};
use crate::model::time;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Mode;
use crate::server::{Context, Str};

pub struct Throttle;

impl Command for Throttle {
    const SPEC: Spec = Spec {
        name: c"ZRL.THROTTLE",
        summary: c"Takes units from a leaky bucket; a drop-in for CL.THROTTLE of redis-cell.",
        complexity: c"O(1)",
        since: c"0.1.0",
        flags: c"write deny-oom fast",
        arity: -5,
        keys: Keys::First(Access::Exchange),
        arguments: &[
            Arg::key(c"key"),
            Arg::integer(c"max_burst"),
            Arg::integer(c"count"),
            Arg::integer(c"period"),
            Arg::integer(c"quantity").optional(),
        ],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let (max_burst, count, period) = (args.units()?, args.limit()?, args.limit()?);
        let quantity = if args.is_empty() { 1 } else { args.units()? };
        args.finish().map_err(|_| Error::Arity)?;
        let capacity = max_burst + 1;
        let per = period.checked_mul(1000).filter(|&per| per <= time::MAX).ok_or(Error::TooFar)?;
        let full = (u128::from(capacity) * u128::from(per)).div_ceil(u128::from(count));
        if full > u128::from(time::MAX - now) {
            return Err(Error::TooFar);
        }

        let mut limit = LimitSet::open(ctx, key, Mode::Write)?;
        let rate = Rate { units: count, per };
        let assessed = Assessed::Leaky(leaky::assess(capacity, rate, now, quantity, limit.level()?));
        let allowed = assessed.verdict().allowed;
        let verdict = if allowed { charge } else { refuse }(&mut limit, &assessed, now);
        limit.commit();
        limit::count(allowed.then_some(quantity));

        let seconds = |millis: u64| i64::try_from(millis.div_ceil(1000)).unwrap_or(i64::MAX);
        let retry_after = match verdict.retry_after {
            RetryAfter::Wait(wait) => seconds(wait),
            RetryAfter::Now | RetryAfter::Never => -1,
        };
        ctx.reply_array(5);
        ctx.reply_bool(!allowed);
        ctx.reply_count(verdict.limit);
        ctx.reply_count(verdict.remaining);
        ctx.reply_integer(retry_after);
        ctx.reply_integer(seconds(verdict.reset_after));
        Ok(())
    }
}
