//! The members' names, each next to the number of the leaf its member is in.
//!
//! Names of one length share pages of fixed slots, so a name of 12 bytes costs 16 (12 and the leaf's number): no
//! allocation, pointer, length or padding of its own. The slot is the member's id: `page << 8 | slot`. A page is at
//! most 256 slots and, if it has several, at most 16 KiB; it grows with its use and goes when its last name goes.
//! Name and leaf lie together because whoever looks up a member wants both, and that is one cache miss.

use std::collections::BTreeMap;

use super::slab::Slab;
use crate::model::chunks::NIL;
use crate::model::relocate::Mover;

const SLOT_BITS: u32 = 8;
const PAGE_BYTES: usize = 16 << 10;
const LEAF: usize = size_of::<u32>();

/// Pages a store can have, so that every id stays below `NIL`.
const MAX_PAGES: usize = (1 << (32 - SLOT_BITS)) - 1;

/// The longest name, in bytes.
pub(super) const MAX_NAME: usize = u32::MAX as usize - 15;

#[derive(Clone, Debug, Default)]
struct Page {
    /// Bytes of a slot: the leaf's number, then the name.
    stride: usize,
    /// Slots in use.
    used: u32,
    /// First vacant slot, or `NIL`; a vacant slot holds the next one where the leaf's number was.
    vacant: u32,
    /// Where this page stands among the open ones of its length.
    open_at: u32,
    bytes: Vec<u8>,
}

impl Page {
    fn slots(&self) -> u32 {
        slots_of(self.stride)
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

    /// Puts a name into a vacant slot, or a new one at the end; there must be one.
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
            let wanted = (2 * slots).clamp(1, self.slots() as usize);
            self.bytes.reserve_exact((wanted - slots) * self.stride);
        }
        self.bytes.extend_from_slice(&[0; LEAF]);
        self.bytes.extend_from_slice(name);
        slots as u32
    }
}

/// Slots of a page whose slots have that many bytes: 1 to 256.
fn slots_of(stride: usize) -> u32 {
    (PAGE_BYTES / stride).clamp(1, 1 << SLOT_BITS) as u32
}

fn split(id: u32) -> (u32, u32) {
    (id >> SLOT_BITS, id & ((1 << SLOT_BITS) - 1))
}

#[derive(Clone, Debug)]
pub(super) struct Names {
    pages: Slab<Page>,
    /// For each length, the pages of it that have a vacant slot. Lengths without one are absent.
    open: BTreeMap<usize, Vec<u32>>,
}

impl Names {
    pub(super) fn new() -> Self {
        Names { pages: Slab::new(), open: BTreeMap::new() }
    }

    /// Steps of [`relocate`](Self::relocate).
    pub(super) fn relocations(&mut self) -> usize {
        self.pages.chunks_mut().len()
    }

    /// Has the memory of a chunk of pages moved.
    pub(super) fn relocate(&mut self, step: usize, mover: &mut impl Mover) {
        let pages = &mut self.pages.chunks_mut()[step];
        mover.vec(pages);
        pages.iter_mut().for_each(|page| mover.vec(&mut page.bytes));
    }

    /// Whether that many more names surely find a place.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.pages.len().saturating_add(more) <= MAX_PAGES
    }

    /// Stores a name of at most `MAX_NAME` bytes, not yet in any leaf.
    pub(super) fn insert(&mut self, name: &[u8]) -> u32 {
        let open = self.open.entry(name.len()).or_default();
        let page_id = match open.last() {
            Some(&page) => page,
            None => {
                let stride = LEAF + name.len();
                let page = Page { stride, used: 0, vacant: NIL, open_at: 0, bytes: Vec::new() };
                let page = self.pages.insert(page);
                open.push(page);
                page
            }
        };
        let page = &mut self.pages[page_id];
        let slot = page.put(name);
        page.set_number(slot, NIL);
        if page.used == page.slots() {
            self.close(page_id);
        }
        page_id << SLOT_BITS | slot
    }

    /// Forgets a name; its id may be given to another.
    pub(super) fn remove(&mut self, id: u32) {
        let (page_id, slot) = split(id);
        let page = &mut self.pages[page_id];
        let was_full = page.used == page.slots();
        page.used -= 1;
        if page.used == 0 {
            if !was_full {
                self.close(page_id);
            }
            self.pages.remove(page_id);
            return;
        }
        let next = page.vacant;
        page.set_number(slot, next);
        page.vacant = slot;
        if was_full {
            let open = self.open.entry(page.stride - LEAF).or_default();
            page.open_at = open.len() as u32;
            open.push(page_id);
        }
    }

    /// Takes a page out of the open ones.
    fn close(&mut self, page_id: u32) {
        let Page { stride, open_at, .. } = self.pages[page_id];
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

    /// The name of a member.
    pub(super) fn name(&self, id: u32) -> &[u8] {
        let (page, slot) = split(id);
        self.pages[page].name(slot)
    }

    /// The leaf a member is in.
    pub(super) fn leaf(&self, id: u32) -> u32 {
        let (page, slot) = split(id);
        self.pages[page].number(slot)
    }

    /// Notes the leaf a member is in.
    pub(super) fn set_leaf(&mut self, id: u32, leaf: u32) {
        let (page, slot) = split(id);
        self.pages[page].set_number(slot, leaf);
    }

    /// Allocations held, about.
    pub(super) fn allocations(&self) -> usize {
        self.pages.len() + self.open.len()
    }

    /// Bytes held, judged by `samples` pages (0: by all).
    pub(super) fn bytes(&self, samples: usize) -> usize {
        let owned = super::footprint::scaled(&self.pages, samples, |p| p.bytes.capacity());
        let open: usize = self.open.values().map(|v| v.capacity() * LEAF + 2 * size_of::<Vec<u32>>()).sum();
        owned + self.pages.bytes() + open
    }
}
