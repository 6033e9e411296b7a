//! The changes of a job, which commands and replicated effects share. [`Queue::change_job`] checks whether a change is
//! allowed. The other functions do not check. `at` is the time at which the server ran the command.
//!
//! A change of a job that stays in the queue has three steps:
//!
//! | step | functions |
//! |---|---|
//! | remove the job from its trees | `unlink_for_change`, `unlink_after_lease` |
//! | change the job | `prepare_occurrence`, `carry_out_declaration`, `set_payload_and_ttl`, ... |
//! | add it to a tree | [`Queue::link`], `make_due` |

use super::effect::JobChange;
use super::groups::CLEARED_PER_JOB;
use super::ids::AutoId;
use super::job::{Attempt, Job};
use super::job_data::{Extras, MAX_ERROR, MAX_PROGRESS, MAX_WORKER, NewJob, Recurrence, Ttl};
use super::node::{State, TreeId};
use super::place::Found;
use super::{MAX_COUNT, MAX_TIME, Millis, Queue};

/// Adds one to a counter, up to [`MAX_COUNT`]. A queue with a larger counter could not be loaded.
fn increment(counter: &mut u64) {
    *counter = (*counter + 1).min(MAX_COUNT);
}

impl Queue {
    /// Carries out a push. `auto` is the new job's ID if the queue generated it. `same` is the old job with this ID, if
    /// there is one. Without `again`, the new job replaces the old job. With `again`, the state of the old job decides:
    ///
    /// - Ready or delayed: the old job gets the payload and the TTL of the push.
    /// - Claimed: the push waits until the claim ends.
    /// - Dead: the new job replaces the old job.
    pub(super) fn add_job(&mut self, at: Millis, new: &NewJob<'_>, auto: Option<AutoId>, again: bool, same: Found) {
        match same.slot.filter(|_| again).map(|slot| (slot, self.state_of(slot, at))) {
            Some((slot, State::Claimed)) => {
                if self.has_push_behind(slot) {
                    self.count_replaced_push();
                }
                return self.push_behind(slot, new);
            }
            Some((slot, State::Ready | State::Delayed)) => {
                self.count_replaced_push();
                return self.push_again(slot, at, new);
            }
            _ => {}
        }
        if let Some(old) = same.slot {
            increment(&mut self.rare_counters.replaced);
            self.count_revoked(old, at);
        }
        if let Some(auto) = auto {
            self.last_id = self.last_id.max(auto);
        }
        self.replace_job(at, new, same);
    }

    /// Adds a job. If `same` has a slot, first removes the job in this slot.
    fn replace_job(&mut self, at: Millis, new: &NewJob<'_>, same: Found) {
        self.clear_unit_logs(CLEARED_PER_JOB, at);
        // The removal of the only job in a group ends the group's hold. So this function restores the hold of the new
        // job's group.
        let held_until = same.slot.and_then(|_| self.held_until(new.group));
        if let Some(old) = same.slot {
            self.count_expired_lease(old, at);
            self.remove(old);
        }
        let job = Job::of(&new.job_data(at, self.next_seq));
        self.next_seq += 1;
        increment(&mut self.pushed);
        let tree = job.due_tree(job.node.time, at);
        self.update_idle_rate(new.group, at);
        self.insert(job, same.hash, new.group, tree, Extras::default());
        if let Some(until) = held_until {
            self.hold_group(new.group, until);
        }
    }

    /// Gives a waiting job the payload and the TTL of a push with AGAIN, and makes the job's token invalid. The job
    /// keeps its due time.
    fn push_again(&mut self, slot: u32, at: Millis, new: &NewJob<'_>) {
        self.change_waiting(slot, at, None, |queue, due| {
            queue.take_follower(slot);
            queue.clear_progress(slot);
            queue.set_payload_and_ttl(slot, new.ttl.map(|ttl| Ttl::from(due.max(new.due), ttl)), new.payload);
            queue.end_token(slot);
        });
    }

    /// Counts a push with AGAIN that adds no job, but replaces the payload of a job, or another push.
    pub(super) fn count_replaced_push(&mut self) {
        increment(&mut self.pushed);
        increment(&mut self.rare_counters.replaced);
    }

