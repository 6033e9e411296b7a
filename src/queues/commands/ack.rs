//! `ZQ.ACK key id token [id token ...]`
//!
//! Finishes jobs. An ACK is accepted even after the lease has expired, and even if the job has become a dead letter. An
//! ACK is refused if the job has been claimed again, NACKed, redriven or replaced.

use super::claimed_jobs;
use crate::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.ACK",
    summary: c"Acknowledges claimed jobs by their tokens.",
    complexity: c"O(log N) for each job, with N the number of jobs of the queue",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Delete),
    arguments: &[Arg::key(c"key"), Arg::block(c"job", &[Arg::string(c"id"), Arg::integer(c"token")]).multiple()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let jobs = claimed_jobs(&mut args)?;
    let finished = OpenQueue::edit(ctx, key, now, |queue, effects| {
        jobs.iter().filter(|&&(id, token)| effects.add_if_some(queue.ack(now, id, token))).count()
    })?;
    ctx.reply_count(finished as u64);
    Ok(())
}
