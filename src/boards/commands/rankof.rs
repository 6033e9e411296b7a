//! `ZLB.RANKOF key value ...`
//!
//! Returns the position that a new member with these values would get. With TIES LAST, the member that reached its
//! values last is ahead of members with equal values. So the new member would be ahead of all of them. With TIES FIRST
//! or NAME, the new member would be behind all of them. The command ignores KEEP. If the key is missing, the position
//! is 0.

use super::value;
use crate::args::Args;
use crate::boards::model::Board;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::ReadKey;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.RANKOF",
    summary: c"Returns the rank that a new member with these values would have on a leaderboard.",
    complexity: c"O(log N) with N the number of members of the board",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key"), Arg::string(c"value").multiple()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let key = ReadKey::open(ctx, args.string()?);
    let ctx = key.ctx();
    let Some(board) = key.value::<Board>()? else {
        while !args.is_empty() {
            args.float()?;
        }
        ctx.reply_count(0);
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
