//! ZQ.PUSH adds a job to the queue.

use super::effect::{Change, Effect};
use super::job_data::NewJob;
use super::node::State;
use super::{MAX_COUNT, MAX_NOW, MAX_TIME, Millis, Queue};
use crate::base::chunks::MAX_ITEMS;

/// The arguments of a push. The queue makes a [`NewJob`] of them: it adds the ID and the settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Push<'a> {
    pub payload: &'a [u8],
    /// The ID. If `None`, the queue generates an ID.
    pub id: Option<&'a [u8]>,
    /// The due time. It is `now` if the push has neither DELAY nor AT.
    pub due: Millis,
    /// The priority: a lower number is served first.
    pub priority: i32,
    /// The maximum number of attempts. 0: unlimited. `None`: the setting of the queue.
    pub max_attempts: Option<u32>,
    /// The period of a recurring job (EVERY), in ms. 0 is the same as `None`.
    pub every: Option<Millis>,
    /// The name of the group (GROUP). Empty: no group.
    pub group: &'a [u8],
    /// TTL, in ms. 0 is the same as `None`.
    pub ttl: Option<Millis>,
    pub replace: bool,
    /// AGAIN: pushes even if the queue has a job with the same ID. Needs an ID, and excludes `replace`.
    pub again: bool,
}

/// The error if the queue already has MAXLEN jobs. Dead letters do not count. Pushes with AGAIN that wait for the end
/// of a claim count as jobs. Without MAXLEN, the limit is four billion jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Queue {
    /// Pushes a job. Returns the effect, whose [`id`](Effect::id) is the job's ID. Returns `Ok(None)` if the queue has
    /// a job with this ID, and the push has neither REPLACE nor AGAIN. Call [`drop_if_expired`](Self::drop_if_expired)
    /// first. O(log n).
    ///
    /// # Errors
    ///
    /// [`Full`] if the queue would have more jobs than MAXLEN allows. A push that replaces a waiting or claimed job is
    /// accepted, because it does not increase the number of jobs. Dead letters do not count, so a push that replaces a
    /// dead letter increases the number.
    pub fn push<'a>(&'a mut self, now: Millis, push: &Push<'a>) -> Result<Option<Effect<'a>>, Full> {
        let now = now.min(MAX_NOW);
        let same = push.id.map(|id| self.find(id));
        let old = same.and_then(|same| same.slot);
        if old.is_some() && !push.replace && !push.again {
            return Ok(None);
        }
        let grows = old.is_none_or(|slot| match self.state_of(slot, now) {
            State::Ready | State::Delayed => false,
            State::Claimed => push.again && !self.has_push_behind(slot),
            State::Dead => !self.has_follower(slot),
        });
        if !self.has_push_numbers() || grows && (self.room(now) == 0 || !self.has_room()) {
            return Err(Full);
        }
        let new = self.new_job(push);
        let change =
            |job, generated, again| Ok(Some(Effect { at: now, change: Change::Push { job, generated, again } }));
        if let Some(same) = same {
            self.add_job(now, &new, None, push.again, same);
            return change(new, false, push.again);
        }
        // The queue skips generated IDs that a client has used for a job.
        let mut auto = self.last_id.next(now);
        let (id, unused) = loop {
            let id = auto.text();
            match self.find(&id) {
                unused if unused.slot.is_none() => break (id, unused),
                _ => auto = auto.next(now),
            }
        };
        if !auto.possible() {
            return Err(Full);
        }
        self.add_job(now, &NewJob { id: &id, ..new }, Some(auto), false, unused);
        let added = &self.jobs[self.len() as u32 - 1];
        change(NewJob { id: added.id(), ..new }, true, false)
    }

    pub(super) fn new_job<'a>(&self, push: &Push<'a>) -> NewJob<'a> {
        let duration = |of: Option<Millis>| of.filter(|&ms| ms > 0).map(|ms| ms.min(MAX_TIME));
        NewJob {
            id: push.id.unwrap_or_default(),
            payload: push.payload,
            group: push.group,
            due: push.due.min(MAX_TIME),
            priority: push.priority,
            max_attempts: push.max_attempts.unwrap_or(self.settings.max_attempts),
            every: duration(push.every),
            ttl: duration(push.ttl),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.len() < MAX_ITEMS && self.has_push_numbers()
    }

    /// Whether a push number is left. Only a forged queue has none left.
    pub(super) fn has_push_numbers(&self) -> bool {
        self.next_seq < MAX_COUNT
    }

    /// Returns how many more jobs MAXLEN allows. Dead letters do not count. Pushes with AGAIN that wait for the end of
    /// a claim count. O(log n).
    pub(super) fn room(&self, at: Millis) -> u64 {
        match self.settings.maxlen {
            0 => u64::MAX,
            most => most.saturating_sub(self.jobs_that_count(at)),
        }
    }

    /// Whether the queue has more jobs than MAXLEN allows, for example because MAXLEN was lowered.
    pub(super) fn is_overfull(&self, at: Millis) -> bool {
        self.settings.maxlen > 0 && self.jobs_that_count(at) > self.settings.maxlen
    }

    /// Returns the number of jobs that MAXLEN counts.
    fn jobs_that_count(&self, at: Millis) -> u64 {
        self.len() as u64 + u64::from(self.followers) - self.count(at, State::Dead)
    }
}
