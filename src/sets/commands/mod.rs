//! ZEXP: expiring sets. This file has the argument parsing and the conditions that the commands share.

mod add;
mod adopt;
mod card;
mod expire;
mod ismember;
mod members;
mod mismember;
mod persist;
mod plan;
mod pop;
mod pttl;
mod randmember;
mod rem;
mod ttl;

use crate::args::{Args, after};
use crate::base::time::Millis;
use crate::error::Error;
use crate::server::command::{Arg, Command, commands};
use crate::server::key::{Reading, Writing};
use crate::server::{Context, Str};
use crate::sets::ExpiringSet;
use plan::Plan;
use std::cmp::Ordering;

/// The commands for sorted sets with expiring members.
pub const COMMANDS: &[Command] =
    commands![add, adopt, card, expire, ismember, members, mismember, persist, pop, pttl, randmember, rem, ttl];

const COMPARISON: Arg = Arg::one_of(c"comparison", &[Arg::flag(c"gt", c"GT"), Arg::flag(c"lt", c"LT")]).optional();

/// With AT, `ttl` is a time, not a duration.
const AT: Arg = Arg::flag(c"at", c"AT").optional();

/// Whether `comparison` allows the new expiry. GT is `Greater`, LT is `Less`.
fn allows(comparison: Option<Ordering>, new: Millis, current: Millis) -> bool {
    comparison.is_none_or(|wanted| new.cmp(&current) == wanted)
}

/// Runs a command with the arguments `key member [member ...]`. Calls `reply` with each member's expiry and the current
/// time. The expiry is `None` if the member is not live.
fn reply_each<'a>(
    ctx: &mut Context,
    arguments: &'a [Str<'a>],
    reply: impl Fn(&Context, Option<Millis>, Millis),
) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let (key, members) = (args.string()?, args.strings()?);
    let set = ExpiringSet::<Reading>::expiring(ctx, key)?;
    let ctx = set.ctx();
    ctx.reply_array(members.len());
    members.iter().for_each(|&member| reply(ctx, set.live_until(member, now), now));
    Ok(())
}

/// Changes the expiry of members, and replies with a number for each member. `decide` gets a member's expiry, and
/// returns the new expiry and the number to reply. An expiry of `None` means that the member is not live.
fn change_each<'a>(
    ctx: &mut Context,
    key: Str<'a>,
    members: &[Str<'a>],
    now: Millis,
    decide: impl Fn(Option<Millis>) -> (Option<Millis>, i64),
) -> Result<(), Error> {
    let set = ExpiringSet::<Writing>::expiring(ctx, key)?;
    let mut plan = Plan::new();
    let results =
        members.iter().map(|&member| plan.decide(&set, now, member, &decide)).collect::<Result<Vec<_>, _>>()?;
    plan.carry_out(set);
    ctx.reply_integers(&results);
    Ok(())
}

/// Parses `ttl`, and returns the time of expiry. `ttl` is a time if `is_instant` is true, otherwise a duration.
fn expiry(args: &mut Args<'_>, is_instant: bool, now: Millis) -> Result<Millis, Error> {
    if is_instant {
        return args.instant();
    }
    after(now, args.duration()?)
}
