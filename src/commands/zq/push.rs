//! `ZQ.PUSH key payload [ID id] [DELAY duration | AT instant] [PRIORITY n] [ATTEMPTS n] [EVERY duration] [GROUP name] [REPLACE]`
//!
//! Puts a job into a queue. An ID makes a push idempotent: it is refused, with null, as long as a job of that id is in the
//! queue in whatever state, the dead letters included.

use super::{DUE, after};
use crate::commands::args::{Args, flag, once};
use crate::error::Error;
use crate::model::queue;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub struct Push;

impl Command for Push {
    const SPEC: Spec = Spec {
        name: c"ZQ.PUSH",
        summary: c"Adds a job to a queue, due now or later.",
        complexity: c"O(log N) with N the number of jobs of the queue",
        since: c"0.1.0",
        flags: c"write deny-oom fast",
        arity: -3,
        keys: Keys::First(Access::Insert),
        arguments: &[
            Arg::key(c"key"),
            Arg::string(c"payload"),
            Arg::string(c"id").after(c"ID").optional(),
            DUE,
            Arg::integer(c"priority").after(c"PRIORITY").optional(),
            Arg::integer(c"attempts").after(c"ATTEMPTS").optional(),
            Arg::string(c"period").after(c"EVERY").optional(),
            Arg::string(c"group").after(c"GROUP").optional().since(c"0.2.0"),
            Arg::flag(c"replace", c"REPLACE").optional(),
        ],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let payload = args.string()?.bytes();
        let (mut id, mut due, mut priority, mut attempts, mut every) = (None, None, None, None, None);
        let (mut group, mut replace) = (None, false);
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "ID" => once(&mut id, args.id()?)?,
                "DELAY" => once(&mut due, after(now, args.wait()?)?)?,
                "AT" => once(&mut due, args.instant()?)?,
                "PRIORITY" => once(&mut priority, args.priority()?)?,
                "ATTEMPTS" => once(&mut attempts, args.attempts()?)?,
                "EVERY" => once(&mut every, args.duration()?)?,
                "GROUP" => once(&mut group, args.word()?.bytes())?,
                "REPLACE" => flag(&mut replace)?,
                _ => return Err(Error::Syntax),
            }
        }
        let due = due.unwrap_or(now);
        if let Some(every) = every {
            after(due.max(now), every)?;
        }
        let job = queue::Push {
            payload,
            id,
            due,
            priority: priority.unwrap_or(0),
            attempts,
            every,
            group: group.unwrap_or_default(),
            replace,
        };

        let mut open = OpenQueue::<Writing>::open(ctx, key)?;
        open.change(|queue, effects| {
            match queue.push(now, &job).map_err(|queue::Full| Error::QueueFull)? {
                Some(effect) => {
                    effects.add(&effect);
                    effects.ctx().reply_bytes(effect.id().unwrap_or_default());
                }
                None => effects.ctx().reply_null(),
            }
            Ok::<_, Error>(())
        })?;
        open.commit(now);
        Ok(())
    }
}
