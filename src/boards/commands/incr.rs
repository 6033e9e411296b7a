//! `ZLB.INCR key [WITHRANK] member dim by [dim by ...]`
//!
//! Increments values of a member, and returns all its values. `dim` is the name of a dimension. The values of a new
//! member start at 0. If an increment overflows, the command returns an error and changes nothing. KEEP may exclude a
//! new member. The reply then has the values that the member would have.
//!
//! WITHRANK adds the member's position in front of the values, or null if the member is not on the board. Dimensions
//! and increments come in pairs, so the command recognizes WITHRANK by the number of arguments. A member may also be
//! named `WITHRANK`.

use super::{ValueFormat, reply_rank, value};
use crate::args::Args;
use crate::boards;
use crate::boards::model::{Ranking, Value};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZLB.INCR",
    summary: c"Increments values of a member of a leaderboard.",
    complexity: c"O(log N) with N the number of members of the board",
    since: c"0.1.0",
    flags: c"write deny-oom fast",
    keys: Keys::First(Access::Exchange),
    arguments: &[
        Arg::key(c"key"),
        Arg::flag(c"withrank", c"WITHRANK").optional().since(c"0.2.0"),
        Arg::string(c"member"),
        Arg::block(c"data", &[Arg::string(c"dim"), Arg::string(c"by")]).multiple(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let with_rank = !arguments.len().is_multiple_of(2);
    if with_rank && !args.string()?.bytes().eq_ignore_ascii_case(b"WITHRANK") {
        return Err(Error::Syntax);
    }
    let member = args.string()?;
    let (values, rank) = boards::change(ctx, key, |edit| {
        let schema = edit.board().schema();
        let mut increments = Vec::new();
        while increments.is_empty() || !args.is_empty() {
            let at = schema.find(args.string()?.bytes()).ok_or(Error::UnknownDimension)?;
            increments.push((at, value(&mut args, &schema.dimensions()[at])?));
        }
        let values = edit.incr(member.bytes(), &increments)?;
        Ok((values, with_rank.then(|| edit.board().rank(member.bytes(), Ranking::Plain))))
    })?;
    ctx.reply_array(usize::from(with_rank) + values.len());
    if let Some(rank) = rank {
        reply_rank(ctx, rank);
    }
    let has_floats = values.iter().any(|value| matches!(value, Value::Float(_)));
    ValueFormat::to(ctx, has_floats).reply_all(ctx, values.into_iter());
    Ok(())
}