    /// Applies a change of a job. Returns false, and does nothing, if the job's state does not allow the change, or if
    /// a value of the change is out of range.
    pub(super) fn change_job(&mut self, slot: u32, at: Millis, change: JobChange<'_>) -> bool {
        let (job, state) = (&self.jobs[slot], self.state_of(slot, at));
        let has_token = job.token != 0;
        let is_waiting = matches!(state, State::Ready | State::Delayed);
        let is_time = |time: Millis| time <= MAX_TIME;
        match change {
            JobChange::Claim { token, deadline, worker }
                if state == State::Ready
                    && (self.last_token + 1..=MAX_COUNT).contains(&token)
                    && (at + 1..=MAX_TIME).contains(&deadline)
                    && worker.len() <= MAX_WORKER =>
            {
                self.start_lease(slot, at, token, deadline, worker);
            }
            JobChange::Ack { next_due } if has_token && next_due.is_none_or(is_time) => {
                increment(&mut self.acked);
                self.count_if_late(slot, at);
                match next_due {
                    None => self.remove_or_replace(slot, at),
                    Some(due) => {
                        self.unlink_for_change(slot, at);
                        self.clear_progress(slot);
                        self.wait_for_occurrence(slot, at, due);
                    }
                }
            }
            JobChange::Expire { next_due }
                if self.is_expired(slot, at)
                    && next_due.is_some() == job.recurrence().is_some()
                    && next_due.is_none_or(is_time) =>
            {
                increment(&mut self.rare_counters.expired);
                match next_due {
                    None => self.remove_or_replace(slot, at),
                    Some(due) => {
                        // The TTL may have ended after the lease of an earlier attempt expired.
                        self.unlink_after_lease(slot, at);
                        self.wait_for_occurrence(slot, at, due);
                    }
                }
            }
            JobChange::Retry { due, attempt, error }
                if has_token && is_time(due) && error.len() <= MAX_ERROR && job.may_retry(attempt) =>
            {
                // A missed run is counted by `begin_nack`, or was counted when the next run was prepared.
                let is_counted = job.has_missed(at) || self.is_prepared(slot, at);
                self.begin_nack(slot, at, attempt == Attempt::Free, error);
                if attempt == Attempt::Last {
                    if !is_counted {
                        increment(&mut self.rare_counters.missed);
                    }
                    self.prepare_occurrence(slot, at, due);
                    self.assign_push_number(slot);
                } else if let Some(declaration) = self.take_declaration(slot) {
                    self.carry_out_declaration(slot, at, &declaration, due);
                }
                self.make_due(slot, at, due);
            }
            JobChange::Dead { is_free, error } if has_token && error.len() <= MAX_ERROR => {
                self.begin_nack(slot, at, is_free, error);
                self.end_token(slot);
                self.link(slot, TreeId::Dead, at);
                if self.has_push_behind(slot) {
                    self.change_job(slot, at, JobChange::Follow);
                }
            }
            JobChange::Follow if state == State::Dead && self.has_push_behind(slot) => {
                increment(&mut self.rare_counters.replaced);
                self.remove_or_replace(slot, at);
            }
            JobChange::Follow if is_waiting && self.has_declaration(slot) => {
                // A waiting job with a declaration has an expired lease, so this call carries out the declaration.
                self.change_waiting(slot, at, None, |_, _| {});
            }
            JobChange::Progress { text } if has_token && text.len() <= MAX_PROGRESS => {
                self.edit_extras(slot, |extras| extras.set_progress(text, at));
            }
            JobChange::Extend { deadline } if state == State::Claimed && (at + 1..=MAX_TIME).contains(&deadline) => {
                self.unlink(slot);
                self.link(slot, self.jobs[slot].node.tree, deadline);
            }
            JobChange::Reschedule { due, priority } if is_waiting && due.is_none_or(is_time) => {
                self.reschedule_job(slot, at, due, priority);
            }
            JobChange::Revive if state == State::Dead => {
                increment(&mut self.rare_counters.redriven);
                self.unlink_for_change(slot, at);
                self.jobs[slot].attempts = 0;
                self.jobs[slot].count_ttl_from(at);
                if let Some(declaration) = self.take_declaration(slot) {
                    self.carry_out_declaration(slot, at, &declaration, at);
                }
                self.make_due(slot, at, at);
            }
            JobChange::Cancel => {
                increment(&mut self.rare_counters.cancelled);
                self.count_revoked(slot, at);
                if self.has_declaration(slot) {
                    self.take_behind(slot);
                }
                self.remove_or_replace(slot, at);
            }
            JobChange::Clean if state != State::Claimed => {
                increment(&mut self.rare_counters.cleaned);
                self.remove_or_replace(slot, at);
            }
            JobChange::Drop if state == State::Dead => {
                increment(&mut self.rare_counters.dropped);
                self.remove_or_replace(slot, at);
            }
            _ => return false,
        }
        true
    }

