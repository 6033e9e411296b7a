//! Queries of a board: GET, RANK, RANGE, AROUND, RANKOF.

use super::schema::{Dimension, Ties};
use super::tree::Cursor;
use super::value::Value;
use super::{Board, BoardError};

#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    pub(super) dimensions: &'a [Dimension],
    pub(super) words: &'a [u64],
}

impl<'a> Values<'a> {
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
    /// Members with equal values have the same rank, and no rank is skipped: 0 1 1 2.
    Dense,
    /// The number of better members. Two equal members share a rank, and the next rank is left out: 0 1 1 3.
    Competition,
}

/// The direction of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// The best member is at index 0.
    #[default]
    BestFirst,
    /// REV: the worst member is at index 0.
    WorstFirst,
}

impl Board {
    /// Returns a member's position and values, or `None` if it is not on the board. O(log n).
    pub fn get(&self, member: &[u8]) -> Option<(u64, Values<'_>)> {
        let position = self.position_of(member)?;
        let values = Values { dimensions: self.schema.dimensions(), words: self.tree.words(position) };
        Some((self.tree.rank(position), values))
    }

    /// Returns a member's rank, or `None` if it is not on the board. O(log n).
    pub fn rank(&self, member: &[u8], ranking: Ranking) -> Option<u64> {
        let position = self.position_of(member)?;
        Some(match ranking {
            Ranking::Plain => self.tree.rank(position),
            Ranking::Dense => self.tree.dense_rank(position),
            Ranking::Competition => self.tree.rank(self.tree.seek(self.tree.words(position), |_| false)),
        })
    }

    /// Returns the position that a new member with these values would get (RANKOF). Among members with equal values,
    /// the new member would be first with TIES LAST, and last with TIES FIRST or NAME. Ignores KEEP. O(log n).
    ///
    /// # Errors
    /// [`BoardError::ValueCount`], [`BoardError::WrongKind`], [`BoardError::NotFinite`].
    pub fn rank_of(&self, values: &[Value]) -> Result<u64, BoardError> {
        let mut words = Vec::with_capacity(values.len());
        self.words(values, &mut words)?;
        let ties = self.schema.ties();
        Ok(self.tree.rank(self.tree.seek(&words, |_| ties != Ties::Last)))
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
        let rank = self.rank(member, Ranking::Plain)?;
        let (first, last) = (rank.saturating_sub(radius), rank.saturating_add(radius).min(self.len()));
        Some(self.range(first.cast_signed(), last.cast_signed(), Order::BestFirst))
    }

    pub fn iter(&self, order: Order) -> Range<'_> {
        self.range(0, -1, order)
    }
}

/// An iterator over the members of a range.
#[derive(Clone, Debug)]
pub struct Range<'a> {
    board: &'a Board,
    next: Option<Cursor<'a>>,
    /// The position of the range's first member on the board. The best member has position 0.
    position: u64,
    left: u64,
    order: Order,
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let row = self.next?;
        self.left = self.left.saturating_sub(1);
        self.next = match self.order {
            _ if self.left == 0 => None,
            Order::BestFirst => row.after(),
            Order::WorstFirst => row.before(),
        };
        let values = Values { dimensions: self.board.schema.dimensions(), words: row.words() };
        Some(Entry { member: self.board.names.name(row.id()), values })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Range<'_> {}

impl<'a> Range<'a> {
    /// Returns an iterator over the members and their ranks. Ranks count from the best member, even with REV. O(log n)
    /// once, and O(1) amortized per member.
    pub fn ranked(mut self, ranking: Ranking) -> impl Iterator<Item = (u64, Entry<'a>)> {
        let mut position = self.position;
        let mut last: Option<(&[u64], u64)> = None;
        std::iter::from_fn(move || {
            let row = self.next?;
            let rank = match last {
                _ if ranking == Ranking::Plain => position,
                Some((words, rank)) if words == row.words() => rank,
                _ => self.shared_rank(row, position, last.map(|(_, rank)| rank), ranking),
            };
            last = Some((row.words(), rank));
            position = match self.order {
                Order::BestFirst => position + 1,
                Order::WorstFirst => position.saturating_sub(1),
            };
            self.next().map(|entry| (rank, entry))
        })
    }

    /// Returns the rank of `row`, which is equal for all members with the same values. `position` is the row's position
    /// on the board. `last` is the rank of the row that the iterator has returned before, which must have other values.
    /// For the first row, `last` is `None`.
    fn shared_rank(&self, row: Cursor<'a>, position: u64, last: Option<u64>, ranking: Ranking) -> u64 {
        let tree = &self.board.tree;
        let first_equal = || tree.rank(tree.seek(row.words(), |_| false));
        match (ranking, self.order, last) {
            (Ranking::Dense, _, None) => tree.dense_rank(tree.position_of(row.id(), &self.board.names)),
            (Ranking::Dense, Order::BestFirst, Some(last)) => last + 1,
            (Ranking::Dense, Order::WorstFirst, Some(last)) => last.saturating_sub(1),
            (_, Order::BestFirst, None) => first_equal(),
            (_, Order::BestFirst, Some(_)) => position,
            // The rank is the position of the first row with equal words. If that row is outside the range, a lookup
            // finds it.
            (_, Order::WorstFirst, _) => {
                let equals = std::iter::successors(Some(row), |at| at.before()).take(self.left as usize + 1);
                let equals = equals.take_while(|at| at.words() == row.words()).count() as u64;
                if equals > self.left { first_equal() } else { position + 1 - equals }
            }
        }
    }
}
