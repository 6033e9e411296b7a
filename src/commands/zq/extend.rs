//! `ZQ.EXTEND key id token duration`
//!
//! The lease ends that long from now: a heartbeat, or giving up time that is not needed. A lease that has ended cannot be
//! extended, since somebody else may be about to claim the job.

use super::after;
use crate::commands::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub struct Extend;

impl Command for Extend {
    const SPEC: Spec = Spec {
        name: c"ZQ.EXTEND",
        summary: c"Lets a lease end a given time from now.",
        complexity: c"O(log N) with N the number of jobs of the queue",
        since: c"0.1.0",
        flags: c"write fast",
        arity: 5,
        keys: Keys::First(Access::Update),
        arguments: &[Arg::key(c"key"), Arg::string(c"id"), Arg::integer(c"token"), Arg::string(c"duration")],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let id = args.string()?.bytes();
        let token = args.token()?;
        let deadline = after(now, args.duration()?)?;
        let mut open = OpenQueue::<Writing>::open(ctx, key)?;
        let extended = open.change(|queue, effects| {
            queue.extend(now, id, token, deadline).inspect(|effect| effects.add(effect)).is_some()
        });
        open.commit(now);
        if extended {
            ctx.reply_count(deadline)
        } else {
            ctx.reply_null()
        }
        Ok(())
    }
}
