//! ZQ.PUSH.

use super::effect::Effect;
use super::job::State;
use super::transitions::Body;
use super::{MAX_NOW, MAX_TIME, Millis, Queue};

/// The arguments of a push.
#[derive(Clone, Copy, Debug, Default)]
pub struct Push<'a> {
    /// Any bytes.
    pub payload: &'a [u8],
    /// The caller's own id; `None`: the queue makes one up.
    pub id: Option<&'a [u8]>,
    /// When the job is due: `now` without DELAY and AT.
    pub due: Millis,
    /// Lower is served first.
    pub priority: i32,
    /// Deliveries before the job is dead, 0: unlimited; `None`: as the queue is set.
    pub attempts: Option<u32>,
    /// EVERY, ms; 0 is the same as `None`.
    pub every: Option<Millis>,
    /// GROUP; empty: none.
    pub group: &'a [u8],
    /// Replace a job of the same id.
    pub replace: bool,
}

/// The queue holds MAXLEN jobs that are not dead (or, without MAXLEN, four billion).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the queue is full")
    }
}

impl std::error::Error for Full {}

impl Queue {
    /// Pushes a job. `Ok(None)`: a job of that id is in the queue, in whatever state, and is not to be replaced. The
    /// effect's [`id`](Effect::id) is the job's id. O(log n).
    ///
    /// # Errors
    ///
    /// [`Full`], when the push would leave more than MAXLEN jobs that are not dead. Replacing one of those is no growth.
    pub fn push(&mut self, now: Millis, push: &Push<'_>) -> Result<Option<Effect<'_>>, Full> {
        let now = now.min(MAX_NOW);
        let same = push.id.and_then(|id| self.index.find(&self.jobs, id));
        if same.is_some() && !push.replace {
            return Ok(None);
        }
        let grows = same.is_none_or(|slot| self.state_of(slot, now) == State::Dead);
        let maxlen = self.settings.maxlen;
        let full = maxlen > 0 && self.len() as u64 - self.count(now, State::Dead) >= maxlen;
        if !self.has_push_numbers() || grows && (full || !self.has_room()) {
            return Err(Full);
        }
        let due = push.due.min(MAX_TIME);
        let recurrence = push.every.filter(|&period| period > 0);
        let recurrence = recurrence.map(|period| (period.min(MAX_TIME), due));
        let max_attempts = push.attempts.unwrap_or(self.settings.attempts);
        let job = |id: &[u8]| {
            let body = Body { id, payload: push.payload, group: push.group };
            self.new_job(&body, due, push.priority, max_attempts, recurrence)
        };
        let (job, auto) = match push.id {
            Some(id) => (job(id), None),
            None => {
                // Somebody may have pushed ids of this form; each of them is skipped once and for all.
                let mut auto = self.last_id.next(now);
                while self.index.find(&self.jobs, auto.text().as_ref()).is_some() {
                    auto = auto.next(now);
                }
                if !auto.possible() {
                    return Err(Full);
                }
                (job(auto.text().as_ref()), Some(auto))
            }
        };
        let slot = self.enter(now, job, push.group, auto);
        Ok(Some(self.pushed(now, slot, auto.is_some())))
    }
}
