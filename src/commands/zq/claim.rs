//! `ZQ.CLAIM numkeys key [key ...] LEASE duration [COUNT n] [BLOCK duration]`
//!
//! Takes due jobs, from the first key that has any. A job claimed is invisible until its lease ends; then it is due again.
//!
//! With BLOCK the client waits, and is served when its turn comes: who waits already comes first, even where a job has
//! fallen due a moment ago and nobody has been woken yet.

use super::after;
use crate::commands::args::{Args, once};
use crate::error::Error;
use crate::model::queue::Claims;
use crate::model::time::Millis;
use crate::queues::OpenQueue;
use crate::queues::waiting::{self, Waiter};
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Mode;
use crate::server::{Context, Str};

pub struct Claim;

impl Command for Claim {
    const SPEC: Spec = Spec {
        name: c"ZQ.CLAIM",
        summary: c"Takes due jobs from the first queue that has any, for the time of a lease; waits for one if asked to.",
        complexity: c"O(K + M*log(N)) with K the number of keys, M the number of jobs claimed and N the number of jobs of the queue",
        since: c"0.1.0",
        flags: c"write blocking fast",
        arity: -5,
        keys: Keys::Counted(Access::Exchange),
        arguments: &[
            Arg::integer(c"numkeys"),
            Arg::key(c"key").multiple(),
            Arg::string(c"lease").after(c"LEASE"),
            Arg::integer(c"count").after(c"COUNT").optional(),
            Arg::string(c"timeout").after(c"BLOCK").optional(),
        ],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let keys = args.keys()?;
        let (mut lease, mut count, mut timeout) = (None, None, None);
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "LEASE" => once(&mut lease, args.duration()?)?,
                "COUNT" => once(&mut count, args.positive()?)?,
                "BLOCK" => once(&mut timeout, args.wait()?)?,
                _ => return Err(Error::Syntax),
            }
        }
        let lease = lease.ok_or(Error::Syntax)?;
        let count = count.unwrap_or(1);
        let deadline = after(now, lease)?;
        after(now, timeout.unwrap_or(0))?;
        let timeout = timeout.filter(|_| ctx.may_block());

        let mut ready = None;
        for &key in keys {
            let open = OpenQueue::open(ctx, key, Mode::Write)?;
            if open.queue().claimable(now) > 0 {
                ready = Some(open);
                break;
            }
        }
        match (ready, timeout) {
            (Some(open), Some(_)) if waiting::is_waited_for(ctx, open.name()) => {}
            (Some(open), _) => {
                claim(ctx, open, now, deadline, count);
                return Ok(());
            }
            (None, _) => settle(ctx, keys, now)?,
        }
        match timeout {
            Some(timeout) => Waiter::block(ctx, keys, timeout, (lease, count), reply, reply_nothing),
            None => reply_nothing(ctx),
        }
        Ok(())
    }
}

fn claim<'a>(ctx: Context<'a>, mut open: OpenQueue<'a>, now: Millis, deadline: Millis, count: u64) {
    let key = open.name();
    open.change(|queue, effects| {
        let claims = queue.claim(now, deadline, count);
        claims.effects().for_each(|effect| effects.add(&effect));
        reply(ctx, key, &claims);
    });
    open.commit(now);
}

/// After a step back of the clock RATE may hold units for too long; a claim that gets nothing settles that, so that waiting
/// ends when it should.
fn settle<'a>(ctx: Context<'a>, keys: &'a [Str<'a>], now: Millis) -> Result<(), Error> {
    for &key in keys {
        let mut open = OpenQueue::open(ctx, key, Mode::Write)?;
        if open.queue().settings().rate.is_some() {
            open.change(|queue, effects| {
                queue.claim(now, now, 0).effects().for_each(|effect| effects.add(&effect));
            });
            open.commit(now);
        }
    }
    Ok(())
}

fn reply(ctx: Context<'_>, key: Str<'_>, claims: &Claims<'_>) {
    ctx.reply_array(claims.jobs.len());
    for job in &claims.jobs {
        ctx.reply_array(6);
        ctx.reply_string(key);
        crate::server::fault!("amid-reply");
        ctx.reply_bytes(job.id);
        ctx.reply_count(job.token);
        ctx.reply_count(job.attempt.into());
        ctx.reply_count(job.deadline);
        ctx.reply_bytes(job.payload);
    }
}

fn reply_nothing(ctx: Context<'_>) {
    ctx.reply_array(0);
}
