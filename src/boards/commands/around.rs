//! `ZLB.AROUND key member radius [WITHRANK [DENSE | COMPETITION]] [WITHVALUES]`
//!
//! Returns a member and up to `radius` neighbours on either side, best first. Returns null if the member is not on the
//! board.

use super::{Details, WITH_RANK, WITH_VALUES, reply_members};
use crate::args::Args;
use crate::boards::model::Board;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::ReadKey;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.AROUND",
    summary: c"Returns a member of a leaderboard and its neighbours, best first.",
    complexity: c"O(log N + M) with N the number of members of the board and M the number of members returned",
    since: c"0.1.0",
    flags: c"readonly",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key"), Arg::string(c"member"), Arg::integer(c"radius"), WITH_RANK, WITH_VALUES],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (key, member, radius) = (args.string()?, args.string()?, args.count()?);
    let details = Details::parse(&mut args)?;
    if details.is_reversed {
        return Err(Error::Syntax);
    }
    let key = ReadKey::open(ctx, key);
    let ctx = key.ctx();
    let found = key.value::<Board>()?.and_then(|board| Some((board, board.around(member.bytes(), radius)?)));
    match found {
        None => ctx.reply_null_array(),
        Some((board, members)) => reply_members(ctx, members, board.schema(), &details),
    }
    Ok(())
}
