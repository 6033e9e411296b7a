//! `ZRL.INFO key`
//!
//! Returns a limit's algorithm, how many of its units are in use, and when they become available again. The limit and
//! the window are not stored, so they are not returned.

use crate::args::Args;
use crate::error::Error;
use crate::limits::Limit;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZRL.INFO",
    summary: c"Returns how many units of a rate limit are in use and when they become available again.",
    complexity: c"O(1) for FIXED, LEAKY and THROTTLE; O(log N) with N the slots of a SLIDING limit",
    since: c"0.2.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut limit = Limit::<Reading>::open(ctx, Args::new(arguments).string()?)?;
    let Some(stored) = limit.stored()? else {
        limit.ctx().reply_null();
        return Ok(());
    };
    let (algorithm, usage) = (stored.algorithm(), stored.usage(now)?);
    let ctx = limit.ctx();
    ctx.reply_map(5);
    ctx.reply_bytes(b"algorithm");
    ctx.reply_bytes(algorithm.as_bytes());
    for (name, value) in [
        (&b"units"[..], usage.units),
        (b"slots", Some(usage.slots)),
        (b"next_available_ms", usage.next_available),
        (b"all_available_ms", usage.all_available),
    ] {
        ctx.reply_bytes(name);
        value.map_or_else(|| ctx.reply_null(), |value| ctx.reply_count(value));
    }
    Ok(())
}
