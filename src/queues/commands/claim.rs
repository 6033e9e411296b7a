//! `ZQ.CLAIM numkeys key [key ...] LEASE duration [COUNT n] [BLOCK duration] [AS worker]`
//!
//! Claims due jobs from the first key that has due jobs. No other client can claim these jobs until their leases
//! expire.
//!
//! If no key has a due job, the reply is empty. With BLOCK, the client waits instead. If other clients already wait for
//! a key, a client with BLOCK waits behind them, even if a job is due now.

use super::after;
use crate::args::{Args, once};
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::queues::claiming::{ClaimRequest, claim, reply_nothing};
use crate::queues::waiting::{self, Waiter};
use crate::server::blocking::CallingClient;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.CLAIM",
    summary: c"Claims due jobs from the first queue that has any, or blocks until a job is due.",
    complexity:
        c"O(K + M*log(N)) with K the number of keys, M the number of jobs claimed and N the number of jobs of the queue",
    since: c"0.1.0",
    flags: c"write blocking fast",
    keys: Keys::Counted(Access::Exchange),
    arguments: &[
        Arg::integer(c"numkeys"),
        Arg::key(c"key").multiple(),
        Arg::string(c"lease").after(c"LEASE"),
        Arg::integer(c"count").after(c"COUNT").optional(),
        Arg::string(c"timeout").after(c"BLOCK").optional(),
        Arg::string(c"worker").after(c"AS").optional().since(c"0.2.0"),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>], client: CallingClient<'_>) -> Result<(), Error> {
    let clock = ctx.micros();
    let now = clock / 1000;
    let mut args = Args::new(arguments);
    let keys = args.keys(0, 2)?;
    let (mut lease, mut count, mut timeout, mut worker) = (None, None, None, None);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"LEASE" => once(&mut lease, args.duration()?)?,
            b"COUNT" => once(&mut count, args.positive()?)?,
            b"BLOCK" => once(&mut timeout, args.wait()?)?,
            b"AS" => once(&mut worker, args.worker()?)?,
            _ => return Err(Error::Syntax),
        }
    }
    let request = ClaimRequest {
        lease: lease.ok_or(Error::Syntax)?,
        count: count.unwrap_or(1),
        worker: worker.unwrap_or_default().to_vec(),
    };
    after(now, request.lease)?;
    after(now, timeout.unwrap_or(0))?;
    let blocking = timeout.and_then(|timeout| Some((client.blockable(ctx)?, timeout)));

    // A claim that gets no job may change units of RATE, and after a change the command must not return an error. So
    // this loop checks the types of the keys. The first key needs no check, because nothing changes before it.
    for &key in &keys[1..] {
        let _ = OpenQueue::<Writing>::open(ctx, key)?;
    }
    for &key in keys {
        let open = OpenQueue::<Writing>::open(ctx, key)?;
        if blocking.is_some() && waiting::is_waited_for(open.ctx(), key) {
            if open.queue().next_claimable(now) == Some(now) {
                break;
            }
        } else if claim(open, key, clock, &request) {
            return Ok(());
        }
    }
    match blocking {
        Some((client, timeout)) => Waiter::block(ctx, client, keys, timeout, request, clock),
        None => reply_nothing(ctx),
    }
    Ok(())
}
