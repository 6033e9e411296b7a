//! A push with DECLARE, a *declaration*, adds a recurring job. If the queue has a job with this ID, the job gets the
//! arguments of the push instead; a dead letter is replaced. If a client repeats the push, nothing changes.
//!
//! If the job is ready or delayed, the declaration changes the job at once. If the job is claimed, the declaration
//! waits until the claim ends. ACK and NACK carry out a waiting declaration. If the lease expires, the next claim,
//! RESCHEDULE, push (AGAIN, DECLARE) or run of the upkeep ([`JobChange::Follow`](super::JobChange::Follow)) carries it
//! out. So a declaration waits only behind a job with a lease, which may have expired.
//!
//! A job that waits for its next occurrence is *ahead* of its run. Any other ready or delayed job is in a run: it can
//! be claimed, or waits for another attempt. A declaration changes the due time only of a job that is ahead of its run,
//! and only if the declaration changes the period.

use super::effect::{Change, Effect};
use super::followers::{Kind, PushBehind};
use super::job_data::{NewJob, Recurrence, Ttl};
use super::node::{State, TreeId};
use super::place::Found;
use super::{Full, MAX_NOW, Millis, Push, Queue};

impl PushBehind {
    /// Returns the job's first occurrence after the time `after`, as this declaration sets it. `old` is the job's
    /// recurrence before the declaration.
    fn next_occurrence(&self, old: Option<Recurrence>, after: Millis) -> Millis {
        let NewJob { every, due, .. } = self.job(b"");
        let period = every.unwrap_or(1);
        match old {
            Some(old) if old.period == period || !self.is_timed() => Recurrence { period, ..old }.next(after),
            _ => first_from(due, period, after),
        }
    }

    /// Whether this is a push with DECLARE that has AT or DELAY.
    pub fn is_timed(&self) -> bool {
        self.kind == Kind::Declaration { is_timed: true }
    }
}

/// Returns the first time after `after` that is a whole number of periods after `start`.
fn first_from(start: Millis, period: Millis, after: Millis) -> Millis {
    if start > after { start } else { Recurrence { period, anchor: start }.next(after) }
}

/// Whether two pushes are equal except for their IDs and due times.
fn are_alike(one: &NewJob<'_>, other: &NewJob<'_>) -> bool {
    NewJob { id: b"", due: 0, ..*one } == NewJob { id: b"", due: 0, ..*other }
}

