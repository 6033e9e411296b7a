//! The members' names, and an index that maps a name to the member's ID. Each name is stored with the number of the
//! member's leaf in the tree.
//!
//! A page has slots of a fixed size, for names of one length. So a name needs no allocation, pointer or padding: a name
//! of 12 bytes takes 16 bytes, including the leaf's number. A lookup reads the name and the leaf's number with one
//! cache miss.
//!
//! The page and the slot form the member's ID: `page << 8 | slot`. A page grows as needed, to at most 256 slots, and to
//! at most 16 KiB if it has several slots. If a name is removed, the last name of the same length takes the slot and
//! the ID of the removed name. So for each length, all pages but the last are full, and the memory shrinks with the
//! number of members.

use super::slab::Slab;
use crate::base::chunks::NIL;
use crate::base::index::Index;
use crate::base::relocate::Mover;

const SLOT_BITS: u32 = 8;
pub(super) const PAGE_BYTES: u32 = 16 << 10;
const LEAF: usize = size_of::<u32>();

/// The maximum number of pages of names. Up to this number, every ID is below `NIL`, which means no ID.
const MAX_PAGES: usize = (1 << (32 - SLOT_BITS)) - 1;

/// The maximum length of a name, in bytes.
pub(super) const MAX_NAME: usize = u32::MAX as usize - 15;

#[derive(Clone, Debug, Default)]
struct NamePage {
    /// The length of the names in bytes.
    length: u32,
    /// The previous page whose names have the same length as the names of this page, or `NIL`.
    prev: u32,
    bytes: Vec<u8>,
}

impl NamePage {
    /// Returns the size of a slot in bytes. A slot contains the leaf's number and a name.
    fn stride(&self) -> usize {
        LEAF + self.length as usize
    }

    fn slots(&self) -> usize {
        self.bytes.len() / self.stride()
    }

    fn slot(&self, slot: u32) -> (&[u8], &[u8]) {
        let at = slot as usize * self.stride();
        self.bytes[at..at + self.stride()].split_at(LEAF)
    }
}

fn split(id: u32) -> (u32, u32) {
    (id >> SLOT_BITS, id & ((1 << SLOT_BITS) - 1))
}

#[derive(Clone, Debug)]
pub(super) struct Names {
    pages: Slab<NamePage>,
    /// For each length of names, the last page with names of this length. The list is in the order of the lengths, and
    /// stays short: names of `n` different lengths take at least `n * n / 2` bytes in total.
    last: Vec<(u32, u32)>,
    page_bytes: u32,
    index: Index,
}

impl Names {
    /// Creates a store with pages of `page_bytes` bytes. A name that is longer than a page gets its own, larger page.
    pub(super) fn new(page_bytes: u32) -> Self {
        Names { pages: Slab::default(), last: Vec::new(), page_bytes, index: Index::default() }
    }

    pub(super) fn relocations(&mut self) -> usize {
        self.pages.chunks_mut().len() + self.index.relocations()
    }

    pub(super) fn relocate(&mut self, step: usize, mover: &mut impl Mover) {
        let chunks = self.pages.chunks_mut();
        let Some(pages) = chunks.get_mut(step) else {
            let step = step - chunks.len();
            return self.index.relocate(step, mover);
        };
        mover.vec(pages);
        pages.iter_mut().for_each(|page| mover.vec(&mut page.bytes));
    }

