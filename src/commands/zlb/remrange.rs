//! `ZLB.REMRANGE key start stop`
//!
//! Removes the members from one index to another, both included, as ZLB.RANGE counts them: 0 is the best, -1 the last, and an
//! index beyond an end is that end. `ZLB.REMRANGE key 100 -1` leaves the best hundred. A board without members stays.

use crate::boards::OpenBoard;
use crate::commands::args::Args;
use crate::error::Error;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, Str};

pub struct RemRange;

impl Command for RemRange {
    const SPEC: Spec = Spec {
        name: c"ZLB.REMRANGE",
        summary: c"Removes members from a leaderboard by index, the best being 0.",
        complexity: c"O(M log N) with M the number of members removed and N the number of members of the board; O(N-M) if fewer stay than go",
        since: c"0.2.0",
        flags: c"write",
        arity: 4,
        keys: Keys::First(Access::Delete),
        arguments: &[Arg::key(c"key"), Arg::integer(c"start"), Arg::integer(c"stop")],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (key, start, stop) = (args.string()?, args.integer()?, args.integer()?);
        let removed = OpenBoard::open(ctx, key)?.map_or(0, |mut open| {
            let removed = open.edit().remove_range(start, stop);
            open.commit();
            removed
        });
        ctx.reply_count(removed);
        Ok(())
    }
}
