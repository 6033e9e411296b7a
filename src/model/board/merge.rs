//! MERGE: the union of several boards with the same schema.
//!
//! The result is the same as if all members of all boards were set on one board: key by key, and each board in its own
//! order. With SUM, each value is added to the member's current value. With BEST, a member gets the values only if they
//! are better than its current ones. Ties follow from the same rule: members that got their final values from an
//! earlier key reached them first. KEEP is applied at the end, because a member that is bad on one board may have the
//! best sum.
//!
//! The merge collects one row per distinct member, which it finds by a hash of the name. At the end, it sorts the rows
//! and builds the tree from them. So a merge takes O(M + N log N) for the M members of all boards and the N distinct
//! members. During the merge, each distinct member takes 20 bytes, plus 8 bytes per value, in addition to the result.

use super::Board;
use super::error::BoardError;
use super::names::Names;
use super::read::Entry;
use super::schema::{Dimension, Schema, Ties};
use super::tree::Tree;
use super::update::room;
use super::value::Value;
use crate::model::index::Index;

/// How the values of a member on several boards are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Combine {
    /// Adds the member's values in each dimension.
    #[default]
    Sum,
    /// Takes the member's best tuple.
    Best,
}

pub struct Merge {
    combine: Combine,
    schema: Schema,
    names: Names,
    index: Index,
    rows: MergedRows,
    /// The number of members that were read from all boards so far. Each row stores this number at its last change. The
    /// stored numbers order ties.
    moment: u64,
}

impl Merge {
    pub fn new(schema: Schema, combine: Combine) -> Merge {
        let rows = MergedRows { chunks: Vec::new(), stride: schema.dimensions().len() };
        Merge { combine, schema, names: Names::new(), index: Index::default(), rows, moment: 0 }
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Adds a board, which must have the merge's schema. O(members).
    ///
    /// # Errors
    /// [`BoardError::Overflow`], [`BoardError::NotFinite`], [`BoardError::Full`]. The caller must then drop the merge.
    pub fn add(&mut self, board: &Board) -> Result<(), BoardError> {
        debug_assert!(self.schema == board.schema);
        for Entry { member, values } in board.rebuild() {
            self.moment += 1;
            let hash = self.index.hash(member);
            let Some(id) = self.index.find(hash, |id| self.names.name(id) == member) else {
                if !room(u64::from(self.rows.len()), 1) || !self.names.has_room(1) {
                    return Err(BoardError::Full);
                }
                let id = self.names.insert(member);
                self.index.insert(hash, id);
                self.names.set_leaf(id, self.rows.len());
                self.rows.push(values.words(), self.moment, id);
                continue;
            };
            let (words, moment) = self.rows.row_mut(self.names.leaf(id));
            let changes = match self.combine {
                Combine::Sum => add(words, values.words(), self.schema.dimensions())?,
                Combine::Best if values.words() < &*words => {
                    words.copy_from_slice(values.words());
                    true
                }
                Combine::Best => false,
            };
            if changes {
                *moment = self.moment;
            }
        }
        Ok(())
    }

    /// Returns the union. O(N log N) for N distinct members.
    pub fn finish(self) -> Board {
        let Merge { schema, mut names, index, rows, .. } = self;
        let mut order: Vec<u32> = (0..rows.len()).collect();
        let compare = |a: &u32, b: &u32| {
            let (a, b) = (rows.row(*a), rows.row(*b));
            a.words.cmp(b.words).then_with(|| match schema.ties() {
                Ties::First => a.moment.cmp(&b.moment),
                Ties::Last => b.moment.cmp(&a.moment),
                Ties::Name => names.name(a.id).cmp(names.name(b.id)),
            })
        };
        let kept = schema.keep().and_then(|keep| usize::try_from(keep.get()).ok()).filter(|&keep| keep < order.len());
        if let Some(keep) = kept {
            order.select_nth_unstable_by(keep, compare);
            order.truncate(keep);
        }
        order.sort_unstable_by(compare);
        let in_order = order.iter().map(|&at| rows.row(at));
        if kept.is_some() {
            // Copies the names of the remaining members, so that the memory of all other names is freed.
            return Board::in_order(schema.clone(), in_order.map(|row| (row.words, names.name(row.id))));
        }
        let mut tree = Tree::new(schema.dimensions().len());
        in_order.for_each(|row| tree.append(row.words, row.id, &mut names));
        tree.build_levels();
        Board { schema, tree, names, index }
    }
}

/// Adds values to a member's values. Returns whether any value changed.
fn add(words: &mut [u64], more: &[u64], dimensions: &[Dimension]) -> Result<bool, BoardError> {
    let mut changes = false;
    for (at, ((word, more), dimension)) in words.iter_mut().zip(more).zip(dimensions).enumerate() {
        let sum =
            Value::from_word(*word, dimension).plus(Value::from_word(*more, dimension), at)?.to_word(dimension, at)?;
        changes |= sum != *word;
        *word = sum;
    }
    Ok(changes)
}

/// One row for each distinct member: its words, the moment of its last change, and its ID. Rows are stored in chunks,
/// because a single vector would double its memory when it is full.
struct MergedRows {
    chunks: Vec<Vec<u64>>,
    stride: usize,
}

struct MergedRow<'a> {
    words: &'a [u64],
    moment: u64,
    id: u32,
}

impl MergedRows {
    const CHUNK: u32 = 1024;

    /// Returns the number of words of a row, including the moment and the ID.
    fn width(&self) -> usize {
        self.stride + 2
    }

    fn len(&self) -> u32 {
        let last = self.chunks.last().map_or(0, |chunk| chunk.len() / self.width());
        (self.chunks.len().saturating_sub(1) * Self::CHUNK as usize + last) as u32 // below 2^31: see `room`
    }

    fn push(&mut self, words: &[u64], moment: u64, id: u32) {
        let full = Self::CHUNK as usize * self.width();
        if self.chunks.last().is_none_or(|chunk| chunk.len() == full) {
            // The first chunk grows as needed, so that a small merge takes little memory.
            let room = if self.chunks.is_empty() { 0 } else { full };
            self.chunks.push(Vec::with_capacity(room));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.extend_from_slice(words);
            chunk.extend([moment, u64::from(id)]);
        }
    }

    fn at(&self, row: u32) -> (usize, usize) {
        ((row / Self::CHUNK) as usize, (row % Self::CHUNK) as usize * self.width())
    }

    fn row(&self, row: u32) -> MergedRow<'_> {
        let (chunk, start) = self.at(row);
        let row = &self.chunks[chunk][start..start + self.width()];
        MergedRow { words: &row[..self.stride], moment: row[self.stride], id: row[self.stride + 1] as u32 }
    }

    fn row_mut(&mut self, row: u32) -> (&mut [u64], &mut u64) {
        let ((chunk, start), stride) = (self.at(row), self.stride);
        let (words, rest) = self.chunks[chunk][start..start + stride + 2].split_at_mut(stride);
        (words, &mut rest[0])
    }
}