    /// Whether `more` names are guaranteed to fit.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.pages.len().saturating_add(more) <= MAX_PAGES
    }

    /// Returns a name's hash, and its ID if the name is stored. O(1).
    pub(super) fn find(&self, name: &[u8]) -> (u32, Option<u32>) {
        let hash = Index::hash(name);
        (hash, self.index.find(hash, |id| self.name(id) == name))
    }

    /// Stores a new name of at most `MAX_NAME` bytes, and returns its ID. The caller must set the member's leaf. O(1).
    pub(super) fn insert(&mut self, hash: u32, name: &[u8]) -> u32 {
        let stride = LEAF + name.len();
        let most = (self.page_bytes as usize / stride).clamp(1, 1 << SLOT_BITS);
        let length = name.len() as u32;
        let at = self.last_of(length).unwrap_or_else(|at| {
            self.last.reserve_exact(usize::from(self.last.is_empty())); // an insertion would reserve four
            self.last.insert(at, (length, NIL));
            at
        });
        let (_, last) = &mut self.last[at];
        if *last == NIL || self.pages[*last].slots() == most {
            *last = self.pages.insert(NamePage { length, prev: *last, bytes: Vec::new() });
        }
        let page = &mut self.pages[*last];
        let slots = page.slots();
        if page.bytes.capacity() < page.bytes.len() + stride {
            let wanted = (2 * slots).clamp(1, most);
            page.bytes.reserve_exact((wanted - slots) * stride);
        }
        page.bytes.extend_from_slice(&NIL.to_ne_bytes());
        page.bytes.extend_from_slice(name);
        let id = *last << SLOT_BITS | slots as u32;
        self.index.insert(hash, id);
        id
    }

    /// Removes the name with this ID. The last stored name of the same length takes over the ID. Returns the old ID of
    /// that last name, and the caller must update all references to the old ID. Returns `None` if the removed name was
    /// the last one. O(1).
    #[must_use]
    pub(super) fn remove(&mut self, id: u32) -> Option<u32> {
        self.index.remove(Index::hash(self.name(id)), id);
        let (page_id, slot) = split(id);
        let (stride, length) = (self.pages[page_id].stride(), self.pages[page_id].length);
        let of_length = self.last_of(length).ok()?;
        let (_, last) = &mut self.last[of_length];
        let mut bytes = std::mem::take(&mut self.pages[*last].bytes);
        let end = bytes.len() - stride;
        let moved = *last << SLOT_BITS | (end / stride) as u32;
        let at = slot as usize * stride;
        if page_id == *last {
            bytes.copy_within(end.., at);
        } else {
            self.pages[page_id].bytes[at..at + stride].copy_from_slice(&bytes[end..]);
        }
        bytes.truncate(end);
        if bytes.capacity() / 4 >= end {
            bytes.shrink_to(2 * end);
        }
        self.pages[*last].bytes = bytes;
        if end == 0 {
            *last = self.pages.remove(*last).prev;
            if *last == NIL {
                self.last.remove(of_length);
            }
        }
        if moved == id {
            return None;
        }
        self.index.renumber(Index::hash(self.name(id)), moved, id);
        Some(moved)
    }

    /// Searches the list `last` for a length of names. Returns its index, or `Err` with the index at which to insert
    /// it.
    fn last_of(&self, length: u32) -> Result<usize, usize> {
        self.last.binary_search_by_key(&length, |&(length, _)| length)
    }

    pub(super) fn name(&self, id: u32) -> &[u8] {
        let (page, slot) = split(id);
        self.pages[page].slot(slot).1
    }

    pub(super) fn leaf(&self, id: u32) -> u32 {
        let (page, slot) = split(id);
        let mut leaf = [0; LEAF];
        leaf.copy_from_slice(self.pages[page].slot(slot).0);
        u32::from_ne_bytes(leaf)
    }

    pub(super) fn set_leaf(&mut self, id: u32, leaf: u32) {
        let (page, slot) = split(id);
        let page = &mut self.pages[page];
        let at = slot as usize * page.stride();
        page.bytes[at..at + LEAF].copy_from_slice(&leaf.to_ne_bytes());
    }

    pub(super) fn allocations(&self) -> usize {
        self.pages.len() + 1 + self.index.relocations()
    }

    /// Returns the allocated bytes, estimated from `samples` pages. If `samples` is 0, reads all pages.
    pub(super) fn bytes(&self, samples: usize) -> usize {
        let last = self.last.capacity() * size_of::<(u32, u32)>();
        self.pages.bytes(samples, |page| page.bytes.capacity()) + last + self.index.bytes()
    }
}

#[cfg(test)]
mod tests;
