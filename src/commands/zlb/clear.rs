//! `ZLB.CLEAR key`
//!
//! Removes all members. The board stays, with its dimensions and settings, and so does the key's TTL. Replies how many members
//! there were. The memory of a large board is given back in the background.

use crate::boards::OpenBoard;
use crate::commands::args::Args;
use crate::error::Error;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, Str};

pub struct Clear;

impl Command for Clear {
    const SPEC: Spec = Spec {
        name: c"ZLB.CLEAR",
        summary: c"Removes all members of a leaderboard, and keeps its dimensions and settings.",
        complexity: c"O(1), and O(N) in the background to give back the memory of N members",
        since: c"0.2.0",
        flags: c"write fast",
        arity: 2,
        keys: Keys::First(Access::Delete),
        arguments: &[Arg::key(c"key")],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let removed = OpenBoard::open(ctx, Args::new(arguments).string()?)?.map_or(0, |mut open| {
            let removed = open.edit().clear();
            open.commit();
            removed
        });
        ctx.reply_count(removed);
        Ok(())
    }
}
