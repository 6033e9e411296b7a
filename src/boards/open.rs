//! A board, found under its key, changed, and the change told.

use super::changes::{Changes, Edit, discard};
use super::effects::{Effect, words_of};
use crate::error::Error;
use crate::model::board::{Board, Combine, Merge, Schema};
use crate::server::context::EventClass;
use crate::server::data_type::DataType;
use crate::server::key::{ReadKey, WriteKey};
use crate::server::{Context, OwnedStr, Str};
use smallvec::SmallVec;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The command that carries out what the others replicate.
pub const APPLY: &CStr = c"ZLB.APPLY";

/// Effects that came from a master or out of an AOF file and did not fit, for INFO.
static MISFITS: AtomicU64 = AtomicU64::new(0);

/// For INFO.
pub struct Figures {
    /// Boards, also empty ones.
    pub boards: u64,
    /// Replicated effects that did not fit.
    pub misfits: u64,
}

pub fn figures() -> Figures {
    Figures { boards: Board::handle().values(), misfits: MISFITS.load(Ordering::Relaxed) }
}

/// A replicated effect did not fit the board in `key`: it is not as its master's was. Counts that, and says so in the log.
pub fn report_misfit(ctx: &Context, key: Str<'_>) {
    MISFITS.fetch_add(1, Ordering::Relaxed);
    ctx.log(c"warning", &format!("zeitset: a replicated effect does not fit the leaderboard {key}"));
}

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

/// A board opened for writing. It changes through [`edit`](OpenBoard::edit) only, which records the effect of each change; they are
/// replicated and announced by [`commit`](OpenBoard::commit).
#[must_use = "changes must be committed"]
pub struct OpenBoard<'k> {
    name: Str<'k>,
    key: WriteKey<'k>,
    changes: Changes<'k>,
}

impl<'k> OpenBoard<'k> {
    /// Opens a board; an error if the key holds another type. `None`: the key is missing.
    pub fn open(ctx: &'k mut Context, name: Str<'k>) -> Result<Option<OpenBoard<'k>>, Error> {
        let key = WriteKey::open(ctx, name);
        let is_there = key.value::<Board>()?.is_some();
        Ok(is_there.then(|| OpenBoard { name, key, changes: Changes::default() }))
    }

    /// What of the context does no harm while the board is open.
    pub fn ctx(&self) -> &Context {
        self.key.ctx()
    }

    pub fn board(&self) -> &Board {
        self.key.value().ok().flatten().expect("the key held a board when it was opened")
    }

    /// To change the board.
    pub fn edit(&mut self) -> Edit<'_, 'k> {
        let value = self.key.value_mut().ok().flatten();
        let (board, _): (&mut Board, _) = value.expect("the key held a board when it was opened");
        self.changes.edit(board)
    }

    /// Replicates and announces what was done: to the replicas and the AOF, to WATCH and client-side caching, to those who listen for
    /// events. If nothing has changed, nothing of this.
    pub fn commit(self) {
        let OpenBoard { name, key, changes } = self;
        if changes.is_empty() {
            return;
        }
        let ctx = key.close();
        crate::server::fault!("board-changed");
        let mut events = SmallVec::<[_; 1]>::new();
        changes.commit(|change, words| {
            replicate(ctx, name, change.effect(), words);
            events.push(change.event());
        });
        ctx.signal_modified(name);
        for event in events {
            ctx.notify(EventClass::Module, event, name);
        }
    }
}

fn tell(ctx: &mut Context, name: Str<'_>, effect: Effect, event: &CStr, words: &[Str<'_>]) {
    replicate(ctx, name, effect, words);
    ctx.signal_modified(name);
    ctx.notify(EventClass::Module, event, name);
}

fn replicate(ctx: &Context, name: Str<'_>, effect: Effect, words: &[Str<'_>]) {
    let effect = OwnedStr::new(effect.word());
    let arguments: Vec<_> = [name, effect.as_str()].into_iter().chain(words.iter().copied()).collect();
    ctx.replicate(APPLY, &arguments);
}
