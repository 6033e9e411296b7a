//! `ZQ.REDRIVE key [GROUP name] [COUNT n | ID id [id ...]]`
//!
//! Makes dead letters ready again, with 0 attempts. The call redrives the dead letters with the given IDs, or the
//! oldest dead letters, at most COUNT (default 1,000). With GROUP, redrives only dead letters of that group. MAXLEN
//! limits the number of redriven jobs.

use crate::args::{Args, once};
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::queues::model::State;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

/// The default of COUNT.
const DEFAULT_COUNT: u64 = 1000;

pub const SPEC: Spec = Spec {
    name: c"ZQ.REDRIVE",
    summary: c"Makes dead letters ready again.",
    complexity: c"O(M*log(N)) with M the number of dead letters made ready and N the number of jobs of the queue",
    since: c"0.1.0",
    flags: c"write",
    keys: Keys::First(Access::Update),
    arguments: &[
        Arg::key(c"key"),
        Arg::string(c"group").after(c"GROUP").optional().since(c"0.3.0"),
        Arg::one_of(
            c"which",
            &[Arg::integer(c"count").after(c"COUNT"), Arg::string(c"id").after(c"ID").multiple().since(c"0.2.0")],
        )
        .optional(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let (mut group, mut count, mut ids): (_, _, &[Str<'_>]) = (None, None, &[]);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"GROUP" => once(&mut group, args.option_value()?.bytes())?,
            b"COUNT" => once(&mut count, args.positive()?)?,
            b"ID" if count.is_none() => ids = args.strings().map_err(|_| Error::Syntax)?,
            _ => return Err(Error::Syntax),
        }
    }
    let redriven = OpenQueue::edit(ctx, key, now, |queue, effects| {
        if ids.is_empty() {
            let dead = queue.count(now, State::Dead);
            effects.add_if_some(queue.redrive(now, group, count.unwrap_or(DEFAULT_COUNT)));
            return dead - queue.count(now, State::Dead);
        }
        let revive = |id: &&Str<'a>| {
            let is_in = |group| queue.get(now, id.bytes()).is_some_and(|job| job.group == group);
            group.is_none_or(is_in) && effects.add_if_some(queue.redrive_one(now, id.bytes()))
        };
        ids.iter().filter(revive).count() as u64
    })?;
    ctx.reply_count(redriven);
    Ok(())
}
