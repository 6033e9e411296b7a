//! `ZQ.CLEAN key READY | DELAYED | DEAD [OLDER duration] [GROUP name] [COUNT n]`
//!
//! Removes up to COUNT jobs (default 1,000) that are in the given state. Checks ready and delayed jobs in the order of
//! their due times, and dead letters in the order in which they became dead letters. To remove all jobs in the state,
//! repeat the call until it returns 0.
//!
//! With GROUP, removes only jobs of that group. With OLDER, removes only jobs that have been in the state for at least
//! that long, and skips younger jobs. READY and DELAYED skip recurring jobs. A call skips at most 3,000 jobs. If the
//! call reaches this limit before it finds a job to remove, and more jobs remain, it returns an error.

use crate::args::{Args, Keyword, once};
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::queues::model::{JobFilter, State, TooManySkipped};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

/// The default of COUNT.
const DEFAULT_COUNT: u64 = 1000;

pub const SPEC: Spec = Spec {
    name: c"ZQ.CLEAN",
    summary: c"Removes jobs in a state, oldest first.",
    complexity: c"O(M*log(N)) with M the number of jobs read and N the number of jobs of the queue. The call reads the jobs that it removes and, with OLDER, up to 3,000 ready or delayed jobs that are too young",
    since: c"0.2.0",
    flags: c"write",
    keys: Keys::First(Access::Delete),
    arguments: &[
        Arg::key(c"key"),
        Arg::one_of(
            c"state",
            &[Arg::flag(c"ready", c"READY"), Arg::flag(c"delayed", c"DELAYED"), Arg::flag(c"dead", c"DEAD")],
        ),
        Arg::string(c"older").after(c"OLDER").optional(),
        Arg::string(c"group").after(c"GROUP").optional().since(c"0.3.0"),
        Arg::integer(c"count").after(c"COUNT").optional(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let state = match args.trailing_keyword()?.as_ref().map(Keyword::bytes) {
        Some(b"READY") => State::Ready,
        Some(b"DELAYED") => State::Delayed,
        Some(b"DEAD") => State::Dead,
        _ => return Err(Error::Syntax),
    };
    let (mut older, mut group, mut count) = (None, None, None);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"OLDER" => once(&mut older, args.wait()?)?,
            b"GROUP" => once(&mut group, args.option_value()?.bytes())?,
            b"COUNT" => once(&mut count, args.positive()?)?,
            _ => return Err(Error::Syntax),
        }
    }
    let cleaned = OpenQueue::edit(ctx, key, now, |queue, effects| {
        queue
            .clean(now, JobFilter { state, group }, older, count.unwrap_or(DEFAULT_COUNT), |effect| effects.add(effect))
    })?;
    ctx.reply_count(cleaned.map_err(|TooManySkipped| Error::CleanUnreached)?);
    Ok(())
}
