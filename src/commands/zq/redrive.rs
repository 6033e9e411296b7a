//! `ZQ.REDRIVE key [COUNT n | ID id [id ...]]`
//!
//! Dead letters back to ready, attempts at 0: at most COUNT (default 1,000), the longest dead first, or those named. Not beyond
//! MAXLEN.

use crate::commands::args::{Args, Keyword};
use crate::error::Error;
use crate::model::queue::State;
use crate::queues::OpenQueue;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

/// Without COUNT.
const COUNT: u64 = 1000;

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
        arguments: &[
            Arg::key(c"key"),
            Arg::one_of(
                c"which",
                &[Arg::integer(c"count").after(c"COUNT"), Arg::string(c"id").after(c"ID").multiple().since(c"0.2.0")],
            )
            .optional(),
        ],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let keyword = args.trailing_keyword()?;
        let (mut count, mut ids): (_, &[Str<'_>]) = (COUNT, &[]);
        match keyword.as_ref().map(Keyword::as_str) {
            None => {}
            Some("COUNT") => {
                count = args.positive()?;
                args.finish()?;
            }
            Some("ID") => ids = args.strings().map_err(|_| Error::Syntax)?,
            Some(_) => return Err(Error::Syntax),
        }
        let mut open = OpenQueue::<Writing>::open(ctx, key)?;
        let redriven = open.change(|queue, effects| {
            if ids.is_empty() {
                let dead = queue.count(now, State::Dead);
                queue.redrive(now, count).inspect(|effect| effects.add(effect));
                return dead - queue.count(now, State::Dead);
            }
            let revive =
                |id: &&Str<'a>| queue.redrive_one(now, id.bytes()).inspect(|effect| effects.add(effect)).is_some();
            ids.iter().filter(revive).count() as u64
        });
        open.commit(now);
        ctx.reply_count(redriven);
        Ok(())
    }
}
