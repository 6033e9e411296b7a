//! Numbers that came after format 1, of which most queues have none: each has a tag in the serialised form, and a name in AOF files
//! and in the replication stream. A number that is 0 is not written at all, so a new one costs nothing where it is not used.

/// A number of a `T`.
pub struct Field<T: 'static> {
    /// Never given to another number.
    pub tag: u64,
    /// Also the name under which ZQ.STATS shows it.
    pub name: &'static str,
    /// The largest value. 1: ZQ.CONFIG shows `yes` or `no`.
    pub most: u64,
    pub get: fn(&T) -> u64,
    pub set: fn(&mut T, u64),
}

/// The numbers of `of` that are not 0, in order of their tags.
pub fn set_ones<'t, T>(
    table: &'static [Field<T>],
    of: &'t T,
) -> impl Iterator<Item = (&'static Field<T>, u64)> + Clone + 't {
    table.iter().map(|field| (field, (field.get)(of))).filter(|&(_, value)| value != 0)
}

/// Sets a number by its tag; false if the table has none of that tag.
pub(super) fn set_by_tag<T>(table: &[Field<T>], of: &mut T, tag: u64, value: u64) -> bool {
    let field = table.iter().find(|field| field.tag == tag);
    field.inspect(|field| (field.set)(of, value)).is_some()
}

/// Sets a number by its name; false if the table has none of that name.
pub fn set_by_name<T>(table: &[Field<T>], of: &mut T, name: &[u8], value: u64) -> bool {
    let field = table.iter().find(|field| field.name.as_bytes() == name);
    field.inspect(|field| (field.set)(of, value)).is_some()
}
