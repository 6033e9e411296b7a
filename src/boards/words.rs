//! The text form of effects, which masters and AOF files of Zeitset 0.2 and 0.3 send: `ZLB.APPLY key effect word ...`.
//! [`super::effects`] has the current form.
//!
//! | effect | words |
//! |---|---|
//! | `CREATE` | the arguments of ZLB.CREATE after the key |
//! | `SET` | `member value ...`, repeated |
//! | `REM` | `member`, repeated |
//! | `REMRANGE`, in 0.2 `CUT` | `first count` |
//! | `CLEAR` | |
//! | `REPLACE`, in 0.2 `WHOLE` | the numbers and byte strings of the stored form, each number in decimal |

use super::effects::{BoardChange, Rows};
use super::parse::schema;
use crate::args::Args;
use crate::base::packed::Unreadable;
use crate::base::stream::{DecodeError, Reader};
use crate::boards::model::Board;
use crate::error::Error;
use crate::server::Str;

/// Decodes the arguments of ZLB.APPLY after the key.
pub fn decode<'a>(arguments: &'a [Str<'a>]) -> Result<BoardChange<'a>, (Unreadable, Error)> {
    let Some((effect, words)) = arguments.split_first() else {
        return Err((Unreadable::new("ZLB.APPLY", "it has no effect"), Error::Arity));
    };
    let unreadable = |error: Error| (Unreadable::new(effect.to_string(), error.text().to_string_lossy()), error);
    let mut args = Args::new(words);
    let mut read = || {
        Ok(match effect.bytes() {
            b"CREATE" => return schema(&mut args).map(BoardChange::Create),
            b"SET" => return Ok(BoardChange::Set(Rows::Words(words))),
            b"REM" => return Ok(BoardChange::Remove(args.strings()?.iter().map(|member| member.bytes()).collect())),
            b"REMRANGE" | b"CUT" => BoardChange::RemoveRange { first: args.count()?, count: args.positive()? },
            b"CLEAR" => BoardChange::Clear,
            b"REPLACE" | b"WHOLE" => {
                return decode_board(words)
                    .map(|board| BoardChange::Replace(Box::new(board)))
                    .map_err(|_| Error::Effect);
            }
            _ => return Err(Error::Syntax),
        })
    };
    let change = read().map_err(unreadable)?;
    let has_rest = matches!(change, BoardChange::RemoveRange { .. } | BoardChange::Clear);
    if has_rest {
        args.finish().map_err(unreadable)?;
    }
    Ok(change)
}

fn decode_board(words: &[Str<'_>]) -> Result<Board, DecodeError> {
    let mut words = Unread(words);
    let board = Board::decode(&mut words)?;
    if words.0.is_empty() { Ok(board) } else { Err(DecodeError::Invalid("more arguments than the board has")) }
}

struct Unread<'a>(&'a [Str<'a>]);

impl<'a> Unread<'a> {
    fn next(&mut self) -> Result<&'a [u8], DecodeError> {
        let (first, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(first.bytes())
    }
}

impl<'a> Reader for Unread<'a> {
    type Bytes = &'a [u8];

    fn number(&mut self) -> Result<u64, DecodeError> {
        std::str::from_utf8(self.next()?).ok().and_then(|text| text.parse().ok()).ok_or(DecodeError::Truncated)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        self.next()
    }
}
