//! `ZQ.NACK key id token [DELAY duration | DEAD] [FREE] [ERROR text]`
//!
//! Gives a job back: after DELAY (default: the queue's BACKOFF, otherwise now), or to the dead letters. The last attempt given
//! back is dead, whatever was asked, unless it is FREE: then the attempt does not count. A recurring job out of attempts waits for its
//! next occurrence. ERROR is kept with the job.

use super::after;
use crate::commands::args::{Args, flag, once};
use crate::error::Error;
use crate::model::queue::{self, Manner};
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub struct Nack;

impl Command for Nack {
    const SPEC: Spec = Spec {
        name: c"ZQ.NACK",
        summary: c"Gives a claimed job back, to be due again or to the dead letters.",
        complexity: c"O(log N) with N the number of jobs of the queue",
        since: c"0.1.0",
        flags: c"write fast",
        arity: -4,
        keys: Keys::First(Access::Update),
        arguments: &[
            Arg::key(c"key"),
            Arg::string(c"id"),
            Arg::integer(c"token"),
            Arg::one_of(c"fate", &[Arg::string(c"delay").after(c"DELAY"), Arg::flag(c"dead", c"DEAD")]).optional(),
            Arg::flag(c"free", c"FREE").optional().since(c"0.2.0"),
            Arg::string(c"text").after(c"ERROR").optional().since(c"0.2.0"),
        ],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let id = args.string()?.bytes();
        let token = args.token()?;
        let (mut fate, mut error) = (None, None);
        let mut is_free = false;
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "DELAY" => once(&mut fate, queue::Nack::At(after(now, args.wait()?)?))?,
                "DEAD" => once(&mut fate, queue::Nack::Dead)?,
                "FREE" => flag(&mut is_free)?,
                "ERROR" => once(&mut error, args.word()?.bytes())?,
                _ => return Err(Error::Syntax),
            }
        }
        let fate = fate.unwrap_or(queue::Nack::Default);
        let manner = Manner { is_free, error: error.unwrap_or_default() };
        let mut open = OpenQueue::<Writing>::open(ctx, key)?;
        let given = open.change(|queue, effects| {
            queue.nack(now, id, token, fate, manner).inspect(|given| effects.add(&given.effect)).is_some()
        });
        open.commit(now);
        ctx.reply_bool(given);
        Ok(())
    }
}
