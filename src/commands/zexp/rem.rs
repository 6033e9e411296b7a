//! `ZEXP.REM key member [member ...]`
//!
//! Removes live members. Dead ones do not count, and are left to the sweeper.

use super::KEY_AND_MEMBERS;
use super::plan::Plan;
use crate::commands::args::Args;
use crate::error::Error;
use crate::expiring::TimedSet;
use crate::server::command::{Access, Command, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub struct Rem;

impl Command for Rem {
    const SPEC: Spec = Spec {
        name: c"ZEXP.REM",
        summary: c"Removes members from an expiring set.",
        complexity: c"O(log N) for each member, with N the number of members of the set",
        since: c"0.1.0",
        flags: c"write fast",
        arity: -3,
        keys: Keys::First(Access::Delete),
        arguments: KEY_AND_MEMBERS,
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let (key, members) = (args.string()?, args.strings()?);

        let set = TimedSet::<Writing>::expiring(ctx, key)?;
        let mut plan = Plan::new();
        for &member in members {
            plan.decide(&set, now, member, |_| None);
        }
        let removed = plan.outcome().removed;
        plan.carry_out(set);
        ctx.reply_count(removed);
        Ok(())
    }
}
