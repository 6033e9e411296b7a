//! A board, found under its key, changed, and the change told.

use super::effects::{Effect, words_of};
use crate::error::Error;
use crate::model::board::{Board, Combine, Merge, Schema};
use crate::server::context::EventClass;
use crate::server::key::{ReadKey, WriteKey};
use crate::server::{Context, OwnedStr, Str};
use std::ffi::CStr;

/// The command that carries out what the others replicate.
pub const APPLY: &CStr = c"ZLB.APPLY";

/// Boards of more allocations than this are freed by a thread of their own, as the server frees large values.
const LARGE: usize = 1000;

/// The board under a key opened for reading. `None`: the key is missing.
pub fn look<'s>(key: &'s ReadKey<'_>) -> Result<Option<&'s Board>, Error> {
    key.value()
}

/// Puts an empty board under a key that holds nothing yet. If it holds a board of this schema already, nothing changes.
/// `description` is what ZLB.CREATE takes after the key.
pub fn create(ctx: &mut Context, name: Str<'_>, schema: Schema, description: &[Str<'_>]) -> Result<(), Error> {
    let key = WriteKey::open(ctx, name);
    match key.value::<Board>()? {
        Some(board) if *board.schema() == schema => return Ok(()),
        Some(_) => return Err(Error::BoardExists),
        None => {}
    }
    tell(key.set_value(Board::new(schema)), name, Effect::Create, c"zlb.create", description);
    Ok(())
}

/// Puts the union of boards under a key, which loses its TTL, as that of any command that stores its result. Boards that are
/// missing are empty. Returns the members of the union.
pub fn merge(ctx: &mut Context, dest: Str<'_>, sources: &[Str<'_>], combine: Combine) -> Result<u64, Error> {
    let schema = look(&ReadKey::open(ctx, dest))?.map(|board| board.schema().clone());
    let mut merge = schema.map(|schema| Merge::new(schema, combine));
    for &source in sources {
        // One at a time is open: opening a key can run the code of other modules.
        let key = ReadKey::open(ctx, source);
        let Some(board) = look(&key)? else { continue };
        let merge = merge.get_or_insert_with(|| Merge::new(board.schema().clone(), combine));
        if merge.schema() != board.schema() {
            return Err(Error::OtherSchema);
        }
        merge.add(board)?;
    }
    let Some(merge) = merge else { return Ok(0) };
    let board = merge.finish();
    let members = board.len();
    let words = words_of(&board);
    let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
    store(ctx, dest, board, &words)?;
    Ok(members)
}

/// Puts a whole board under a key, in place of the one that may be there. `words` are those of the board.
pub fn store(ctx: &mut Context, name: Str<'_>, board: Board, words: &[Str<'_>]) -> Result<(), Error> {
    let mut key = WriteKey::open(ctx, name);
    let ctx = match key.value_mut::<Board>()? {
        Some((present, _)) => {
            discard(std::mem::replace(present, board));
            key.persist();
            key.close()
        }
        None => key.set_value(board),
    };
    crate::server::fault!("board-changed");
    tell(ctx, name, Effect::Whole, c"zlb.merge", words);
    Ok(())
}

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
    fn effect(self) -> Effect {
        match self {
            Change::Set | Change::Increment => Effect::Set,
            Change::Remove => Effect::Remove,
            Change::RemoveRange => Effect::Cut,
            Change::Clear => Effect::Clear,
        }
    }

    fn event(self) -> &'static CStr {
        match self {
            Change::Set => c"zlb.set",
            Change::Increment => c"zlb.incr",
            Change::Remove => c"zlb.rem",
            Change::RemoveRange => c"zlb.remrange",
            Change::Clear => c"zlb.clear",
        }
    }
}

/// A board opened for writing.
#[must_use = "changes must be committed"]
pub struct OpenBoard<'k> {
    name: Str<'k>,
    key: WriteKey<'k>,
}

impl<'k> OpenBoard<'k> {
    pub fn open(ctx: &'k mut Context, name: Str<'k>) -> OpenBoard<'k> {
        OpenBoard { name, key: WriteKey::open(ctx, name) }
    }

    /// The board itself. `None`: the key is missing. What is done to it must be committed.
    pub fn board(&mut self) -> Result<Option<&mut Board>, Error> {
        Ok(self.board_and_ctx()?.map(|(board, _)| board))
    }

    /// The board, and what of the context does no harm while it changes.
    pub fn board_and_ctx(&mut self) -> Result<Option<(&mut Board, &Context)>, Error> {
        self.key.value_mut()
    }

    /// Replicates and announces a change. `words` are those of its effect ([`Effect`]), which does the same to an equal board. Not to be
    /// called when nothing has changed.
    pub fn commit(self, change: Change, words: &[Str<'_>]) {
        let OpenBoard { name, key } = self;
        let ctx = key.close();
        crate::server::fault!("board-changed");
        tell(ctx, name, change.effect(), change.event(), words);
    }
}

/// Removes all members, and tells how many those were. What is done must be committed.
pub fn clear(board: &mut Board) -> u64 {
    let empty = Board::new(board.schema().clone());
    let former = std::mem::replace(board, empty);
    let members = former.len();
    discard(former);
    members
}

/// Removes the members from index `start` to `stop`; tells the position of the first, and how many those were. What is done
/// must be committed.
pub fn remove_range(board: &mut Board, start: i64, stop: i64) -> (u64, u64) {
    let removed = board.remove_range(start, stop);
    if let Some(rest) = removed.rest {
        discard(std::mem::replace(board, rest));
    }
    (removed.first, removed.count)
}

/// Frees a board that is nobody's any more: a large one in a thread, as a million members take milliseconds.
fn discard(board: Board) {
    if board.free_effort() > LARGE {
        // Without a thread, the board goes with the closure.
        let _ = std::thread::Builder::new().name("zeitset-free".into()).spawn(move || drop(board));
    }
}

fn tell(ctx: &mut Context, name: Str<'_>, effect: Effect, event: &CStr, words: &[Str<'_>]) {
    let effect = OwnedStr::new(effect.word());
    let arguments: Vec<_> = [name, effect.as_str()].into_iter().chain(words.iter().copied()).collect();
    ctx.replicate(APPLY, &arguments);
    ctx.signal_modified(name);
    ctx.notify(EventClass::Module, event, name);
}
