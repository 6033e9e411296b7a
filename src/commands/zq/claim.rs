//! `ZQ.CLAIM numkeys key [key ...] LEASE duration [COUNT n] [BLOCK duration] [AS worker]`
//!
//! Takes due jobs, from the first key that has any. A job claimed is invisible until its lease ends; then it is due again.
//!
//! With BLOCK the client waits, and is served when its turn comes: clients that wait already come first, even if a job
//! has fallen due a moment ago and no client has been woken yet.

use super::after;
use crate::commands::args::{Args, once};
use crate::error::Error;
use crate::model::queue::Claims;
use crate::model::time::{Micros, Millis};
use crate::queues::OpenQueue;
use crate::queues::waiting::{self, Waiter, Want};
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Writing;
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
            Arg::string(c"worker").after(c"AS").optional(),
        ],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let clock = ctx.micros();
        let now = clock / 1000;
        let mut args = Args::new(arguments);
        let keys = args.keys()?;
        let (mut lease, mut count, mut timeout, mut worker) = (None, None, None, None);
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "LEASE" => once(&mut lease, args.duration()?)?,
                "COUNT" => once(&mut count, args.positive()?)?,
                "BLOCK" => once(&mut timeout, args.wait()?)?,
                "AS" => once(&mut worker, args.worker()?)?,
                _ => return Err(Error::Syntax),
            }
        }
        let lease = lease.ok_or(Error::Syntax)?;
        let count = count.unwrap_or(1);
        let worker = worker.unwrap_or_default();
        let deadline = after(now, lease)?;
        after(now, timeout.unwrap_or(0))?;
        let timeout = timeout.filter(|_| ctx.may_block());

        let mut is_behind_others = false;
        for &key in keys {
            let open = OpenQueue::<Writing>::open(ctx, key)?;
            if open.queue().claimable(now) > 0 {
                is_behind_others = timeout.is_some() && waiting::is_waited_for(open.ctx(), key);
                if is_behind_others {
                    break;
                }
                claim(key, open, clock, deadline, count, worker);
                return Ok(());
            }
        }
        if !is_behind_others {
            keys.iter().for_each(|&key| waiting::settle(ctx, key, clock));
        }
        match timeout {
            Some(timeout) => {
                let want = Want { lease, count, worker: worker.into() };
                Waiter::block(ctx, keys, timeout, want, reply, reply_nothing)
            }
            None => reply_nothing(ctx),
        }
        Ok(())
    }
}

fn claim(key: Str<'_>, mut open: OpenQueue<'_, Writing>, clock: Micros, deadline: Millis, count: u64, worker: &[u8]) {
    open.change(|queue, effects| {
        let claims = queue.claim(clock, deadline, count, worker);
        claims.effects().for_each(|effect| effects.add(&effect));
        reply(effects.ctx(), key, &claims);
    });
    open.commit(clock / 1000);
}

fn reply(ctx: &Context, key: Str<'_>, claims: &Claims<'_>) {
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

fn reply_nothing(ctx: &Context) {
    ctx.reply_array(0);
}
