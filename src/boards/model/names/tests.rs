//! A check of the invariants, for the board's tests.

use super::*;

impl Names {
    /// Returns the allocated bytes without those of the index.
    pub(in super::super) fn page_bytes(&self) -> usize {
        self.pages.bytes(0, |page| page.bytes.capacity())
    }

    pub(in super::super) fn check(&self) {
        let mut pages = 0;
        assert!(self.last.is_sorted());
        for &(length, last) in &self.last {
            let most = (self.page_bytes as usize / (LEAF + length as usize)).clamp(1, 1 << SLOT_BITS);
            let mut id = last;
            while id != NIL {
                let page = &self.pages[id];
                assert_eq!(page.length, length);
                assert_eq!(page.bytes.len() % page.stride(), 0);
                assert!(id == last || page.slots() == most, "only the last page has room");
                assert!((1..=most).contains(&page.slots()), "a page without names is gone");
                assert!(page.bytes.capacity() <= most * page.stride(), "and takes no more than its names can");
                pages += 1;
                id = page.prev;
            }
        }
        assert_eq!(pages, self.pages.len(), "every page is in use");
    }
}
