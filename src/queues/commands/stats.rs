//! `ZQ.STATS key`
//!
//! Returns the stats and the settings of a queue, or null for a missing key.
//!
//! `oldest_ready_ms` is the Unix time since which the oldest ready job has waited for a claim, or null if no job waits.
//! The totals count from the creation of the queue, and include all leases that have expired by now.

use super::reply_settings;
use crate::args::Args;
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::queues::model::{Counters, Settings};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.STATS",
    summary: c"Returns the statistics and settings of a queue.",
    complexity: c"O(log N) with N the number of jobs of the queue",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let open = OpenQueue::<Reading>::open(ctx, key)?;
    let ctx = open.ctx();
    if open.is_new() {
        ctx.reply_null();
        return Ok(());
    }
    let stats = open.queue().stats(now);
    let counts: [(&[u8], u64); 5] = [
        (b"ready", stats.ready),
        (b"delayed", stats.delayed),
        (b"claimed", stats.claimed),
        (b"dead", stats.dead),
        (b"groups", open.queue().group_count() as u64),
    ];
    ctx.reply_map(counts.len() + 1 + Counters::FIELDS.len() + Settings::FIELDS.len());
    let number = |name: &[u8], number| {
        ctx.reply_bytes(name);
        ctx.reply_count(number);
    };
    counts.into_iter().for_each(|(name, count)| number(name, count));
    ctx.reply_bytes(b"oldest_ready_ms");
    match stats.oldest_ready {
        Some(due) => ctx.reply_count(due),
        None => ctx.reply_null(),
    }
    for field in Counters::FIELDS {
        number(field.name.as_bytes(), (field.get)(&stats.totals));
    }
    reply_settings(ctx, open.queue().settings());
    Ok(())
}
