//! `ZLB.RANKOF key value ...`
//!
//! The position a newcomer with these values would take: behind its equals, with TIES LAST before them (with TIES NAME
//! behind them, too, as it has no name yet). KEEP is not considered: the position may be one that is not kept. Null if
//! there is no board.

use super::value;
use crate::boards;
use crate::commands::args::Args;
use crate::error::Error;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::ReadKey;
use crate::server::{Context, Str};

pub struct RankOf;

impl Command for RankOf {
    const SPEC: Spec = Spec {
        name: c"ZLB.RANKOF",
        summary: c"Returns the rank that a newcomer with these values would have on a leaderboard.",
        complexity: c"O(log N) with N the number of members of the board",
        since: c"0.1.0",
        flags: c"readonly fast",
        arity: -3,
        keys: Keys::First(Access::Read),
        arguments: &[Arg::key(c"key"), Arg::string(c"value").multiple()],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let key = ReadKey::open(ctx, args.string()?);
        let ctx = key.ctx();
        let Some(board) = boards::look(&key)? else {
            ctx.reply_null();
            return Ok(());
        };
        let dimensions = board.schema().dimensions();
        if arguments.len() != 1 + dimensions.len() {
            return Err(Error::ValueCount);
        }
        let values = dimensions.iter().map(|dimension| value(&mut args, dimension));
        ctx.reply_count(board.rank_of(&values.collect::<Result<Vec<_>, _>>()?)?);
        Ok(())
    }
}