    fn start_lease(&mut self, slot: u32, at: Millis, token: u64, deadline: Millis, worker: &[u8]) {
        self.unlink_after_lease(slot, at);
        self.clear_unit_logs(CLEARED_PER_JOB, at);
        self.serve_group(slot, at);
        self.last_token = token;
        increment(&mut self.claimed);
        if let Some(rate) = self.settings.rate {
            self.rate_log.take(rate, at);
        }
        let job = &mut self.jobs[slot];
        job.token = token;
        job.attempts = job.attempts.saturating_add(1);
        let is_last = job.exhausted();
        let backoff = if is_last { 0 } else { self.settings.jittered_backoff(job.attempts, token) };
        self.set_backoff(slot, backoff);
        let job = &self.jobs[slot];
        let (has_extras, tree) = (job.rare.is_some(), job.claimed_tree());
        let claimed = if token / 1000 == at { 0 } else { at };
        if has_extras || claimed != 0 || !worker.is_empty() {
            self.edit_extras(slot, |extras| {
                extras.set_claimed(claimed);
                extras.set_since(0);
                extras.set_texts(Some(worker), None);
            });
        }
        self.link(slot, tree, deadline);
    }

    /// Does the part of a NACK that does not depend on the new state of the job.
    fn begin_nack(&mut self, slot: u32, at: Millis, is_free: bool, error: &[u8]) {
        increment(&mut self.rare_counters.nacked);
        self.count_if_late(slot, at);
        self.unlink_for_change(slot, at);
        if is_free {
            let job = &mut self.jobs[slot];
            job.attempts = job.attempts.saturating_sub(1);
            self.set_waiting_since(slot, at);
        }
        if !is_free || !error.is_empty() {
            self.edit_extras(slot, |extras| {
                if !is_free {
                    extras.set_failed(at);
                }
                extras.set_texts(None, Some(error).filter(|error| !error.is_empty()));
            });
        }
    }

    /// Carries out RESCHEDULE. The token of an expired lease stays valid.
    fn reschedule_job(&mut self, slot: u32, at: Millis, due: Option<Millis>, priority: Option<i32>) {
        self.change_waiting(slot, at, due, |queue, _| {
            if let Some(due) = due {
                queue.count_from(slot, due);
                queue.set_waiting_since(slot, at);
            }
            let node = &mut queue.jobs[slot].node;
            node.priority = priority.unwrap_or(node.priority);
        });
    }

    /// After an ACK or the end of the TTL, makes a recurring job wait for its next occurrence. The job must be in no
    /// tree.
    fn wait_for_occurrence(&mut self, slot: u32, at: Millis, due: Millis) {
        increment(&mut self.rare_counters.recurred);
        self.set_waiting_since(slot, at);
        self.prepare_occurrence(slot, at, due);
        self.assign_push_number(slot);
        self.make_due(slot, at, due);
    }

    /// Prepares a recurring job for its next occurrence at `due`. Carries out the push that waits behind the job: AGAIN
    /// changes the payload and the TTL, and DECLARE changes all arguments.
    fn prepare_occurrence(&mut self, slot: u32, at: Millis, due: Millis) {
        self.jobs[slot].attempts = 0;
        if let Some(declaration) = self.take_declaration(slot) {
            self.carry_out_declaration(slot, at, &declaration, due);
        }
        self.carry_out_follower(slot);
        self.count_from(slot, due);
    }

    /// Removes a job. If a push waits for the end of the job's claim (AGAIN, DECLARE), the push becomes a job.
    fn remove_or_replace(&mut self, slot: u32, at: Millis) {
        // If a run of a recurring job failed, the declared job does not repeat it, but waits for its next occurrence.
        let is_declared = self.has_declaration(slot) && self.jobs[slot].recurrence().is_some();
        let next = if is_declared { self.next_occurrence(slot, at) } else { None };
        let Some(follower) = self.take_behind(slot).filter(|_| self.has_push_numbers()) else {
            self.count_expired_lease(slot, at);
            return self.remove(slot);
        };
        let id: Box<[u8]> = self.jobs[slot].id().into();
        let mut new = follower.job(&id);
        new.due = next.unwrap_or(new.due).max(at);
        self.replace_job(at, &new, Found { slot: Some(slot), hash: None });
    }

    /// Changes a waiting job, and sets its due time to `due`. If `due` is `None`, the job keeps its due time. Passes
    /// the resulting due time to `change`.
    pub(super) fn change_waiting(
        &mut self,
        slot: u32,
        at: Millis,
        due: Option<Millis>,
        change: impl FnOnce(&mut Queue, Millis),
    ) {
        // This comes before `unlink_after_lease`, which clears the backoff and carries out the declaration.
        let time = due.unwrap_or(self.due_after_lease(slot, at));
        self.unlink_after_lease(slot, at);
        // Until `link`, the node still has its old tree and time. If a lease has expired, they are the tree and the
        // deadline of the lease.
        let job = &self.jobs[slot];
        let (tree, is_moved) = (job.node.tree, due.is_some() || job.is_lease_expired(at));
        if job.has_missed(at) {
            self.assign_push_number(slot);
        }
        change(self, time);
        let tree = if is_moved { self.jobs[slot].due_tree(time, at) } else { tree };
        self.link(slot, tree, time);
    }

