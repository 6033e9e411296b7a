//! `ZLB.MERGE dest numkeys key [key ...] [SUM | BEST]`
//!
//! Stores the union of boards in `dest`, and returns the number of members of the union. A member on several boards
//! gets the sums of its values (SUM, the default) or its best tuple of values (BEST). All boards must have the same
//! schema, including a board in `dest`. A missing board counts as empty. As in ZUNIONSTORE, `dest` is replaced, loses
//! its TTL, and may be one of the sources. If a sum overflows, the command returns an error and changes nothing.
//!
//! The command adds the boards to the union one by one, in the order of the keys. With TIES FIRST or LAST, this order
//! decides ties. With TIES FIRST, a member ranks ahead of a tied member that got its final values from a later key.

use crate::args::{Args, once};
use crate::boards;
use crate::boards::model::Combine;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.MERGE",
    summary: c"Stores the union of leaderboards with the same schema in a key.",
    complexity: c"O(M + N log N) with M the number of members of all boards and N the number of different members",
    since: c"0.2.0",
    flags: c"write deny-oom",
    keys: Keys::Stored { stored: Access::Update, counted: Access::Read },
    arguments: &[
        Arg::key(c"destination"),
        Arg::integer(c"numkeys"),
        Arg::key(c"key").multiple(),
        Arg::one_of(c"combine", &[Arg::flag(c"sum", c"SUM"), Arg::flag(c"best", c"BEST")]).optional(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (dest, sources) = (args.string()?, args.keys(0, 0)?);
    let mut combine = None;
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"SUM" => once(&mut combine, Combine::Sum)?,
            b"BEST" => once(&mut combine, Combine::Best)?,
            _ => return Err(Error::Syntax),
        }
    }
    let members = boards::merge(ctx, dest, sources, combine.unwrap_or_default())?;
    ctx.reply_count(members);
    Ok(())
}
