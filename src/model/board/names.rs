//! The members' names, each stored with the number of the member's leaf.
//!
//! Names of the same length share pages of fixed slots. So a name needs no allocation, pointer or padding: a name of 12
//! bytes takes 16 bytes, including the leaf's number. A lookup needs the name and the leaf's number. It gets both with
//! one cache miss.
//!
//! The page and the slot form the member's ID: `page << 8 | slot`. A page has at most 256 slots. A page with several
//! slots takes at most 16 KiB. A page grows as needed, and is freed when its last name is removed. If at most a quarter
//! of a page is in use, its names are moved to other pages. So the memory shrinks with the number of members. For each
//! length, at most one page stays that sparse.

use std::collections::BTreeMap;

use super::slab::Slab;
use crate::model::chunks::NIL;
use crate::model::relocate::Mover;

const SLOT_BITS: u32 = 8;
const PAGE_BYTES: usize = 16 << 10;
const LEAF: usize = size_of::<u32>();

/// The maximum number of pages, so that every ID is below `NIL`.
const MAX_PAGES: usize = (1 << (32 - SLOT_BITS)) - 1;

/// The maximum length of a name, in bytes.
pub(super) const MAX_NAME: usize = u32::MAX as usize - 15;

#[derive(Clone, Debug, Default)]
struct NamePage {
    /// The size of a slot in bytes: the leaf's number and a name.
    stride: usize,
    /// The maximum number of slots: 1 to 256.
    slots: u32,
    used: u32,
    /// The first vacant slot, or `NIL`. A vacant slot holds the number of the next vacant slot instead of a leaf's
    /// number.
    vacant: u32,
    /// `Names::open` has a list of pages for each length of names. This is the index of the page in its list.
    open_at: u32,
    bytes: Vec<u8>,
}

impl NamePage {
    fn is_full(&self) -> bool {
        self.used == self.slots
    }

    /// Whether the names should move to other pages.
    fn is_sparse(&self) -> bool {
        self.used <= self.slots / 4
    }

    fn taken(&self) -> Vec<u32> {
        let mut is_taken = vec![true; self.bytes.len() / self.stride];
        let mut vacant = self.vacant;
        while vacant != NIL {
            is_taken[vacant as usize] = false;
            vacant = self.number(vacant);
        }
        (0..).zip(is_taken).filter(|(_, is_taken)| *is_taken).map(|(slot, _)| slot).collect()
    }

    fn number(&self, slot: u32) -> u32 {
        let at = slot as usize * self.stride;
        let mut number = [0; LEAF];
        number.copy_from_slice(&self.bytes[at..at + LEAF]);
        u32::from_ne_bytes(number)
    }

    fn set_number(&mut self, slot: u32, number: u32) {
        let at = slot as usize * self.stride;
        self.bytes[at..at + LEAF].copy_from_slice(&number.to_ne_bytes());
    }

    fn name(&self, slot: u32) -> &[u8] {
        let at = slot as usize * self.stride;
        &self.bytes[at + LEAF..at + self.stride]
    }

    /// Stores a name in a vacant slot, or in a new slot at the end. The page must not be full.
    fn put(&mut self, name: &[u8]) -> u32 {
        self.used += 1;
        if self.vacant != NIL {
            let slot = self.vacant;
            self.vacant = self.number(slot);
            let at = slot as usize * self.stride;
            self.bytes[at + LEAF..at + self.stride].copy_from_slice(name);
            return slot;
        }
        let slots = self.bytes.len() / self.stride;
        if self.bytes.capacity() < self.bytes.len() + self.stride {
            let wanted = (2 * slots).clamp(1, self.slots as usize);
            self.bytes.reserve_exact((wanted - slots) * self.stride);
        }
        self.bytes.extend_from_slice(&[0; LEAF]);
        self.bytes.extend_from_slice(name);
        slots as u32
    }
}

fn id_of(page: u32, slot: u32) -> u32 {
    page << SLOT_BITS | slot
}

fn split(id: u32) -> (u32, u32) {
    (id >> SLOT_BITS, id & ((1 << SLOT_BITS) - 1))
}

#[derive(Clone, Debug)]
pub(super) struct Names {
    pages: Slab<NamePage>,
    /// For each length of names, the pages with a vacant slot, at least one. A new name is stored in the last of these
    /// pages.
    open: BTreeMap<usize, Vec<u32>>,
    page_bytes: usize,
}

impl Names {
    pub(super) fn new() -> Self {
        Names::with_pages_of(PAGE_BYTES)
    }

    /// Creates a store with pages of `page_bytes` bytes. A page has room for at least one name.
    pub(super) fn with_pages_of(page_bytes: usize) -> Self {
        Names { pages: Slab::new(), open: BTreeMap::new(), page_bytes }
    }

    pub(super) fn relocations(&mut self) -> usize {
        self.pages.chunks_mut().len()
    }

    pub(super) fn relocate(&mut self, step: usize, mover: &mut impl Mover) {
        let pages = &mut self.pages.chunks_mut()[step];
        mover.vec(pages);
        pages.iter_mut().for_each(|page| mover.vec(&mut page.bytes));
    }

