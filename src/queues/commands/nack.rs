//! `ZQ.NACK key id token [DELAY duration | AT instant | DEAD] [FREE] [HOLD duration] [ERROR text]`
//!
//! Returns a job to its queue. The job is due after DELAY, at AT, or by default after the queue's BACKOFF. With DEAD,
//! the job becomes a dead letter instead. After its last attempt, a recurring job waits for its next occurrence, and
//! any other job becomes a dead letter. With FREE, the attempt does not count. ERROR is stored with the job.
//!
//! HOLD also holds the group that the job had when it was claimed: no client can claim jobs of this group for
//! `duration`. If the group is already held for longer, HOLD changes nothing.

use super::after;
use crate::args::{Args, flag, once};
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::queues::model::{Fate, NackOptions};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.NACK",
    summary: c"Returns a claimed job to the queue or makes it a dead letter.",
    complexity: c"O(log N) with N the number of jobs of the queue",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Update),
    arguments: &[
        Arg::key(c"key"),
        Arg::string(c"id"),
        Arg::integer(c"token"),
        Arg::one_of(
            c"fate",
            &[
                Arg::string(c"delay").after(c"DELAY"),
                Arg::string(c"instant").after(c"AT").since(c"0.3.0"),
                Arg::flag(c"dead", c"DEAD"),
            ],
        )
        .optional(),
        Arg::flag(c"free", c"FREE").optional().since(c"0.2.0"),
        Arg::string(c"hold").after(c"HOLD").optional().since(c"0.3.0"),
        Arg::string(c"text").after(c"ERROR").optional().since(c"0.2.0"),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let id = args.string()?.bytes();
    let token = args.token()?;
    let (mut fate, mut hold, mut error) = (None, None, None);
    let mut is_free = false;
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"DELAY" => once(&mut fate, Fate::At(after(now, args.wait()?)?))?,
            b"AT" => once(&mut fate, Fate::At(args.instant()?))?,
            b"DEAD" => once(&mut fate, Fate::Dead)?,
            b"FREE" => flag(&mut is_free)?,
            b"HOLD" => once(&mut hold, after(now, args.duration()?)?)?,
            b"ERROR" => once(&mut error, args.option_value()?.bytes())?,
            _ => return Err(Error::Syntax),
        }
    }
    let fate = fate.unwrap_or(Fate::Default);
    let options = NackOptions { is_free, error: error.unwrap_or_default() };
    let given = OpenQueue::edit(ctx, key, now, |queue, effects| {
        let hold = hold.map(|until| (queue.group_of(id), until));
        let given = effects.add_if_some(queue.nack(now, id, token, fate, options));
        if let Some((group, until)) = hold.filter(|_| given) {
            effects.add_if_some(queue.hold_longer(now, &group, until));
        }
        given
    })?;
    ctx.reply_bool(given);
    Ok(())
}
