//! `ZRL.CHECK key limit window [COST units] [SLIDING | FIXED | LEAKY] [EXACT | PRECISION duration] [FORCE]`
//!
//! Takes units from a limit if they fit, atomically. With FORCE, takes the units even if they do not fit, so the limit
//! can go into debt. A denied check takes no units, so retries do not extend the wait. A denied check writes only if
//! the policy has changed, or if the clock has stepped back.

use super::{ARGUMENTS, parse, reply};
use crate::error::Error;
use crate::limits::model::Assessment;
use crate::limits::{Limit, stats};
use crate::server::command::{Access, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZRL.CHECK",
    summary: c"Takes units from a rate limit if they fit.",
    complexity:
        c"O(1) for FIXED and LEAKY; O(log N) for SLIDING, with N the number of slots in use: at most about 200 unless EXACT or PRECISION is given; O(N) for a call that resizes the ring of slots",
    since: c"0.1.0",
    flags: c"write deny-oom fast",
    keys: Keys::First(Access::Exchange),
    arguments: ARGUMENTS,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let (key, call, intent) = parse(ctx, arguments)?;
    let mut limit = Limit::<Writing>::open(ctx, key)?;
    let Assessment { fits, verdict, update } = limit.assess(call, intent)?;
    let (ctx, events) = limit.commit(update);
    if verdict.allowed {
        stats::count_taken(call.cost, fits);
    } else {
        stats::count_denied(ctx, [key], call.now);
    }
    events.send(ctx, key);
    reply(ctx, &verdict);
    Ok(())
}
