//! Generated IDs: `<ms>-<seq>`. As with XADD, each ID is greater than the previous ID, even if the clock steps back.

use super::{MAX_COUNT, MAX_TIME, Millis};
use crate::base::time::Decimal;
use smallvec::SmallVec;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AutoId {
    /// The time of the push, or the `ms` of the previous ID if the clock has stepped back.
    pub ms: Millis,
    /// Counts the IDs with the same `ms`.
    pub seq: u64,
}

impl AutoId {
    /// Whether the numbers of this ID can be increased without an overflow.
    pub(super) fn possible(self) -> bool {
        self.ms <= MAX_TIME && self.seq <= MAX_COUNT
    }

    /// Returns the next ID. If the clock has advanced, `ms` is `now`. Otherwise, `seq` is the next number.
    pub(super) fn next(self, now: Millis) -> Self {
        match self.seq {
            _ if now > self.ms => Self { ms: now, seq: 0 },
            seq if seq < MAX_COUNT => Self { ms: self.ms, seq: seq + 1 },
            _ => Self { ms: self.ms.saturating_add(1), seq: 0 },
        }
    }

    /// Parses an ID that [`text`](Self::text) wrote. Rejects other notations of the same numbers.
    pub(super) fn parse(id: &[u8]) -> Option<Self> {
        let (ms, seq) = std::str::from_utf8(id).ok()?.split_once('-')?;
        let id_of = Self { ms: ms.parse().ok()?, seq: seq.parse().ok()? };
        (id_of.text().as_slice() == id).then_some(id_of)
    }

    /// Returns the text of the ID. Usually, this needs no allocation.
    pub(super) fn text(self) -> SmallVec<[u8; 24]> {
        let mut text = SmallVec::from_slice(Decimal::of(self.ms).as_bytes());
        text.push(b'-');
        text.extend_from_slice(Decimal::of(self.seq).as_bytes());
        text
    }
}
