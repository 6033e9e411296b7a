//! A ring of times: the string in which SLIDING stores the units in use.
//!
//! The string is `sliding:` followed by slots of 16 bytes. A slot is two 64-bit little-endian numbers. The first number
//! is the time (Unix ms) at which the slot's units become available again. The second number is the total of the units
//! taken since the key was created, including the slot's units. Times increase around the ring, except at the seam
//! between the newest and the oldest slot. So a binary search finds the seam and the slot of a time, and the string
//! needs no header.
//!
//! The units of a slot are its total minus the total of the slot before it. The oldest slot has no slot before it, so
//! its own units do not count. The oldest slot only provides the total for the next slot. As soon as the units of the
//! second oldest slot are available again, a new slot may replace the oldest one.
//!
//! Slots that were never written have the time 0. These slots are at the end of the string, and are treated as the
//! oldest slots.

use super::{NotThisFormat, Patch, SmallBytes};
use crate::base::time::{self, Millis};
use smallvec::SmallVec;
use std::ops::Range;

const TAG: &[u8] = b"sliding:";

const SLOT: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSlot {
    pub at: Millis,
    /// The total of the units taken, including this slot's. The total may wrap around at 2^64, because only differences
    /// matter.
    pub taken: u64,
}

impl RingSlot {
    fn read(bytes: &[u8; SLOT]) -> RingSlot {
        let number = |half: usize| u64::from_le_bytes(bytes.as_chunks().0[half]);
        RingSlot { at: number(0), taken: number(1) }
    }

    fn bytes(self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..].copy_from_slice(&self.taken.to_le_bytes());
        bytes
    }
}

/// A ring in the server's string. Slots are numbered by age: 0 is the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring<'a> {
    slots: &'a [[u8; SLOT]],
    /// The index of the oldest slot in `slots`. The newest slot is before it, or at the end of `slots`.
    seam: usize,
}

