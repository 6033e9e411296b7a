//! `ZLB.CLEAR key`
//!
//! Removes all members, and returns their number. The board keeps its dimensions and settings, and the key keeps its
//! TTL.

use crate::args::Args;
use crate::boards;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.CLEAR",
    summary: c"Removes all members of a leaderboard and keeps its dimensions and settings.",
    complexity: c"O(1), and O(N) in the background to free the memory of N members",
    since: c"0.2.0",
    flags: c"write fast",
    keys: Keys::First(Access::Delete),
    arguments: &[Arg::key(c"key")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let removed = boards::change(ctx, Args::new(arguments).string()?, |edit| Ok(edit.clear()))?;
    ctx.reply_count(removed);
    Ok(())
}
