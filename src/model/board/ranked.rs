//! A range of members with their ranks.

use super::read::{Entry, Order, Range, Ranking};
use super::tree::Cursor;

/// The iterator over members with their ranks. Ranks count from the best member, also with REV.
#[derive(Clone, Debug)]
pub struct Ranked<'a> {
    range: Range<'a>,
    ranking: Ranking,
    rank: u64,
    /// The previous member's words. `None` before the first member.
    words: Option<&'a [u64]>,
}

impl<'a> Range<'a> {
    /// Adds ranks to the members. O(log n) once, and O(1) amortized per member.
    pub fn ranked(self, ranking: Ranking) -> Ranked<'a> {
        Ranked { range: self, ranking, rank: 0, words: None }
    }
}

impl<'a> Ranked<'a> {
    /// Returns the rank of a row. With [`Ranking::Dense`] and [`Ranking::Competition`], the row must be the first one
    /// of the iteration, or have other words than the previous row.
    fn rank_of(&self, row: Cursor<'a>) -> u64 {
        let (tree, names) = (&self.range.board.tree, &self.range.board.names);
        let first_equal = || tree.rank(tree.seek(|words, _| words < row.words()));
        match (self.ranking, self.range.order, self.words) {
            (Ranking::Plain, ..) => self.range.position,
            (Ranking::Dense, _, None) => tree.dense_rank(tree.position_of(row.id(), names)),
            (Ranking::Dense, Order::BestFirst, Some(_)) => self.rank + 1,
            (Ranking::Dense, Order::WorstFirst, Some(_)) => self.rank.saturating_sub(1),
            (Ranking::Competition, Order::BestFirst, Some(_)) => self.range.position,
            (Ranking::Competition, Order::BestFirst, None) => first_equal(),
            // The rank is the position of the first row with equal words. If that row is outside the range, a lookup
            // finds it.
            (Ranking::Competition, Order::WorstFirst, _) => match self.equals_ahead(row) {
                Some(equals) => self.range.position.saturating_sub(equals),
                None => first_equal(),
            },
        }
    }

    /// Returns the number of rows that directly precede `row` on the board and have the same words. Returns `None` if
    /// the first of these rows is outside the range.
    fn equals_ahead(&self, row: Cursor<'a>) -> Option<u64> {
        let (mut equals, mut at) = (0, row);
        while let Some(before) = at.before().filter(|before| before.words() == row.words()) {
            (equals, at) = (equals + 1, before);
            if equals == self.range.left {
                return None;
            }
        }
        Some(equals)
    }
}

impl<'a> Iterator for Ranked<'a> {
    type Item = (u64, Entry<'a>);

    fn next(&mut self) -> Option<(u64, Entry<'a>)> {
        let row = self.range.next?;
        if self.ranking == Ranking::Plain || self.words != Some(row.words()) {
            self.rank = self.rank_of(row);
            self.words = Some(row.words());
        }
        self.range.next().map(|entry| (self.rank, entry))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl ExactSizeIterator for Ranked<'_> {}
