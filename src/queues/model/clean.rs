//! ZQ.CLEAN, and the settings DEADLEN and DEADTTL, remove jobs, oldest first. COUNT limits how many jobs a ZQ.CLEAN
//! removes. For DEADLEN and DEADTTL, a command drops at most [`DROPPED_AT_ONCE`] dead letters, so that it does not
//! block the server for long.

use super::effect::{Effect, JobChange};
use super::job_data::JobData;
use super::node::{State, TreeId};
use super::query::{merge, parts};
use super::view::JobFilter;
use super::{MAX_NOW, Millis, Queue};
use crate::base::chunks::NIL;

/// The maximum number of jobs that CLEAN lists before it removes them. Then CLEAN lists the next jobs.
const BATCH: u64 = 1000;

/// The maximum number of jobs that a CLEAN skips because they are too young or recurring. Skipping them takes about a
/// millisecond.
const MAX_SKIPPED: u64 = 3000;

/// The maximum number of dead letters that one command, or one run of the upkeep, drops because of DEADLEN and DEADTTL.
/// One run of the upkeep also drops at most this number of expired jobs.
pub(super) const DROPPED_AT_ONCE: usize = 64;

/// The error of [`Queue::clean`] if all jobs that it checked are too young or recurring, and more jobs remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySkipped;

impl Queue {
    /// Removes up to `count` jobs in a state, oldest first. With `older`, removes only jobs that have been in the state
    /// for at least `older` ms. Does not remove recurring jobs (EVERY) that are ready or delayed. The function passes
    /// each change to `sink` as an effect. Returns the number of removed jobs. O(log n) per job.
    ///
    /// Waiting jobs are ordered by due time, but `older` counts from the time at which a job became ready or delayed.
    /// So the call skips up to `MAX_SKIPPED` jobs that are too young or recurring. The call does not read the trees of
    /// the recurring jobs that wait for an occurrence.
    ///
    /// # Errors
    ///
    /// [`TooManySkipped`] if the call may remove none of the jobs that it checked, and more jobs remain. In this case,
    /// the call removes nothing.
    pub fn clean(
        &mut self,
        now: Millis,
        which: JobFilter<'_>,
        older: Option<Millis>,
        count: u64,
        mut sink: impl FnMut(&Effect<'_>),
    ) -> Result<u64, TooManySkipped> {
        let at = now.min(MAX_NOW);
        let mut cleaned = 0;
        while cleaned < count {
            let ids = match self.oldest(at, which, older, BATCH.min(count - cleaned)) {
                Err(TooManySkipped) if cleaned == 0 => return Err(TooManySkipped),
                ids => ids.unwrap_or_default(),
            };
            if ids.is_empty() {
                break;
            }
            for id in &ids {
                let slot = self.slot_of(id);
                if let Some(effect) = slot.and_then(|slot| self.decide(slot, at, id, JobChange::Clean)) {
                    sink(&effect);
                    cleaned += 1;
                }
            }
        }
        Ok(cleaned)
    }

    /// Drops dead letters that exceed DEADLEN or DEADTTL, oldest first, up to [`DROPPED_AT_ONCE`]. Must be called after
    /// each command that writes, and at [`next_upkeep`](Self::next_upkeep).
    pub fn drop_dead(&mut self, now: Millis, mut sink: impl FnMut(&Effect<'_>)) {
        let at = now.min(MAX_NOW);
        for _ in 0..DROPPED_AT_ONCE {
            let slot = self.first_to_drop(at);
            if slot == NIL {
                return;
            }
            self.carry_out(slot, at, JobChange::Drop, &mut sink);
        }
    }

    /// Returns the next dead letter to drop because of DEADLEN and DEADTTL, or `NIL`. O(log n).
    pub(super) fn first_to_drop(&self, at: Millis) -> u32 {
        let (most, ttl) = (self.settings.deadlen, self.settings.deadttl);
        if most == 0 && ttl == 0 {
            return NIL;
        }
        let slot = self.oldest_dead_letter(None, at);
        if slot == NIL {
            return NIL;
        }
        let too_many = most > 0 && self.count(at, State::Dead) > most;
        let too_old = ttl > 0 && self.jobs[slot].node.time.saturating_add(ttl) <= at;
        if too_many || too_old { slot } else { NIL }
    }

    /// Returns the IDs of up to `count` jobs in a state, oldest first. Skips recurring jobs that are not dead letters.
    /// With `older`, also skips jobs that have been in the state for less than `older` ms, and jobs for which this time
    /// is unknown.
    fn oldest(
        &self,
        at: Millis,
        which: JobFilter<'_>,
        older: Option<Millis>,
        count: u64,
    ) -> Result<Vec<Box<[u8]>>, TooManySkipped> {
        let mut ids = Vec::new();
        // If `older` is longer than the time since 1970, no job is old enough.
        let Some(until) = at.checked_sub(older.unwrap_or(0)) else { return Ok(ids) };
        let is_due = |slot: &u32| older.is_none() || which.state == State::Delayed || self.jobs[*slot].due(at) <= until;
        let group = which.group.map(|name| self.roots_by_name(name));
        let parts = parts(which.state).iter().filter(|(id, _)| !matches!(id, TreeId::Upcoming | TreeId::RecurringDue));
        let lists = parts.flat_map(|&(id, part)| self.trees(group, id).map(move |tree| tree.list(part, at, None)));
        let mut skipped = 0;
        for slot in merge(lists).map(|(_, slot)| slot).take_while(is_due) {
            if ids.len() as u64 == count {
                break;
            }
            let is_schedule = which.state != State::Dead && self.jobs[slot].recurrence().is_some();
            let is_old = || older.is_none() || self.since(slot, at).is_some_and(|since| since <= until);
            if !is_schedule && is_old() {
                ids.push(self.jobs[slot].id().into());
            } else if skipped == MAX_SKIPPED {
                return if ids.is_empty() { Err(TooManySkipped) } else { Ok(ids) };
            } else {
                skipped += 1;
            }
        }
        Ok(ids)
    }

    /// Returns the time at which a job entered its state, or `None` if this time is unknown.
    fn since(&self, slot: u32, at: Millis) -> Option<Millis> {
        let job = &self.jobs[slot];
        let JobData { state, time, created, extras, .. } = self.view(at, job);
        let last = created.max(extras.claimed).max(extras.failed).max(extras.since);
        match state {
            State::Dead => Some(time),
            State::Ready => Some(last.max(time)),
            State::Delayed | State::Claimed => (last != 0).then_some(last),
        }
    }
}
