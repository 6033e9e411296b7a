//! Changes of a board, and the effects that replicate them.

use super::effects::{BoardEffect, Words};
use super::stored::write;
use crate::boards::model::{Assignment, Board, RemovedRange, SetOptions, Value};
use crate::error::Error;
use crate::server::{OwnedStr, Str};
use lazy_static::lazy_static;
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;

/// A board with more allocations than this is freed in another thread. The server does the same with large values.
const LARGE: usize = 1000;

/// An editor of a board. It records the effect of the change, or no effect if the change fails or changes nothing.
pub struct Edit<'b, 'k> {
    board: &'b mut Board,
    pub effect: Option<BoardEffect<'k>>,
}

impl<'b, 'k> Edit<'b, 'k> {
    pub fn new(board: &'b mut Board) -> Edit<'b, 'k> {
        Edit { board, effect: None }
    }

    pub fn board(&self) -> &Board {
        self.board
    }

    /// Sets the values of members. `words` has each member, followed by its values. `values` has the parsed values of
    /// all members. Returns the number of added members.
    pub fn set(&mut self, words: &'k [Str<'k>], values: &[Value], options: SetOptions) -> Result<u64, Error> {
        let dimensions = self.board.schema().dimensions().len();
        let rows = words.chunks_exact(1 + dimensions).zip(values.chunks_exact(dimensions));
        let rows: Vec<_> = rows.map(|(row, values)| Assignment { member: row[0].bytes(), values }).collect();
        // If there are no options or only one member, the effect has the client's arguments.
        let is_effect = options == SetOptions::default() || rows.len() == 1;
        let (mut changes, mut effects) = (0_u64, Vec::new());
        let added = self.board.set(&rows, options, |effect| {
            changes += 1;
            if !is_effect {
                write(effect, &mut effects);
            }
        })?;
        let words = if is_effect { Words::Given(words) } else { Words::Made(effects) };
        self.effect = (changes > 0).then_some(BoardEffect { name: b"SET", words, event: c"zlb.set" });
        Ok(added)
    }

    /// Increments values of a member. Each increment has the position of its dimension. Returns the member's values.
    pub fn incr(&mut self, member: &[u8], increments: &[(usize, Value)]) -> Result<Vec<Value>, Error> {
        let mut words = Vec::new();
        let values = self.board.incr(member, increments, |effect| write(effect, &mut words))?;
        let is_changed = !words.is_empty();
        self.effect = is_changed.then_some(BoardEffect { name: b"SET", words: Words::Made(words), event: c"zlb.incr" });
        Ok(values)
    }

    /// Removes members. Returns the number of removed members.
    pub fn remove(&mut self, members: &'k [Str<'k>]) -> u64 {
        let removed = members.iter().filter(|member| self.board.remove(member.bytes())).count();
        let words = Words::Given(members);
        self.effect = (removed > 0).then_some(BoardEffect { name: b"REM", words, event: c"zlb.rem" });
        removed as u64
    }

    /// Removes the members from index `start` to `stop`. Returns their number.
    pub fn remove_range(&mut self, start: i64, stop: i64) -> u64 {
        let (first, count) = self.remove_indexes(start, stop);
        let words = [first, count].map(|number| OwnedStr::new(number.to_string().as_bytes()));
        let words = Words::Made(words.into());
        self.effect = (count > 0).then_some(BoardEffect { name: b"REMRANGE", words, event: c"zlb.remrange" });
        count
    }

    /// Removes all members. Returns their number.
    pub fn clear(&mut self) -> u64 {
        let (_, count) = self.remove_indexes(0, -1);
        self.effect =
            (count > 0).then_some(BoardEffect { name: b"CLEAR", words: Words::Given(&[]), event: c"zlb.clear" });
        count
    }

    /// Removes the members from index `start` to `stop`. Returns the index of the first removed member, never negative,
    /// and the number of removed members.
    fn remove_indexes(&mut self, start: i64, stop: i64) -> (u64, u64) {
        let RemovedRange { first, count, former } = self.board.remove_range(start, stop);
        if let Some(former) = former {
            discard(former);
        }
        (first, count)
    }
}

lazy_static! {
    /// The channel to the thread that frees boards. `None` if the thread could not be started.
    static ref FREER: Option<Sender<Board>> = {
        let (sender, boards) = mpsc::channel();
        let thread = Builder::new().name("zeitset-free".into()).spawn(move || boards.into_iter().for_each(drop));
        thread.ok().map(|_| sender)
    };
}

/// Frees a board. Another thread frees a large board, because freeing a million members takes milliseconds.
pub(super) fn discard(board: Board) {
    if board.free_effort() > LARGE
        && let Some(freer) = &*FREER
    {
        // If the thread has ended, the error contains the board, and dropping the error frees it.
        let _ = freer.send(board);
    }
}
