//! What is replicated, and logged to the AOF: `ZLB.APPLY key effect word ...`.
//!
//! | effect   | words                             | what it does                                                     |
//! |----------|-----------------------------------|------------------------------------------------------------------|
//! | `CREATE` | those of ZLB.CREATE after the key | makes an empty board                                             |
//! | `SET`    | `member value ...`, repeated      | gives members their final values, in this order                  |
//! | `REM`    | `member`, repeated                | removes members                                                  |
//! | `CUT`    | `first count`                     | removes `count` members from this position on                    |
//! | `CLEAR`  |                                   | removes all members                                              |
//! | `WHOLE`  | the board as it is saved          | puts this board in the place of what is there; the TTL goes      |
//!
//! An equal board that gets the same effects in the same order stays equal, ties included: nothing is computed from a clock,
//! a condition or another key.
//!
//! They have a command of their own because a server that is over its `maxmemory` refuses commands flagged `deny-oom`, even
//! those of its master if it is a replica with `replica-ignore-maxmemory no`; and a replica that has refused an effect
//! differs until it is synchronized again. ZLB.APPLY has no such flag.

use crate::model::board::{Board, DecodeError};
use crate::model::stream::{Reader, Truncated, Writer};
use crate::server::{OwnedStr, Str};

/// The effects, by their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Create,
    Set,
    Remove,
    Cut,
    Clear,
    Whole,
}

impl Effect {
    const ALL: [Effect; 6] = [Effect::Create, Effect::Set, Effect::Remove, Effect::Cut, Effect::Clear, Effect::Whole];

    pub fn word(self) -> &'static [u8] {
        match self {
            Effect::Create => b"CREATE",
            Effect::Set => b"SET",
            Effect::Remove => b"REM",
            Effect::Cut => b"CUT",
            Effect::Clear => b"CLEAR",
            Effect::Whole => b"WHOLE",
        }
    }

    /// The effect of that word.
    pub fn of(word: &[u8]) -> Option<Effect> {
        Effect::ALL.into_iter().find(|effect| effect.word() == word)
    }
}

/// A board in words: its numbers in decimal and its byte strings as they are, as they would be saved.
pub fn words_of(board: &Board) -> Vec<OwnedStr> {
    let mut words = Words(Vec::new());
    board.encode(&mut words);
    words.0
}

/// The board that [`words_of`] wrote.
pub fn whole_board(words: &[Str<'_>]) -> Result<Board, DecodeError> {
    let mut words = Unread(words);
    let board = Board::decode(&mut words)?;
    if words.0.is_empty() { Ok(board) } else { Err(DecodeError::Malformed) }
}

struct Words(Vec<OwnedStr>);

impl Writer for Words {
    fn number(&mut self, number: u64) {
        self.0.push(OwnedStr::new(number.to_string().as_bytes()));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(OwnedStr::new(bytes));
    }
}

struct Unread<'a>(&'a [Str<'a>]);

impl<'a> Unread<'a> {
    fn next(&mut self) -> Result<&'a [u8], Truncated> {
        let (first, rest) = self.0.split_first().ok_or(Truncated)?;
        self.0 = rest;
        Ok(first.bytes())
    }
}

impl<'a> Reader for Unread<'a> {
    type Bytes = &'a [u8];

    fn number(&mut self) -> Result<u64, Truncated> {
        std::str::from_utf8(self.next()?).ok().and_then(|text| text.parse().ok()).ok_or(Truncated)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Truncated> {
        self.next()
    }
}
