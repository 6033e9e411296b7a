//! `ZQ.STATS key`
//!
//! The figures of a queue by the clock, and its settings. A missing key has the figures of an empty queue.
//!
//! `oldest_ready_ms` is the due time of the ready job that has been due the longest, null without one. The totals count
//! since the queue was made; a lease that has ended counts from that moment.

use super::{SETTINGS, reply_settings};
use crate::commands::args::Args;
use crate::error::Error;
use crate::model::queue::Counters;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

pub struct Stats;

impl Command for Stats {
    const SPEC: Spec = Spec {
        name: c"ZQ.STATS",
        summary: c"Returns the figures of a queue, and its settings.",
        complexity: c"O(log N) with N the number of jobs of the queue",
        since: c"0.1.0",
        flags: c"readonly fast",
        arity: 2,
        keys: Keys::First(Access::Read),
        arguments: &[Arg::key(c"key")],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let open = OpenQueue::<Reading>::open(ctx, key)?;
        let ctx = open.ctx();
        let stats = open.queue().stats(now);
        let totals = stats.totals;
        let figures: [(&[u8], u64); 12] = [
            (b"ready", stats.ready),
            (b"delayed", stats.delayed),
            (b"claimed", stats.claimed),
            (b"dead", stats.dead),
            (b"pushed", totals.pushed),
            (b"claimed_total", totals.claimed),
            (b"acked", totals.acked),
            (b"nacked", totals.nacked),
            (b"cancelled", totals.cancelled),
            (b"redriven", totals.redriven),
            (b"expired_leases", totals.expired_leases),
            (b"groups", open.queue().group_count() as u64),
        ];
        ctx.reply_map(figures.len() + Counters::FURTHER.len() + 1 + SETTINGS);
        for (name, figure) in figures {
            ctx.reply_bytes(name);
            ctx.reply_count(figure);
        }
        for field in Counters::FURTHER {
            ctx.reply_bytes(field.name.as_bytes());
            ctx.reply_count((field.get)(&totals));
        }
        ctx.reply_bytes(b"oldest_ready_ms");
        match stats.oldest_ready {
            Some(due) => ctx.reply_count(due),
            None => ctx.reply_null(),
        }
        reply_settings(ctx, open.queue().settings());
        Ok(())
    }
}
