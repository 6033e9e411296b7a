//! `ZQ.GET key id`
//!
//! All about one job, by the clock. `due_ms` is the due time of a waiting job, the end of the lease of a claimed one, and the
//! moment at which a dead one died. `token` is the one that is good, `every_ms` the period; 0: none. What is not known, or has not
//! happened, is null: `created_ms` of a job that 0.1 pushed, `claimed_ms`, `failed_ms`, `worker`, `error`; a job without a group has a null there, too.

use super::{state_name, to_integer};
use crate::commands::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

pub struct Get;

impl Command for Get {
    const SPEC: Spec = Spec {
        name: c"ZQ.GET",
        summary: c"Returns all about one job.",
        complexity: c"O(1)",
        since: c"0.1.0",
        flags: c"readonly fast",
        arity: 3,
        keys: Keys::First(Access::Read),
        arguments: &[Arg::key(c"key"), Arg::string(c"id")],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let id = args.string()?.bytes();
        let open = OpenQueue::<Reading>::open(ctx, key)?;
        let ctx = open.ctx();
        let Some(job) = open.queue().get(now, id) else {
            ctx.reply_null();
            return Ok(());
        };
        ctx.reply_map(14);
        ctx.reply_bytes(b"state");
        ctx.reply_bytes(state_name(job.state));
        ctx.reply_bytes(b"payload");
        ctx.reply_bytes(job.payload);
        let number = |name: &[u8], value| {
            ctx.reply_bytes(name);
            ctx.reply_integer(value);
        };
        number(b"priority", job.priority.into());
        number(b"attempts", job.attempts.into());
        number(b"max_attempts", job.max_attempts.into());
        number(b"due_ms", to_integer(job.due));
        number(b"every_ms", to_integer(job.recurrence.map_or(0, |recurrence| recurrence.period)));
        number(b"token", to_integer(job.token.unwrap_or(0)));
        for (name, time) in
            [(b"created_ms" as &[u8], job.created), (b"claimed_ms", job.claimed), (b"failed_ms", job.failed)]
        {
            ctx.reply_bytes(name);
            match time {
                Some(time) => ctx.reply_count(time),
                None => ctx.reply_null(),
            }
        }
        for (name, words) in [(b"worker" as &[u8], job.worker), (b"error", job.error), (b"group", job.group)] {
            ctx.reply_bytes(name);
            if words.is_empty() {
                ctx.reply_null();
            } else {
                ctx.reply_bytes(words);
            }
        }
        Ok(())
    }
}
