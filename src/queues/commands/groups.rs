//! `ZQ.GROUPS key [AFTER name | LARGEST] [COUNT n]`
//!
//! Returns the groups of a queue in the order of their names, at most COUNT (default 10). For each group, returns the
//! numbers of ready, delayed and claimed jobs, and the time until which the group is held, or null. The jobs without a
//! group form the group with the empty name. AFTER continues after a name, even if no group has this name. With
//! LARGEST, returns the groups with most ready jobs instead.

use super::at_most;
use crate::args::{Args, once};
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
    arguments: &[
        Arg::key(c"key"),
        Arg::one_of(
            c"which",
            &[Arg::string(c"name").after(c"AFTER"), Arg::flag(c"largest", c"LARGEST").since(c"0.4.0")],
        )
        .optional(),
        Arg::integer(c"count").after(c"COUNT").optional(),
    ],
};

enum Which<'a> {
    After(&'a [u8]),
    Largest,
}

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let (mut which, mut count) = (None, None);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"AFTER" => once(&mut which, Which::After(args.option_value()?.bytes()))?,
            b"LARGEST" => once(&mut which, Which::Largest)?,
            b"COUNT" => once(&mut count, args.positive()?)?,
            _ => return Err(Error::Syntax),
        }
    }
    let count = at_most(count, DEFAULT_COUNT);
    let open = OpenQueue::<Reading>::open(ctx, key)?;
    let queue = open.queue();
    let groups: Box<dyn Iterator<Item = _>> = match which {
        Some(Which::Largest) => Box::new(queue.largest_groups(now, count).into_iter()),
        Some(Which::After(name)) => queue.groups(now, Some(name)),
        None => queue.groups(now, None),
    };
    open.ctx().reply_items(1, groups.take(count), |ctx, group| {
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
