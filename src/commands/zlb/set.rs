//! `ZLB.SET key [NX | XX] [BEST] member value ... [member value ... ...]`
//!
//! Gives members their values, one for each dimension. NX: only members that are not on the board; XX: only those that
//! are; BEST: a member that is on the board gets values only if they are better than those it has. Whoever is given the
//! values it has keeps its place among its equals. Replies how many members are on the board now that were not before:
//! with KEEP, somebody who is not good enough does not count.
//!
//! Members may have any name, `NX` or `best` too: how many arguments there are tells how many of them are options.

use super::value;
use crate::boards::{self, Change, OpenBoard};
use crate::commands::args::{Args, once};
use crate::error::Error;
use crate::model::board::{Assignment, Condition, SetOptions, When};
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, OwnedStr, Str};

pub struct Set;

fn is_option(argument: Str<'_>) -> bool {
    [&b"NX"[..], b"XX", b"BEST"].iter().any(|option| option.eq_ignore_ascii_case(argument.bytes()))
}

/// Tells the options from the members and values, which come in rows of `1 + dimensions`. There are at most two options:
/// what is left over by the rows.
fn split<'a>(rest: &'a [Str<'a>], dimensions: usize) -> Result<(SetOptions, &'a [Str<'a>]), Error> {
    let row = 1 + dimensions;
    let left_over = match rest {
        // With one dimension two options could be a row, but no value is a word.
        [_, second, ..] if row == 2 && rest.len().is_multiple_of(2) && is_option(*second) => 2,
        _ => rest.len() % row,
    };
    let (words, rows) = rest.split_at(left_over);
    if rows.is_empty() || !words.iter().all(|&word| is_option(word)) {
        return Err(Error::ValueCount);
    }
    let (mut condition, mut when) = (None, None);
    let mut words = Args::new(words);
    while let Some(keyword) = words.trailing_keyword()? {
        match keyword.as_str() {
            "NX" => once(&mut condition, Condition::Absent)?,
            "XX" => once(&mut condition, Condition::Present)?,
            _ => once(&mut when, When::Better)?,
        }
    }
    Ok((SetOptions { condition: condition.unwrap_or_default(), when: when.unwrap_or_default() }, rows))
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
            Arg::block(c"data", &[Arg::string(c"member"), Arg::string(c"value").multiple()]).multiple(),
        ],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (key, rest) = (args.string()?, args.strings()?);
        let mut open = OpenBoard::open(ctx, key);
        let board = open.board()?.ok_or(Error::NoBoard)?;

        let dimensions = board.schema().dimensions();
        let (options, rows) = split(rest, dimensions.len())?;
        let mut values = Vec::with_capacity(rows.len());
        for row in rows.chunks_exact(1 + dimensions.len()) {
            for (text, dimension) in row[1..].chunks(1).zip(dimensions) {
                let value = value(&mut Args::new(text), dimension);
                // An option too many has come to stand where a value should.
                values.push(value.map_err(|error| if is_option(text[0]) { Error::Syntax } else { error })?);
            }
        }
        let assignments: Vec<_> = rows
            .chunks_exact(1 + dimensions.len())
            .zip(values.chunks_exact(dimensions.len()))
            .map(|(row, values)| Assignment { member: row[0].bytes(), values })
            .collect();

        // What the client wrote is the effect itself, but for the conditions when it is about several members.
        let is_effect = options == SetOptions::default() || assignments.len() == 1;
        let (mut changes, mut effects) = (0_u64, Vec::new());
        let added = board.set(&assignments, options, |effect| {
            changes += 1;
            if !is_effect {
                boards::write(effect, &mut effects);
            }
        })?;
        if changes > 0 && effects.is_empty() && options == SetOptions::default() {
            open.commit(Change::Set, arguments);
        } else if changes > 0 {
            let rows = if effects.is_empty() { rows.to_vec() } else { effects.iter().map(OwnedStr::as_str).collect() };
            open.commit(Change::Set, &[&[key], rows.as_slice()].concat());
        }
        ctx.reply_count(added);
        Ok(())
    }
}
