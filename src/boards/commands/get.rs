//! `ZLB.GET key member [member ...]`
//!
//! Returns `[rank, value ...]` for each member, or null for a member that is not on the board. The rank is the member's
//! position, as in ZLB.RANK without options.

use super::ValueFormat;
use crate::args::Args;
use crate::args::KEY_AND_MEMBERS;
use crate::boards::model::Board;
use crate::error::Error;
use crate::server::command::{Access, Keys, Spec};
use crate::server::key::ReadKey;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.GET",
    summary: c"Returns the rank and the values of members of a leaderboard.",
    complexity: c"O(log N) for each member, with N the number of members of the board",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: KEY_AND_MEMBERS,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (key, members) = (args.string()?, args.strings()?);
    let key = ReadKey::open(ctx, key);
    let ctx = key.ctx();
    let board = key.value::<Board>()?;
    let dimensions = board.map_or(&[][..], |board| board.schema().dimensions());
    let reply = ValueFormat::to(ctx, board.is_some_and(|board| board.schema().has_floats()));
    ctx.reply_array(members.len());
    for member in members {
        match board.and_then(|board| board.get(member.bytes())) {
            None => ctx.reply_null_array(),
            Some((rank, values)) => {
                ctx.reply_array(1 + dimensions.len());
                ctx.reply_count(rank);
                reply.reply_all(ctx, values.iter());
            }
        }
    }
    Ok(())
}
