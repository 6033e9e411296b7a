//! Debug check: no change of a key may be dropped before it is committed, that is, replicated.

/// Whether a key has changes that are not replicated yet. If so, dropping this value panics in a debug build, because
/// replicas would never get the changes.
#[derive(Default)]
pub struct Uncommitted(bool);

impl Uncommitted {
    pub fn note(&mut self) {
        self.0 = true;
    }

    /// Notes that the key has no uncommitted changes any more. The caller must replicate the changes right after this
    /// call.
    pub fn committed(&mut self) {
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
        changes.committed();
        drop(changes);
        let dropped = std::panic::catch_unwind(|| Uncommitted::default().note());
        assert_eq!(dropped.is_err(), cfg!(debug_assertions));
    }
}
