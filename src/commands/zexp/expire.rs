//! `ZEXP.EXPIRE key [GT | LT] [AT] ttl member [member ...]`
//!
//! Sets the expiry of live members.

use super::plan::Plan;
use super::{AT, COMPARISON, Comparison, expiry};
use crate::commands::args::{Args, flag, once};
use crate::error::Error;
use crate::expiring::TimedSet;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZEXP.EXPIRE",
    summary: c"Sets the expiry of members of an expiring set.",
    complexity: c"O(log N) for each member, with N the number of members of the set",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Update),
    arguments: &[Arg::key(c"key"), COMPARISON, AT, Arg::string(c"ttl"), Arg::string(c"member").multiple()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let (mut comparison, mut is_instant) = (None, false);
    while let Some(keyword) = args.leading_keyword() {
        match keyword.bytes() {
            b"GT" => once(&mut comparison, Comparison::Later)?,
            b"LT" => once(&mut comparison, Comparison::Sooner)?,
            b"AT" => flag(&mut is_instant)?,
            _ => return Err(Error::Syntax),
        }
    }
    let expiry = expiry(&mut args, is_instant, now)?;
    let members = args.strings().map_err(|_| Error::Syntax)?;

    let set = TimedSet::<Writing>::expiring(ctx, key)?;
    let mut plan = Plan::new();
    let allows = |current| comparison.is_none_or(|comparison| comparison.allows(current, expiry));
    let results: Vec<_> = members
        .iter()
        .map(|&member| {
            let mut result = -2;
            plan.decide(&set, now, member, |current| {
                let current = current?;
                let after;
                (result, after) = match () {
                    () if !allows(current) => (0, Some(current)),
                    () if expiry > now => (1, Some(expiry)),
                    () => (2, None),
                };
                after
            });
            result
        })
        .collect();
    plan.carry_out(set);
    ctx.reply_integers(&results);
    Ok(())
}
