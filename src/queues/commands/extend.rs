//! `ZQ.EXTEND key duration id token [id token ...]`
//!
//! Sets leases to expire `duration` from now. Workers use this command as a heartbeat, or with a short duration to
//! release jobs early. For each job, returns the time at which its lease now expires, or null if the lease has expired
//! or the token is invalid.

use super::{after, claimed_jobs};
use crate::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};
use smallvec::SmallVec;

pub const SPEC: Spec = Spec {
    name: c"ZQ.EXTEND",
    summary: c"Sets the remaining time of the leases of claimed jobs.",
    complexity: c"O(log N) for each job, with N the number of jobs of the queue",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Update),
    arguments: &[
        Arg::key(c"key"),
        Arg::string(c"duration"),
        Arg::block(c"job", &[Arg::string(c"id"), Arg::integer(c"token")]).multiple(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let deadline = after(now, args.duration()?)?;
    let jobs = claimed_jobs(&mut args)?;
    let extended: SmallVec<[bool; 4]> = OpenQueue::edit(ctx, key, now, |queue, effects| {
        let mut extend = |id, token| queue.extend(now, id, token, deadline).map(|effect| effects.add_if_some(effect));
        jobs.iter().map(|&(id, token)| extend(id, token).is_some()).collect()
    })?;
    ctx.reply_array(extended.len());
    for is_extended in extended {
        if is_extended {
            ctx.reply_count(deadline);
        } else {
            ctx.reply_null();
        }
    }
    Ok(())
}
