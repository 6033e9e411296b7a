//! `ZEXP.ISMEMBER key member` and `ZEXP.MISMEMBER key member [member ...]`
//!
//! Whether members are live: "have I seen this before?"

use super::KEY_AND_MEMBERS;
use crate::commands::args::Args;
use crate::error::Error;
use crate::expiring::TimedSet;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

pub struct IsMember;
pub struct MIsMember;

impl Command for IsMember {
    const SPEC: Spec = Spec {
        name: c"ZEXP.ISMEMBER",
        summary: c"Tells whether a member of an expiring set is live.",
        complexity: c"O(1)",
        since: c"0.1.0",
        flags: c"readonly fast",
        arity: 3,
        keys: Keys::First(Access::Read),
        arguments: &[Arg::key(c"key"), Arg::string(c"member")],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let (key, member) = (args.string()?, args.string()?);
        let set = TimedSet::<Reading>::expiring(ctx, key)?;
        set.ctx().reply_bool(set.live_until(member, now).is_some());
        Ok(())
    }
}

impl Command for MIsMember {
    const SPEC: Spec = Spec {
        name: c"ZEXP.MISMEMBER",
        summary: c"Tells which members of an expiring set are live.",
        complexity: c"O(1) for each member",
        since: c"0.1.0",
        flags: c"readonly fast",
        arity: -3,
        keys: Keys::First(Access::Read),
        arguments: KEY_AND_MEMBERS,
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
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
}
