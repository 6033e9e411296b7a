//! `ZLB.APPLY key effect`
//!
//! Applies an effect (`boards/effects.rs`): the result of another command, as the master computed it. Replicas and AOF
//! files get this command instead of the commands that clients sent. Applications do not need this command. The form
//! that Zeitset 0.2 and 0.3 sent (`boards/words.rs`) is still accepted.
//!
//! A client can also replay an AOF file, so clients may send this command. Like RESTORE, the command bypasses the
//! checks of other commands, and needs the rights of RESTORE. If the effect does not fit the key's value, the command
//! changes nothing and returns 0.
//!
//! A master or an AOF file never gets an error reply, because nobody would see the reply. Instead, an effect that
//! cannot be read, or that does not fit, is counted and logged.

use crate::base::packed::{Unreadable, is_packed};
use crate::boards::{self, APPLY, BoardChange};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: APPLY,
    summary: c"Applies an effect of another command to a leaderboard, for replication and AOF files.",
    complexity: c"The complexity of the original command",
    since: c"0.2.0",
    flags: c"write",
    keys: Keys::OfEffects(Access::Update),
    arguments: &[Arg::key(c"key"), Arg::string(c"effect").multiple()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let key = arguments.first().copied();
    if let Some(key) = key {
        ctx.check_right_to_restore(key)?;
    }
    let applied = decode(arguments).and_then(|(key, change)| {
        let name = change.name();
        match carry_out(ctx, key, change) {
            Ok(fits) => Ok((name, fits)),
            Err(error) => Err((Unreadable::new(name, error.text().to_string_lossy()), error)),
        }
    });
    let fits = match applied {
        Ok((_, true)) => true,
        Err((_, error)) if !ctx.is_replayed() => return Err(error),
        Err((why, _)) => {
            boards::report_rejected(ctx, key, &why);
            false
        }
        Ok((name, false)) => {
            if ctx.is_replayed() {
                boards::report_rejected(ctx, key, &Unreadable::new(name, "it does not fit the leaderboard"));
            }
            false
        }
    };
    ctx.reply_bool(fits);
    Ok(())
}

fn decode<'a>(arguments: &'a [Str<'a>]) -> Result<(Str<'a>, BoardChange<'a>), (Unreadable, Error)> {
    let (&key, encoded) =
        arguments.split_first().ok_or_else(|| (Unreadable::new("ZLB.APPLY", "it has no key"), Error::Arity))?;
    let change = match encoded {
        [packed] if is_packed(packed.bytes()) => boards::decode(packed.bytes()).map_err(|why| (why, Error::Effect)),
        words => boards::decode_words(words),
    };
    change.map(|change| (key, change))
}

fn carry_out(ctx: &mut Context, key: Str<'_>, change: BoardChange<'_>) -> Result<bool, Error> {
    match change {
        BoardChange::Create(schema) => boards::create(ctx, key, schema),
        BoardChange::Replace(board) => boards::store(ctx, key, *board).map(|()| true),
        change => match boards::change(ctx, key, |edit| edit.apply(&change)) {
            Err(Error::NoBoard) => Ok(false),
            result => result,
        },
    }
}

#[cfg(test)]
mod tests;
