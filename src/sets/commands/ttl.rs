//! `ZEXP.TTL key member [member ...]`
//!
//! Returns the remaining time to live of members in seconds, rounded as in TTL.

use super::reply_each;
use crate::args::KEY_AND_MEMBERS;
use crate::base::time::{self, Millis};
use crate::error::Error;
use crate::server::command::{Access, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZEXP.TTL",
    summary: c"Returns the remaining time to live of members of an expiring set in seconds.",
    complexity: c"O(1) for each member",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: KEY_AND_MEMBERS,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    reply_remaining(ctx, arguments, |remaining| (remaining + 500) / 1000)
}

pub fn reply_remaining<'a>(
    ctx: &mut Context,
    arguments: &'a [Str<'a>],
    in_unit: impl Fn(Millis) -> u64,
) -> Result<(), Error> {
    reply_each(ctx, arguments, |ctx, expiry, now| match expiry {
        None => ctx.reply_integer(-2),
        Some(time::MAX) => ctx.reply_integer(-1),
        Some(expiry) => ctx.reply_count(in_unit(expiry - now)),
    })
}
