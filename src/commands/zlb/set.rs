//! `ZLB.SET key [NX | XX] [BEST] [WITHRANK] member value ... [member value ... ...]`
//!
//! Gives members their values, one for each dimension. NX: only members that are not on the board; XX: only those that
//! are; BEST: a member that is on the board gets values only if they are better than those it has. Whoever is given the
//! values it has keeps its place among its equals. Replies how many members are on the board now that were not before:
//! with KEEP, a member that is not good enough does not count. WITHRANK, of one member only, replies `[added, rank]`: the
//! position, or null if the member is not on the board.
//!
//! Members may have any name, `NX` or `best` too: how many arguments there are tells how many of them are options.

use super::{reply_rank, value};
use crate::boards::{self, Change, OpenBoard};
use crate::commands::args::{Args, flag, once};
use crate::error::Error;
use crate::model::board::{Assignment, Condition, Dimension, Ranking, SetOptions, Value, When};
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, OwnedStr, Str};

pub struct Set;

/// One of NX and XX, BEST, WITHRANK.
const MOST_OPTIONS: usize = 3;

fn is_option(argument: Str<'_>) -> bool {
    [&b"NX"[..], b"XX", b"BEST", b"WITHRANK"].iter().any(|option| option.eq_ignore_ascii_case(argument.bytes()))
}

/// The options, and the members with their values.
type Parts<'a> = (SetOptions, bool, &'a [Str<'a>]);

/// Tells the options from the members and values, which come in rows of `1 + dimensions`. There are at most three options:
/// what is left over by the rows.
fn split<'a>(rest: &'a [Str<'a>], dimensions: usize) -> Result<Parts<'a>, Error> {
    let row = 1 + dimensions;
    let mut left_over = rest.len() % row;
    // With few dimensions options could be a row, but no value is a word.
    while left_over + row <= MOST_OPTIONS && rest.get(left_over + 1).is_some_and(|&value| is_option(value)) {
        left_over += row;
    }
    let (words, rows) = rest.split_at(left_over);
    if rows.is_empty() || !words.iter().all(|&word| is_option(word)) {
        return Err(Error::ValueCount);
    }
    let (mut condition, mut when, mut with_rank) = (None, None, false);
    let mut words = Args::new(words);
    while let Some(keyword) = words.trailing_keyword()? {
        match keyword.as_str() {
            "NX" => once(&mut condition, Condition::Absent)?,
            "XX" => once(&mut condition, Condition::Present)?,
            "BEST" => once(&mut when, When::Better)?,
            _ => flag(&mut with_rank)?,
        }
    }
    let options = SetOptions { condition: condition.unwrap_or_default(), when: when.unwrap_or_default() };
    Ok((options, with_rank, rows))
}

/// The values in rows of a member and its values.
pub(super) fn values(rows: &[Str<'_>], dimensions: &[Dimension]) -> Result<Vec<Value>, Error> {
    let mut values = Vec::with_capacity(rows.len());
    for row in rows.chunks_exact(1 + dimensions.len()) {
        for (text, dimension) in row[1..].chunks(1).zip(dimensions) {
            let value = value(&mut Args::new(text), dimension);
            // An option too many has come to stand where a value should.
            values.push(value.map_err(|error| if is_option(text[0]) { Error::Syntax } else { error })?);
        }
    }
    Ok(values)
}

/// The members in such rows, with these values.
pub(super) fn assignments<'a>(rows: &'a [Str<'a>], values: &'a [Value], dimensions: usize) -> Vec<Assignment<'a>> {
    let rows = rows.chunks_exact(1 + dimensions).zip(values.chunks_exact(dimensions));
    rows.map(|(row, values)| Assignment { member: row[0].bytes(), values }).collect()
}

impl Command for Set {
    const SPEC: Spec = Spec {
        name: c"ZLB.SET",
        summary: c"Gives members of a leaderboard their values, one for each dimension.",
        complexity: c"O(log N) for each member, with N the number of members of the board",
        since: c"0.1.0",
        flags: c"write deny-oom fast",
        arity: -4,
        keys: Keys::First(Access::Update),
        arguments: &[
            Arg::key(c"key"),
            Arg::one_of(c"condition", &[Arg::flag(c"nx", c"NX"), Arg::flag(c"xx", c"XX")]).optional(),
            Arg::flag(c"best", c"BEST").optional(),
            Arg::flag(c"withrank", c"WITHRANK").optional().since(c"0.2.0"),
            Arg::block(c"data", &[Arg::string(c"member"), Arg::string(c"value").multiple()]).multiple(),
        ],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (key, rest) = (args.string()?, args.strings()?);
        let mut open = OpenBoard::open(ctx, key);
        let board = open.board()?.ok_or(Error::NoBoard)?;

        let dimensions = board.schema().dimensions();
        let (options, with_rank, rows) = split(rest, dimensions.len())?;
        let values = values(rows, dimensions)?;
        let assignments = assignments(rows, &values, dimensions.len());
        let ranked = match assignments.as_slice() {
            _ if !with_rank => None,
            [only] => Some(only.member),
            _ => return Err(Error::Syntax),
        };

        // What the client wrote is the effect itself, but for the conditions when it is about several members.
        let is_effect = options == SetOptions::default() || assignments.len() == 1;
        let (mut changes, mut effects) = (0_u64, Vec::new());
        let added = board.set(&assignments, options, |effect| {
            changes += 1;
            if !is_effect {
                boards::write(effect, &mut effects);
            }
        })?;
        let rank = ranked.map(|member| board.rank(member, Ranking::Plain));
        if changes > 0 && is_effect {
            open.commit(Change::Set, rows);
        } else if changes > 0 {
            open.commit(Change::Set, &effects.iter().map(OwnedStr::as_str).collect::<Vec<_>>());
        }
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
}
