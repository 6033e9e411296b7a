//! Tables of numbers: the [settings](super::Settings::FIELDS) and the [counters](super::Counters::FIELDS) of a queue, and the optional
//! numbers of a [job](super::Record::FIELDS). The row of a number determines how it is stored, replicated, set by ZQ.CONFIG and shown by
//! ZQ.STATS.

/// A row of a table: one number of a `T`.
///
/// A number that has its default is not stored. A bit says whether the number is stored: the first bit belongs to the
/// first row, and so on. So a new row must be added at the end of its table.
pub struct Field<T> {
    /// The name in replies, in AOF files and in the replication stream.
    pub name: &'static str,
    /// The option of ZQ.CONFIG that sets the number. An option with several values has several rows, one after the other.
    pub option: &'static str,
    pub notation: Notation,
    /// The maximum value.
    pub most: u64,
    pub get: fn(&T) -> u64,
    /// Sets the number. The value must be at most `most`.
    pub set: fn(&mut T, u64),
}

/// How the value of a setting is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    Number,
    /// A duration. Replies contain it in ms.
    Millis,
    /// `yes` or `no`.
    Switch,
}

impl<T> Field<T> {
    /// Returns the row of a number that no option of ZQ.CONFIG sets.
    pub const fn plain(name: &'static str, most: u64, get: fn(&T) -> u64, set: fn(&mut T, u64)) -> Field<T> {
        Field { name, option: "", notation: Notation::Number, most, get, set }
    }

    /// Sets the number. Returns false, and does nothing, if `value` is too large.
    pub fn put(&self, of: &mut T, value: u64) -> bool {
        let fits = value <= self.most;
        if fits {
            (self.set)(of, value);
        }
        fits
    }

    /// Returns the number if it differs from the number in `default`.
    pub fn changed(&self, of: &T, default: &T) -> Option<u64> {
        let value = (self.get)(of);
        (value != (self.get)(default)).then_some(value)
    }
}
