//! The keys to which the module must add the tag `zeitset:expiring`, or from which it must remove the tag. The tag is
//! the member that makes a sorted set an expiring set. Plain commands, the server's own, can remove the tag from an
//! expiring set, or copy the tag into an ordinary set. Sets of version 0.3 have no tag yet.
//!
//! Only events tell the module of such a change, so this list must be exact: if a key is renamed or moved, so is its
//! entry.

use super::{AT_ONCE, Tracking};
use crate::base::db_key::DbKey;
use crate::base::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What the module must do with the tag `zeitset:expiring` of a key, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingTag {
    /// A command removed the tag of an expiring set together with other members. The tag must be added again.
    Taken,
    /// A command may still remove the tag after its event: ZPOPMIN sends its event before it removes the last members.
    /// If the command has removed the tag, the tag must be added again.
    Suspected,
    /// A STORE command copied the tag into an ordinary set. The tag must be removed.
    Copied,
    /// An expiring set of version 0.3, which has this TTL instead of a tag. The tag must be added, and the TTL removed.
    Legacy(Millis),
}

/// The keys of a database whose tag must be added or removed, by name.
#[derive(Default)]
pub struct PendingTags {
    tags: BTreeMap<Box<[u8]>, PendingTag>,
    /// The keys in `tags` with [`PendingTag::Copied`]. A separate collection, because RENAME and COPY read it.
    copied: BTreeSet<Box<[u8]>>,
}

impl PendingTags {
    fn get(&self, key: &[u8]) -> Option<PendingTag> {
        self.tags.get(key).copied()
    }

    fn insert(&mut self, key: &[u8], tag: PendingTag) {
        self.remove(key);
        self.tags.insert(key.into(), tag);
        if tag == PendingTag::Copied {
            self.copied.insert(key.into());
        }
    }

    fn remove(&mut self, key: &[u8]) -> Option<PendingTag> {
        self.copied.remove(key);
        self.tags.remove(key)
    }

    /// Removes all entries except those of the keys for which `is_kept` returns true.
    pub fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.tags.retain(|key, _| is_kept(key));
        self.copied.retain(|key| is_kept(key));
    }

    /// Frees a little memory: removes one entry of each collection. Returns whether there was any entry.
    pub fn pop_first(&mut self) -> bool {
        self.tags.pop_first().is_some() | self.copied.pop_first().is_some()
    }

    /// Returns the key that follows `key` in byte order. If `key` is `None`, returns the first key.
    fn after(&self, key: Option<&[u8]>) -> Option<&[u8]> {
        let behind = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.tags.range::<[u8], _>((behind, Bound::Unbounded)).next().map(|(key, _)| &**key)
    }
}

/// What the tracker knew about a key before the key was renamed, moved, removed or replaced.
#[derive(Clone, Copy, Default)]
pub struct Moved {
    due: Option<Millis>,
    pending: Option<PendingTag>,
}

impl Tracking {
    pub fn has_pending(&self) -> bool {
        self.databases.values().any(|database| !database.pending.tags.is_empty())
    }

    pub fn pending(&self, database: i32, key: &[u8]) -> Option<PendingTag> {
        self.databases.get(&database)?.pending.get(key)
    }

    /// Whether the list of pending tags ([`PendingTag`]) has a new entry that [`next_pending`](Tracking::next_pending)
    /// may not have returned yet.
    pub fn has_new_pending(&self) -> bool {
        self.has_new_pending
    }

    pub fn note_pending(&mut self, database: i32, key: &[u8], tag: PendingTag) {
        self.has_new_pending = true;
        self.database(database).pending.insert(key, tag);
    }

    pub fn forget_pending(&mut self, database: i32, key: &[u8]) {
        if let Some(database) = self.databases.get_mut(&database) {
            database.pending.remove(key);
        }
    }

    /// Notes that the module has added the tag to a set. The sweeper must visit the set at once, because plain commands
    /// may have changed the set's members since the last visit. Returns true: the next visit is due earlier than
    /// before.
    pub fn tagged(&mut self, database: i32, key: &[u8]) -> bool {
        self.forget_pending(database, key);
        self.database(database).track(key, AT_ONCE);
        true
    }

    /// Iterates over the keys whose tag must be added or removed: each call returns the next key. After the last key,
    /// returns `None` once, and then begins again.
    pub fn next_pending(&mut self) -> Option<DbKey> {
        let last = self.last_pending.take();
        self.has_new_pending &= last.is_some();
        let from = last.as_ref().map_or(i32::MIN, |key| key.database);
        self.last_pending = self.databases.range(from..).find_map(|(&number, database)| {
            let behind = last.as_ref().filter(|key| key.database == number).map(|key| &*key.name);
            database.pending.after(behind).map(|key| DbKey::new(number, key))
        });
        self.last_pending.clone()
    }

    /// Returns the number of keys whose tag must be added or removed.
    pub fn pending_count(&self) -> usize {
        self.databases.values().map(|database| database.pending.tags.len()).sum()
    }

    /// Returns the keys into which STORE commands have copied the tag `zeitset:expiring`, but at most `most` keys.
    pub fn copied(&self, most: usize) -> Vec<DbKey> {
        let all = self.databases.iter();
        let all = all.flat_map(|(&number, database)| database.pending.copied.iter().map(move |key| (number, key)));
        all.take(most).map(|(number, key)| DbKey::new(number, key)).collect()
    }

    /// Whether a key into which a STORE command has copied the tag is being renamed or moved.
    pub fn is_copied_moving(&self) -> bool {
        self.moving.iter().any(|moved| moved.pending == Some(PendingTag::Copied))
    }

    /// Notes that the key with the old name `key` is being renamed or moved. [`end_move`](Tracking::end_move) gets the
    /// new name.
    ///
    /// Between the two events of a move, a listener of another module may move other keys. These moves end first, so
    /// `moving` is a stack.
    pub fn begin_move(&mut self, database: i32, key: &[u8]) {
        let moved = self.gone(database, key);
        self.moving.push(moved);
    }

    /// Notes the new name of the key for which [`begin_move`](Tracking::begin_move) was last called. Returns whether
    /// the tracker knows the key.
    pub fn end_move(&mut self, database: i32, key: &[u8]) -> bool {
        let Moved { due, pending } = self.moving.pop().unwrap_or_default();
        self.gone(database, key);
        if let Some(due) = due {
            self.database(database).track(key, due);
        }
        if let Some(pending) = pending {
            self.note_pending(database, key, pending);
        }
        due.is_some() || pending.is_some()
    }

    /// Forgets the keys for which [`begin_move`](Tracking::begin_move) was called but [`end_move`](Tracking::end_move)
    /// was not. Called between commands.
    pub fn end_all_moves(&mut self) {
        self.moving.clear();
    }

    /// Notes that a key was removed or replaced. Returns what the tracker knew about the key.
    pub fn gone(&mut self, database: i32, key: &[u8]) -> Moved {
        let Some(database) = self.databases.get_mut(&database) else { return Moved::default() };
        // If the set's check is postponed, its earliest due time is recorded under the old name. Since then, a command
        // may have made the set due again, but later. So under a new name, the set must be checked.
        let is_postponed = !database.postponed.is_empty();
        let due = database.forget(key).map(|due| if is_postponed { AT_ONCE } else { due });
        Moved { due, pending: database.pending.remove(key) }
    }
}
