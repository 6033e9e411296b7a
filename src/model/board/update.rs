//! What changes a board: SET, INCR, REM, REMRANGE, and the effects they are replicated by.
//!
//! Everything that can be wrong is found before the first change, so an error leaves the board as it was. A call of
//! several members is the calls of one each, in order.
//!
//! KEEP n means that after every member set, whoever is last goes while there are more than n. A newcomer who would
//! be last on a full board does not get in at all: nothing changes and there is no effect. A member that is on the
//! board never goes by its own change, however bad its new values: there are still only n, and those the board has
//! dropped are forgotten.

use std::collections::HashSet;

use super::error::Error;
use super::index::Index;
use super::names::{MAX_NAME, Names};
use super::read::{Entry, Order, Range, Values};
use super::schema::{Schema, Ties};
use super::tree::{Loader, Position, Tree};
use super::value::Value;
use super::{Board, MAX_MEMBERS};

/// A member and the values it is to have, one for each dimension in order.
#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    /// Any bytes, at most 2^32 - 16 of them.
    pub member: &'a [u8],
    /// Of the dimensions' kinds, floats finite.
    pub values: &'a [Value],
}

/// Which members SET may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Condition {
    /// All.
    #[default]
    Any,
    /// NX: only those not on the board.
    Absent,
    /// XX: only those on the board.
    Present,
}

/// Which values SET may give to a member that has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum When {
    /// Any.
    #[default]
    Always,
    /// BEST: only a tuple better than the one it has.
    Better,
}

/// The options of SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SetOptions {
    /// NX, XX or neither.
    pub condition: Condition,
    /// BEST or not.
    pub when: When,
}

/// A change, with absolute values: `ZLB.SET key member value ...`, without conditions. Applied in order to an equal board
/// it makes an equal board.
#[derive(Clone, Copy, Debug)]
pub struct Effect<'a> {
    /// Whose values.
    pub member: &'a [u8],
    /// All of them.
    pub values: Values<'a>,
}

/// The effects that make a board from nothing. Their number is known.
#[derive(Clone, Debug)]
pub struct Rebuild<'a>(Range<'a>);

impl<'a> Iterator for Rebuild<'a> {
    type Item = Effect<'a>;

    fn next(&mut self) -> Option<Effect<'a>> {
        let Entry { member, values } = self.0.next()?;
        Some(Effect { member, values })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Rebuild<'_> {}

/// What INCR came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Incremented {
    /// The values after the increments, one for each dimension.
    pub values: Vec<Value>,
    /// Whether anything on the board is different. False if the increments are zero for a member on the board, and if
    /// the member is new and KEEP does not let it in.
    pub changed: bool,
    /// Whether the member was not on the board and is now.
    pub added: bool,
}

/// What REMRANGE came to.
#[derive(Debug)]
pub struct Removed {
    /// The position of the first member that goes, or 0.
    pub first: u64,
    /// How many go. That many from `first` on, which is the effect.
    pub count: u64,
    /// The board that takes the place of the one asked. `None`: that one has changed itself, or nothing has changed.
    pub rest: Option<Board>,
}

/// What became of one assignment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing: it has these values, or KEEP did not let it in.
    Unchanged,
    /// It was on the board and has other values now.
    Moved,
    /// It was not on the board and is now.
    Added,
}

