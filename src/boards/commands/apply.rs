//! `ZLB.APPLY key effect [word ...]`
//!
//! Applies an effect (`boards/effects.rs`) with the values that the master computed. Replicas and AOF files get this
//! command instead of the commands that clients sent. Applications do not need this command.
//!
//! A client can also replay an AOF file, so clients may send this command. Like RESTORE, the command bypasses the
//! checks of other commands, and needs the rights of RESTORE. If the effect does not fit the key's value, the command
//! changes nothing and returns 0. The server logs such an effect if it came from a master or an AOF file.

use super::{create, set};
use crate::args::Args;
use crate::boards::model::SetOptions;
use crate::boards::{self, APPLY, Edit, Words};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: APPLY,
    summary: c"Applies an effect of another command to a leaderboard, for replication and AOF files.",
    complexity: c"The complexity of the original command",
    since: c"0.2.0",
    flags: c"write",
    keys: Keys::First(Access::Update),
    arguments: &[Arg::key(c"key"), Arg::string(c"effect"), Arg::string(c"word").optional().multiple()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (key, effect) = (args.string()?, args.string()?);
    ctx.check_right_to_restore(key)?;
    let words = &arguments[2..];
    let fits = match effect.bytes() {
        b"CREATE" => boards::create(ctx, key, create::schema(&mut Args::new(words))?, words)?,
        b"REPLACE" | b"WHOLE" => match boards::decode_board(words) {
            Ok(board) => boards::store(ctx, key, board, Words::Given(words)).map(|()| true)?,
            Err(_) => false,
        },
        name @ (b"SET" | b"REM" | b"REMRANGE" | b"CUT" | b"CLEAR") => {
            match boards::change(ctx, key, |edit| carry_out(edit, name, words)) {
                Err(Error::NoBoard) => false,
                result => result?,
            }
        }
        _ => return Err(Error::Syntax),
    };
    if !fits && ctx.is_replayed() {
        boards::report_rejected(ctx, key);
    }
    ctx.reply_bool(fits);
    Ok(())
}

/// Applies an effect. If the board has other dimensions or fewer members than the effect requires, changes nothing and
/// returns false.
fn carry_out<'a>(edit: &mut Edit<'_, 'a>, effect: &[u8], words: &'a [Str<'a>]) -> Result<bool, Error> {
    match effect {
        b"SET" => {
            let dimensions = edit.board().schema().dimensions();
            if words.is_empty() || !words.len().is_multiple_of(1 + dimensions.len()) {
                return Ok(false);
            }
            let values = set::values(words, dimensions)?;
            edit.set(words, &values, SetOptions::default())?;
        }
        b"REM" => {
            edit.remove(words);
        }
        b"REMRANGE" | b"CUT" => {
            let mut words = Args::new(words);
            let (first, count) = (words.count()?, words.positive()?);
            words.finish()?;
            let end = first.checked_add(count).filter(|&end| end <= edit.board().len());
            let Some(end) = end else { return Ok(false) };
            edit.remove_range(first.cast_signed(), end.cast_signed() - 1);
        }
        b"CLEAR" => {
            Args::new(words).finish()?;
            edit.clear();
        }
        _ => return Err(Error::Syntax),
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
