//! `ZQ.PUSH key payload [ID id] [DELAY duration | AT instant] [PRIORITY n] [MAXATTEMPTS n] [EVERY duration]
//! [GROUP name] [TTL duration] [REPLACE | AGAIN | DECLARE]`
//!
//! Adds a job to a queue. If the queue already has a job with this ID, in any state, the call changes nothing and
//! returns null. With REPLACE, the new job replaces the old one. With AGAIN, a waiting job gets the new payload, and a
//! claimed job is pushed again when its claim ends.
//!
//! DECLARE is for recurring jobs (EVERY): the job with this ID gets the arguments of the push, but keeps its due time
//! unless EVERY changes. A claimed job gets the arguments when its claim ends.
//!
//! With TTL, a job expires at its due time + TTL. From then on, no claim gets the job.

use super::{DUE, after};
use crate::args::{Args, flag, once};
use crate::error::Error;
use crate::queues::OpenQueue;
use crate::queues::model::{Full, Push};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZQ.PUSH",
    summary: c"Adds a job to a queue, due now or later.",
    complexity: c"O(log N) with N the number of jobs of the queue",
    since: c"0.1.0",
    flags: c"write deny-oom fast",
    keys: Keys::First(Access::Insert),
    arguments: &[
        Arg::key(c"key"),
        Arg::string(c"payload"),
        Arg::string(c"id").after(c"ID").optional(),
        DUE,
        Arg::integer(c"priority").after(c"PRIORITY").optional(),
        Arg::integer(c"maxattempts").after(c"MAXATTEMPTS").optional().since(c"0.3.0"),
        Arg::string(c"period").after(c"EVERY").optional(),
        Arg::string(c"group").after(c"GROUP").optional().since(c"0.2.0"),
        Arg::string(c"ttl").after(c"TTL").optional().since(c"0.3.0"),
        Arg::one_of(
            c"existing",
            &[
                Arg::flag(c"replace", c"REPLACE"),
                Arg::flag(c"again", c"AGAIN").since(c"0.3.0"),
                Arg::flag(c"declare", c"DECLARE").since(c"0.4.0"),
            ],
        )
        .optional(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let payload = args.string()?.bytes();
    let (mut id, mut due, mut priority, mut max_attempts, mut every) = (None, None, None, None, None);
    let (mut group, mut ttl, mut replace, mut again, mut declare) = (None, None, false, false, false);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"ID" => once(&mut id, args.id()?)?,
            b"DELAY" => once(&mut due, after(now, args.wait()?)?)?,
            b"AT" => once(&mut due, args.instant()?)?,
            b"PRIORITY" => once(&mut priority, args.priority()?)?,
            b"MAXATTEMPTS" => once(&mut max_attempts, args.attempts()?)?,
            b"EVERY" => once(&mut every, args.duration()?)?,
            b"GROUP" => once(&mut group, args.option_value()?.bytes())?,
            b"TTL" => once(&mut ttl, args.duration()?)?,
            b"REPLACE" => flag(&mut replace)?,
            b"AGAIN" => flag(&mut again)?,
            b"DECLARE" => flag(&mut declare)?,
            _ => return Err(Error::Syntax),
        }
    }
    let (due, is_timed) = (due.unwrap_or(now), due.is_some());
    for duration in [every, ttl].into_iter().flatten() {
        after(due.max(now), duration)?;
    }
    if [again, replace, declare].into_iter().filter(|&is_given| is_given).count() > 1 {
        return Err(Error::Syntax);
    }
    if declare && (id.is_none() || every.is_none()) {
        return Err(Error::Undeclared);
    }
    if again && id.is_none() {
        return Err(Error::AgainWithoutId);
    }
    let job = Push {
        payload,
        id,
        due,
        priority: priority.unwrap_or(0),
        max_attempts,
        every,
        group: group.unwrap_or_default(),
        ttl,
        replace,
        again,
    };

    OpenQueue::edit(ctx, key, now, |queue, effects| {
        if let Some(id) = id {
            queue.drop_if_expired(now, id, |effect| effects.add(effect)).map_err(|Full| Error::QueueFull)?;
        }
        if declare {
            let change = queue.declare(now, &job, is_timed).map_err(|Full| Error::QueueFull)?;
            effects.add_if_some(change);
            effects.ctx().reply_bytes(id.unwrap_or_default());
            return Ok(());
        }
        match queue.push(now, &job).map_err(|Full| Error::QueueFull)? {
            Some(effect) => {
                effects.add(&effect);
                effects.ctx().reply_bytes(effect.id().unwrap_or_default());
            }
            None => effects.ctx().reply_null(),
        }
        Ok(())
    })?
}
