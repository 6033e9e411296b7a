//! `ZLB.SET key [NX | XX] [BEST] [WITHRANK] member value ... [member value ... ...]`
//!
//! Sets the values of members, and returns the number of added members. NX sets only members that are not on the board.
//! XX sets only members that are on the board. With BEST, a member gets the new values only if they are better than its
//! current values. If a member already has the values, its place among equal members does not change. A new member is
//! not added if the board has KEEP and already has enough better members.
//!
//! With WITHRANK, the command accepts only one member, and the reply is `[added, rank]`. The rank is null if the member
//! is not on the board.
//!
//! The number of arguments determines which arguments are options. So members may have any name, including `NX` or
//! `best`.

use super::reply_rank;
use crate::args::{Args, CONDITION, flag, once};
use crate::boards;
use crate::boards::model::{Condition, Ranking, SetOptions};
use crate::boards::parse::{is_option, values};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

/// The maximum number of options: NX or XX, BEST, and WITHRANK.
const MAX_OPTIONS: usize = 3;

/// The arguments of ZLB.SET: the options, whether WITHRANK is given, and the members with their values.
type Parts<'a> = (SetOptions, bool, &'a [Str<'a>]);

/// Separates the options from the members and values. Members and values form rows of `1 + dimensions` arguments. All
/// other arguments are options.
fn split<'a>(rest: &'a [Str<'a>], dimensions: usize) -> Result<Parts<'a>, Error> {
    let row = 1 + dimensions;
    let mut left_over = rest.len() % row;
    // With few dimensions, the options may be as many as the arguments of a row, so the number of arguments is
    // ambiguous. But the second argument of a row is a value, and no value is a keyword.
    while left_over + row <= MAX_OPTIONS && rest.get(left_over + 1).is_some_and(|&value| is_option(value)) {
        left_over += row;
    }
    let (words, rows) = rest.split_at(left_over);
    if rows.is_empty() || !words.iter().all(|&word| is_option(word)) {
        return Err(Error::ValueCount);
    }
    let (mut condition, mut best, mut with_rank) = (None, false, false);
    let mut words = Args::new(words);
    while let Some(keyword) = words.trailing_keyword()? {
        match keyword.bytes() {
            b"NX" => once(&mut condition, Condition::Absent)?,
            b"XX" => once(&mut condition, Condition::Present)?,
            b"BEST" => flag(&mut best)?,
            _ => flag(&mut with_rank)?,
        }
    }
    Ok((SetOptions { condition: condition.unwrap_or_default(), best }, with_rank, rows))
}

pub const SPEC: Spec = Spec {
    name: c"ZLB.SET",
    summary: c"Sets the values of members of a leaderboard, one for each dimension.",
    complexity: c"O(log N) for each member, with N the number of members of the board",
    since: c"0.1.0",
    flags: c"write deny-oom fast",
    keys: Keys::First(Access::Update),
    arguments: &[
        Arg::key(c"key"),
        CONDITION,
        Arg::flag(c"best", c"BEST").optional(),
        Arg::flag(c"withrank", c"WITHRANK").optional().since(c"0.2.0"),
        Arg::block(c"data", &[Arg::string(c"member"), Arg::string(c"value").multiple()]).multiple(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (key, rest) = (args.string()?, args.strings()?);
    let (added, rank) = boards::change(ctx, key, |edit| {
        let dimensions = edit.board().schema().dimensions();
        let (options, with_rank, words) = split(rest, dimensions.len())?;
        let values = values(words, dimensions)?;
        if with_rank && values.len() > dimensions.len() {
            return Err(Error::Syntax);
        }
        let members = words.iter().step_by(1 + dimensions.len()).map(|member| member.bytes());
        let added = edit.set(members, &values, options)?;
        Ok((added, with_rank.then(|| edit.board().rank(words[0].bytes(), Ranking::Plain))))
    })?;
    match rank {
        None => ctx.reply_count(added),
        Some(rank) => {
            ctx.reply_array(2);
            ctx.reply_count(added);
            reply_rank(ctx, rank);
        }
    }
    Ok(())
}
