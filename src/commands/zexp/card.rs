//! `ZEXP.CARD key`
//!
//! The number of live members: exact at any moment, however many dead ones wait for their removal.

use crate::commands::args::Args;
use crate::error::Error;
use crate::expiring::TimedSet;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, Str};

pub struct Card;

impl Command for Card {
    const SPEC: Spec = Spec {
        name: c"ZEXP.CARD",
        summary: c"Returns the number of live members of an expiring set.",
        complexity: c"O(log N) with N the number of members of the set; O(1) while no member is dead",
        since: c"0.1.0",
        flags: c"readonly fast",
        arity: 2,
        keys: Keys::First(Access::Read),
        arguments: &[Arg::key(c"key")],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let key = Args::new(arguments).string()?;
        let live = TimedSet::counted(ctx, key, now, |_, live| live)?;
        ctx.reply_count(live);
        Ok(())
    }
}
