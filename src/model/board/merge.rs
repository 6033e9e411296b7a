//! MERGE: the union of several boards of one schema.
//!
//! The result is what a board would be on which, key by key, the members of each board had been set in their order: added
//! to what they have there (SUM), or if they are better (BEST). That decides the order of equals, too: a member that had
//! its final values after an earlier key reached them first. Only KEEP waits until the end: a member that is dropped
//! after the first key may have the best sum after the last.
//!
//! No tree is built for what is still going to move. Members are summed up in rows, found by a hash of the name; the rows are
//! sorted once; and the tree is loaded from them in order. So a merge takes O(M) for the M members of all boards, and
//! O(N log N) for the N different ones. Next to the result it needs, while it lasts, 20 bytes for each of these and 8 for
//! each of their values.

use super::Board;
use super::error::Error;
use super::index::Index;
use super::names::Names;
use super::schema::{Dimension, Schema, Ties};
use super::tree::{Loader, Tree};
use super::update::{Effect, room};
use super::value::Value;

/// What becomes of a member that is on several boards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Combine {
    /// Its values are added up, dimension by dimension.
    #[default]
    Sum,
    /// It gets the best of its tuples.
    Best,
}

/// A merge under way.
pub struct Merge {
    combine: Combine,
    schema: Schema,
    names: Names,
    index: Index,
    rows: Rows,
    /// Counts the changes: what decides among equals.
    moment: u64,
}

impl Merge {
    /// A merge of boards that have this schema.
    pub fn new(schema: Schema, combine: Combine) -> Merge {
        let rows = Rows { chunks: Vec::new(), stride: schema.dimensions().len() };
        Merge { combine, schema, names: Names::new(), index: Index::new(), rows, moment: 0 }
    }

    /// The schema that all boards must have.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Adds a board of the merge's schema. O(members).
    ///
    /// # Errors
    /// [`Error::Overflow`], [`Error::NotFinite`], [`Error::Full`]. The merge is to be dropped then.
    pub fn add(&mut self, board: &Board) -> Result<(), Error> {
        debug_assert!(self.schema == board.schema);
        for Effect { member, values } in board.rebuild() {
            self.moment += 1;
            let hash = self.index.hash(member);
            let Some(id) = self.index.find(hash, |id| self.names.name(id) == member) else {
                if !room(u64::from(self.rows.len()), 1) || !self.names.has_room(1) {
                    return Err(Error::Full);
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

    /// The union. O(n log n).
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
            // Names of their own, as those of few members would hold on to the pages of all.
            return Board::in_order(schema.clone(), in_order.map(|row| (row.words, names.name(row.id))));
        }
        let mut loader = Loader::new(Tree::new(schema.dimensions().len()));
        in_order.for_each(|row| loader.push(row.words, row.id, &mut names));
        Board { tree: loader.finish(), schema, names, index }
    }
}

/// Adds a member's values to what it has; tells whether that changes any.
fn add(words: &mut [u64], more: &[u64], dimensions: &[Dimension]) -> Result<bool, Error> {
    let mut changes = false;
    for (at, ((word, more), dimension)) in words.iter_mut().zip(more).zip(dimensions).enumerate() {
        let sum = Value::from_word(*word, dimension).plus(Value::from_word(*more, dimension), at)?;
        let sum = sum.to_word(dimension).map_err(|error| error.in_dimension(at))?;
        changes |= sum != *word;
        *word = sum;
    }
    Ok(changes)
}

/// The members' rows: the words, the moment at which they were reached, the id of the name. In chunks that never move, as a
/// single vector would double its memory in the middle of it.
struct Rows {
    chunks: Vec<Vec<u64>>,
    stride: usize,
}

struct Row<'a> {
    words: &'a [u64],
    moment: u64,
    id: u32,
}

impl Rows {
    const CHUNK: u32 = 1024;

    /// Words, moment, id.
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
            // The first chunk grows as it must, for small boards; later ones come whole.
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

    fn row(&self, row: u32) -> Row<'_> {
        let (chunk, start) = self.at(row);
        let row = &self.chunks[chunk][start..start + self.width()];
        Row { words: &row[..self.stride], moment: row[self.stride], id: row[self.stride + 1] as u32 }
    }

    /// The words, and the moment.
    fn row_mut(&mut self, row: u32) -> (&mut [u64], &mut u64) {
        let ((chunk, start), stride) = (self.at(row), self.stride);
        let (words, rest) = self.chunks[chunk][start..start + stride + 2].split_at_mut(stride);
        (words, &mut rest[0])
    }
}
