//! Changes of a board (SET, INCR, REM, REMRANGE), and the effects that replicate them.
//!
//! The board checks a call before the first change, so an error leaves the board unchanged. A call with several members
//! has the same result as one call per member, in order.
//!
//! With KEEP n, a board has at most n members. When a member is added to a full board, the board removes its last
//! member. If the new member itself would be the last, the board does not add it, and there is no effect to replicate.
//! New values of a member never remove it from the board.

use std::collections::HashSet;

use super::names::MAX_NAME;
use super::read::{Entry, Order, Range, Values};
use super::schema::{Schema, Ties};
use super::tree::Position;
use super::value::Value;
use super::{Board, BoardError, MAX_MEMBERS};
use crate::base::index::Index;

#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    /// The member's name: any bytes, at most 2^32 - 16.
    pub member: &'a [u8],
    /// The member's new values: one for each dimension, of the dimension's kind. Floats must be finite.
    pub values: &'a [Value],
}

/// Which members SET may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Condition {
    #[default]
    Any,
    /// NX: only members that are not on the board.
    Absent,
    /// XX: only members on the board.
    Present,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SetOptions {
    pub condition: Condition,
    /// BEST: a member on the board gets only values that are better than its current values.
    pub best: bool,
}

/// The result of REMRANGE.
#[derive(Debug)]
pub struct RemovedRange {
    /// The position of the first removed member. 0 if no member was removed.
    pub first: u64,
    pub count: u64,
    /// The old board, if REMRANGE built a new board from the remaining members. The caller can free the old board in
    /// another thread.
    pub former: Option<Board>,
}