impl Board {
    /// The effects that make this board out of an empty one of the same schema.
    ///
    /// They come best first, so that each goes behind its equals; with TIES LAST worst first, so that each goes before
    /// them.
    pub fn rebuild(&self) -> Rebuild<'_> {
        Rebuild(self.iter(match self.schema.ties() {
            Ties::First | Ties::Name => Order::BestFirst,
            Ties::Last => Order::WorstFirst,
        }))
    }

    /// SET: gives members their values, in order, and tells `effect` of each change. A member that has equal values
    /// keeps its place among ties. Returns how many members are on the board now that were not before.
    ///
    /// O(log n) for each.
    ///
    /// # Errors
    /// [`Error::ValueCount`], [`Error::WrongKind`], [`Error::NotFinite`], [`Error::NameTooLong`], [`Error::Full`];
    /// nothing has changed then.
    pub fn set(
        &mut self,
        assignments: &[Assignment],
        options: SetOptions,
        mut effect: impl FnMut(Effect),
    ) -> Result<u64, Error> {
        let mut words = Vec::with_capacity(assignments.len().saturating_mul(self.schema.dimensions().len()));
        for assignment in assignments {
            self.words(assignment.values, &mut words)?;
            check_name(assignment.member)?;
        }
        self.check_room(assignments.len())?;

        let rows = words.chunks_exact(self.schema.dimensions().len());
        if let [only] = assignments {
            let outcome = self.set_one(only.member, &words, options, &mut effect);
            return Ok(u64::from(outcome == Outcome::Added));
        }
        // Whoever is added may be dropped again by a later one, and whoever is dropped may return: what counts is
        // who is there in the end and was not in the beginning.
        let absent: HashSet<&[u8]> =
            assignments.iter().map(|a| a.member).filter(|m| self.find(m).1.is_none()).collect();
        for (assignment, row) in assignments.iter().zip(rows) {
            self.set_one(assignment.member, row, options, &mut effect);
        }
        Ok(absent.into_iter().filter(|m| self.find(m).1.is_some()).count() as u64)
    }

    /// INCR: adds to dimensions (by position) of a member, in order; an absent member starts at zeros.
    ///
    /// O(log n).
    ///
    /// # Errors
    /// [`Error::UnknownDimension`], [`Error::WrongKind`], [`Error::Overflow`] of an INT and [`Error::NotFinite`] of a
    /// FLOAT after any single step, [`Error::NameTooLong`], [`Error::Full`]; nothing has changed then.
    pub fn incr(
        &mut self,
        member: &[u8],
        increments: &[(usize, Value)],
        mut effect: impl FnMut(Effect),
    ) -> Result<Incremented, Error> {
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
            let value = values.get_mut(at).ok_or(Error::UnknownDimension)?;
            *value = value.plus(by, at)?;
        }
        let mut words = Vec::with_capacity(values.len());
        self.words(&values, &mut words)?;
        check_name(member)?;
        self.check_room(1)?;
        let outcome = self.put(member, slot, &words, &mut effect);
        Ok(Incremented { values, changed: outcome != Outcome::Unchanged, added: outcome == Outcome::Added })
    }

    /// REM: takes a member off the board; false if it is not on it. It is its own effect.
    /// O(log n).
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let (hash, Some(id)) = self.find(member) else { return false };
        let position = self.tree.position_of(id, &self.names);
        self.drop_member(hash, id, position);
        true
    }

    /// REMRANGE: takes off the members from index `start` to `stop`, as [`Board::range`] counts. If fewer stay than go, those
    /// that stay come back as a board of their own, to be put in this one's place, and this one is as it was: so what a
    /// large board loses can be freed elsewhere.
    /// O(log n) for each that goes, or O(1) for each that stays, whichever are fewer.
    pub fn remove_range(&mut self, start: i64, stop: i64) -> Removed {
        let (first, count) = self.span(start, stop);
        let stay = self.len() - count;
        if count > stay {
            let before = self.iter(Order::BestFirst).take(first as usize);
            let behind = self.range((first + count).cast_signed(), -1, Order::BestFirst);
            let entries = before.chain(behind).map(|entry| (entry.values.words(), entry.member));
            return Removed { first, count, rest: Some(Board::in_order(self.schema.clone(), entries)) };
        }
        for _ in 0..count {
            let position = self.tree.at_rank(first);
            let id = self.tree.id(position);
            let hash = self.index.hash(self.names.name(id));
            self.drop_member(hash, id, position);
        }
        Removed { first, count, rest: None }
    }

    /// A board of members that come in its order, each once. O(1) for each.
    pub(super) fn in_order<'a>(schema: Schema, members: impl Iterator<Item = (&'a [u64], &'a [u8])>) -> Board {
        let mut loader = Loader::new(Tree::new(schema.dimensions().len()));
        let (mut names, mut index) = (Names::new(), Index::new());
        for (words, name) in members {
            let id = names.insert(name);
            index.insert(index.hash(name), id);
            loader.push(words, id, &mut names);
        }
        Board { schema, tree: loader.finish(), names, index }
    }

    /// Sets one member to checked words, if the options allow it.
    fn set_one(
        &mut self,
        member: &[u8],
        words: &[u64],
        options: SetOptions,
        effect: &mut impl FnMut(Effect),
    ) -> Outcome {
        let slot = self.find(member);
        let refused = match slot.1 {
            None => options.condition == Condition::Present,
            Some(id) => {
                let worse = || words > self.tree.words(self.tree.position_of(id, &self.names));
                options.condition == Condition::Absent || (options.when == When::Better && worse())
            }
        };
        if refused { Outcome::Unchanged } else { self.put(member, slot, words, effect) }
    }

    /// Gives a member checked words. `slot` is what [`Board::find`] says of it.
    fn put(
        &mut self,
        member: &[u8],
        (hash, found): (u32, Option<u32>),
        words: &[u64],
        effect: &mut impl FnMut(Effect),
    ) -> Outcome {
        let outcome = match found {
            Some(id) => {
                let position = self.tree.position_of(id, &self.names);
                if words == self.tree.words(position) {
                    return Outcome::Unchanged; // and it keeps its place among ties
                }
                let near = self.tree.seek_near(position, |row, other| self.is_before(row, other, words, member));
                if let Some(target) = near {
                    self.tree.shift(position, target, words);
                } else {
                    self.tree.remove(position, &mut self.names);
                    let position = self.seek(words, member);
                    self.tree.insert(position, words, id, &mut self.names);
                }
                Outcome::Moved
            }
            None => {
                let position = self.seek(words, member);
                let full = self.schema.keep().is_some_and(|keep| self.len() >= keep.get());
                if full && self.tree.is_end(position) {
                    return Outcome::Unchanged;
                }
                let id = self.names.insert(member);
                self.index.insert(hash, id);
                self.tree.insert(position, words, id, &mut self.names);
                if full {
                    self.drop_last();
                }
                Outcome::Added
            }
        };
        effect(Effect { member, values: Values::new(self.schema.dimensions(), words) });
        outcome
    }

    /// Where a member with these words comes to stand when it reaches them now.
    fn seek(&self, words: &[u64], member: &[u8]) -> Position {
        self.tree.seek(|row, other| self.is_before(row, other, words, member))
    }

    /// Whether a row stays before a member that reaches `words` now.
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

    /// Other members may get other ids: those that a caller has kept are void.
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

    /// Whether `more` more members surely find a place.
    fn check_room(&self, more: usize) -> Result<(), Error> {
        let fits = room(self.len(), more as u64) && self.names.has_room(more);
        fits.then_some(()).ok_or(Error::Full)
    }
}

/// Whether a board of `len` members may have `more`.
pub(super) fn room(len: u64, more: u64) -> bool {
    len.saturating_add(more) <= MAX_MEMBERS
}

pub(super) fn check_name(member: &[u8]) -> Result<(), Error> {
    if member.len() > MAX_NAME { Err(Error::NameTooLong) } else { Ok(()) }
}
