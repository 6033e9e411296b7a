//! `ZLB.INCR key member dim by [dim by ...]`
//!
//! Adds to some of a member's values; `dim` is the name of a dimension. A member that is not on the board starts at
//! zeros. Replies all its values. An overflow, of any step, is an error and changes nothing. With KEEP, a newcomer who
//! is not good enough does not get on the board; the reply is what it would have had.

use super::{Values, value};
use crate::boards::{self, Change, OpenBoard};
use crate::commands::args::Args;
use crate::error::Error;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, OwnedStr, Str};

pub struct Incr;

impl Command for Incr {
    const SPEC: Spec = Spec {
        name: c"ZLB.INCR",
        summary: c"Adds to values of a member of a leaderboard.",
        complexity: c"O(log N) with N the number of members of the board",
        since: c"0.1.0",
        flags: c"write deny-oom fast",
        arity: -5,
        keys: Keys::First(Access::Exchange),
        arguments: &[
            Arg::key(c"key"),
            Arg::string(c"member"),
            Arg::block(c"data", &[Arg::string(c"dim"), Arg::string(c"by")]).multiple(),
        ],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (key, member) = (args.string()?, args.string()?);
        let mut open = OpenBoard::open(ctx, key);
        let board = open.board()?.ok_or(Error::NoBoard)?;

        let mut increments = Vec::new();
        while increments.is_empty() || !args.is_empty() {
            let at = board.schema().find(args.string()?.bytes()).ok_or(Error::UnknownDimension)?;
            increments.push((at, value(&mut args, &board.schema().dimensions()[at])?));
        }

        let mut effects = Vec::new();
        let outcome = board.incr(member.bytes(), &increments, |effect| boards::write(effect, &mut effects))?;
        let values = Values::to(ctx, board.schema().dimensions());
        if outcome.changed {
            let effects = effects.iter().map(OwnedStr::as_str);
            open.commit(Change::Increment, &std::iter::once(key).chain(effects).collect::<Vec<_>>());
        }
        ctx.reply_array(outcome.values.len());
        values.reply_all(outcome.values.into_iter());
        Ok(())
    }
}
