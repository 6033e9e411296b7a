//! `ZLB.REM key member [member ...]`
//!
//! Takes members off the board. A board that nobody is on any more stays, with its dimensions; DEL removes it.

use super::KEY_AND_MEMBERS;
use crate::boards::OpenBoard;
use crate::commands::args::Args;
use crate::error::Error;
use crate::server::command::{Access, Command, Keys, Spec};
use crate::server::{Context, Str};

pub struct Rem;

impl Command for Rem {
    const SPEC: Spec = Spec {
        name: c"ZLB.REM",
        summary: c"Removes members from a leaderboard.",
        complexity: c"O(log N) for each member, with N the number of members of the board",
        since: c"0.1.0",
        flags: c"write fast",
        arity: -3,
        keys: Keys::First(Access::Delete),
        arguments: KEY_AND_MEMBERS,
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (key, members) = (args.string()?, args.strings()?);
        let removed = OpenBoard::open(ctx, key)?.map_or(0, |mut open| {
            let removed = open.edit().remove(members);
            open.commit();
            removed
        });
        ctx.reply_count(removed);
        Ok(())
    }
}
