//! `ZRL.REFUND key units AT charged_until_ms`
//!
//! Refunds units that one call took, for example if a reservation was larger than the actual cost, or a request failed.

use crate::args::Args;
use crate::error::Error;
use crate::limits::Limit;
use crate::limits::model::StoredLimit;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZRL.REFUND",
    summary: c"Refunds units to a rate limit.",
    complexity:
        c"O(1) for FIXED and LEAKY; O(log N + M) for SLIDING, with N the number of slots in use and M the number of slots whose units become available after the refunded units",
    since: c"0.1.0",
    flags: c"write",
    keys: Keys::First(Access::Update),
    arguments: &[Arg::key(c"key"), Arg::integer(c"units"), Arg::string(c"charged_until_ms").after(c"AT")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let (key, units) = (args.string()?, args.units()?);
    match args.trailing_keyword()? {
        Some(keyword) if keyword.bytes() == b"AT" => {}
        _ => return Err(Error::Syntax),
    }
    let until = args.instant()?;
    args.finish()?;

    let mut limit = Limit::open(ctx, key)?;
    let (back, update) = match limit.stored()? {
        None => (0, None),
        Some(StoredLimit::Throttle(_)) => return Err(Error::OtherAlgorithm),
        Some(stored) => stored.refund(now, units, until)?,
    };
    let (ctx, events) = limit.commit(update);
    events.send(ctx, key);
    ctx.reply_count(back);
    Ok(())
}
