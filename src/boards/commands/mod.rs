//! ZLB: leaderboards with several dimensions. This file has the functions that the commands share.
//!
//! In replies, an INT value is an integer. A FLOAT value is a double in RESP3, and in RESP2 a bulk string with the
//! fewest digits that parse to the same double, as in ZSCORE. If a command usually replies with an array, its null
//! reply is a null array.

mod apply;
mod around;
mod card;
mod clear;
mod create;
mod get;
mod incr;
mod info;
mod merge;
mod range;
mod rank;
mod rankof;
mod rem;
mod remrange;
mod set;

use crate::args::{Args, flag, once};
use crate::boards::model::{Entry, Range, Ranking, Schema, Value};
use crate::boards::parse::value;
use crate::error::Error;
use crate::server::Context;
use crate::server::command::{Arg, Command, commands};

/// The commands for leaderboards.
pub const COMMANDS: &[Command] =
    commands![around, card, clear, create, get, incr, info, merge, range, rank, rankof, rem, remrange, set];

/// The command that replicas and AOF files get instead of the commands that clients sent. Like RESTORE, this command
/// can store any value in a key.
pub const EFFECTS: &[Command] = commands![apply];

const RANKING: Arg =
    Arg::one_of(c"ranking", &[Arg::flag(c"dense", c"DENSE"), Arg::flag(c"competition", c"COMPETITION")]).optional();

const WITH_RANK: Arg = Arg::block(c"rank", &[Arg::flag(c"withrank", c"WITHRANK"), RANKING]).optional().since(c"0.2.0");

const WITH_VALUES: Arg = Arg::flag(c"withvalues", c"WITHVALUES").optional();

/// The options of commands that return members.
#[derive(Default)]
struct Details {
    rank: Option<Ranking>,
    values: bool,
    /// REV, which only ZLB.RANGE accepts.
    is_reversed: bool,
}

impl Details {
    /// Parses `[REV] [WITHRANK [DENSE | COMPETITION]] [WITHVALUES]`.
    fn parse(args: &mut Args<'_>) -> Result<Details, Error> {
        let mut details = Details::default();
        // DENSE and COMPETITION may only follow WITHRANK.
        let mut is_after_rank = false;
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.bytes() {
                b"REV" => flag(&mut details.is_reversed)?,
                b"WITHRANK" => once(&mut details.rank, Ranking::Plain)?,
                b"WITHVALUES" => flag(&mut details.values)?,
                keyword if is_after_rank => details.rank = Some(shared_ranking(keyword)?),
                _ => return Err(Error::Syntax),
            }
            is_after_rank = keyword.bytes() == b"WITHRANK";
        }
        Ok(details)
    }
}

/// Parses `DENSE` or `COMPETITION`.
fn shared_ranking(keyword: &[u8]) -> Result<Ranking, Error> {
    match keyword {
        b"DENSE" => Ok(Ranking::Dense),
        b"COMPETITION" => Ok(Ranking::Competition),
        _ => Err(Error::Syntax),
    }
}

/// The format of values in replies to one client.
#[derive(Clone, Copy)]
struct ValueFormat {
    as_doubles: bool,
}

impl ValueFormat {
    fn to(ctx: &Context, has_floats: bool) -> ValueFormat {
        ValueFormat { as_doubles: has_floats && ctx.is_resp3() }
    }

    fn reply(self, ctx: &Context, value: Value) {
        match value {
            Value::Int(number) => ctx.reply_integer(number),
            Value::Float(number) if self.as_doubles => ctx.reply_double(number),
            Value::Float(_) => ctx.reply_bytes(value.to_string().as_bytes()),
        }
    }

    fn reply_all(self, ctx: &Context, values: impl Iterator<Item = Value>) {
        values.for_each(|value| self.reply(ctx, value));
    }
}

/// Replies with members in order. If `details` requests ranks or values, each member is an array of the requested
/// fields: `[rank, member, value ...]`.
fn reply_members(ctx: &Context, members: Range<'_>, schema: &Schema, details: &Details) {
    ctx.reply_array(members.len());
    let parts = usize::from(details.rank.is_some()) + 1 + if details.values { schema.dimensions().len() } else { 0 };
    let values = ValueFormat::to(ctx, schema.has_floats());
    let reply_entry = |entry: Entry<'_>| {
        ctx.reply_bytes(entry.member);
        if details.values {
            values.reply_all(ctx, entry.values.iter());
        }
    };
    match details.rank {
        Some(ranking) => members.ranked(ranking).for_each(|(rank, entry)| {
            ctx.reply_array(parts);
            ctx.reply_count(rank);
            reply_entry(entry);
        }),
        None if details.values => members.for_each(|entry| {
            ctx.reply_array(parts);
            reply_entry(entry);
        }),
        None => members.for_each(|entry| ctx.reply_bytes(entry.member)),
    }
}

fn reply_rank(ctx: &Context, rank: Option<u64>) {
    match rank {
        None => ctx.reply_null(),
        Some(rank) => ctx.reply_count(rank),
    }
}
