//! `ZRL.CHECK key limit window [COST units] [SLIDING | FIXED | LEAKY] [EXACT | PRECISION duration] [FORCE]`
//!
//! Takes units from a limit if they fit, in one step; with FORCE, also if they do not. A denied check writes nothing (but see
//! [`refuse`](crate::model::limit::Assessed::refuse)), so nobody is locked out by trying.

use super::{ARGUMENTS, Request, reply};
use crate::error::Error;
use crate::limits::{Limit, figures};
use crate::server::command::{Access, Command, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub struct Check;

impl Command for Check {
    const SPEC: Spec = Spec {
        name: c"ZRL.CHECK",
        summary: c"Takes units from a rate limit if they fit.",
        complexity:
            c"O(1) for FIXED and LEAKY; O(log N) for SLIDING, with N the slots in use: about 100 at the most unless EXACT is given; O(N) for a call that makes the ring of slots larger or smaller",
        since: c"0.1.0",
        flags: c"write deny-oom fast",
        arity: -4,
        keys: Keys::First(Access::Exchange),
        arguments: ARGUMENTS,
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let Request { key, policy, cost, force } = Request::parse(arguments, now)?;
        let mut limit = Limit::<Writing>::open(ctx, key)?;
        let (verdict, change) = limit.assess(policy, now, cost, |assessed| assessed.decide(force))?;
        let (ctx, news) = limit.commit(change);
        if verdict.allowed || force {
            figures::count_units(cost);
        }
        match verdict.allowed {
            true => figures::count_allowed(),
            false => figures::count_denied(ctx, [key], now),
        }
        news.announce(ctx, key);
        reply(ctx, &verdict);
        Ok(())
    }
}
