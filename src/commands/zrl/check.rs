//! `ZRL.CHECK key limit window [COST units] [SLIDING | FIXED | LEAKY] [EXACT | PRECISION duration]`
//!
//! Takes units from a limit if they fit, in one step. A denied check writes nothing (but see
//! [`settlement`](crate::model::limit::Assessed::settlement)), so nobody is locked out by trying.

use super::{ARGUMENTS, Request, charge, refuse, reply};
use crate::error::Error;
use crate::expiring::limit::{self, LimitSet};
use crate::model::limit::assess;
use crate::server::command::{Access, Command, Keys, Spec};
use crate::server::key::Mode;
use crate::server::{Context, Str};

pub struct Check;

impl Command for Check {
    const SPEC: Spec = Spec {
        name: c"ZRL.CHECK",
        summary: c"Takes units from a rate limit if they fit.",
        complexity: c"O(log N) with N the number of entries of the limit, about 100 at the most unless EXACT is given",
        since: c"0.1.0",
        flags: c"write deny-oom fast",
        arity: -4,
        keys: Keys::First(Access::Exchange),
        arguments: ARGUMENTS,
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let Request { key, policy, cost } = Request::parse(arguments, now)?;
        let mut limit = LimitSet::open(ctx, key, Mode::Write)?;
        let assessed = assess(policy, now, cost, &mut limit)?;
        let verdict = if assessed.verdict().allowed {
            limit::count(Some(cost));
            charge(&mut limit, &assessed, now)
        } else {
            limit::count(None);
            refuse(&mut limit, &assessed, now)
        };
        limit.commit();
        reply(ctx, &verdict);
        Ok(())
    }
}
