//! `ZLB.MERGE dest numkeys key [key ...] [SUM | BEST]`
//!
//! Puts the union of boards under `dest`: of a member that is on several, the sums of its values (SUM, the default) or the best
//! of its tuples (BEST). All boards have one schema, that of `dest` included if there is a board; one that is missing is
//! empty. What `dest` held is replaced, and its TTL goes, as with ZUNIONSTORE; it may be one of the boards that are merged. An
//! overflow is an error and changes nothing. Replies how many members the union has.
//!
//! Equals stand in the order in which they would have come about on one board, key by key: with TIES FIRST those are ahead
//! that had their final values after an earlier key.

use crate::boards;
use crate::commands::args::{Args, once};
use crate::error::Error;
use crate::model::board::Combine;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, Str};

pub struct Merge;

impl Command for Merge {
    const SPEC: Spec = Spec {
        name: c"ZLB.MERGE",
        summary: c"Stores the union of leaderboards of one schema.",
        complexity: c"O(M + N log N) with M the number of members of all boards and N the number of different ones",
        since: c"0.2.0",
        flags: c"write deny-oom",
        arity: -4,
        keys: Keys::Stored { stored: Access::Update, counted: Access::Read },
        arguments: &[
            Arg::key(c"destination"),
            Arg::integer(c"numkeys"),
            Arg::key(c"key").multiple(),
            Arg::one_of(c"combine", &[Arg::flag(c"sum", c"SUM"), Arg::flag(c"best", c"BEST")]).optional(),
        ],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (dest, sources) = (args.string()?, args.keys()?);
        let mut combine = None;
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "SUM" => once(&mut combine, Combine::Sum)?,
                "BEST" => once(&mut combine, Combine::Best)?,
                _ => return Err(Error::Syntax),
            }
        }
        let members = boards::merge(ctx, dest, sources, combine.unwrap_or_default())?;
        ctx.reply_count(members);
        Ok(())
    }
}
