//! `ZRL.PEEK key limit window [COST units] [SLIDING | FIXED | LEAKY] [EXACT | PRECISION duration] [FORCE]`
//!
//! What ZRL.CHECK would answer, nothing taken. Unlike a denied ZRL.CHECK it does not settle a window that has become shorter: what
//! it says of waits holds if nobody else does.

use super::{ARGUMENTS, Request, reply};
use crate::error::Error;
use crate::limits::Limit;
use crate::server::command::{Access, Command, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

pub struct Peek;

impl Command for Peek {
    const SPEC: Spec = Spec {
        name: c"ZRL.PEEK",
        summary: c"Tells what ZRL.CHECK would answer, and takes nothing.",
        complexity:
            c"O(1) for FIXED and LEAKY; O(log N) for SLIDING, with N the slots in use: about 100 at the most unless EXACT is given",
        since: c"0.1.0",
        flags: c"readonly fast",
        arity: -4,
        keys: Keys::First(Access::Read),
        arguments: ARGUMENTS,
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let Request { key, policy, cost, .. } = Request::parse(arguments, now)?;
        let mut limit = Limit::<Reading>::open(ctx, key)?;
        let verdict = limit.assess(policy, now, cost, |assessed| assessed.peek())?;
        reply(limit.ctx(), &verdict);
        Ok(())
    }
}
