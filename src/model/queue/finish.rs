//! ZQ.ACK, ZQ.NACK, ZQ.EXTEND: what the holder of a token can do.
//!
//! A token is good until a later claim, NACK, REDRIVE or REPLACE of its job (and until the ACK itself): past its
//! deadline, and even when the job has died of it. That needs no rule here, because a lease that ends changes nothing:
//! the token stays with the job until one of those commands takes it away.

use super::effect::{Change, Effect};
use super::job::State;
use super::{MAX_NOW, MAX_TIME, Millis, Queue};

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

/// A job given back.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// What to replicate.
    pub effect: Effect<'a>,
    /// When the job is due again; `None`: it is dead, by request or because that was its last attempt.
    #[allow(dead_code, reason = "NACK replies less than the model knows; the tests look at it")]
    pub due: Option<Millis>,
}

impl Queue {
    /// Finishes a job. `None`: the token is not good. O(log n), whatever is in flight.
    pub fn ack<'a>(&mut self, now: Millis, id: &'a [u8], token: u64) -> Option<Effect<'a>> {
        let at = now.min(MAX_NOW);
        let slot = self.holder(id, token)?;
        let again = self.jobs[slot].recurrence.as_ref().map(|r| r.next(at));
        self.finish(slot, at, again);
        Some(Effect { at, change: Change::Ack { id, again } })
    }

    /// Gives a job back. `None`: the token is not good. O(log n).
    pub fn nack<'a>(&mut self, now: Millis, id: &'a [u8], token: u64, nack: Nack) -> Option<Given<'a>> {
        let at = now.min(MAX_NOW);
        let slot = self.holder(id, token)?;
        let job = &self.jobs[slot];
        let due = match nack {
            _ if job.exhausted() => None,
            Nack::Dead => None,
            Nack::At(due) => Some(due),
            Nack::Default => Some(at + self.settings.backoff(job.attempts)),
        };
        let due = due.map(|due| due.min(MAX_TIME));
        let change = match due {
            Some(due) => {
                self.retry(slot, at, due);
                Change::Retry { id, due }
            }
            None => {
                self.bury(slot, at);
                Change::Bury { id }
            }
        };
        let effect = Effect { at, change };
        Some(Given { effect, due })
    }

    /// Moves the end of a lease to `deadline` (brought to `now + 1` at least). `None`: the token is not good, or the lease
    /// has ended. The effect holds the new deadline. O(log n).
    pub fn extend<'a>(&mut self, now: Millis, id: &'a [u8], token: u64, deadline: Millis) -> Option<Effect<'a>> {
        let at = now.min(MAX_NOW);
        let slot = self.holder(id, token)?;
        if self.jobs[slot].state(at) != State::Claimed {
            return None;
        }
        let deadline = deadline.clamp(at + 1, MAX_TIME);
        self.move_to(slot, self.jobs[slot].node.place, deadline);
        Some(Effect { at, change: Change::Extend { id, deadline } })
    }

    /// The job that `token` is good for.
    fn holder(&self, id: &[u8], token: u64) -> Option<u32> {
        let slot = self.index.find(&self.jobs, id)?;
        (token != 0 && self.jobs[slot].token == token).then_some(slot)
    }
}
