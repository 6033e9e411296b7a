//! `ZQ.CANCEL key id [id ...]`
//!
//! Removes jobs in any state.

use crate::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.CANCEL",
    summary: c"Removes jobs in any state.",
    complexity: c"O(log N) for each job, with N the number of jobs of the queue",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Delete),
    arguments: &[Arg::key(c"key"), Arg::string(c"id").multiple()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let ids = args.strings()?;
    let cancelled = OpenQueue::edit(ctx, key, now, |queue, effects| {
        ids.iter().filter(|id| effects.add_if_some(queue.cancel(now, id.bytes()))).count()
    })?;
    ctx.reply_count(cancelled as u64);
    Ok(())
}
