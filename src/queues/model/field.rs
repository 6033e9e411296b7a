//! Tables of the numbers of a queue: its [settings](super::Settings::FIELDS), its [counters](super::Counters::FIELDS),
//! and the optional numbers of a [job](super::Record::FIELDS). A number's row determines how the number is stored,
//! replicated, set by ZQ.CONFIG and shown by ZQ.STATS.

/// A row of a table. It describes one number in a `T`, for example one setting in [`Settings`](super::Settings).
///
/// A number is stored only if it differs from its default. Each row has a bit in a mask that says which numbers are
/// stored. So a new row must be added at the end of its table.
pub struct Field<T> {
    /// The name in replies, in AOF files and in replicated effects.
    pub name: &'static str,
    /// The option of ZQ.CONFIG that sets the field. If several fields have the same option, the option's values are in
    /// the order of the fields.
    pub option: &'static str,
    pub notation: Notation,
    pub most: u64,
    pub get: fn(&T) -> u64,
    /// Sets the number. The caller must not pass a value above `most`.
    pub set: fn(&mut T, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    Number,
    /// A duration. Replies contain it in ms.
    Millis,
    /// `yes` or `no`.
    Switch,
}

impl<T> Field<T> {
    /// Describes a number that ZQ.CONFIG cannot set, such as a counter.
    pub const fn plain(name: &'static str, most: u64, get: fn(&T) -> u64, set: fn(&mut T, u64)) -> Field<T> {
        Field { name, option: "", notation: Notation::Number, most, get, set }
    }

    /// Sets the field in `of`. If `value` is too large, does nothing and returns false.
    pub fn put(&self, of: &mut T, value: u64) -> bool {
        let fits = value <= self.most;
        if fits {
            (self.set)(of, value);
        }
        fits
    }

    /// Returns the field's value in `of`, or `None` if `default` has the same value.
    pub fn changed(&self, of: &T, default: &T) -> Option<u64> {
        let value = (self.get)(of);
        (value != (self.get)(default)).then_some(value)
    }
}
