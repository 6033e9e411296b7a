//! ZQ.PUSH.

use super::effect::{Change, Effect};
use super::job::State;
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
    pub max_attempts: Option<u32>,
    /// EVERY, ms; 0 is the same as `None`.
    pub every: Option<Millis>,
    /// GROUP; empty: none.
    pub group: &'a [u8],
    /// TTL, ms; 0 is the same as `None`.
    pub ttl: Option<Millis>,
    /// Replace a job of the same id.
    pub replace: bool,
    /// If there is a job of the same id, do it once more. Not together with `replace`, and not without an id.
    pub again: bool,
}

/// A job as a push makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob<'a> {
    pub id: &'a [u8],
    pub payload: &'a [u8],
    /// Empty: none.
    pub group: &'a [u8],
    pub due: Millis,
    pub priority: i32,
    /// 0: unlimited. The queue's default is resolved already.
    pub max_attempts: u32,
    /// EVERY.
    pub every: Option<Millis>,
    /// TTL.
    pub ttl: Option<Millis>,
}

impl NewJob<'_> {
    pub(super) fn possible(&self) -> bool {
        let durations = self.every.into_iter().chain(self.ttl);
        self.due <= MAX_TIME && durations.into_iter().all(|duration| (1..=MAX_TIME).contains(&duration))
    }
}

/// The queue holds MAXLEN jobs that are not dead, those that wait behind a claim included (or, without MAXLEN, four billion).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Queue {
    /// Pushes a job. `Ok(None)`: a job of that id is in the queue, in whatever state, and is not to be replaced or done again. The
    /// effect's [`id`](Effect::id) is the job's id. [`drop_if_expired`](Self::drop_if_expired) comes before. O(log n).
    ///
    /// # Errors
    ///
    /// [`Full`], when the push would leave more than MAXLEN jobs that are not dead. Replacing one of those is no growth.
    pub fn push<'a>(&'a mut self, now: Millis, push: &Push<'a>) -> Result<Option<Effect<'a>>, Full> {
        let now = now.min(MAX_NOW);
        let same = push.id.and_then(|id| self.slot_of(id));
        if same.is_some() && !push.replace && !push.again {
            return Ok(None);
        }
        let grows = same.is_none_or(|slot| match self.state_of(slot, now) {
            State::Ready | State::Delayed => false,
            State::Claimed => push.again && !self.has_follower(slot),
            State::Dead => !self.has_follower(slot),
        });
        if !self.has_push_numbers() || grows && (self.room(now) == 0 || !self.has_room()) {
            return Err(Full);
        }
        let duration = |of: Option<Millis>| of.filter(|&ms| ms > 0).map(|ms| ms.min(MAX_TIME));
        let new = NewJob {
            id: push.id.unwrap_or_default(),
            payload: push.payload,
            group: push.group,
            due: push.due.min(MAX_TIME),
            priority: push.priority,
            max_attempts: push.max_attempts.unwrap_or(self.settings.max_attempts),
            every: duration(push.every),
            ttl: duration(push.ttl),
        };
        let change =
            |job, generated, again| Ok(Some(Effect { at: now, change: Change::Push { job, generated, again } }));
        if push.id.is_some() {
            if push.again {
                self.enter_again(now, &new);
            } else {
                self.enter(now, self.new_job(&new), new.group, None);
            }
            return change(new, false, push.again);
        }
        // Somebody may have pushed ids of this form; each of them is skipped once and for all.
        let mut auto = self.last_id.next(now);
        while self.slot_of(auto.text().as_ref()).is_some() {
            auto = auto.next(now);
        }
        if !auto.possible() {
            return Err(Full);
        }
        let job = self.new_job(&NewJob { id: auto.text().as_ref(), ..new });
        let slot = self.enter(now, job, new.group, Some(auto));
        change(NewJob { id: self.jobs[slot].id(), ..new }, true, false)
    }
}
