//! Changes of an open board, and the effects that replicate them.

use super::effects::EffectKind;
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

/// A board with more allocations than this is freed in another thread. The server does the same with large values.
const LARGE: usize = 1000;

/// The arguments of ZLB.SET, and their parsed values.
pub struct Rows<'k> {
    /// At least one member, each followed by its values.
    pub words: &'k [Str<'k>],
    /// The parsed values of all members, in order.
    pub values: Vec<Value>,
    pub dimensions: usize,
}

impl<'k> Rows<'k> {
    pub fn only_member(&self) -> Option<&'k [u8]> {
        (self.words.len() == 1 + self.dimensions).then(|| self.words[0].bytes())
    }

    fn assignments(&self) -> Vec<Assignment<'_>> {
        let rows = self.words.chunks_exact(1 + self.dimensions).zip(self.values.chunks_exact(self.dimensions));
        rows.map(|(row, values)| Assignment { member: row[0].bytes(), values }).collect()
    }
}

/// The arguments of an effect: as the client sent them, or computed.
enum EffectWords<'k> {
    Given(&'k [Str<'k>]),
    Made(Vec<OwnedStr>),
}

#[derive(Default)]
pub struct Changes<'k> {
    /// For each change, its effect, the effect's arguments, and the keyspace event.
    done: SmallVec<[(EffectKind, EffectWords<'k>, &'static CStr); 1]>,
    uncommitted: Uncommitted,
}

impl<'k> Changes<'k> {
    pub fn edit<'b>(&'b mut self, board: &'b mut Board) -> Edit<'b, 'k> {
        Edit { board, changes: self }
    }

    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Calls `visit` with the effect of each change, its arguments, and the keyspace event.
    pub fn commit(mut self, mut visit: impl FnMut(EffectKind, &[Str<'_>], &'static CStr)) {
        self.uncommitted.settle();
        for (effect, words, event) in &self.done {
            match words {
                EffectWords::Given(words) => visit(*effect, words, event),
                EffectWords::Made(words) => {
                    visit(*effect, &words.iter().map(OwnedStr::as_str).collect::<Vec<_>>(), event);
                }
            }
        }
    }

    fn add(&mut self, effect: EffectKind, words: EffectWords<'k>, event: &'static CStr) {
        self.uncommitted.note();
        self.done.push((effect, words, event));
    }
}

/// An editor of a board. It records the effect of each change. For a call that fails or changes nothing, it records no
/// effect.
pub struct Edit<'b, 'k> {
    board: &'b mut Board,
    changes: &'b mut Changes<'k>,
}

impl<'k> Edit<'_, 'k> {
    /// Returns the board with the changes so far.
    pub fn board(&self) -> &Board {
        self.board
    }

    /// Sets the values of members. Returns the number of added members.
    pub fn set(&mut self, rows: &Rows<'k>, options: SetOptions) -> Result<u64, Error> {
        // If there are no options, or only one member, the client's arguments are the effect.
        let is_effect = options == SetOptions::default() || rows.only_member().is_some();
        let (mut changes, mut effects) = (0_u64, Vec::new());
        let added = self.board.set(&rows.assignments(), options, |effect| {
            changes += 1;
            if !is_effect {
                write(effect, &mut effects);
            }
        })?;
        if changes > 0 {
            let words = if is_effect { EffectWords::Given(rows.words) } else { EffectWords::Made(effects) };
            self.changes.add(EffectKind::Set, words, c"zlb.set");
        }
        Ok(added)
    }

    /// Increments dimensions of a member. Dimensions are given by position.
    pub fn incr(&mut self, member: &[u8], increments: &[(usize, Value)]) -> Result<Incremented, Error> {
        let mut effects = Vec::new();
        let outcome = self.board.incr(member, increments, |effect| write(effect, &mut effects))?;
        if outcome.changed {
            self.changes.add(EffectKind::Set, EffectWords::Made(effects), c"zlb.incr");
        }
        Ok(outcome)
    }

    /// Removes members. Returns the number of removed members.
    pub fn remove(&mut self, members: &'k [Str<'k>]) -> u64 {
        let removed = members.iter().filter(|member| self.board.remove(member.bytes())).count();
        if removed > 0 {
            self.changes.add(EffectKind::Remove, EffectWords::Given(members), c"zlb.rem");
        }
        removed as u64
    }

    /// Removes the members from index `start` to `stop`. Returns their number.
    pub fn remove_range(&mut self, start: i64, stop: i64) -> u64 {
        let removed = self.board.remove_range(start, stop);
        if let Some(rest) = removed.rest {
            discard(std::mem::replace(self.board, rest));
        }
        if removed.count > 0 {
            let words = [removed.first, removed.count].map(|number| OwnedStr::new(number.to_string().as_bytes()));
            self.changes.add(EffectKind::RemoveRange, EffectWords::Made(words.into()), c"zlb.remrange");
        }
        removed.count
    }

    /// Removes all members. Returns their number.
    pub fn clear(&mut self) -> u64 {
        let empty = Board::new(self.board.schema().clone());
        let former = std::mem::replace(self.board, empty);
        let members = former.len();
        discard(former);
        if members > 0 {
            self.changes.add(EffectKind::Clear, EffectWords::Given(&[]), c"zlb.clear");
        }
        members
    }
}

/// The channel to the thread that frees boards. `None` if the thread could not be started.
static FREER: LazyLock<Option<Sender<Board>>> = LazyLock::new(|| {
    let (sender, boards) = mpsc::channel();
    let thread = Builder::new().name("zeitset-free".into()).spawn(move || boards.into_iter().for_each(drop));
    thread.ok().map(|_| sender)
});

/// Frees a board. Another thread frees a large board, because freeing a million members takes milliseconds.
pub(super) fn discard(board: Board) {
    if board.free_effort() > LARGE
        && let Some(freer) = &*FREER
    {
        // If the thread has ended, the error contains the board, and dropping the error frees it.
        let _ = freer.send(board);
    }
}
