//! A safeguard for what is changed first and told later.

/// Whether there are changes that replicas do not know of yet. A debug build panics if they are dropped instead of committed: the
/// replicas would never learn of them.
#[derive(Default)]
pub struct Uncommitted(bool);

impl Uncommitted {
    /// Something has changed.
    pub fn note(&mut self) {
        self.0 = true;
    }

    /// The changes are being told.
    pub fn settle(&mut self) {
        self.0 = false;
    }
}

impl Drop for Uncommitted {
    fn drop(&mut self) {
        debug_assert!(!self.0 || std::thread::panicking(), "changes were dropped instead of committed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_that_nobody_told_of_are_a_defect() {
        let mut changes = Uncommitted::default();
        changes.note();
        changes.settle();
        drop(changes);
        let dropped = std::panic::catch_unwind(|| Uncommitted::default().note());
        assert_eq!(dropped.is_err(), cfg!(debug_assertions));
    }
}
