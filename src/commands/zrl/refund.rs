//! `ZRL.REFUND key units AT charged_until_ms`
//!
//! Gives back units that one call took: a reservation that was larger than the actual cost, a request that failed.

use crate::commands::args::Args;
use crate::error::Error;
use crate::limits::Limit;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, Str};

pub struct Refund;

impl Command for Refund {
    const SPEC: Spec = Spec {
        name: c"ZRL.REFUND",
        summary: c"Gives units back to a rate limit.",
        complexity:
            c"O(1) for FIXED and LEAKY; O(log N + M) for SLIDING, with N the slots in use and M those of units that become available later",
        since: c"0.1.0",
        flags: c"write",
        arity: 5,
        keys: Keys::First(Access::Update),
        arguments: &[Arg::key(c"key"), Arg::integer(c"units"), Arg::string(c"charged_until_ms").after(c"AT")],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let (key, units) = (args.string()?, args.units()?);
        match args.trailing_keyword()? {
            Some(keyword) if keyword.as_str() == "AT" => {}
            _ => return Err(Error::Syntax),
        }
        let until = args.instant()?;
        args.finish()?;

        let (ctx, news, back) = Limit::open(ctx, key)?.refund(now, units, until)?;
        news.announce(ctx, key);
        ctx.reply_count(back);
        Ok(())
    }
}
