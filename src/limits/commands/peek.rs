//! `ZRL.PEEK key limit window [COST units] [SLIDING | FIXED | LEAKY] [EXACT | PRECISION duration] [FORCE]`
//!
//! Returns what ZRL.CHECK would return, but changes nothing. The waits can differ: if the window is shorter than in
//! earlier calls, ZRL.CHECK makes the units in use available again earlier, and ZRL.PEEK does not. So ZRL.PEEK may
//! report longer waits.

use super::{ARGUMENTS, parse, reply};
use crate::error::Error;
use crate::limits::Limit;
use crate::limits::model::Intent;
use crate::server::command::{Access, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZRL.PEEK",
    summary: c"Checks whether units fit into a rate limit without taking them.",
    complexity:
        c"O(1) for FIXED and LEAKY; O(log N) for SLIDING, with N the number of slots in use: at most about 200 unless EXACT or PRECISION is given",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: ARGUMENTS,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let (key, call, intent) = parse(ctx, arguments)?;
    let mut limit = Limit::<Reading>::open(ctx, key)?;
    let mut verdict = limit.assess(call, Intent::Peek)?.verdict;
    if intent == Intent::Force {
        verdict = verdict.forced();
    }
    reply(limit.ctx(), &verdict);
    Ok(())
}
