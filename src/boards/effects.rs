//! The effects that replicas and the AOF get: `ZLB.APPLY key effect argument ...`.
//!
//! | effect     | arguments                    | what it does                                        |
//! |------------|------------------------------|-----------------------------------------------------|
//! | `CREATE`   | ZLB.CREATE's after the key   | creates an empty board                              |
//! | `SET`      | `member value ...`, repeated | sets the final values of members, in this order     |
//! | `REM`      | `member`, repeated           | removes members                                     |
//! | `REMRANGE` | `first count`                | removes `count` members, from the index `first` on  |
//! | `CLEAR`    |                              | removes all members                                 |
//! | `REPLACE`  | the encoded board            | replaces the board and removes the TTL              |
//!
//! Zeitset 0.2 wrote `CUT` for `REMRANGE`, and `WHOLE` for `REPLACE`. [`EffectKind::of`] still reads both names.
//!
//! Equal boards that get the same effects in the same order stay equal, including the order of ties. An effect depends on no clock,
//! condition or other key.
//!
//! Effects have a separate command because a server that uses more than its `maxmemory` refuses commands with the flag
//! `deny-oom`. A replica with `replica-ignore-maxmemory no` refuses them even if its master sends them. A replica that
//! has refused an effect differs until the next synchronization. So ZLB.APPLY does not have this flag.

use crate::model::board::Board;
use crate::model::stream::{DecodeError, Reader, Writer};
use crate::server::{OwnedStr, Str};

/// The effects, by their names in ZLB.APPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectKind {
    Create,
    Set,
    Remove,
    RemoveRange,
    Clear,
    Replace,
}

impl EffectKind {
    const ALL: [EffectKind; 6] = [
        EffectKind::Create,
        EffectKind::Set,
        EffectKind::Remove,
        EffectKind::RemoveRange,
        EffectKind::Clear,
        EffectKind::Replace,
    ];

    pub fn word(self) -> &'static [u8] {
        match self {
            EffectKind::Create => b"CREATE",
            EffectKind::Set => b"SET",
            EffectKind::Remove => b"REM",
            EffectKind::RemoveRange => b"REMRANGE",
            EffectKind::Clear => b"CLEAR",
            EffectKind::Replace => b"REPLACE",
        }
    }

    /// Returns the effect with this name. Also accepts the names of Zeitset 0.2.
    pub fn of(word: &[u8]) -> Option<EffectKind> {
        match word {
            b"CUT" => Some(EffectKind::RemoveRange),
            b"WHOLE" => Some(EffectKind::Replace),
            _ => EffectKind::ALL.into_iter().find(|effect| effect.word() == word),
        }
    }
}

/// Encodes a board as arguments. The fields are those of the saved form. Numbers are in decimal, byte strings are
/// unchanged.
pub fn encode_board(board: &Board) -> Vec<OwnedStr> {
    let mut words = WordWriter(Vec::new());
    board.encode(&mut words);
    words.0
}

/// Decodes a board that [`encode_board`] encoded.
pub fn decode_board(words: &[Str<'_>]) -> Result<Board, DecodeError> {
    let mut words = Unread(words);
    let board = Board::decode(&mut words)?;
    if words.0.is_empty() { Ok(board) } else { Err(DecodeError::Invalid("more arguments than the board has")) }
}

struct WordWriter(Vec<OwnedStr>);

impl Writer for WordWriter {
    fn number(&mut self, number: u64) {
        self.0.push(OwnedStr::new(number.to_string().as_bytes()));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(OwnedStr::new(bytes));
    }
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