impl<'a> Ring<'a> {
    /// Parses a string. O(log N), where N is the number of slots. May accept a string that another program wrote. In
    /// that case, the numbers have no meaning, but are within the bounds of [`RingUsage`].
    pub fn parse(text: &'a [u8]) -> Result<Ring<'a>, NotThisFormat> {
        Ring::parse_with(text, |_, len| len / 2)
    }

    /// Does the same as [`parse`](Ring::parse), but guesses where the oldest slot is (the seam). The times of a busy
    /// ring are spread over the window that ends at `until`. So the time of the string's first slot shows how many
    /// slots are newer than that slot. A search that begins near the seam reads fewer cache lines.
    pub fn parse_near(text: &'a [u8], until: Millis, window: Millis) -> Result<Ring<'a>, NotThisFormat> {
        Ring::parse_with(text, |first, len| {
            let newer = until.saturating_sub(first).saturating_mul(len as u64) / window;
            usize::try_from(newer).map_or(len, |newer| newer.min(len))
        })
    }

    fn parse_with(text: &'a [u8], guess: impl FnOnce(Millis, usize) -> usize) -> Result<Ring<'a>, NotThisFormat> {
        let (slots, rest) = text.strip_prefix(TAG).ok_or(NotThisFormat)?.as_chunks();
        let [first, _, ..] = slots else { return Err(NotThisFormat) };
        if !rest.is_empty() {
            return Err(NotThisFormat);
        }
        let first = RingSlot::read(first).at;
        let seam =
            partition_near(guess(first, slots.len()), 0..slots.len(), |at| RingSlot::read(&slots[at]).at >= first);
        let ring = Ring { slots, seam: if seam == slots.len() { 0 } else { seam } };
        if ring.newest().at <= time::MAX { Ok(ring) } else { Err(NotThisFormat) }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    fn place(&self, age: usize) -> usize {
        let place = self.seam + age;
        if place < self.len() { place } else { place - self.len() }
    }

    pub fn slot(&self, age: usize) -> RingSlot {
        RingSlot::read(&self.slots[self.place(age)])
    }

    pub fn newest(&self) -> RingSlot {
        self.slot(self.len() - 1)
    }

    /// Returns the index of the first slot from `from` on for which `is_before` is false, or [`len`](Ring::len).
    /// O(log N), and faster near `from`.
    pub fn find(&self, from: usize, is_before: impl Fn(RingSlot) -> bool) -> usize {
        partition_near(from, from..self.len(), |age| is_before(self.slot(age)))
    }

    /// Returns the same as [`find`](Ring::find). Faster if the result is the newest slot or the length.
    pub fn find_from_newest(&self, from: usize, is_before: impl Fn(RingSlot) -> bool) -> usize {
        partition_near(self.len(), from..self.len(), |age| is_before(self.slot(age)))
    }

    /// Returns how many units are in use at `now`, and in which slots. O(log N).
    pub fn usage(&self, now: Millis) -> Result<RingUsage, NotThisFormat> {
        let first = self.find(1, |slot| slot.at <= now);
        let before = self.slot(first - 1).taken;
        let units = self.newest().taken.wrapping_sub(before);
        if units <= time::MAX { Ok(RingUsage { first, before, units }) } else { Err(NotThisFormat) }
    }

    pub fn replace(&self, age: usize, slot: RingSlot) -> Patch {
        Patch { at: TAG.len() + self.place(age) * SLOT, bytes: SmallBytes::from_slice(&slot.bytes()) }
    }

    /// Whether the ring shows that the clock has stepped back since the ring was last written. At that time, the time of
    /// the oldest written slot had already passed. So if this time is in the future now, the clock has stepped back.
    pub fn is_after(&self, now: Millis) -> bool {
        self.slot(self.find(0, |slot| slot.at == 0)).at > now
    }

    /// Returns patches that subtract `units` from the totals of slot `from` and all later slots. If slot `from` then
    /// has no units, the patches remove this slot: all later slots move up, and a new oldest slot takes the place of
    /// the newest.
    pub fn lower(&self, from: usize, units: u64) -> SmallVec<[Patch; 1]> {
        let is_removed = self.slot(from).taken.wrapping_sub(units) == self.slot(from - 1).taken;
        let lowered = |age: usize| {
            let age = age + usize::from(is_removed);
            if age == self.len() {
                // This slot has no units. Its time is earlier than all others, so that the seam is before it.
                let oldest = self.slot(0);
                return RingSlot { at: oldest.at.saturating_sub(1), ..oldest };
            }
            let RingSlot { at, taken } = self.slot(age);
            RingSlot { at, taken: taken.wrapping_sub(units) }
        };
        // These slots are one contiguous piece, or two if they wrap around the end of the string.
        let around = (self.len() - self.seam).clamp(from, self.len());
        [from..around, around..self.len()]
            .into_iter()
            .filter(|ages| !ages.is_empty())
            .map(|ages| {
                let at = TAG.len() + self.place(ages.start) * SLOT;
                let mut bytes = vec![0; ages.len() * SLOT];
                for (room, age) in bytes.as_chunks_mut().0.iter_mut().zip(ages) {
                    *room = lowered(age).bytes();
                }
                Patch { at, bytes: SmallBytes::from_vec(bytes) }
            })
            .collect()
    }

    /// Returns the string of a ring of `len` slots, with the slots `kept` and, after them, the slot `newest`.
    pub fn rebuild(&self, now: Millis, kept: Range<usize>, newest: RingSlot, len: usize) -> SmallBytes {
        let next = if kept.is_empty() { newest } else { self.slot(kept.start) };
        let oldest = self.slot(kept.start - 1);
        let oldest = RingSlot { at: oldest.at.min(next.at - 1).min(now), ..oldest };
        build(oldest, kept.map(|age| self.slot(age)).chain([newest]), len)
    }
}

/// Returns the first index of `range` for which `is_before` is false, or the end of `range`. The search begins at
/// `guess`, and doubles its steps until it has passed the result. O(log D), with D the distance from `guess`.
fn partition_near(guess: usize, range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let Range { start: mut low, end: mut high } = range;
    let (mut probe, mut step) = (guess.clamp(low, high), 1);
    if probe < high && is_before(probe) {
        low = probe + 1;
        probe = low;
        while probe < high {
            if !is_before(probe) {
                high = probe;
                break;
            }
            low = probe + 1;
            step *= 2;
            probe = probe.saturating_add(step);
        }
    } else {
        high = probe;
        while low < high {
            probe = high.saturating_sub(step).max(low);
            if is_before(probe) {
                low = probe + 1;
                break;
            }
            high = probe;
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Returns the string of a new ring of `len` slots, created at `now`, with the slot `first`.
pub fn begin(now: Millis, first: RingSlot, len: usize) -> SmallBytes {
    build(RingSlot { at: now, taken: 0 }, [first].into_iter(), len)
}

fn build(oldest: RingSlot, slots: impl Iterator<Item = RingSlot>, len: usize) -> SmallBytes {
    // The time 0 marks slots that were never written.
    let oldest = RingSlot { at: oldest.at.max(1), ..oldest };
    let never_written = RingSlot { at: 0, ..oldest };
    let mut text = vec![0; TAG.len() + len * SLOT];
    let (tag, rooms) = text.split_at_mut(TAG.len());
    tag.copy_from_slice(TAG);
    let slots = [oldest].into_iter().chain(slots).chain(std::iter::repeat(never_written));
    for (room, slot) in rooms.as_chunks_mut().0.iter_mut().zip(slots) {
        *room = slot.bytes();
    }
    SmallBytes::from_vec(text)
}

/// How many units of a ring are in use at one time, and in which slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingUsage {
    /// The index of the oldest slot in use: the first slot after slot 0 whose time is in the future. If no slot is in
    /// use, the length of the ring.
    pub first: usize,
    /// [`RingSlot::taken`] of the slot before `first`.
    pub before: u64,
    /// The number of units in use, at most [`time::MAX`].
    pub units: u64,
}

#[cfg(test)]
mod tests;
