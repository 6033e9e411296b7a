//! `ZQ.PEEK key [READY | DELAYED | CLAIMED | DEAD] [COUNT n] [AFTER id] [GROUP name] [NOPAYLOAD] [WITHLEASE]`
//!
//! Returns the next jobs in a state (default READY), at most COUNT (default 10). Ready jobs are in serving order.
//! Delayed jobs are ordered by due time, claimed jobs by deadline (when the lease expires), and dead letters by the
//! time at which they became dead letters.
//!
//! AFTER continues after the last job of the previous page. If the ready jobs have several priorities or groups, or the
//! queue is ORDERED, AFTER must name one of the first 500 ready jobs. With GROUP, returns only jobs of that group. With
//! NOPAYLOAD, payloads are null. WITHLEASE adds the worker, the token and the deadline of each claimed job.

use super::{at_most, reply_text};
use crate::args::{Args, flag, once};
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::queues::model::{AfterError, JobFilter, State};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};

const DEFAULT_COUNT: u64 = 10;

pub const SPEC: Spec = Spec {
    name: c"ZQ.PEEK",
    summary: c"Returns the first jobs in a state.",
    complexity: c"O(M*log(N)) with M the number of jobs read and N the number of jobs of the queue. The call reads the jobs that it returns and, with READY and AFTER, up to 500 jobs before them",
    since: c"0.1.0",
    flags: c"readonly",
    keys: Keys::First(Access::Read),
    arguments: &[
        Arg::key(c"key"),
        Arg::one_of(
            c"state",
            &[
                Arg::flag(c"ready", c"READY"),
                Arg::flag(c"delayed", c"DELAYED"),
                Arg::flag(c"claimed", c"CLAIMED"),
                Arg::flag(c"dead", c"DEAD"),
            ],
        )
        .optional(),
        Arg::integer(c"count").after(c"COUNT").optional(),
        Arg::string(c"id").after(c"AFTER").optional().since(c"0.2.0"),
        Arg::string(c"group").after(c"GROUP").optional().since(c"0.3.0"),
        Arg::flag(c"nopayload", c"NOPAYLOAD").optional().since(c"0.2.0"),
        Arg::flag(c"withlease", c"WITHLEASE").optional().since(c"0.3.0"),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let (mut state, mut count, mut after, mut group) = (None, None, None, None);
    let (mut no_payload, mut with_lease) = (false, false);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"READY" => once(&mut state, State::Ready)?,
            b"DELAYED" => once(&mut state, State::Delayed)?,
            b"CLAIMED" => once(&mut state, State::Claimed)?,
            b"DEAD" => once(&mut state, State::Dead)?,
            b"COUNT" => once(&mut count, args.positive()?)?,
            b"AFTER" => once(&mut after, args.option_value()?.bytes())?,
            b"GROUP" => once(&mut group, args.option_value()?.bytes())?,
            b"NOPAYLOAD" => flag(&mut no_payload)?,
            b"WITHLEASE" => flag(&mut with_lease)?,
            _ => return Err(Error::Syntax),
        }
    }
    let count = at_most(count, DEFAULT_COUNT);
    let which = JobFilter { state: state.unwrap_or(State::Ready), group };
    if with_lease && which.state != State::Claimed {
        return Err(Error::NoLease);
    }
    let open = OpenQueue::<Reading>::open(ctx, key)?;
    let jobs = match after {
        None => open.queue().peek(now, which),
        Some(id) => open.queue().peek_after(now, which, id).map_err(|why| match why {
            AfterError::NotInState => Error::NotInState,
            AfterError::TooFar => Error::PageTooFar,
        })?,
    };
    open.ctx().reply_items(1, jobs.take(count), |ctx, job| {
        ctx.reply_array(if with_lease { 8 } else { 5 });
        ctx.reply_bytes(job.id);
        ctx.reply_count(job.time);
        ctx.reply_integer(job.priority.into());
        ctx.reply_count(job.attempts.into());
        if no_payload {
            ctx.reply_null();
        } else {
            ctx.reply_bytes(job.payload);
        }
        if with_lease {
            reply_text(ctx, job.extras.worker);
            ctx.reply_count(job.token);
            ctx.reply_count(job.time);
        }
    });
    Ok(())
}
