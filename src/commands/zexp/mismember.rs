//! `ZEXP.MISMEMBER key member [member ...]`
//!
//! Returns for each member whether it is live.

use super::KEY_AND_MEMBERS;
use crate::commands::args::Args;
use crate::error::Error;
use crate::expiring::TimedSet;
use crate::server::command::{Access, Keys, Spec};
use crate::server::key::Reading;
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
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let (key, members) = (args.string()?, args.strings()?);
    let set = TimedSet::<Reading>::expiring(ctx, key)?;
    let ctx = set.ctx();
    ctx.reply_array(members.len());
    for &member in members {
        ctx.reply_bool(set.live_until(member, now).is_some());
    }
    Ok(())
}
