//! An open board, and the functions that create, merge and store boards.

use super::changes::{Changes, Edit, discard};
use super::effects::{EffectKind, encode_board};
use crate::error::Error;
use crate::model::board::{Board, Combine, Merge, Schema};
use crate::server::context::EventClass;
use crate::server::data_type::DataType;
use crate::server::key::{ReadKey, WriteKey};
use crate::server::{Context, OwnedStr, Str};
use smallvec::SmallVec;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

pub const APPLY: &CStr = c"ZLB.APPLY";

static REJECTED: AtomicU64 = AtomicU64::new(0);

pub struct BoardStats {
    /// The number of boards, including empty ones.
    pub boards: u64,
    pub rejected_effects: u64,
}

pub fn stats() -> BoardStats {
    BoardStats { boards: Board::handle().values(), rejected_effects: REJECTED.load(Ordering::Relaxed) }
}

/// Counts and logs a replicated effect that could not be applied to the value in `key`. From then on, the value may
/// differ from the master's board.
pub fn report_rejected(ctx: &Context, key: Str<'_>) {
    REJECTED.fetch_add(1, Ordering::Relaxed);
    ctx.log(c"warning", &format!("zeitset: rejected a replicated effect that does not fit the leaderboard {key}"));
}

pub fn board_in<'s>(key: &'s ReadKey<'_>) -> Result<Option<&'s Board>, Error> {
    key.value()
}

/// Creates an empty board. Does nothing if the key holds a board with the same schema. `description` has the arguments
/// of ZLB.CREATE after the key.
pub fn create(ctx: &mut Context, name: Str<'_>, schema: Schema, description: &[Str<'_>]) -> Result<(), Error> {
    let key = WriteKey::open(ctx, name);
    match key.value::<Board>()? {
        Some(board) if *board.schema() == schema => return Ok(()),
        Some(_) => return Err(Error::BoardExists),
        None => {}
    }
    announce(key.set_value(Board::new(schema)), name, EffectKind::Create, c"zlb.create", description);
    Ok(())
}

/// Stores the union of boards in `dest` and removes its TTL, as other commands that store a result do. Missing boards
/// count as empty. Returns the number of members.
pub fn merge(ctx: &mut Context, dest: Str<'_>, sources: &[Str<'_>], combine: Combine) -> Result<u64, Error> {
    let schema = board_in(&ReadKey::open(ctx, dest))?.map(|board| board.schema().clone());
    let mut merge = schema.map(|schema| Merge::new(schema, combine));
    for &source in sources {
        // Only one key is open at a time, because opening a key can run code of other modules.
        let key = ReadKey::open(ctx, source);
        let Some(board) = board_in(&key)? else { continue };
        let merge = merge.get_or_insert_with(|| Merge::new(board.schema().clone(), combine));
        if merge.schema() != board.schema() {
            return Err(Error::OtherSchema);
        }
        merge.add(board)?;
    }
    let Some(merge) = merge else { return Ok(0) };
    let board = merge.finish();
    let members = board.len();
    let words = encode_board(&board);
    let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
    store(ctx, dest, board, &words)?;
    Ok(members)
}

/// Stores a board in a key, and replaces a board that the key holds. `words` is the encoded board.
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
    announce(ctx, name, EffectKind::Replace, c"zlb.merge", words);
    Ok(())
}

/// A board that is open for writing. [`commit`](OpenBoard::commit) replicates the changes of [`edit`](OpenBoard::edit).
#[must_use = "changes must be committed"]
pub struct OpenBoard<'k> {
    name: Str<'k>,
    key: WriteKey<'k>,
    changes: Changes<'k>,
}

impl<'k> OpenBoard<'k> {
    /// Opens a board. Returns `None` if the key is missing, and an error if the key holds another type.
    pub fn open(ctx: &'k mut Context, name: Str<'k>) -> Result<Option<OpenBoard<'k>>, Error> {
        let key = WriteKey::open(ctx, name);
        let is_there = key.value::<Board>()?.is_some();
        Ok(is_there.then(|| OpenBoard { name, key, changes: Changes::default() }))
    }

    /// Returns the context, for calls that are safe while the board is open.
    pub fn ctx(&self) -> &Context {
        self.key.ctx()
    }

    pub fn board(&self) -> &Board {
        self.key.value().ok().flatten().expect("the key held a board when it was opened")
    }

    pub fn edit(&mut self) -> Edit<'_, 'k> {
        let value = self.key.value_mut().ok().flatten();
        let (board, _): (&mut Board, _) = value.expect("the key held a board when it was opened");
        self.changes.edit(board)
    }

    /// Replicates the changes, signals WATCH and client-side caching, and sends the keyspace events.
    pub fn commit(self) {
        let OpenBoard { name, key, changes } = self;
        if changes.is_empty() {
            return;
        }
        let ctx = key.close();
        let mut events = SmallVec::<[_; 1]>::new();
        changes.commit(|effect, words, event| {
            replicate(ctx, name, effect, words);
            events.push(event);
        });
        ctx.signal_modified(name);
        for event in events {
            ctx.notify(EventClass::Module, event, name);
        }
    }
}

fn announce(ctx: &mut Context, name: Str<'_>, effect: EffectKind, event: &CStr, words: &[Str<'_>]) {
    replicate(ctx, name, effect, words);
    ctx.signal_modified(name);
    ctx.notify(EventClass::Module, event, name);
}

fn replicate(ctx: &Context, name: Str<'_>, effect: EffectKind, words: &[Str<'_>]) {
    let effect = OwnedStr::new(effect.word());
    let arguments: Vec<_> = [name, effect.as_str()].into_iter().chain(words.iter().copied()).collect();
    ctx.replicate(APPLY, &arguments);
}
