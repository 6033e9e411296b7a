//! `ZLB.CARD key`
//!
//! Returns the number of members.

use crate::args::Args;
use crate::boards::model::Board;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::ReadKey;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.CARD",
    summary: c"Returns the number of members of a leaderboard.",
    complexity: c"O(1)",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let key = ReadKey::open(ctx, Args::new(arguments).string()?);
    key.ctx().reply_count(key.value::<Board>()?.map_or(0, Board::len));
    Ok(())
}
