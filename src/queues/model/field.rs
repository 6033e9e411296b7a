//! Tables of the numbers of a queue: its [settings](super::Settings::FIELDS), its [counters](super::Counters::FIELDS),
//! and the optional numbers of a [job](super::JobData::FIELDS). Each number has a row, which determines how the number
//! is stored, replicated, set by ZQ.CONFIG and shown by ZQ.STATS.

use crate::base::stream::{DecodeError, Reader, Writer};

/// A row of a table. The row describes one number in a `T`, for example one setting in [`Settings`](super::Settings).
///
/// A number is stored only if it differs from its default. Each row has a bit in a mask that says which numbers are
/// stored. So a new row must be added at the end of its table.
pub struct Field<T> {
    /// The field's name in replies, in AOF files and in replicated effects.
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

pub fn ensure(holds: bool, what: &'static str) -> Result<(), DecodeError> {
    if holds { Ok(()) } else { Err(DecodeError::Invalid(what)) }
}

/// Returns a bit mask of the fields that differ from their defaults.
pub fn present<T>(fields: &[Field<T>], of: &T, default: &T) -> u64 {
    fields.iter().zip(0..).map(|(field, bit)| u64::from(field.changed(of, default).is_some()) << bit).sum()
}

pub fn write_values<T>(fields: &[Field<T>], of: &T, default: &T, to: &mut impl Writer) {
    fields.iter().filter_map(|field| field.changed(of, default)).for_each(|value| to.number(value));
}

/// Reads the fields whose bits are set in `present`. Before the call, all fields of `of` must have their defaults.
pub fn read_values<T>(
    fields: &[Field<T>],
    present: u64,
    of: &mut T,
    from: &mut impl Reader,
) -> Result<(), DecodeError> {
    for (field, _) in fields.iter().zip(0..).filter(|(_, bit)| present >> bit & 1 != 0) {
        let value = from.number()?;
        ensure(value != (field.get)(of) && field.put(of, value), "number out of range")?;
    }
    Ok(())
}

/// Writes the fields that differ from `default`.
pub fn write_changed<T>(fields: &[Field<T>], of: &T, default: &T, to: &mut impl Writer) {
    to.number(present(fields, of, default));
    write_values(fields, of, default, to);
}

pub fn write_fields<T: Default>(fields: &[Field<T>], of: &T, to: &mut impl Writer) {
    write_changed(fields, of, &T::default(), to);
}

/// Reads the fields that [`write_changed`] has written, and sets them in `of`. Before the call, all fields of `of` must
/// have their defaults.
pub fn read_changed<T>(fields: &[Field<T>], of: &mut T, from: &mut impl Reader) -> Result<(), DecodeError> {
    let present = from.number()?;
    ensure(present >> fields.len() == 0, "unknown number")?;
    read_values(fields, present, of, from)
}

pub fn read_fields<T: Default>(fields: &[Field<T>], from: &mut impl Reader) -> Result<T, DecodeError> {
    let mut of = T::default();
    read_changed(fields, &mut of, from)?;
    Ok(of)
}