    /// Removes a job from its trees ([`unlink_for_change`](Self::unlink_for_change)). If the job's lease has expired,
    /// carries out the push with DECLARE that waits behind the job. If the job has missed its run, prepares the next
    /// run. ACK and NACK call only `unlink_for_change`, because they end the attempt themselves.
    fn unlink_after_lease(&mut self, slot: u32, at: Millis) {
        let (has_missed, is_over) = (self.jobs[slot].has_missed(at), self.jobs[slot].is_lease_expired(at));
        let due = self.due_after_lease(slot, at);
        self.unlink_for_change(slot, at);
        if has_missed {
            self.prepare_occurrence(slot, at, due);
        } else if let Some(declaration) = if is_over { self.take_declaration(slot) } else { None } {
            self.carry_out_declaration(slot, at, &declaration, due);
        }
    }

    /// Removes a job from its trees before a change. After the change, the caller adds the job to a tree with
    /// [`link`](Self::link). If the job's lease has expired, counts the expired lease, and stores the deadline as the
    /// time of the last failure.
    fn unlink_for_change(&mut self, slot: u32, at: Millis) {
        self.unlink(slot);
        if self.count_expired_lease(slot, at) {
            let deadline = self.jobs[slot].node.time;
            self.edit_extras(slot, |extras| extras.set_failed(deadline));
        }
        self.set_backoff(slot, 0);
    }

    /// Adds a job to the tree for the due time `due`, and makes the job's token invalid.
    fn make_due(&mut self, slot: u32, at: Millis, due: Millis) {
        self.end_token(slot);
        self.link(slot, self.jobs[slot].due_tree(due, at), due);
    }

    /// Removes the token of a job. First copies the time of the claim from the token to `Extras::claimed`.
    fn end_token(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        if job.token != 0 {
            let claimed = job.claimed();
            self.jobs[slot].token = 0;
            self.edit_extras(slot, |extras| extras.set_claimed(claimed));
        }
    }

    /// Changes the payload and the TTL of a job. The job must be in no tree.
    pub(super) fn set_payload_and_ttl(&mut self, slot: u32, ttl: Option<Ttl>, payload: &[u8]) {
        self.edit_job(slot, |job| {
            job.set_payload(payload);
            job.set_ttl(ttl);
        });
    }

    pub(super) fn clear_progress(&mut self, slot: u32) {
        if !self.jobs[slot].extras().progress.is_empty() {
            self.edit_extras(slot, |extras| extras.set_progress(b"", 0));
        }
    }

    /// Sets the delay after an expired lease ([`BACKOFF`](super::job::Rare::backoff)). The job must be in no tree.
    fn set_backoff(&mut self, slot: u32, backoff: Millis) {
        if self.jobs[slot].backoff() != backoff {
            self.edit_job(slot, |job| job.set_backoff(backoff));
        }
    }

    /// Notes that the job has waited since `at`. If the job has waited since its push, stores nothing.
    fn set_waiting_since(&mut self, slot: u32, at: Millis) {
        let job = &self.jobs[slot];
        let since = if at > job.created() { at } else { 0 };
        if since != 0 || job.extras().since != 0 {
            self.edit_extras(slot, |extras| extras.set_since(since));
        }
    }

    pub(super) fn count_from(&mut self, slot: u32, due: Millis) {
        let job = &mut self.jobs[slot];
        if let Some(recurrence) = job.recurrence() {
            job.set_recurrence(Recurrence { anchor: due, ..recurrence });
        }
        job.count_ttl_from(due);
    }

    /// If the queue is ORDERED, gives a recurring job a new push number for its next occurrence.
    fn assign_push_number(&mut self, slot: u32) {
        if self.settings.ordered && self.has_push_numbers() {
            self.jobs[slot].node.seq = self.next_seq;
            self.next_seq += 1;
        }
    }

    fn count_expired_lease(&mut self, slot: u32, at: Millis) -> bool {
        let job = &self.jobs[slot];
        let (has_lapsed, has_missed) = (job.is_lease_expired(at), job.has_missed(at));
        if has_lapsed {
            increment(&mut self.rare_counters.expired_leases);
        }
        if has_missed {
            increment(&mut self.rare_counters.missed);
        }
        has_lapsed
    }

    /// Counts a revoked claim if the job is claimed. Must be called before the job is replaced or cancelled.
    fn count_revoked(&mut self, slot: u32, at: Millis) {
        if self.state_of(slot, at) == State::Claimed {
            increment(&mut self.rare_counters.revoked);
        }
    }

    /// Counts an ACK or NACK that comes after the lease has expired.
    fn count_if_late(&mut self, slot: u32, at: Millis) {
        if self.state_of(slot, at) != State::Claimed {
            increment(&mut self.rare_counters.late);
        }
    }
}
