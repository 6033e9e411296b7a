//! The effects of board changes. Replicas and the AOF get an effect as `ZLB.APPLY key effect argument ...`.
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
//! Zeitset 0.2 wrote `CUT` for `REMRANGE`, and `WHOLE` for `REPLACE`. ZLB.APPLY still reads both names.
//!
//! Effects have final values and depend on no clock, condition or other key. So equal boards stay equal if they get the
//! same effects in the same order. This includes the order of ties.
//!
//! ZLB.APPLY does not have the flag `deny-oom`. A server that uses more than `maxmemory` refuses commands with this
//! flag. A replica with `replica-ignore-maxmemory no` refuses them even from its master. If ZLB.APPLY had the flag,
//! such a replica would differ from the master until the next synchronization.

use crate::base::stream::{DecodeError, Reader, Writer};
use crate::boards::model::Board;
use crate::server::context::EventClass;
use crate::server::{Context, OwnedStr, Str};
use std::ffi::CStr;

pub const APPLY: &CStr = c"ZLB.APPLY";

/// The arguments of ZLB.APPLY for a change, and the keyspace event of the change.
#[must_use = "call `announce` to replicate the effect"]
pub struct BoardEffect<'k> {
    pub name: &'static [u8],
    pub words: Words<'k>,
    pub event: &'static CStr,
}

/// The arguments of an effect. `Given` has the client's own arguments, `Made` has computed arguments.
pub enum Words<'k> {
    Given(&'k [Str<'k>]),
    Made(Vec<OwnedStr>),
}

impl Words<'_> {
    pub fn iter(&self) -> impl Iterator<Item = Str<'_>> {
        let (given, made) = match self {
            Words::Given(words) => (*words, &[][..]),
            Words::Made(words) => (&[][..], words.as_slice()),
        };
        given.iter().copied().chain(made.iter().map(OwnedStr::as_str))
    }
}

impl BoardEffect<'_> {
    /// Replicates the effect, signals WATCH and client-side caching, and sends the keyspace event.
    pub fn announce(self, ctx: &mut Context, key: Str<'_>) {
        let name = OwnedStr::new(self.name);
        let arguments: Vec<_> = [key, name.as_str()].into_iter().chain(self.words.iter()).collect();
        ctx.replicate(APPLY, &arguments);
        ctx.signal_modified(key);
        ctx.notify(EventClass::Module, self.event, key);
    }
}

/// Encodes a board as arguments: the same numbers and byte strings as in an RDB file, in the same order. Each number
/// is written in decimal.
pub fn encode_board(board: &Board) -> Vec<OwnedStr> {
    let mut words = WordWriter(Vec::new());
    board.encode(&mut words);
    words.0
}

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
