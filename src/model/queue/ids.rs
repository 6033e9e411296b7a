//! Ids the queue makes up: `<ms>-<seq>`, strictly increasing in a queue even when the clock steps back (as XADD's).

use super::{MAX_TIME, MAX_TOKEN, Millis};
use crate::model::time::decimal;

/// The longest id is two 20-digit numbers and a dash.
const LONGEST: usize = 41;

/// A generated id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AutoId {
    /// The clock at the push, or that of the id before, if the clock had stepped back.
    pub ms: Millis,
    /// Counts the ids of one `ms`.
    pub seq: u64,
}

impl AutoId {
    /// Whether a queue can go on counting from it forever.
    pub(super) fn possible(self) -> bool {
        self.ms <= MAX_TIME && self.seq <= MAX_TOKEN
    }

    /// The id after this one: of the present millisecond, or, when the clock has not moved on, the next in sequence.
    pub(super) fn next(self, now: Millis) -> Self {
        match self.seq {
            _ if now > self.ms => Self { ms: now, seq: 0 },
            seq if seq < MAX_TOKEN => Self { ms: self.ms, seq: seq + 1 },
            _ => Self { ms: self.ms.saturating_add(1), seq: 0 },
        }
    }

    /// Reads an id as [`text`](Self::text) writes it, and in no other form.
    pub(super) fn parse(id: &[u8]) -> Option<Self> {
        let (ms, seq) = std::str::from_utf8(id).ok()?.split_once('-')?;
        let id_of = Self { ms: ms.parse().ok()?, seq: seq.parse().ok()? };
        (id_of.text().as_ref() == id).then_some(id_of)
    }

    pub(super) fn text(self) -> AutoIdText {
        let mut digits = [b'-'; LONGEST];
        let dash = decimal(self.ms, &mut digits);
        let len = dash + 1 + decimal(self.seq, &mut digits[dash + 1..]);
        AutoIdText { digits, len }
    }
}

/// The text of an id, on the stack.
#[derive(Clone, Copy)]
pub(super) struct AutoIdText {
    digits: [u8; LONGEST],
    len: usize,
}

impl AsRef<[u8]> for AutoIdText {
    fn as_ref(&self) -> &[u8] {
        &self.digits[..self.len]
    }
}