impl Board {
    /// Returns all members in the order in which SET must add them to an empty board to build an equal board.
    ///
    /// With TIES LAST, the worst member comes first, because SET places a new member before members with equal values.
    pub fn rebuild(&self) -> Range<'_> {
        self.iter(match self.schema.ties() {
            Ties::First | Ties::Name => Order::BestFirst,
            Ties::Last => Order::WorstFirst,
        })
    }

    /// Sets the values of members in order (SET). Calls `effect` with each changed member and its new values. If a
    /// member's values stay the same, the member keeps its place among members with equal values. Returns the number of
    /// added members. O(log n) per member.
    ///
    /// # Errors
    /// [`BoardError::ValueCount`], [`BoardError::WrongKind`], [`BoardError::NotFinite`], [`BoardError::Full`].
    pub fn set(
        &mut self,
        assignments: &[Assignment],
        options: SetOptions,
        mut effect: impl FnMut(Entry),
    ) -> Result<u64, BoardError> {
        let mut words = Vec::with_capacity(assignments.len().saturating_mul(self.schema.dimensions().len()));
        for assignment in assignments {
            self.words(assignment.values, &mut words)?;
            check_name(assignment.member)?;
        }
        self.check_room(assignments.len())?;

        if let [only] = assignments {
            return Ok(u64::from(self.set_one(only.member, &words, options, &mut effect)));
        }
        // With KEEP, one call may add a member, remove it to make room for the next one, and add it again. So a member
        // counts as added if it was absent before the call and is present after it.
        let absent: HashSet<&[u8]> =
            assignments.iter().map(|a| a.member).filter(|m| self.names.find(m).1.is_none()).collect();
        for (assignment, row) in assignments.iter().zip(words.chunks_exact(self.schema.dimensions().len())) {
            self.set_one(assignment.member, row, options, &mut effect);
        }
        Ok(absent.into_iter().filter(|m| self.names.find(m).1.is_some()).count() as u64)
    }

    /// Increments values of a member, in order (INCR). Each increment has the position of its dimension. A new member
    /// starts with zeros. Returns the member's values after the increments, even if KEEP does not admit the member. If
    /// the board changes, calls `effect` with the member and its new values. O(log n).
    ///
    /// # Errors
    /// [`BoardError::UnknownDimension`], [`BoardError::WrongKind`], [`BoardError::Full`]. [`BoardError::Overflow`] and
    /// [`BoardError::NotFinite`] if the result of any single increment is out of range.
    pub fn incr(
        &mut self,
        member: &[u8],
        increments: &[(usize, Value)],
        mut effect: impl FnMut(Entry),
    ) -> Result<Vec<Value>, BoardError> {
        let dimensions = self.schema.dimensions();
        let slot = self.names.find(member);
        let mut values: Vec<Value> = match slot.1 {
            Some(id) => {
                let position = self.tree.position_of(id, &self.names);
                Values { dimensions, words: self.tree.words(position) }.iter().collect()
            }
            None => dimensions.iter().map(|d| Value::zero(d.kind)).collect(),
        };
        for &(at, by) in increments {
            let value = values.get_mut(at).ok_or(BoardError::UnknownDimension)?;
            *value = value.plus(by)?;
        }
        let mut words = Vec::with_capacity(values.len());
        self.words(&values, &mut words)?;
        check_name(member)?;
        self.check_room(1)?;
        self.put(member, slot, &words, &mut effect);
        Ok(values)
    }

    /// Removes a member (REM). Returns false if the member is not on the board. O(log n).
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let position = self.position_of(member);
        if let Some(position) = position {
            self.remove_at(position);
        }
        position.is_some()
    }

    /// Removes the members from index `start` to `stop`. For these indexes, see [`Board::range`]. If more members are
    /// removed than remain, builds the board again from the remaining members. O(log n) per removed member, or O(1) per
    /// remaining member, whichever is less.
    pub fn remove_range(&mut self, start: i64, stop: i64) -> RemovedRange {
        let (first, count) = self.span(start, stop);
        if count > self.len() - count {
            let before = self.iter(Order::BestFirst).take(first as usize);
            let behind = self.range((first + count).cast_signed(), -1, Order::BestFirst);
            let entries = before.chain(behind).map(|entry| (entry.values.words, entry.member));
            let rest = Board::in_order(self.schema.clone(), entries);
            return RemovedRange { first, count, former: Some(std::mem::replace(self, rest)) };
        }
        for _ in 0..count {
            self.remove_at(self.tree.at_rank(first));
        }
        RemovedRange { first, count, former: None }
    }

    /// Creates a board from distinct members, best first. O(1) per member.
    pub(super) fn in_order<'a>(schema: Schema, members: impl Iterator<Item = (&'a [u64], &'a [u8])>) -> Board {
        let mut board = Board::new(schema);
        for (words, name) in members {
            board.append(Index::hash(name), words, name);
        }
        board.tree.build_levels();
        board
    }

    /// Adds a member with the last rank. After adding all members, the caller must complete the tree with
    /// [`build_levels`](super::tree::Tree::build_levels). O(1).
    pub(super) fn append(&mut self, hash: u32, words: &[u64], name: &[u8]) {
        let id = self.names.insert(hash, name);
        self.tree.append(words, id, &mut self.names);
    }

    /// Sets the values of a member, if the options allow it. Returns whether the member was added.
    fn set_one(&mut self, member: &[u8], words: &[u64], options: SetOptions, effect: &mut impl FnMut(Entry)) -> bool {
        let slot = self.names.find(member);
        let is_refused = match slot.1 {
            None => options.condition == Condition::Present,
            Some(id) => {
                let is_worse = || words > self.tree.words(self.tree.position_of(id, &self.names));
                options.condition == Condition::Absent || (options.best && is_worse())
            }
        };
        !is_refused && self.put(member, slot, words, effect)
    }

    /// Sets the values of a member to `words`. `(hash, found)` is the result of [`find`](super::names::Names::find).
    /// Returns whether the member was added.
    fn put(
        &mut self,
        member: &[u8],
        (hash, found): (u32, Option<u32>),
        words: &[u64],
        effect: &mut impl FnMut(Entry),
    ) -> bool {
        if let Some(id) = found {
            let position = self.tree.position_of(id, &self.names);
            if words == self.tree.words(position) {
                return false; // the member keeps its place among ties
            }
            if let Some(target) = self.tree.seek_near(position, words, |at| self.precedes(at, member)) {
                self.tree.shift(position, target, words);
            } else {
                self.tree.remove(position, &mut self.names);
                let position = self.tree.seek(words, |at| self.precedes(at, member));
                self.tree.insert(position, words, id, &mut self.names);
            }
        } else {
            let position = self.tree.seek(words, |at| self.precedes(at, member));
            let is_full = self.schema.keep().is_some_and(|keep| self.len() >= keep.get());
            if is_full && self.tree.is_end(position) {
                return false;
            }
            let id = self.names.insert(hash, member);
            self.tree.insert(position, words, id, &mut self.names);
            if is_full {
                self.remove_at(self.tree.last());
            }
        }
        effect(Entry { member, values: Values { dimensions: self.schema.dimensions(), words } });
        found.is_none()
    }

    /// Returns whether the row at `position` would precede `member` if `member` got the same values now.
    fn precedes(&self, position: Position, member: &[u8]) -> bool {
        match self.schema.ties() {
            Ties::First => true,
            Ties::Last => false,
            Ties::Name => self.names.name(self.tree.member(position)) < member,
        }
    }

    fn remove_at(&mut self, position: Position) {
        let id = self.tree.id(position);
        self.tree.remove(position, &mut self.names);
        if let Some(moved) = self.names.remove(id) {
            self.tree.renumber(self.names.leaf(id), moved, id);
        }
    }

    fn check_room(&self, more: usize) -> Result<(), BoardError> {
        let fits = room(self.len(), more as u64) && self.names.has_room(more);
        fits.then_some(()).ok_or(BoardError::Full)
    }
}

pub(super) fn room(len: u64, more: u64) -> bool {
    len.saturating_add(more) <= MAX_MEMBERS
}

pub(super) fn check_name(member: &[u8]) -> Result<(), BoardError> {
    if member.len() > MAX_NAME { Err(BoardError::Full) } else { Ok(()) }
}
