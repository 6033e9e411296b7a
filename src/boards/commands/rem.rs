//! `ZLB.REM key member [member ...]`
//!
//! Removes members, and returns how many were on the board. An empty board keeps its key.

use crate::args::{Args, KEY_AND_MEMBERS};
use crate::boards;
use crate::error::Error;
use crate::server::command::{Access, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.REM",
    summary: c"Removes members from a leaderboard.",
    complexity: c"O(log N) for each member, with N the number of members of the board",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Delete),
    arguments: KEY_AND_MEMBERS,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (key, members) = (args.string()?, args.strings()?);
    let removed = boards::change(ctx, key, |edit| Ok(edit.remove(members.iter().map(|member| member.bytes()))))?;
    ctx.reply_count(removed);
    Ok(())
}
