//! The tables of a queue's numbers: its [settings](super::Settings::FIELDS) and its [counters](super::Counters::FIELDS). From the row of a
//! number it follows how the number is stored, replicated, set by ZQ.CONFIG and shown by ZQ.STATS.

/// A number of a `T`. It is stored as a bit that tells whether it is set, by its place in the table, and its value if it is: so a new
/// row goes to the end of its table.
pub struct Field<T: 'static> {
    /// In replies, in AOF files, in the replication stream.
    pub name: &'static str,
    /// The option of ZQ.CONFIG that sets it. An option with several values has several rows, one behind the other.
    pub option: &'static str,
    pub notation: Notation,
    /// The largest value.
    pub most: u64,
    pub get: fn(&T) -> u64,
    /// `most` at the most.
    pub set: fn(&mut T, u64),
}

/// How the value of a setting is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    Number,
    /// A duration; in replies ms.
    Millis,
    /// `yes` or `no`.
    Switch,
}

impl<T> Field<T> {
    /// Sets the number; false, and nothing done, if it is too large.
    pub fn put(&self, of: &mut T, value: u64) -> bool {
        let fits = value <= self.most;
        if fits {
            (self.set)(of, value);
        }
        fits
    }
}
