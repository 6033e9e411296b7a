//! `ZQ.HOLD key group duration`
//!
//! Holds a group: no client can claim its jobs for `duration`. The new hold replaces an earlier hold of the group. A
//! duration of 0 releases the group. The empty name holds the jobs without a group. A group without jobs cannot be
//! held.

use super::after;
use crate::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.HOLD",
    summary: c"Holds a group of a queue, so that clients cannot claim its jobs for a while.",
    complexity: c"O(log N) with N the number of groups of the queue",
    since: c"0.3.0",
    flags: c"write fast",
    keys: Keys::First(Access::Update),
    arguments: &[Arg::key(c"key"), Arg::string(c"group"), Arg::string(c"duration")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let group = args.string()?.bytes();
    let until = match args.wait()? {
        0 => 0,
        duration => after(now, duration)?,
    };
    args.finish()?;
    let held = OpenQueue::edit(ctx, key, now, |queue, effects| {
        queue.hold(now, group, until).map(|effect| effects.add_if_some(effect))
    })?;
    ctx.reply_bool(held.is_some());
    Ok(())
}
