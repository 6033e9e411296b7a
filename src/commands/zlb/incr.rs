//! `ZLB.INCR key member dim by [dim by ...] [WITHRANK]`
//!
//! Adds to some of a member's values; `dim` is the name of a dimension. A member that is not on the board starts at
//! zeros. Replies all its values. An overflow, of any step, is an error and changes nothing. With KEEP, a newcomer who
//! is not good enough does not get on the board; the reply is what it would have had.
//!
//! WITHRANK puts the member's position before the values: null if it is not on the board. Dimensions may have any name,
//! `WITHRANK` too: they come in pairs with what is added, so it is an option where one argument is left over.

use super::{Values, reply_rank, value};
use crate::boards::OpenBoard;
use crate::commands::args::Args;
use crate::error::Error;
use crate::model::board::Ranking;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, Str};

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
            Arg::flag(c"withrank", c"WITHRANK").optional().since(c"0.2.0"),
        ],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (key, member) = (args.string()?, args.string()?);
        let with_rank = match args.strings()? {
            [pairs @ .., last] if pairs.len() % 2 == 0 => {
                args = Args::new(pairs);
                if !last.bytes().eq_ignore_ascii_case(b"WITHRANK") {
                    return Err(Error::Syntax);
                }
                true
            }
            pairs => {
                args = Args::new(pairs);
                false
            }
        };
        let mut open = OpenBoard::open(ctx, key)?.ok_or(Error::NoBoard)?;
        let mut edit = open.edit();

        let schema = edit.board().schema();
        let mut increments = Vec::new();
        while increments.is_empty() || !args.is_empty() {
            let at = schema.find(args.string()?.bytes()).ok_or(Error::UnknownDimension)?;
            increments.push((at, value(&mut args, &schema.dimensions()[at])?));
        }

        let outcome = edit.incr(member.bytes(), &increments)?;
        let rank = with_rank.then(|| edit.board().rank(member.bytes(), Ranking::Plain));
        let values = Values::to(open.ctx(), open.board().schema().dimensions());
        open.commit();
        ctx.reply_array(usize::from(with_rank) + outcome.values.len());
        if let Some(rank) = rank {
            reply_rank(ctx, rank);
        }
        values.reply_all(ctx, outcome.values.into_iter());
        Ok(())
    }
}
