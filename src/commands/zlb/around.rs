//! `ZLB.AROUND key member radius [WITHVALUES]`
//!
//! A member among its neighbours, best first: up to `radius` on either side, fewer at an edge of the board. Null if the
//! member is not on the board.

use super::{WITH_VALUES, reply_members};
use crate::boards;
use crate::commands::args::{Args, flag};
use crate::error::Error;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::{Key, Mode};
use crate::server::{Context, Str};

pub struct Around;

impl Command for Around {
    const SPEC: Spec = Spec {
        name: c"ZLB.AROUND",
        summary: c"Returns a member of a leaderboard among its neighbours, best first.",
        complexity: c"O(log N + M) with N the number of members of the board and M the number of members returned",
        since: c"0.1.0",
        flags: c"readonly",
        arity: -4,
        keys: Keys::First(Access::Read),
        arguments: &[Arg::key(c"key"), Arg::string(c"member"), Arg::integer(c"radius"), WITH_VALUES],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (key, member, radius) = (args.string()?, args.string()?, args.count()?);
        let mut with_values = false;
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "WITHVALUES" => flag(&mut with_values)?,
                _ => return Err(Error::Syntax),
            }
        }
        let key = Key::open(ctx, key, Mode::Read);
        let found = boards::look(&key)?.and_then(|board| Some((board, board.around(member.bytes(), radius)?)));
        match found {
            None => ctx.reply_null_array(),
            Some((board, members)) => reply_members(ctx, members, board.schema().dimensions(), with_values),
        }
        Ok(())
    }
}
