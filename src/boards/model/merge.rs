//! MERGE: the union of several boards with the same schema.
//!
//! The result is the same as if a client had set the members of all boards on one board: key by key, and the members of
//! each key in the order of [`Board::rebuild`]. With SUM, each value is added to the member's current value. With BEST,
//! a member gets the values only if they are better than its current values. TIES FIRST and LAST order members with
//! equal values by the time of their latest change. KEEP is applied at the end, because a member that is bad on one
//! board may have the best sum.
//!
//! The merge stores one row of values per distinct member, and finds a member's row by a hash of the name. At the end,
//! it sorts the rows and builds the tree from them. If the boards have M members, N of them distinct, a merge takes
//! O(M + N log N). During the merge, each distinct member takes 20 bytes, plus 8 bytes per value, in addition to the
//! result. While the list of rows grows, this memory can be up to three times as large.

use super::read::Entry;
use super::schema::{Dimension, Schema, Ties};
use super::update::room;
use super::value::Value;
use super::{Board, BoardError};

/// How the values of a member on several boards are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Combine {
    /// Adds the member's values in each dimension.
    #[default]
    Sum,
    /// Uses the values of the board on which the member is best.
    Best,
}

pub struct Merge {
    combine: Combine,
    /// The union, whose tree is empty until [`finish`](Merge::finish). Until then, each name is stored with the number
    /// of its row in `rows` instead of its leaf in the tree.
    union: Board,
    /// A row of numbers for each distinct member: the words of the member's values (see [`super::value`]), the `moment`
    /// of their last change, and the member's ID.
    rows: Vec<u64>,
    /// The length of a row in `rows`.
    width: usize,
    /// The number of members read so far. When a member's values change, the member's row stores this number. The
    /// stored numbers order members with equal values.
    moment: u64,
}

impl Merge {
    pub fn new(schema: Schema, combine: Combine) -> Merge {
        let width = schema.dimensions().len() + 2;
        Merge { combine, union: Board::new(schema), rows: Vec::new(), width, moment: 0 }
    }

    pub fn schema(&self) -> &Schema {
        &self.union.schema
    }

    /// Adds a board, which must have the merge's schema. O(members).
    ///
    /// # Errors
    /// [`BoardError::Overflow`], [`BoardError::NotFinite`], [`BoardError::Full`]. After an error, the caller must drop
    /// the merge.
    pub fn add(&mut self, board: &Board) -> Result<(), BoardError> {
        let Board { schema, names, .. } = &mut self.union;
        debug_assert!(*schema == board.schema);
        if self.rows.is_empty() {
            self.rows.reserve_exact(board.len() as usize * self.width);
        }
        for Entry { member, values } in board.rebuild() {
            self.moment += 1;
            let (hash, found) = names.find(member);
            let Some(id) = found else {
                let row = self.rows.len() / self.width;
                if !room(row as u64, 1) || !names.has_room(1) {
                    return Err(BoardError::Full);
                }
                let id = names.insert(hash, member);
                names.set_leaf(id, row as u32);
                self.rows.extend_from_slice(values.words);
                self.rows.extend([self.moment, id.into()]);
                continue;
            };
            let row = names.leaf(id) as usize * self.width;
            let (words, rest) = self.rows[row..row + self.width].split_at_mut(self.width - 2);
            let changes = match self.combine {
                Combine::Sum => add(words, values.words, schema.dimensions())?,
                Combine::Best if values.words < &*words => {
                    words.copy_from_slice(values.words);
                    true
                }
                Combine::Best => false,
            };
            if changes {
                rest[0] = self.moment;
            }
        }
        Ok(())
    }

    /// Returns the union. O(N log N) for N distinct members.
    pub fn finish(self) -> Board {
        let Merge { mut union, rows, width, .. } = self;
        let row = |at: u32| {
            let (words, rest) = rows[at as usize * width..][..width].split_at(width - 2);
            (words, rest[0], rest[1] as u32)
        };
        let compare = |a: &u32, b: &u32| {
            let ((a, a_moment, a_id), (b, b_moment, b_id)) = (row(*a), row(*b));
            a.cmp(b).then_with(|| match union.schema.ties() {
                Ties::First => a_moment.cmp(&b_moment),
                Ties::Last => b_moment.cmp(&a_moment),
                Ties::Name => union.names.name(a_id).cmp(union.names.name(b_id)),
            })
        };
        let mut order: Vec<u32> = (0..(rows.len() / width) as u32).collect();
        let keep = union.schema.keep().and_then(|keep| usize::try_from(keep.get()).ok());
        if let Some(keep) = keep.filter(|&keep| keep < order.len()) {
            order.select_nth_unstable_by(keep, compare);
            order.truncate(keep);
            order.sort_unstable_by(compare);
            // Copies the names of the remaining members, so that the memory of all other names is freed.
            let in_order = order.iter().map(|&at| row(at)).map(|(words, _, id)| (words, union.names.name(id)));
            return Board::in_order(union.schema.clone(), in_order);
        }
        order.sort_unstable_by(compare);
        for (words, _, id) in order.iter().map(|&at| row(at)) {
            union.tree.append(words, id, &mut union.names);
        }
        union.tree.build_levels();
        union
    }
}

/// Adds values to a member's values. Returns whether any value changed.
fn add(words: &mut [u64], more: &[u64], dimensions: &[Dimension]) -> Result<bool, BoardError> {
    let mut changes = false;
    for ((word, more), dimension) in words.iter_mut().zip(more).zip(dimensions) {
        let more = Value::from_word(*more, dimension);
        let sum = Value::from_word(*word, dimension).plus(more)?.to_word(dimension)?;
        changes |= sum != *word;
        *word = sum;
    }
    Ok(changes)
}
