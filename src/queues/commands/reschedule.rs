//! `ZQ.RESCHEDULE key id [DELAY duration | AT instant] [PRIORITY n]`
//!
//! Changes the due time, the priority, or both, of a ready or delayed job.

use super::{DUE, after};
use crate::args::{Args, once};
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.RESCHEDULE",
    summary: c"Changes the due time or priority of a waiting job.",
    complexity: c"O(log N) with N the number of jobs of the queue",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Update),
    arguments: &[Arg::key(c"key"), Arg::string(c"id"), DUE, Arg::integer(c"priority").after(c"PRIORITY").optional()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let id = args.string()?.bytes();
    let (mut due, mut priority) = (None, None);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"DELAY" => once(&mut due, after(now, args.wait()?)?)?,
            b"AT" => once(&mut due, args.instant()?)?,
            b"PRIORITY" => once(&mut priority, args.priority()?)?,
            _ => return Err(Error::Syntax),
        }
    }
    if due.is_none() && priority.is_none() {
        return Err(Error::Arity);
    }
    let moved = OpenQueue::edit(ctx, key, now, |queue, effects| {
        queue.reschedule(now, id, due, priority).map(|effect| effects.add_if_some(effect))
    })?;
    ctx.reply_bool(moved.is_some());
    Ok(())
}
