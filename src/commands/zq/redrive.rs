//! `ZQ.REDRIVE key [COUNT n]`
//!
//! Dead letters back to ready, the longest dead first, attempts at 0. Without COUNT all of them, in one step: of a hundred
//! thousand and more, take some at a time.

use crate::commands::args::{Args, once};
use crate::error::Error;
use crate::model::queue::State;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Mode;
use crate::server::{Context, Str};

pub struct Redrive;

impl Command for Redrive {
    const SPEC: Spec = Spec {
        name: c"ZQ.REDRIVE",
        summary: c"Makes dead letters ready again.",
        complexity: c"O(M*log(N)) with M the number of dead letters made ready and N the number of jobs of the queue",
        since: c"0.1.0",
        flags: c"write",
        arity: -2,
        keys: Keys::First(Access::Update),
        arguments: &[Arg::key(c"key"), Arg::integer(c"count").after(c"COUNT").optional()],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let mut count = None;
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "COUNT" => once(&mut count, args.positive()?)?,
                _ => return Err(Error::Syntax),
            }
        }
        let mut open = OpenQueue::open(ctx, key, Mode::Write)?;
        let redriven = open.change(|queue, effects| {
            let dead = queue.count(now, State::Dead).min(count.unwrap_or(u64::MAX));
            queue.redrive(now, dead).inspect(|effect| effects.add(effect)).map_or(0, |_| dead)
        });
        open.commit(now);
        ctx.reply_count(redriven);
        Ok(())
    }
}
