//! Boards in keys: reading, creating, merging, storing and changing them.

use super::changes::{Edit, discard};
use super::effects::BoardEffect;
use crate::base::packed::Unreadable;
use crate::boards::model::{Board, Combine, Merge, Schema};
use crate::error::Error;
use crate::server::data_type::DataType;
use crate::server::key::{ReadKey, WriteKey};
use crate::server::{Context, Str};
use std::sync::atomic::{AtomicU64, Ordering};

static REJECTED: AtomicU64 = AtomicU64::new(0);

pub struct BoardStats {
    /// The number of boards, including empty ones.
    pub boards: u64,
    pub rejected_effects: u64,
}

pub fn stats() -> BoardStats {
    BoardStats { boards: Board::handle().values(), rejected_effects: REJECTED.load(Ordering::Relaxed) }
}

/// Counts and logs an effect that this server got from a master or an AOF file, and rejected. From then on, the value
/// in `key` may differ from the master's board.
pub fn report_rejected(ctx: &Context, key: Option<Str<'_>>, why: &Unreadable) {
    REJECTED.fetch_add(1, Ordering::Relaxed);
    let key = key.map_or("?".to_owned(), |key| key.to_string());
    ctx.log(c"warning", &format!("zeitset: rejected a replicated effect on the leaderboard {key}: {why}"));
}

/// Creates an empty board. Does nothing if the key holds a board. Returns whether the key now holds a board with this
/// schema.
pub fn create(ctx: &mut Context, name: Str<'_>, schema: Schema) -> Result<bool, Error> {
    let key = WriteKey::open(ctx, name);
    if let Some(board) = key.value::<Board>()? {
        return Ok(*board.schema() == schema);
    }
    let effect = BoardEffect::create(&schema);
    effect.announce_new(key, name, Board::new(schema));
    Ok(true)
}

/// Stores the union of boards in `dest`, and removes the key's TTL. Missing boards count as empty. Returns the number
/// of members of the union.
pub fn merge(ctx: &mut Context, dest: Str<'_>, sources: &[Str<'_>], combine: Combine) -> Result<u64, Error> {
    // If a key is missing or has expired, opening it sends an event, in which another module may change any of the keys.
    // So all these events come before the first value is read. Opening a missing key for writing sends none.
    for &name in std::iter::once(&dest).chain(sources) {
        ReadKey::open(ctx, name);
    }
    let schema = WriteKey::open(ctx, dest).value::<Board>()?.map(|board| board.schema().clone());
    let mut merge = schema.map(|schema| Merge::new(schema, combine));
    for &source in sources {
        let key = WriteKey::open(ctx, source);
        let Some(board) = key.value::<Board>()? else { continue };
        let merge = merge.get_or_insert_with(|| Merge::new(board.schema().clone(), combine));
        if merge.schema() != board.schema() {
            return Err(Error::OtherSchema);
        }
        merge.add(board)?;
    }
    let Some(merge) = merge else { return Ok(0) };
    let board = merge.finish();
    let members = board.len();
    store(ctx, dest, board)?;
    Ok(members)
}

/// Stores `board` in a key. If the key holds a board, replaces that board.
pub fn store(ctx: &mut Context, name: Str<'_>, board: Board) -> Result<(), Error> {
    let mut key = WriteKey::open(ctx, name);
    let effect = BoardEffect::replace(&board);
    match key.value_mut::<Board>()? {
        Some((present, _)) => {
            discard(std::mem::replace(present, board));
            key.persist();
            effect.announce(key.close(), name);
        }
        None => effect.announce_new(key, name, board),
    }
    Ok(())
}

/// Calls `change` with the board in a key. Then replicates the effect of the change, and sends its keyspace event.
/// Returns [`Error::NoBoard`] if the key is missing.
pub fn change<T>(
    ctx: &mut Context,
    name: Str<'_>,
    change: impl FnOnce(&mut Edit<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut key = WriteKey::open(ctx, name);
    let (board, _) = key.value_mut::<Board>()?.ok_or(Error::NoBoard)?;
    let mut edit = Edit::new(board);
    let result = change(&mut edit);
    let effect = edit.effect;
    let ctx = key.close();
    if let Some(effect) = effect {
        effect.announce(ctx, name);
    }
    result
}
