//! What is done to an open board, and the effects of that: neither goes without the other.

use super::effects::Effect;
use super::stored::write;
use crate::error::Error;
use crate::model::board::{Assignment, Board, Incremented, SetOptions, Value};
use crate::server::uncommitted::Uncommitted;
use crate::server::{OwnedStr, Str};
use smallvec::SmallVec;
use std::ffi::CStr;
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;

/// Boards of more allocations than this are freed in the background, as the server frees large values.
const LARGE: usize = 1000;

/// What a call did to a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Members have other values, or are new.
    Set,
    /// The same, by increments.
    Increment,
    /// Members have gone.
    Remove,
    /// The members of some ranks have gone.
    RemoveRange,
    /// All members have gone.
    Clear,
}

impl Change {
    pub fn effect(self) -> Effect {
        match self {
            Change::Set | Change::Increment => Effect::Set,
            Change::Remove => Effect::Remove,
            Change::RemoveRange => Effect::Cut,
            Change::Clear => Effect::Clear,
        }
    }

    pub fn event(self) -> &'static CStr {
        match self {
            Change::Set => c"zlb.set",
            Change::Increment => c"zlb.incr",
            Change::Remove => c"zlb.rem",
            Change::RemoveRange => c"zlb.remrange",
            Change::Clear => c"zlb.clear",
        }
    }
}

/// Rows of a member and its values, as ZLB.SET takes them: as they were written, and as they were read.
pub struct Rows<'k> {
    /// One member at least, each with its values.
    pub words: &'k [Str<'k>],
    /// What `words` say of each member: a value for each dimension.
    pub values: Vec<Value>,
    /// How many those are.
    pub dimensions: usize,
}

impl<'k> Rows<'k> {
    /// The member, if it is the only one.
    pub fn only_member(&self) -> Option<&'k [u8]> {
        (self.words.len() == 1 + self.dimensions).then(|| self.words[0].bytes())
    }

    fn assignments(&self) -> Vec<Assignment<'_>> {
        let rows = self.words.chunks_exact(1 + self.dimensions).zip(self.values.chunks_exact(self.dimensions));
        rows.map(|(row, values)| Assignment { member: row[0].bytes(), values }).collect()
    }
}

/// The words of an effect: those that the client has given, or others.
enum Words<'k> {
    Given(&'k [Str<'k>]),
    Made(Vec<OwnedStr>),
}

/// What was done to a board, in order.
#[derive(Default)]
pub struct Changes<'k> {
    done: SmallVec<[(Change, Words<'k>); 1]>,
    uncommitted: Uncommitted,
}

impl<'k> Changes<'k> {
    /// Changes to this board are recorded here.
    pub fn edit<'b>(&'b mut self, board: &'b mut Board) -> Edit<'b, 'k> {
        Edit { board, changes: self }
    }

    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Hands each change to `tell`, with the words of its effect ([`Effect`]), which does the same to an equal board.
    pub fn commit(mut self, mut tell: impl FnMut(Change, &[Str<'_>])) {
        self.uncommitted.settle();
        for (change, words) in &self.done {
            match words {
                Words::Given(words) => tell(*change, words),
                Words::Made(words) => tell(*change, &words.iter().map(OwnedStr::as_str).collect::<Vec<_>>()),
            }
        }
    }

    fn add(&mut self, change: Change, words: Words<'k>) {
        self.uncommitted.note();
        self.done.push((change, words));
    }
}

/// A board that is being changed. A call that fails, or changes nothing, has no effect to record.
pub struct Edit<'b, 'k> {
    board: &'b mut Board,
    changes: &'b mut Changes<'k>,
}

impl<'k> Edit<'_, 'k> {
    /// The board, as changed so far.
    pub fn board(&self) -> &Board {
        self.board
    }

    /// Gives members their values. Returns how many members are on the board now that were not before.
    pub fn set(&mut self, rows: &Rows<'k>, options: SetOptions) -> Result<u64, Error> {
        // What the client wrote is the effect itself, but for the conditions if it is about several members.
        let is_effect = options == SetOptions::default() || rows.only_member().is_some();
        let (mut changes, mut effects) = (0_u64, Vec::new());
        let added = self.board.set(&rows.assignments(), options, |effect| {
            changes += 1;
            if !is_effect {
                write(effect, &mut effects);
            }
        })?;
        if changes > 0 {
            self.changes.add(Change::Set, if is_effect { Words::Given(rows.words) } else { Words::Made(effects) });
        }
        Ok(added)
    }

    /// Adds to dimensions, by position, of a member.
    pub fn incr(&mut self, member: &[u8], increments: &[(usize, Value)]) -> Result<Incremented, Error> {
        let mut effects = Vec::new();
        let outcome = self.board.incr(member, increments, |effect| write(effect, &mut effects))?;
        if outcome.changed {
            self.changes.add(Change::Increment, Words::Made(effects));
        }
        Ok(outcome)
    }

    /// Removes members; tells how many were on the board.
    pub fn remove(&mut self, members: &'k [Str<'k>]) -> u64 {
        let removed = members.iter().filter(|member| self.board.remove(member.bytes())).count();
        if removed > 0 {
            self.changes.add(Change::Remove, Words::Given(members));
        }
        removed as u64
    }

    /// Removes the members from index `start` to `stop`; tells how many those were.
    pub fn remove_range(&mut self, start: i64, stop: i64) -> u64 {
        let removed = self.board.remove_range(start, stop);
        if let Some(rest) = removed.rest {
            discard(std::mem::replace(self.board, rest));
        }
        if removed.count > 0 {
            let words = [removed.first, removed.count].map(|number| OwnedStr::new(number.to_string().as_bytes()));
            self.changes.add(Change::RemoveRange, Words::Made(words.into()));
        }
        removed.count
    }

    /// Removes all members; tells how many those were.
    pub fn clear(&mut self) -> u64 {
        let empty = Board::new(self.board.schema().clone());
        let former = std::mem::replace(self.board, empty);
        let members = former.len();
        discard(former);
        if members > 0 {
            self.changes.add(Change::Clear, Words::Given(&[]));
        }
        members
    }
}

/// Takes boards, and frees them in a thread of its own; `None` if the system has no thread left.
static FREER: LazyLock<Option<Sender<Board>>> = LazyLock::new(|| {
    let (sender, boards) = mpsc::channel();
    let thread = Builder::new().name("zeitset-free".into()).spawn(move || boards.into_iter().for_each(drop));
    thread.ok().map(|_| sender)
});

/// Frees a board that nothing refers to any more: a large one in the background, as a million members take milliseconds.
pub(super) fn discard(board: Board) {
    if board.free_effort() > LARGE
        && let Some(freer) = &*FREER
    {
        // If the thread has ended, the board goes with the error.
        let _ = freer.send(board);
    }
}
