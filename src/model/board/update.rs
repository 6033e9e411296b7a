//! Changes of a board (SET, INCR, REM, REMRANGE), and the effects that replicate them.
//!
//! A call is checked before the first change, so an error leaves the board unchanged. A call with several members has
//! the same result as one call per member, in order.
//!
//! With KEEP n, the last member is removed after each addition to a board of n members. If the new member would be the
//! last one itself, it is not added, and the call has no effect to replicate. New values of a member on the board never
//! remove it, however bad they are.

use std::collections::HashSet;

use super::error::BoardError;
use super::names::MAX_NAME;
use super::read::{Entry, Order, Range, Values};
use super::schema::{Schema, Ties};
use super::tree::Position;
use super::value::Value;
use super::{Board, MAX_MEMBERS};

#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    /// Any bytes, at most 2^32 - 16.
    pub member: &'a [u8],
    /// One value per dimension, of the dimension's kind. Floats must be finite.
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

/// Which values SET may give to a member that is on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum When {
    #[default]
    Always,
    /// BEST: only values that are better than the current ones.
    Better,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SetOptions {
    pub condition: Condition,
    pub when: When,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Incremented {
    /// The member's values after the increments. If KEEP does not admit a new member, these are the values that the
    /// member would have had.
    pub values: Vec<Value>,
    /// Whether the board changed. False if all values stay the same, or if KEEP does not admit a new member.
    pub changed: bool,
    pub added: bool,
}

/// The result of REMRANGE.
#[derive(Debug)]
pub struct RemovedRange {
    /// The position of the first removed member, or 0.
    pub first: u64,
    pub count: u64,
    /// The board that must replace this board, if any.
    pub rest: Option<Board>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Placed {
    /// The member has these values already, or KEEP does not admit it.
    Unchanged,
    Moved,
    Added,
}

impl Board {
    /// Returns the effects that build this board from an empty one with the same schema, in the order in which they
    /// must be applied.
    ///
    /// With TIES LAST, the worst member is first, because a new member is placed before its equals.
    pub fn rebuild(&self) -> Range<'_> {
        self.iter(match self.schema.ties() {
            Ties::First | Ties::Name => Order::BestFirst,
            Ties::Last => Order::WorstFirst,
        })
    }

    /// Sets the values of members in order (SET). Calls `effect` with each change. A member that gets its current
    /// values keeps its place among ties. Returns the number of added members. O(log n) per member.
    ///
    /// # Errors
    /// [`BoardError::ValueCount`], [`BoardError::WrongKind`], [`BoardError::NotFinite`], [`BoardError::NameTooLong`],
    /// [`BoardError::Full`].
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

        let rows = words.chunks_exact(self.schema.dimensions().len());
        if let [only] = assignments {
            let outcome = self.set_one(only.member, &words, options, &mut effect);
            return Ok(u64::from(outcome == Placed::Added));
        }
        // With KEEP, a later member of the call may remove a member that the call added, and a removed member may be
        // added again. So a member counts as added if it was absent before the call and is present after it.
        let absent: HashSet<&[u8]> =
            assignments.iter().map(|a| a.member).filter(|m| self.find(m).1.is_none()).collect();
        for (assignment, row) in assignments.iter().zip(rows) {
            self.set_one(assignment.member, row, options, &mut effect);
        }
        Ok(absent.into_iter().filter(|m| self.find(m).1.is_some()).count() as u64)
    }

    /// Increments dimensions of a member, in order (INCR). Dimensions are given by position. A new member starts at
    /// zeros. O(log n).
    ///
    /// # Errors
    /// [`BoardError::UnknownDimension`], [`BoardError::WrongKind`], [`BoardError::NameTooLong`], [`BoardError::Full`].
    /// [`BoardError::Overflow`] and [`BoardError::NotFinite`] if the result of any single step is out of range.
    pub fn incr(
        &mut self,
        member: &[u8],
        increments: &[(usize, Value)],
        mut effect: impl FnMut(Entry),
    ) -> Result<Incremented, BoardError> {
        let dimensions = self.schema.dimensions();
        let slot = self.find(member);
        let mut values: Vec<Value> = match slot.1 {
            Some(id) => {
                let position = self.tree.position_of(id, &self.names);
                Values::new(dimensions, self.tree.words(position)).iter().collect()
            }
            None => dimensions.iter().map(|d| Value::zero(d.kind)).collect(),
        };
        for &(at, by) in increments {
            let value = values.get_mut(at).ok_or(BoardError::UnknownDimension)?;
            *value = value.plus(by, at)?;
        }
        let mut words = Vec::with_capacity(values.len());
        self.words(&values, &mut words)?;
        check_name(member)?;
        self.check_room(1)?;
        let outcome = self.put(member, slot, &words, &mut effect);
        Ok(Incremented { values, changed: outcome != Placed::Unchanged, added: outcome == Placed::Added })
    }

    /// Removes a member (REM). Returns false if the member is not on the board. O(log n).
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let (hash, Some(id)) = self.find(member) else { return false };
        let position = self.tree.position_of(id, &self.names);
        self.drop_member(hash, id, position);
        true
    }

    /// Removes the members from index `start` to `stop`, as in [`Board::range`] (REMRANGE). If more members are removed
    /// than remain, this board stays unchanged, and the result has a new board with the remaining members. The caller
    /// must replace this board, and can free it in another thread. O(log n) per removed member, or O(1) per remaining
    /// member, whichever is less.
    pub fn remove_range(&mut self, start: i64, stop: i64) -> RemovedRange {
        let (first, count) = self.span(start, stop);
        let stay = self.len() - count;
        if count > stay {
            let before = self.iter(Order::BestFirst).take(first as usize);
            let behind = self.range((first + count).cast_signed(), -1, Order::BestFirst);
            let entries = before.chain(behind).map(|entry| (entry.values.words(), entry.member));
            return RemovedRange { first, count, rest: Some(Board::in_order(self.schema.clone(), entries)) };
        }
        for _ in 0..count {
            let position = self.tree.at_rank(first);
            let id = self.tree.id(position);
            let hash = self.index.hash(self.names.name(id));
            self.drop_member(hash, id, position);
        }
        RemovedRange { first, count, rest: None }
    }

    /// Creates a board from distinct members, best first. O(1) per member.
    pub(super) fn in_order<'a>(schema: Schema, members: impl Iterator<Item = (&'a [u64], &'a [u8])>) -> Board {
        let mut board = Board::new(schema);
        for (words, name) in members {
            board.append(board.index.hash(name), words, name);
        }
        board.tree.build_levels();
        board
    }

    /// Adds a member after all others. The caller completes the tree with
    /// [`build_levels`](super::tree::Tree::build_levels). O(1).
    pub(super) fn append(&mut self, hash: u32, words: &[u64], name: &[u8]) {
        let id = self.names.insert(name);
        self.index.insert(hash, id);
        self.tree.append(words, id, &mut self.names);
    }

    fn set_one(&mut self, member: &[u8], words: &[u64], options: SetOptions, effect: &mut impl FnMut(Entry)) -> Placed {
        let slot = self.find(member);
        let refused = match slot.1 {
            None => options.condition == Condition::Present,
            Some(id) => {
                let worse = || words > self.tree.words(self.tree.position_of(id, &self.names));
                options.condition == Condition::Absent || (options.when == When::Better && worse())
            }
        };
        if refused { Placed::Unchanged } else { self.put(member, slot, words, effect) }
    }

    /// Sets the values of a member, which `words` encodes. `(hash, found)` is the result of [`Board::find`].
    fn put(
        &mut self,
        member: &[u8],
        (hash, found): (u32, Option<u32>),
        words: &[u64],
        effect: &mut impl FnMut(Entry),
    ) -> Placed {
        let outcome = match found {
            Some(id) => {
                let position = self.tree.position_of(id, &self.names);
                if words == self.tree.words(position) {
                    return Placed::Unchanged; // the member keeps its place among ties
                }
                let near = self.tree.seek_near(position, |row, other| self.is_before(row, other, words, member));
                if let Some(target) = near {
                    self.tree.shift(position, target, words);
                } else {
                    self.tree.remove(position, &mut self.names);
                    let position = self.seek(words, member);
                    self.tree.insert(position, words, id, &mut self.names);
                }
                Placed::Moved
            }
            None => {
                let position = self.seek(words, member);
                let full = self.schema.keep().is_some_and(|keep| self.len() >= keep.get());
                if full && self.tree.is_end(position) {
                    return Placed::Unchanged;
                }
                let id = self.names.insert(member);
                self.index.insert(hash, id);
                self.tree.insert(position, words, id, &mut self.names);
                if full {
                    self.drop_last();
                }
                Placed::Added
            }
        };
        effect(Entry { member, values: Values::new(self.schema.dimensions(), words) });
        outcome
    }

    /// Returns the position that a member with these words would get.
    fn seek(&self, words: &[u64], member: &[u8]) -> Position {
        self.tree.seek(|row, other| self.is_before(row, other, words, member))
    }

    /// Whether the row with the words `row` and the ID `id` precedes `member`, if `member` gets the words `words` now.
    fn is_before(&self, row: &[u64], id: u32, words: &[u64], member: &[u8]) -> bool {
        match self.schema.ties() {
            Ties::First => row <= words,
            Ties::Last => row < words,
            Ties::Name => row.cmp(words).then_with(|| self.names.name(id).cmp(member)).is_lt(),
        }
    }

    fn drop_last(&mut self) {
        let position = self.tree.last();
        let id = self.tree.id(position);
        let hash = self.index.hash(self.names.name(id));
        self.drop_member(hash, id, position);
    }

    /// Removes a member. Other members may get new IDs, so IDs that the caller holds become invalid.
    fn drop_member(&mut self, hash: u32, id: u32, position: Position) {
        self.tree.remove(position, &mut self.names);
        self.index.remove(hash, id);
        for id in self.names.remove(id) {
            let hash = self.index.hash(self.names.name(id));
            let position = self.tree.position_of(id, &self.names);
            let Some(to) = self.names.move_out(id) else { return };
            self.index.renumber(hash, id, to);
            self.tree.renumber(position, to);
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
    if member.len() > MAX_NAME { Err(BoardError::NameTooLong) } else { Ok(()) }
}
