//! Queries of a board: GET, RANK, RANGE, AROUND, RANKOF.

use super::Board;
use super::error::BoardError;
use super::schema::{Dimension, Ties};
use super::tree::{Cursor, Position};
use super::value::Value;

#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    dimensions: &'a [Dimension],
    words: &'a [u64],
}

impl<'a> Values<'a> {
    pub(super) fn new(dimensions: &'a [Dimension], words: &'a [u64]) -> Self {
        Values { dimensions, words }
    }

    pub(super) fn words(&self) -> &'a [u64] {
        self.words
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value> + use<'a> {
        self.words.iter().zip(self.dimensions).map(|(word, dimension)| Value::from_word(*word, dimension))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub member: &'a [u8],
    pub values: Values<'a>,
}

/// How ranks count members with equal values. All ranks are zero-based, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ranking {
    /// The position of the member. All ranks differ: 0 1 2 3.
    #[default]
    Plain,
    /// The number of better tuples: 0 1 1 2.
    Dense,
    /// The number of better members: 0 1 1 3.
    Competition,
}

/// The direction of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// The best is at index 0.
    #[default]
    BestFirst,
    /// REV: the worst is at index 0.
    WorstFirst,
}

impl Board {
    /// Returns a member's position and values, or `None` if it is not on the board. O(log n).
    pub fn get(&self, member: &[u8]) -> Option<(u64, Values<'_>)> {
        let position = self.position_of(member)?;
        Some((self.tree.rank(position), Values::new(self.schema.dimensions(), self.tree.words(position))))
    }

    /// Returns a member's rank, or `None` if it is not on the board. O(log n).
    pub fn rank(&self, member: &[u8], ranking: Ranking) -> Option<u64> {
        let position = self.position_of(member)?;
        Some(match ranking {
            Ranking::Plain => self.tree.rank(position),
            Ranking::Dense => self.tree.dense_rank(position),
            Ranking::Competition => {
                let words = self.tree.words(position);
                self.tree.rank(self.tree.seek(|row, _| row < words))
            }
        })
    }

    /// Returns the position that a new member with these values would get (RANKOF). The position is after all members
    /// with equal values, also with TIES NAME, because the new member has no name. With TIES LAST, it is before them.
    /// KEEP is ignored. O(log n).
    ///
    /// # Errors
    /// [`BoardError::ValueCount`], [`BoardError::WrongKind`], [`BoardError::NotFinite`].
    pub fn rank_of(&self, values: &[Value]) -> Result<u64, BoardError> {
        let mut words = Vec::with_capacity(values.len());
        self.words(values, &mut words)?;
        let words = words.as_slice();
        let position = match self.schema.ties() {
            Ties::First | Ties::Name => self.tree.seek(|row, _| row <= words),
            Ties::Last => self.tree.seek(|row, _| row < words),
        };
        Ok(self.tree.rank(position))
    }

    /// Returns the members from index `start` to `stop`, both inclusive. As in ZRANGE, negative indexes count from the
    /// end, and indexes out of range are limited to the first and last member. O(log n + members).
    pub fn range(&self, start: i64, stop: i64, order: Order) -> Range<'_> {
        let (start, left) = self.span(start, stop);
        let position = match order {
            Order::BestFirst => start,
            Order::WorstFirst => (self.len() - start).saturating_sub(1),
        };
        let next = (left > 0).then(|| self.tree.cursor(self.tree.at_rank(position)));
        Range { board: self, next, position, left, order }
    }

    /// Returns the first index and the number of members of a range, or `(0, 0)` if it has no members.
    pub(super) fn span(&self, start: i64, stop: i64) -> (u64, u64) {
        let len = self.len().cast_signed();
        let from_end = |index: i64| if index < 0 { index + len } else { index };
        let start = from_end(start).max(0);
        let stop = from_end(stop).min(len - 1);
        if start > stop { (0, 0) } else { (start.cast_unsigned(), (stop - start).cast_unsigned() + 1) }
    }

    /// Returns a member with up to `radius` neighbours on either side, best first (AROUND). Returns `None` if the
    /// member is not on the board. O(log n + members).
    pub fn around(&self, member: &[u8], radius: u64) -> Option<Range<'_>> {
        let position = self.position_of(member)?;
        let rank = self.tree.rank(position);
        let back = radius.min(rank);
        let ahead = radius.min(self.len() - 1 - rank);
        let first = match usize::try_from(back).ok().and_then(|back| position.at.checked_sub(back)) {
            Some(at) => Position { at, ..position }, // in the same leaf
            None => self.tree.at_rank(rank - back),
        };
        Some(Range {
            board: self,
            next: Some(self.tree.cursor(first)),
            position: rank - back,
            left: back + 1 + ahead,
            order: Order::BestFirst,
        })
    }

    pub fn iter(&self, order: Order) -> Range<'_> {
        self.range(0, -1, order)
    }
}

/// The iterator over the members of a range.
#[derive(Clone, Debug)]
pub struct Range<'a> {
    pub(super) board: &'a Board,
    pub(super) next: Option<Cursor<'a>>,
    /// The position of `next`. The best member has position 0.
    pub(super) position: u64,
    pub(super) left: u64,
    pub(super) order: Order,
}

impl<'a> Range<'a> {
    /// Returns the member of a row, and a function that returns the next row.
    fn step(board: &'a Board, row: Cursor<'a>, order: Order) -> (Entry<'a>, impl FnOnce() -> Option<Cursor<'a>>) {
        let entry =
            Entry { member: board.names.name(row.id()), values: Values::new(board.schema.dimensions(), row.words()) };
        let next = move || match order {
            Order::BestFirst => row.after(),
            Order::WorstFirst => row.before(),
        };
        (entry, next)
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (entry, next) = Range::step(self.board, self.next?, self.order);
        self.left = self.left.saturating_sub(1);
        self.next = if self.left == 0 { None } else { next() };
        self.position = match self.order {
            Order::BestFirst => self.position + 1,
            Order::WorstFirst => self.position.saturating_sub(1),
        };
        Some(entry)
    }

    /// Does not update `self` for each member, so it is faster than calls of `next`.
    fn fold<B, F: FnMut(B, Entry<'a>) -> B>(self, init: B, mut f: F) -> B {
        let Range { board, next, mut left, order, .. } = self;
        let (mut result, mut at) = (init, next);
        while let Some(row) = at {
            let (entry, next) = Range::step(board, row, order);
            result = f(result, entry);
            left = left.saturating_sub(1);
            at = if left == 0 { None } else { next() };
        }
        result
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Range<'_> {}
