//! A store for values that only some jobs have: [notes](super::notes) and [followers](super::again). The key is the
//! job's push number, because the slot of a job can change.
//!
//! The store is a B-tree, because a hash table would not grow and shrink in small steps.

use std::collections::BTreeMap;

pub(super) trait Bytes {
    fn bytes(&self) -> usize;
}

#[derive(Clone, Debug)]
pub(super) struct Side<T> {
    by_seq: BTreeMap<u64, T>,
    /// The total of [`Bytes::bytes`] of all values.
    bytes: usize,
}

impl<T> Default for Side<T> {
    fn default() -> Self {
        Self { by_seq: BTreeMap::new(), bytes: 0 }
    }
}

impl<T: Bytes> Side<T> {
    pub fn len(&self) -> usize {
        self.by_seq.len()
    }

    pub fn get(&self, seq: u64) -> Option<&T> {
        self.by_seq.get(&seq)
    }

    pub fn insert(&mut self, seq: u64, value: T) {
        self.remove(seq);
        self.bytes += value.bytes();
        self.by_seq.insert(seq, value);
    }

    pub fn remove(&mut self, seq: u64) -> Option<T> {
        let value = self.by_seq.remove(&seq)?;
        self.bytes -= value.bytes();
        Some(value)
    }

    /// Changes the value of a job, or the default if the job has none. `change` returns whether to keep the value.
    /// Returns whether the value is kept.
    pub fn edit(&mut self, seq: u64, change: impl FnOnce(&mut T) -> bool) -> bool
    where
        T: Default,
    {
        let value = self.by_seq.entry(seq).or_default();
        self.bytes -= value.bytes();
        let is_kept = change(value);
        self.bytes += value.bytes();
        if !is_kept {
            self.remove(seq);
        }
        is_kept
    }

    pub fn renumber(&mut self, from: u64, to: u64) {
        if let Some(value) = self.by_seq.remove(&from) {
            self.by_seq.insert(to, value);
        }
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn memory_usage(&self) -> usize {
        /// Returns the size of an entry. The nodes of a B-tree are about two thirds full.
        const fn entry(bytes: usize) -> usize {
            (bytes + size_of::<u64>()) * 3 / 2
        }
        self.len() * entry(size_of::<T>()) + self.bytes
    }
}
