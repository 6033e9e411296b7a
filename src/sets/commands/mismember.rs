//! `ZEXP.MISMEMBER key member [member ...]`
//!
//! Returns for each member whether it is live.

use super::reply_each;
use crate::args::KEY_AND_MEMBERS;
use crate::error::Error;
use crate::server::command::{Access, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZEXP.MISMEMBER",
    summary: c"Determines which members of an expiring set are live.",
    complexity: c"O(1) for each member",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: KEY_AND_MEMBERS,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    reply_each(ctx, arguments, |ctx, expiry, _| ctx.reply_bool(expiry.is_some()))
}
