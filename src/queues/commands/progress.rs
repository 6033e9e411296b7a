//! `ZQ.PROGRESS key id token text`
//!
//! Stores what a claimed job has done so far, or where it must continue after a crash. ZQ.GET returns the text and its
//! time. The text stays with the job until the job is done, cancelled or replaced, so the next attempt can read it. A
//! recurring job loses it with an ACK. An empty text removes the stored text.

use crate::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::queues::model::MAX_PROGRESS;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.PROGRESS",
    summary: c"Stores how far a claimed job has come.",
    complexity: c"O(log N) with N the number of jobs of the queue",
    since: c"0.4.0",
    flags: c"write deny-oom fast",
    keys: Keys::First(Access::Update),
    arguments: &[Arg::key(c"key"), Arg::string(c"id"), Arg::integer(c"token"), Arg::string(c"text")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let id = args.string()?.bytes();
    let token = args.token()?;
    let text = args.string()?.bytes();
    if text.len() > MAX_PROGRESS {
        return Err(Error::ProgressTooLong);
    }
    let is_valid = OpenQueue::edit(ctx, key, now, |queue, effects| {
        queue.progress(now, id, token, text).map(|effect| effects.add_if_some(effect))
    })?;
    ctx.reply_bool(is_valid.is_some());
    Ok(())
}
