//! ZQ.ACK, ZQ.NACK, ZQ.EXTEND and ZQ.PROGRESS: the commands that need a token.
//!
//! A token is valid until its job is acknowledged, NACKed, claimed again, redriven, replaced or removed. So a token
//! stays valid when its lease expires, even if the job becomes a dead letter. After the lease has expired, a push with
//! AGAIN or the end of the TTL also ends the token.

use super::effect::{Effect, JobChange};
use super::job::Attempt;
use super::job_data::{Extras, MAX_ERROR};
use super::node::State;
use super::{MAX_NOW, MAX_TIME, Millis, Queue};
use crate::base::time;

/// What becomes of a job after a NACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The job is due after the delay that BACKOFF sets. Without BACKOFF, the job is due now.
    Default,
    At(Millis),
    Dead,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NackOptions<'a> {
    /// FREE: the attempt does not count.
    pub is_free: bool,
    /// ERROR: the error text. Only its first [`MAX_ERROR`] bytes are stored, without a part of a UTF-8 character at the
    /// end. If the text is empty, the job keeps its previous error text.
    pub error: &'a [u8],
}

/// Returns the first `most` bytes of a text, or up to three bytes less if the cut would be inside a UTF-8 character.
fn truncated(text: &[u8], most: usize) -> &[u8] {
    if text.len() <= most {
        return text;
    }
    let is_character = |bytes: &[u8]| str::from_utf8(bytes).is_ok_and(|text| text.chars().count() == 1);
    let is_cut = |&start: &usize| (most + 1..start + 5).any(|end| text.get(start..end).is_some_and(is_character));
    let end = (most.saturating_sub(3)..most).find(is_cut).unwrap_or(most);
    &text[..end]
}

impl Queue {
    /// Acknowledges a job. Returns `None` if the token is not valid. O(log n).
    pub fn ack<'a>(&mut self, now: Millis, id: &'a [u8], token: u64) -> Option<Effect<'a>> {
        let at = now.min(MAX_NOW);
        let slot = self.find_by_token(id, token)?;
        self.decide(slot, at, id, JobChange::Ack { next_due: self.next_occurrence(slot, at) })
    }

    /// Stores a worker's text on the progress of a job, at most [`MAX_PROGRESS`](super::job_data::MAX_PROGRESS) bytes.
    /// An empty text removes the stored text. Returns `None` if the token is not valid, and `Some(None)` if nothing
    /// changes. O(log n).
    pub fn progress<'a>(
        &mut self,
        now: Millis,
        id: &'a [u8],
        token: u64,
        text: &'a [u8],
    ) -> Option<Option<Effect<'a>>> {
        let at = now.min(MAX_NOW);
        let slot = self.find_by_token(id, token)?;
        let Extras { progress, progressed, .. } = self.jobs[slot].extras();
        if (progress, progressed) == (text, if text.is_empty() { 0 } else { at }) {
            return Some(None);
        }
        self.decide(slot, at, id, JobChange::Progress { text }).map(Some)
    }

    /// NACKs a job. Returns `None` if the token is not valid. O(log n).
    ///
    /// If the attempt counts and was the last one, the job becomes a dead letter. A recurring job waits for its next
    /// occurrence instead. [`Fate::Dead`] makes any job a dead letter.
    pub fn nack<'a>(
        &mut self,
        now: Millis,
        id: &'a [u8],
        token: u64,
        fate: Fate,
        options: NackOptions<'a>,
    ) -> Option<Effect<'a>> {
        let at = now.min(MAX_NOW);
        let slot = self.find_by_token(id, token)?;
        let NackOptions { is_free, error } = options;
        let error = truncated(error, MAX_ERROR);
        let job = &self.jobs[slot];
        let delivered = job.attempts.saturating_sub(is_free.into());
        let dead = JobChange::Dead { is_free, error };
        let retry = |due: Millis, attempt| JobChange::Retry { due: due.min(MAX_TIME), attempt, error };
        let attempt = if is_free { Attempt::Free } else { Attempt::Counts };
        let backoff = || self.settings.jittered_backoff(job.attempts, token);
        let change = match fate {
            Fate::Dead => dead,
            // If the next run is already prepared, the attempts of the missed run are no longer stored.
            _ if job.is_exhausted_after(delivered) || !is_free && self.is_prepared(slot, at) => {
                let next = job.recurrence().and_then(|_| self.next_occurrence(slot, at));
                next.map_or(dead, |due| retry(due, Attempt::Last))
            }
            Fate::At(due) => retry(due, attempt),
            Fate::Default => retry(time::after_at_most(at, backoff()), attempt),
        };
        self.decide(slot, at, id, change)
    }

    /// Changes the deadline of a lease to `deadline`, or to `now + 1` if `deadline` is earlier. Returns `None` if the
    /// token is not valid or the lease has expired. Returns `Some(None)` if the lease already has this deadline. O(log
    /// n).
    pub fn extend<'a>(
        &mut self,
        now: Millis,
        id: &'a [u8],
        token: u64,
        deadline: Millis,
    ) -> Option<Option<Effect<'a>>> {
        let at = now.min(MAX_NOW);
        let slot = self.find_by_token(id, token)?;
        if self.state_of(slot, at) != State::Claimed {
            return None;
        }
        let deadline = deadline.clamp(at + 1, MAX_TIME);
        if self.jobs[slot].node.time == deadline {
            return Some(None);
        }
        self.decide(slot, at, id, JobChange::Extend { deadline }).map(Some)
    }

    /// Returns the slot (index in [`Queue::jobs`]) of the job that has this ID and this token.
    fn find_by_token(&self, id: &[u8], token: u64) -> Option<u32> {
        let slot = self.slot_of(id)?;
        (token != 0 && self.jobs[slot].token == token).then_some(slot)
    }
}
