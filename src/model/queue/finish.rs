//! ZQ.ACK, ZQ.NACK, ZQ.EXTEND: what the holder of a token can do.
//!
//! A token is good until a later claim, NACK, REDRIVE or REPLACE of its job (and until the ACK itself): past its
//! deadline, and even when the job has died of it. That needs no rule here, because a lease that ends changes nothing:
//! the token stays with the job until one of those commands takes it away.

use super::effect::{Change, Effect};
use super::job::{MAX_ERROR, State};
use super::transitions::Attempt;
use super::{MAX_NOW, MAX_TIME, Millis, Queue};
use crate::model::time;

/// What becomes of a job given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nack {
    /// After the queue's BACKOFF; without one, now.
    Default,
    /// Due at this moment.
    At(Millis),
    /// To the dead letters.
    Dead,
}

/// How a job is given back.
#[derive(Clone, Copy, Debug, Default)]
pub struct NackOptions<'a> {
    /// The attempt does not count.
    pub is_free: bool,
    /// Kept with the job, its first [`MAX_ERROR`] bytes; empty: the text before stays.
    pub error: &'a [u8],
}

impl Queue {
    /// Finishes a job. `None`: the token is not good. O(log n), whatever is in flight.
    pub fn ack<'a>(&mut self, now: Millis, id: &'a [u8], token: u64) -> Option<Effect<'a>> {
        let at = now.min(MAX_NOW);
        let slot = self.holder(id, token)?;
        let again = self.jobs[slot].recurrence().map(|recurrence| recurrence.next(at));
        self.decide(slot, at, Change::Ack { id, again })
    }

    /// Gives a job back. `None`: the token is not good. O(log n).
    ///
    /// The last attempt given back is dead, unless it is free. A recurring job does not die of that: it waits for its
    /// next occurrence. By [`Nack::Dead`] it dies like any other.
    pub fn nack<'a>(
        &mut self,
        now: Millis,
        id: &'a [u8],
        token: u64,
        nack: Nack,
        options: NackOptions<'a>,
    ) -> Option<Effect<'a>> {
        let at = now.min(MAX_NOW);
        let slot = self.holder(id, token)?;
        let NackOptions { is_free, error } = options;
        let error = &error[..error.len().min(MAX_ERROR)];
        let job = &self.jobs[slot];
        let delivered = job.attempts.saturating_sub(is_free.into());
        let next_occurrence = job.recurrence().map(|recurrence| recurrence.next(at));
        let again = match (nack, next_occurrence) {
            (Nack::Dead, _) => None,
            (_, next) if job.is_exhausted_after(delivered) => next.map(|due| (due, Attempt::Last)),
            (_, _) => {
                let due = match nack {
                    Nack::At(due) => due,
                    _ => time::after_at_most(at, self.settings.jittered_backoff(job.attempts, token)),
                };
                Some((due.min(MAX_TIME), if is_free { Attempt::Free } else { Attempt::Counts }))
            }
        };
        let change = match again {
            Some((due, attempt)) => Change::Retry { id, due, attempt, error },
            None => Change::Bury { id, is_free, error },
        };
        self.decide(slot, at, change)
    }

    /// Moves the end of a lease to `deadline` (brought to `now + 1` at least). `None`: the token is not good, or the lease
    /// has ended. The effect holds the new deadline, and there is none if it is the old one. O(log n).
    pub fn extend<'a>(
        &mut self,
        now: Millis,
        id: &'a [u8],
        token: u64,
        deadline: Millis,
    ) -> Option<Option<Effect<'a>>> {
        let at = now.min(MAX_NOW);
        let slot = self.holder(id, token)?;
        if self.state_of(slot, at) != State::Claimed {
            return None;
        }
        let deadline = deadline.clamp(at + 1, MAX_TIME);
        if self.jobs[slot].node.time == deadline {
            return Some(None);
        }
        self.decide(slot, at, Change::Extend { id, deadline }).map(Some)
    }

    /// The job that `token` is good for.
    fn holder(&self, id: &[u8], token: u64) -> Option<u32> {
        let slot = self.slot_of(id)?;
        (token != 0 && self.jobs[slot].token == token).then_some(slot)
    }
}
