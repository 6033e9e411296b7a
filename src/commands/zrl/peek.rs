//! `ZRL.PEEK key limit window [COST units] [SLIDING | FIXED | LEAKY] [EXACT | PRECISION duration]`
//!
//! What ZRL.CHECK would answer, nothing taken.

use super::{ARGUMENTS, Request, reply};
use crate::error::Error;
use crate::expiring::limit::LimitSet;
use crate::model::limit::assess;
use crate::server::command::{Access, Command, Keys, Spec};
use crate::server::key::Mode;
use crate::server::{Context, Str};

pub struct Peek;

impl Command for Peek {
    const SPEC: Spec = Spec {
        name: c"ZRL.PEEK",
        summary: c"Tells what ZRL.CHECK would answer, and takes nothing.",
        complexity: c"O(log N) with N the number of entries of the limit, about 100 at the most unless EXACT is given",
        since: c"0.1.0",
        flags: c"readonly fast",
        arity: -4,
        keys: Keys::First(Access::Read),
        arguments: ARGUMENTS,
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let Request { key, policy, cost } = Request::parse(arguments, now)?;
        let mut limit = LimitSet::open(ctx, key, Mode::Read)?;
        let assessed = assess(policy, now, cost, &mut limit)?;
        reply(ctx, &assessed.verdict());
        Ok(())
    }
}