impl Queue {
    /// Carries out a push with DECLARE: adds a recurring job, or gives the job with this ID the arguments of the push.
    /// `push` must have an ID and EVERY. `is_timed`: the push has AT or DELAY. Returns `None` if nothing changes. Call
    /// [`drop_if_expired`](Self::drop_if_expired) first. O(log n).
    ///
    /// # Errors
    ///
    /// [`Full`] if the declaration would add a job, and the queue would have more jobs than MAXLEN allows.
    pub fn declare<'a>(&mut self, now: Millis, push: &Push<'a>, is_timed: bool) -> Result<Option<Effect<'a>>, Full> {
        let at = now.min(MAX_NOW);
        let job = self.new_job(push);
        let same = self.find(job.id);
        let grows = same.slot.is_none_or(|slot| self.state_of(slot, at) == State::Dead && !self.has_follower(slot));
        if !self.has_push_numbers() || grows && (self.room(at) == 0 || !self.has_room()) {
            return Err(Full);
        }
        if same.slot.is_some_and(|slot| self.is_declared(slot, at, &job, is_timed)) {
            return Ok(None);
        }
        self.add_declared(at, &job, is_timed, same);
        Ok(Some(Effect { at, change: Change::Declare { job, is_timed } }))
    }

    /// Whether a push with DECLARE would change nothing.
    fn is_declared(&self, slot: u32, at: Millis, new: &NewJob<'_>, is_timed: bool) -> bool {
        let (job, state) = (&self.jobs[slot], self.state_of(slot, at));
        if state == State::Dead {
            return false;
        }
        if let Some(declaration) = job.declaration() {
            let waiting = declaration.job(b"");
            let counts_alike = is_timed == declaration.is_timed() && (!is_timed || waiting.due == new.due);
            let has_period = job.recurrence().is_some_and(|old| Some(old.period) == new.every);
            return are_alike(&waiting, new) && (has_period || counts_alike);
        }
        if let Some(follower) = job.follower() {
            return state == State::Claimed && job.recurrence().is_none() && are_alike(&follower.job(b""), new);
        }
        let data = self.job_data(job);
        let present = NewJob {
            id: b"",
            payload: data.payload,
            group: data.group,
            due: 0,
            priority: data.priority,
            max_attempts: data.max_attempts,
            every: data.recurrence.map(|it| it.period),
            ttl: data.ttl.map(|it| it.ttl),
        };
        are_alike(&present, new)
    }

    /// Carries out a push with DECLARE. `same` is the job with this ID, if there is one.
    pub(super) fn add_declared(&mut self, at: Millis, new: &NewJob<'_>, is_timed: bool, same: Found) {
        match same.slot.map(|slot| (slot, self.state_of(slot, at))) {
            Some((slot, State::Claimed)) => self.declare_behind(slot, new, is_timed),
            Some((slot, State::Ready | State::Delayed)) => self.redeclare(slot, at, new, is_timed),
            _ => self.add_job(at, new, None, false, same),
        }
    }

    /// Makes a push with DECLARE wait until the job's claim ends. Replaces an earlier push that waits. If the earlier
    /// push has AGAIN and the claimed job is not recurring, the new push becomes a job after the claim, at the due time
    /// of the earlier push.
    pub(super) fn declare_behind(&mut self, slot: u32, new: &NewJob<'_>, is_timed: bool) {
        match self.take_behind(slot) {
            Some(push) if push.kind == Kind::Follower && self.jobs[slot].recurrence().is_none() => {
                // The earlier push (AGAIN) stands for a waiting job, so its due time stays the same.
                let due = push.job(b"").due;
                self.wait_behind(slot, &NewJob { due, ..*new }, Kind::Follower);
            }
            _ => self.wait_behind(slot, new, Kind::Declaration { is_timed }),
        }
    }

    /// Gives a ready or delayed job the arguments of a push with DECLARE. If a push with AGAIN has waited for the end
    /// of the job's last claim, drops that push, because the job will run anyway.
    fn redeclare(&mut self, slot: u32, at: Millis, new: &NewJob<'_>, is_timed: bool) {
        if self.jobs[slot].is_lease_expired(at) {
            self.change_waiting(slot, at, None, |_, _| {});
        }
        let declaration = PushBehind::of(new, Kind::Declaration { is_timed });
        let period = new.every.unwrap_or(1);
        let (job, is_ready) = (&self.jobs[slot], self.state_of(slot, at) == State::Ready);
        // If the clock stepped back, a ready job can have a due time in the future. It must stay ready.
        let due = if is_ready { job.node.time.min(at) } else { job.node.time };
        let old = job.recurrence();
        if old.is_some_and(|old| old.period == period) {
            let gets_attempt = new.max_attempts > 0 && job.attempts >= new.max_attempts;
            return self.change_waiting(slot, at, gets_attempt.then_some(due), |queue, due| {
                queue.take_follower(slot);
                queue.carry_out_declaration(slot, at, &declaration, due);
            });
        }
        let is_ahead = !is_ready && job.attempts == 0 && old.is_none_or(|old| old.anchor == due);
        let last = old.and_then(|old| old.anchor.checked_sub(old.period)).filter(|&last| last <= at);
        let moved = match last {
            _ if is_timed => Some(first_from(new.due, period, at)),
            Some(last) => Some(Recurrence { period, anchor: last }.next(at)),
            None => None,
        };
        let due = moved.filter(|_| is_ahead).unwrap_or(due);
        self.change_waiting(slot, at, Some(due), |queue, due| {
            queue.take_follower(slot);
            queue.carry_out_declaration(slot, at, &declaration, due);
            if is_ahead {
                queue.count_from(slot, due);
            }
        });
    }

    /// Gives a job the arguments of a declaration. The job must be in no tree. `due` is the job's due time.
    /// [`Recurrence::anchor`] changes only if the period changes. If the new MAXATTEMPTS leaves the job no attempt, the
    /// job gets one more, because a waiting job must have an attempt left.
    pub(super) fn carry_out_declaration(&mut self, slot: u32, at: Millis, declaration: &PushBehind, due: Millis) {
        let new = declaration.job(b"");
        let period = new.every.unwrap_or(1);
        let job = &self.jobs[slot];
        let anchor = match job.recurrence() {
            Some(old) if old.period == period || !declaration.is_timed() => old.anchor,
            // With this anchor, the next occurrence after the present run is the first one from `new.due` on.
            _ if declaration.is_timed() => new.due.checked_sub(period).unwrap_or(new.due),
            _ => due,
        };
        let ttl = new.ttl.map(|ttl| job.ttl().filter(|old| old.ttl == ttl).unwrap_or(Ttl::from(due, ttl)));
        let is_moved = self.group_name(job) != new.group;
        if is_moved {
            self.leave_group(slot);
            self.update_idle_rate(new.group, at);
        }
        self.edit_job(slot, |job| {
            if is_moved {
                job.set_grouped(!new.group.is_empty());
            }
            job.set_payload(new.payload);
            job.node.priority = new.priority;
            job.max_attempts = new.max_attempts;
            if job.exhausted() {
                job.attempts = job.max_attempts - 1;
            }
            job.set_recurrence(Recurrence { period, anchor });
            job.set_ttl(ttl);
        });
        if is_moved {
            self.join_group(slot, new.group);
        }
    }

    /// Whether a job waits for an occurrence after the time `after`. If the job's token is still valid, the run of the
    /// token has been missed, and a command or the upkeep has already prepared this next run.
    pub(super) fn is_prepared(&self, slot: u32, after: Millis) -> bool {
        let node = &self.jobs[slot].node;
        node.tree == TreeId::Upcoming && node.time > after
    }

    /// Returns the first occurrence of a job after the time `after`. If a push with DECLARE waits for the end of the
    /// job's claim, this push determines the occurrence. Returns `None` if there is no such push and the job is not
    /// recurring.
    pub(super) fn next_occurrence(&self, slot: u32, after: Millis) -> Option<Millis> {
        let job = &self.jobs[slot];
        match job.declaration() {
            _ if self.is_prepared(slot, after) => Some(job.node.time),
            Some(declaration) => Some(declaration.next_occurrence(job.recurrence(), after)),
            None => job.recurrence().map(|recurrence| recurrence.next(after)),
        }
    }

    /// Returns the due time of a ready or delayed job. If the job [has missed](super::job::Job::has_missed) a run, and
    /// a push with DECLARE has waited for the end of the job's claim, this push determines the due time.
    pub(super) fn due_after_lease(&self, slot: u32, at: Millis) -> Millis {
        let job = &self.jobs[slot];
        let declared = job.has_missed(at) && self.has_declaration(slot);
        let next = if declared { self.next_occurrence(slot, job.node.time) } else { None };
        next.unwrap_or_else(|| self.jobs[slot].due(at))
    }

    /// Restores a push with DECLARE that waits for the end of a claim of the job with the same ID. Returns false, and
    /// does nothing, if there is no such job, or the push cannot wait for it.
    pub(super) fn restore_declaration(&mut self, new: &NewJob<'_>, is_timed: bool) -> bool {
        let can_wait = |slot: u32| {
            let has_lease = TreeId::OF_LEASES.contains(&self.jobs[slot].node.tree);
            has_lease && !self.has_push_behind(slot)
        };
        let fits = new.possible() && new.every.is_some();
        let slot = self.slot_of(new.id).filter(|&slot| fits && can_wait(slot));
        slot.inspect(|&slot| self.declare_behind(slot, new, is_timed)).is_some()
    }
}
