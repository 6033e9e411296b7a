//! `ZQ.GET key id`
//!
//! Returns all fields of a job. `due_ms` is the due time of a waiting job, the time at which a claimed job's lease
//! expires, or the time at which a job became a dead letter. `every_ms` is the period of a recurring job. A field
//! without a value is null, except `max_attempts`, which is 0 if there is no limit.

use super::{reply_text, to_integer};
use crate::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.GET",
    summary: c"Returns all fields of a job.",
    complexity: c"O(1)",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key"), Arg::string(c"id")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
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
    ctx.reply_map(19);
    ctx.reply_bytes(b"state");
    ctx.reply_bytes(job.state.name().as_bytes());
    ctx.reply_bytes(b"payload");
    ctx.reply_bytes(job.payload);
    let number = |name: &[u8], value| {
        ctx.reply_bytes(name);
        ctx.reply_integer(value);
    };
    number(b"priority", job.priority.into());
    number(b"attempts", job.attempts.into());
    number(b"max_attempts", job.max_attempts.into());
    number(b"due_ms", to_integer(job.time));
    let (extras, ttl) = (job.extras, job.ttl.unwrap_or_default());
    for (name, value) in [
        (b"every_ms" as &[u8], job.recurrence.unwrap_or_default().period),
        (b"ttl_ms", ttl.ttl),
        (b"expires_ms", ttl.expires),
        (b"token", job.token),
        (b"created_ms", job.created),
        (b"claimed_ms", extras.claimed),
        (b"failed_ms", extras.failed),
        (b"progress_ms", extras.progressed),
    ] {
        ctx.reply_bytes(name);
        match value {
            0 => ctx.reply_null(),
            _ => ctx.reply_count(value),
        }
    }
    for (name, words) in [
        (b"worker" as &[u8], extras.worker),
        (b"error", extras.error),
        (b"progress", extras.progress),
        (b"group", job.group),
    ] {
        ctx.reply_bytes(name);
        reply_text(ctx, words);
    }
    ctx.reply_bytes(b"again_payload");
    match open.queue().payload_behind(id) {
        Some(payload) => ctx.reply_bytes(payload),
        None => ctx.reply_null(),
    }
    Ok(())
}
