//! `ZRL.REFUND key units AT charged_until_ms`
//!
//! Gives back units that one call took: a reservation that was larger than the actual cost, a request that failed.

use crate::commands::args::Args;
use crate::error::Error;
use crate::limits::{Kept, Limit};
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub struct Refund;

impl Command for Refund {
    const SPEC: Spec = Spec {
        name: c"ZRL.REFUND",
        summary: c"Gives units back to a rate limit.",
        complexity:
            c"O(1) for FIXED and LEAKY; O(M log N) for SLIDING, with N its entries and M those that come back later, at most 10,000",
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

        let back = match Kept::<Writing>::open(ctx, key)? {
            Kept::Nothing => 0,
            Kept::Limit(limit) => {
                let (ctx, news, back) = Limit::refund(limit, now, units, until)?;
                news.announce(ctx, key);
                back
            }
        };
        ctx.reply_count(back);
        Ok(())
    }
}
