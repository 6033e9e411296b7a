//! `ZEXP.REM key member [member ...]`
//!
//! Removes live members. Expired members do not count as removed.

use super::plan::Plan;
use crate::args::Args;
use crate::args::KEY_AND_MEMBERS;
use crate::error::Error;
use crate::server::command::{Access, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};
use crate::sets::ExpiringSet;

pub const SPEC: Spec = Spec {
    name: c"ZEXP.REM",
    summary: c"Removes members from an expiring set.",
    complexity: c"O(log N) for each member, with N the number of members of the set",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Delete),
    arguments: KEY_AND_MEMBERS,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let (key, members) = (args.string()?, args.strings()?);

    let set = ExpiringSet::<Writing>::expiring(ctx, key)?;
    let mut plan = Plan::new();
    for &member in members {
        plan.decide(&set, now, member, |_| (None, ()))?;
    }
    let removed = plan.counts().removed;
    plan.carry_out(set);
    ctx.reply_count(removed);
    Ok(())
}
