//! `ZLB.RANGE key start stop [REV] [WITHRANK [DENSE | COMPETITION]] [WITHVALUES]`
//!
//! Returns the members from index `start` to `stop`, both inclusive, as ZRANGE does. Index 0 is the best member. With
//! REV, index 0 is the worst member, but ranks still count from the best. With WITHRANK or WITHVALUES, each member is
//! an array `[rank, member, value ...]` of the requested fields.

use super::{Details, WITH_RANK, WITH_VALUES, reply_members};
use crate::args::Args;
use crate::boards::model::{Board, Order};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::ReadKey;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.RANGE",
    summary: c"Returns members of a leaderboard by index, best first.",
    complexity: c"O(log N + M) with N the number of members of the board and M the number of members returned",
    since: c"0.1.0",
    flags: c"readonly",
    keys: Keys::First(Access::Read),
    arguments: &[
        Arg::key(c"key"),
        Arg::integer(c"start"),
        Arg::integer(c"stop"),
        Arg::flag(c"rev", c"REV").optional(),
        WITH_RANK,
        WITH_VALUES,
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (key, start, stop) = (args.string()?, args.integer()?, args.integer()?);
    let details = Details::parse(&mut args)?;
    let key = ReadKey::open(ctx, key);
    let ctx = key.ctx();
    let Some(board) = key.value::<Board>()? else {
        ctx.reply_array(0);
        return Ok(());
    };
    let order = if details.is_reversed { Order::WorstFirst } else { Order::BestFirst };
    reply_members(ctx, board.range(start, stop, order), board.schema(), &details);
    Ok(())
}
