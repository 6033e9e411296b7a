//! `ZQ.GROUPS key [AFTER name] [COUNT n]`
//!
//! Returns the groups of a queue in the order of their names, at most COUNT (default 10). For each group, returns the
//! number of jobs in each state, and the time until which the group is held, or null. The jobs without a group form the
//! group with the empty name. AFTER continues after a name, even if no group has this name.

use super::{PAGE, Page};
use crate::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

const DEFAULT_COUNT: u64 = 10;

pub const SPEC: Spec = Spec {
    name: c"ZQ.GROUPS",
    summary: c"Returns the groups of a queue and their numbers of jobs.",
    complexity: c"O(M*log(N)) with M the number of groups returned and N the number of jobs of the queue",
    since: c"0.2.0",
    flags: c"readonly",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key"), PAGE[0], PAGE[1]],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let Page { after, count } = Page::parse(&mut args, DEFAULT_COUNT)?;
    let open = OpenQueue::<Reading>::open(ctx, key)?;
    open.ctx().reply_items(1, open.queue().groups(now, after).take(count), |ctx, group| {
        ctx.reply_array(5);
        ctx.reply_bytes(group.name);
        ctx.reply_count(group.ready);
        ctx.reply_count(group.delayed);
        ctx.reply_count(group.claimed);
        match group.held_until {
            Some(until) => ctx.reply_count(until),
            None => ctx.reply_null(),
        }
    });
    Ok(())
}
