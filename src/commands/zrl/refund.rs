//! `ZRL.REFUND key units AT charged_until_ms`
//!
//! Gives back units that one call took: a reservation that was larger than the actual cost, a request that failed.

use crate::commands::args::Args;
use crate::error::Error;
use crate::expiring::limit::LimitSet;
use crate::model::limit::refund;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Mode;
use crate::server::{Context, Str};

pub struct Refund;

impl Command for Refund {
    const SPEC: Spec = Spec {
        name: c"ZRL.REFUND",
        summary: c"Gives units back to a rate limit.",
        complexity:
            c"O(M log N) with N the number of entries of the limit and M the number of those that come back later",
        since: c"0.1.0",
        flags: c"write fast",
        arity: 5,
        keys: Keys::First(Access::Update),
        arguments: &[Arg::key(c"key"), Arg::integer(c"units"), Arg::string(c"charged_until_ms").after(c"AT")],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let (key, units) = (args.string()?, args.units()?);
        match args.trailing_keyword()? {
            Some(keyword) if keyword.as_str() == "AT" => {}
            _ => return Err(Error::Syntax),
        }
        let until = args.instant_ms()?;
        args.finish()?;

        let mut limit = LimitSet::open(ctx, key, Mode::Write)?;
        let (back, rewrite) = refund(now, units, until, &mut limit)?;
        limit.rewrite(rewrite);
        limit.commit();
        ctx.reply_count(back);
        Ok(())
    }
}