    /// Whether `more` names are guaranteed to fit.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.pages.len().saturating_add(more) <= MAX_PAGES
    }

    /// Stores a name of at most `MAX_NAME` bytes, and returns its ID. The caller sets its leaf later.
    pub(super) fn insert(&mut self, name: &[u8]) -> u32 {
        let open = self.open.entry(name.len()).or_default();
        let page_id = match open.last() {
            Some(&page) => page,
            None => {
                let stride = LEAF + name.len();
                let slots = (self.page_bytes / stride).clamp(1, 1 << SLOT_BITS) as u32;
                let page = NamePage { stride, slots, used: 0, vacant: NIL, open_at: 0, bytes: Vec::new() };
                let page = self.pages.insert(page);
                open.push(page);
                page
            }
        };
        let page = &mut self.pages[page_id];
        let slot = page.put(name);
        page.set_number(slot, NIL);
        if page.is_full() {
            self.close(page_id);
        }
        id_of(page_id, slot)
    }

    /// Removes a name. Another name may get its ID. Returns the IDs of at most 64 names that the caller must now
    /// [move](Self::move_out). O(1) amortized.
    #[must_use]
    pub(super) fn remove(&mut self, id: u32) -> Vec<u32> {
        let is_page_left = self.vacate(id);
        let (page_id, _) = split(id);
        if !(is_page_left && self.pages[page_id].is_sparse()) {
            return Vec::new();
        }
        let page = &self.pages[page_id];
        let Some(open) = self.open.get_mut(&(page.stride - LEAF)).filter(|open| open.len() > 1) else {
            return Vec::new();
        };
        let (taken, open_at) = (page.taken(), page.open_at);
        // New names are stored in the last page of `open`. So the sparse page is moved to the front.
        open.swap(0, open_at as usize);
        let moved = open[open_at as usize];
        self.pages[moved].open_at = open_at;
        self.pages[page_id].open_at = 0;
        taken.into_iter().map(|slot| id_of(page_id, slot)).collect()
    }

    /// Moves a name and the number of its leaf to another page. Returns the new ID. Returns `None` if no other page has
    /// a vacant slot.
    pub(super) fn move_out(&mut self, id: u32) -> Option<u32> {
        let (name, leaf) = (self.name(id).to_vec(), self.leaf(id));
        let last = *self.open.get(&name.len())?.last()?;
        if last == split(id).0 {
            return None;
        }
        let to = self.insert(&name);
        self.set_leaf(to, leaf);
        self.vacate(id);
        Some(to)
    }

    /// Frees the slot of a name. Returns whether the page still exists.
    fn vacate(&mut self, id: u32) -> bool {
        let (page_id, slot) = split(id);
        let page = &mut self.pages[page_id];
        let was_full = page.is_full();
        page.used -= 1;
        if page.used == 0 {
            if !was_full {
                self.close(page_id);
            }
            self.pages.remove(page_id);
            return false;
        }
        let next = page.vacant;
        page.set_number(slot, next);
        page.vacant = slot;
        if was_full {
            let open = self.open.entry(page.stride - LEAF).or_default();
            page.open_at = open.len() as u32;
            open.push(page_id);
        }
        true
    }

    fn close(&mut self, page_id: u32) {
        let NamePage { stride, open_at, .. } = self.pages[page_id];
        let length = stride - LEAF;
        let Some(open) = self.open.get_mut(&length) else { return };
        open.swap_remove(open_at as usize);
        if let Some(&moved) = open.get(open_at as usize) {
            self.pages[moved].open_at = open_at;
        }
        if open.is_empty() {
            self.open.remove(&length);
        }
    }

    pub(super) fn name(&self, id: u32) -> &[u8] {
        let (page, slot) = split(id);
        self.pages[page].name(slot)
    }

    pub(super) fn leaf(&self, id: u32) -> u32 {
        let (page, slot) = split(id);
        self.pages[page].number(slot)
    }

    pub(super) fn set_leaf(&mut self, id: u32, leaf: u32) {
        let (page, slot) = split(id);
        self.pages[page].set_number(slot, leaf);
    }

    pub(super) fn allocations(&self) -> usize {
        self.pages.len() + self.open.len()
    }

    /// Returns the allocated bytes, estimated from `samples` pages (0: all).
    pub(super) fn bytes(&self, samples: usize) -> usize {
        let owned = super::footprint::scaled(&self.pages, samples, |p| p.bytes.capacity());
        let open: usize = self.open.values().map(|v| v.capacity() * LEAF + 2 * size_of::<Vec<u32>>()).sum();
        owned + self.pages.bytes() + open
    }
}

#[cfg(test)]
impl Names {
    pub(super) fn check(&self) {
        let mut sparse = BTreeMap::new();
        for id in 0..self.pages.slots() as u32 {
            let page = &self.pages[id];
            if page.used == 0 {
                assert!(page.bytes.is_empty(), "a page without names is gone");
                continue;
            }
            assert_eq!(page.taken().len(), page.used as usize);
            let room = page.slots as usize * page.stride;
            assert!(room <= self.page_bytes.max(page.stride), "a page of several names is small");
            assert!(page.bytes.capacity() <= room, "and takes no more than that");
            let length = page.stride - LEAF;
            let open = self.open.get(&length).map_or(&[][..], Vec::as_slice);
            let is_open = open.get(page.open_at as usize) == Some(&id);
            assert_eq!(is_open, !page.is_full());
            *sparse.entry(length).or_insert(0) += u32::from(page.is_sparse());
        }
        assert!(sparse.values().all(|&pages| pages <= 1), "the memory follows the names");
    }
}
