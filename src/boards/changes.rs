//! Changes of a board. Each change records an *effect*: the result of the change, which replicas and the AOF get.

use super::effects::{BoardChange, BoardEffect, floats};
use crate::boards::model::{Assignment, Board, BoardError, Entry, RemovedRange, SetOptions, Value};
use crate::error::Error;
use lazy_static::lazy_static;
use std::ffi::CStr;
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;

/// A board with more allocations than this is freed in another thread. The server does the same with large values.
const LARGE: usize = 1000;

/// Changes a board, and records the effect that replicates the change. There is no effect if the change fails or
/// changes nothing.
pub struct Edit<'b> {
    board: &'b mut Board,
    pub effect: Option<BoardEffect>,
}

impl<'b> Edit<'b> {
    pub fn new(board: &'b mut Board) -> Edit<'b> {
        Edit { board, effect: None }
    }

    pub fn board(&self) -> &Board {
        self.board
    }

    /// Sets the values of members. `values` has the values of the first member, then the values of the second, and so
    /// on. Returns the number of added members.
    pub fn set<'m>(
        &mut self,
        members: impl Iterator<Item = &'m [u8]>,
        values: &[Value],
        options: SetOptions,
    ) -> Result<u64, Error> {
        let rows = members.zip(values.chunks_exact(self.board.schema().dimensions().len()));
        let rows: Vec<_> = rows.map(|(member, values)| Assignment { member, values }).collect();
        self.record_set(c"zlb.set", |board, changed| board.set(&rows, options, changed))
    }

    /// Increments values of a member. Each increment has the position of its dimension. Returns the member's values.
    pub fn incr(&mut self, member: &[u8], increments: &[(usize, Value)]) -> Result<Vec<Value>, Error> {
        self.record_set(c"zlb.incr", |board, changed| board.incr(member, increments, changed))
    }

    /// Calls `change` with the board and a function, and `change` must call this function with each member that it
    /// changes. Records an effect with these members and their values.
    fn record_set<R>(
        &mut self,
        event: &'static CStr,
        change: impl FnOnce(&mut Board, &mut dyn FnMut(Entry<'_>)) -> Result<R, BoardError>,
    ) -> Result<R, Error> {
        let dimensions = self.board.schema().dimensions();
        let (count, floats) = (dimensions.len(), floats(dimensions));
        let (mut changes, mut result) = (0_u64, None);
        let effect = BoardEffect::set(count, floats, event, |write| {
            let mut changed = |entry: Entry<'_>| {
                changes += 1;
                write(entry);
            };
            result = Some(change(self.board, &mut changed));
        });
        self.effect = (changes > 0).then_some(effect);
        Ok(result.expect("the effect was written")?)
    }

    /// Removes members. Returns the number of removed members.
    pub fn remove<'m>(&mut self, members: impl Iterator<Item = &'m [u8]>) -> u64 {
        let mut removed = 0;
        let effect = BoardEffect::rem(|write| {
            for member in members.filter(|member| self.board.remove(member)) {
                removed += 1;
                write(member);
            }
        });
        self.effect = (removed > 0).then_some(effect);
        removed
    }

    /// Removes the members from index `start` to `stop`. Returns their number.
    pub fn remove_range(&mut self, start: i64, stop: i64) -> u64 {
        let (first, count) = self.remove_indexes(start, stop);
        self.effect = (count > 0).then(|| BoardEffect::remrange(first, count));
        count
    }

    /// Removes all members. Returns their number.
    pub fn clear(&mut self) -> u64 {
        let (_, count) = self.remove_indexes(0, -1);
        self.effect = (count > 0).then(BoardEffect::clear);
        count
    }

    /// Makes the change that an effect describes. If the board has other dimensions, or fewer members, than the effect
    /// requires, changes nothing and returns false.
    pub fn apply(&mut self, change: &BoardChange<'_>) -> Result<bool, Error> {
        match change {
            BoardChange::Set(rows) => {
                let Some(members) = rows.members(self.board.schema().dimensions())? else { return Ok(false) };
                self.set(members.names.iter().copied(), &members.values, SetOptions::default())?;
            }
            BoardChange::Remove(members) => drop(self.remove(members.iter().copied())),
            BoardChange::RemoveRange { first, count } => {
                let end = first.checked_add(*count).filter(|&end| *count > 0 && end <= self.board.len());
                let Some(end) = end else { return Ok(false) };
                self.remove_range(first.cast_signed(), end.cast_signed() - 1);
            }
            BoardChange::Clear => drop(self.clear()),
            BoardChange::Create(_) | BoardChange::Replace(_) => return Ok(false),
        }
        Ok(true)
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
