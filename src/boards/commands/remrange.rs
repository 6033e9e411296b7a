//! `ZLB.REMRANGE key start stop`
//!
//! Removes the members from index `start` to `stop`, both inclusive, and returns their number. Index 0 is the best
//! member, as in ZLB.RANGE without REV. An empty board keeps its key.

use crate::args::Args;
use crate::boards;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.REMRANGE",
    summary: c"Removes members from a leaderboard by zero-based index, best first.",
    complexity: c"O(M log N) with M the number of members removed and N the number of members of the board; O(N-M) if fewer stay than are removed",
    since: c"0.2.0",
    flags: c"write",
    keys: Keys::First(Access::Delete),
    arguments: &[Arg::key(c"key"), Arg::integer(c"start"), Arg::integer(c"stop")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (key, start, stop) = (args.string()?, args.integer()?, args.integer()?);
    let removed = boards::change(ctx, key, |edit| Ok(edit.remove_range(start, stop)))?;
    ctx.reply_count(removed);
    Ok(())
}
