//! `ZLB.APPLY key effect [word ...]`
//!
//! Carries out an effect ([`Effect`]). This is what the other commands replicate and what AOF files hold; no application needs
//! it. It computes nothing: a replica gets what the master had.
//!
//! Clients may call it as well, because AOF files are also fed to servers by ordinary clients. It passes by every check of the
//! other commands, as RESTORE does, and needs the same rights. An effect that does not fit what the key holds changes nothing.
//! The reply is then 0 instead of 1, and if it came from a master or an AOF file, where all should fit, the log says so.

use super::{create, set};
use crate::boards::{self, APPLY, Edit, Effect, OpenBoard};
use crate::commands::args::Args;
use crate::error::Error;
use crate::model::board::SetOptions;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::{Context, Str};

pub struct Apply;

impl Command for Apply {
    const SPEC: Spec = Spec {
        name: APPLY,
        summary: c"Carries out an effect that another command of leaderboards had: for replication and AOF files.",
        complexity: c"That of the command whose effect it is",
        since: c"0.2.0",
        flags: c"write",
        arity: -3,
        keys: Keys::First(Access::Update),
        arguments: &[Arg::key(c"key"), Arg::string(c"effect"), Arg::string(c"word").optional().multiple()],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (key, effect) = (args.string()?, args.string()?);
        ctx.check_right_to_restore(key)?;
        let effect = Effect::of(effect.bytes()).ok_or(Error::Syntax)?;
        let words = &arguments[2..];
        let fits = match effect {
            Effect::Create => make(ctx, key, words)?,
            Effect::Whole => match boards::whole_board(words) {
                Ok(board) => boards::store(ctx, key, board, words).map(|()| true)?,
                Err(_) => false,
            },
            Effect::Set | Effect::Remove | Effect::Cut | Effect::Clear => change(ctx, key, effect, words)?,
        };
        if !fits && ctx.is_replayed() {
            boards::report_misfit(ctx, key);
        }
        ctx.reply_bool(fits);
        Ok(())
    }
}

fn make(ctx: &mut Context, key: Str<'_>, words: &[Str<'_>]) -> Result<bool, Error> {
    let schema = create::schema(&mut Args::new(words))?;
    match boards::create(ctx, key, schema, words) {
        Err(Error::BoardExists) => Ok(false),
        result => result.map(|()| true),
    }
}

/// Changes a board that is there.
fn change<'a>(ctx: &mut Context, key: Str<'a>, effect: Effect, words: &'a [Str<'a>]) -> Result<bool, Error> {
    let Some(mut open) = OpenBoard::open(ctx, key)? else { return Ok(false) };
    let fits = carry_out(&mut open.edit(), effect, words)?;
    open.commit();
    Ok(fits)
}

/// Does what an effect says. False if it does not fit the board; nothing has changed then, nor after an error.
fn carry_out<'a>(edit: &mut Edit<'_, 'a>, effect: Effect, words: &'a [Str<'a>]) -> Result<bool, Error> {
    match effect {
        Effect::Set => {
            let dimensions = edit.board().schema().dimensions();
            if words.is_empty() || !words.len().is_multiple_of(1 + dimensions.len()) {
                return Ok(false);
            }
            let rows = set::rows(words, dimensions)?;
            edit.set(&rows, SetOptions::default())?;
        }
        Effect::Remove => {
            edit.remove(words);
        }
        Effect::Cut => {
            let mut words = Args::new(words);
            let (first, count) = (words.count()?, words.positive()?);
            words.finish()?;
            let end = first.checked_add(count).filter(|&end| end <= edit.board().len());
            let Some(end) = end else { return Ok(false) };
            edit.remove_range(first.cast_signed(), end.cast_signed() - 1);
        }
        Effect::Clear => {
            Args::new(words).finish()?;
            edit.clear();
        }
        Effect::Create | Effect::Whole => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
