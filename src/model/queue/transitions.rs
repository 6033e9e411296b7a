//! The transitions of a job: everything that ever moves one, for commands and effects alike.
//!
//! The callers have checked that a transition is allowed; here it is carried out. `at` is the clock of the server that
//! ran the command.

use super::again::Follower;
use super::effect::Change;
use super::ids::AutoId;
use super::job::{Job, Recurrence, State, Timing, Ttl};
use super::node::{JobNode, Links, TREES, TreeId};
use super::push::NewJob;
use super::settings::Settings;
use super::tree;
use super::{MAX_TOKEN, Millis, Queue};
use crate::model::chunks::MAX_ITEMS;
use crate::model::chunks::NIL;

/// Counts up to [`MAX_TOKEN`] and no further: beyond it the queue could be saved, but not loaded.
fn tick(counter: &mut u64) {
    *counter = (*counter + 1).min(MAX_TOKEN);
}

/// What becomes of the attempt of a job that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It counts.
    Counts,
    /// It does not count.
    Free,
    /// It was the last one of a recurring job, which waits for its next occurrence: with no attempt counted.
    Last,
}

impl Queue {
    pub(super) fn has_room(&self) -> bool {
        self.len() < MAX_ITEMS && self.has_push_numbers()
    }

    /// Whether there is a number for one more push. There always is, but for a queue that came by a made-up payload.
    pub(super) fn has_push_numbers(&self) -> bool {
        self.next_seq < MAX_TOKEN
    }

    /// A job with the next push number, not yet in the queue.
    pub(super) fn new_job(&self, new: &NewJob<'_>) -> Job {
        let NewJob { id, payload, group, due, priority, max_attempts, every, ttl } = *new;
        let mut job = Job {
            node: JobNode {
                time: due,
                seq: self.next_seq,
                priority,
                links: Links::ALONE,
                best: NIL,
                tree: TreeId::Ready,
                high: [0; 3],
            },
            body: Box::default(),
            id_len: 0,
            low: 0,
            token: 0,
            timing: Timing {
                recurrence: every.map(|period| Recurrence { period, anchor: due }),
                ttl: ttl.map(|ttl| Ttl::from(due, ttl)),
            }
            .boxed(),
            attempts: 0,
            max_attempts,
        };
        job.set_body(!group.is_empty(), id, payload);
        job
    }

    /// A push with AGAIN.
    pub(super) fn enter_again(&mut self, at: Millis, new: &NewJob<'_>) {
        match self.slot_of(new.id).map(|slot| (slot, self.state_of(slot, at))) {
            Some((slot, State::Claimed)) => self.follow(slot, new),
            Some((slot, State::Ready | State::Delayed)) => self.renew(slot, at, new),
            _ => {
                self.enter(at, self.new_job(new), new.group, None);
            }
        }
    }

    /// A push: the job takes the place of whatever had its id. `auto`: its id, if the queue made it up.
    pub(super) fn enter(&mut self, at: Millis, mut job: Job, group: &[u8], auto: Option<AutoId>) -> u32 {
        job.set_created(at);
        self.forget_units(at);
        let mut held_until = None;
        if let Some(old) = self.slot_of(job.id()) {
            // Without a job for this moment, the group is still held.
            held_until = self.held_until(group);
            tick(&mut self.counters.replaced);
            self.revoke(old, at);
            self.discard(old, at);
        }
        if let Some(auto) = auto {
            self.last_id = self.last_id.max(auto);
        }
        self.next_seq += 1;
        tick(&mut self.counters.pushed);
        let tree = job.due_tree(job.node.time, at);
        self.wake_group(group, at);
        let slot = self.insert(job, group, tree);
        if let Some(until) = held_until {
            self.hold_group(group, until);
        }
        slot
    }

    /// Carries out a change of a job, which is allowed.
    pub(super) fn carry_out(&mut self, slot: u32, at: Millis, change: &Change<'_>) {
        match *change {
            Change::Claim { token, deadline, worker, .. } => self.lease(slot, at, token, deadline, worker),
            Change::Ack { again, .. } => {
                tick(&mut self.counters.acked);
                self.count_if_late(slot, at);
                let Some(due) = again else { return self.leave(slot, at) };
                self.lapse(slot, at);
                self.begin_again(slot, at, due);
            }
            Change::Expire { again, .. } => {
                tick(&mut self.counters.expired);
                let Some(due) = again else { return self.leave(slot, at) };
                self.pass(slot, at);
                self.begin_again(slot, at, due);
            }
            Change::Retry { due, attempt, error, .. } => {
                let has_missed = self.jobs[slot].has_missed(at);
                self.give_back(slot, at, attempt == Attempt::Free, error);
                if attempt == Attempt::Last {
                    if !has_missed {
                        tick(&mut self.counters.missed);
                    }
                    self.recur(slot, due);
                    self.push_again(slot);
                }
                self.make_due(slot, at, due);
            }
            Change::Bury { is_free, error, .. } => {
                self.give_back(slot, at, is_free, error);
                self.end_token(slot);
                self.put(slot, TreeId::Dead, at);
                if self.has_follower(slot) {
                    self.carry_out(slot, at, &Change::Follow { id: b"" });
                }
            }
            Change::Follow { .. } => {
                tick(&mut self.counters.replaced);
                self.leave(slot, at);
            }
            Change::Extend { deadline, .. } => {
                self.unlink(slot);
                self.put(slot, self.jobs[slot].node.tree, deadline);
            }
            Change::Reschedule { due, priority, .. } => self.reorder(slot, at, due, priority),
            Change::Revive { .. } => {
                tick(&mut self.counters.redriven);
                self.lapse(slot, at);
                self.jobs[slot].attempts = 0;
                self.jobs[slot].count_ttl_from(at);
                self.make_due(slot, at, at);
            }
            Change::Cancel { .. } => {
                tick(&mut self.counters.cancelled);
                self.revoke(slot, at);
                self.leave(slot, at);
            }
            Change::Clean { .. } => {
                tick(&mut self.counters.cleaned);
                self.leave(slot, at);
            }
            Change::Drop { .. } => {
                tick(&mut self.counters.dropped);
                self.leave(slot, at);
            }
            _ => debug_assert!(false, "a change of a job"),
        }
    }

    fn lease(&mut self, slot: u32, at: Millis, token: u64, deadline: Millis, worker: &[u8]) {
        self.pass(slot, at);
        self.forget_units(at);
        self.serve_group(slot, at);
        self.last_token = token;
        tick(&mut self.counters.claimed);
        if let Some(rate) = self.settings.rate {
            self.rate_log.take(rate, at);
        }
        let job = &mut self.jobs[slot];
        job.token = token;
        job.attempts = job.attempts.saturating_add(1);
        let (is_noted, tree) = (job.is_noted(), job.claimed_tree(&self.settings));
        let claimed = if token / 1000 == at { 0 } else { at };
        if is_noted || claimed != 0 || !worker.is_empty() {
            self.edit_note(slot, |note| {
                note.claimed = claimed;
                note.set_since(0);
                note.set_worker(worker);
            });
        }
        self.put(slot, tree, deadline);
    }

    /// What all NACKs have in common.
    fn give_back(&mut self, slot: u32, at: Millis, is_free: bool, error: &[u8]) {
        tick(&mut self.counters.nacked);
        self.count_if_late(slot, at);
        self.lapse(slot, at);
        if is_free {
            let job = &mut self.jobs[slot];
            job.attempts = job.attempts.saturating_sub(1);
            self.wait_since(slot, at);
        }
        if !is_free || !error.is_empty() {
            self.edit_note(slot, |note| {
                if !is_free {
                    note.failed = at;
                }
                if !error.is_empty() {
                    note.set_error(error);
                }
            });
        }
    }

    /// The next occurrence of a job, at `due`. It has the payload of the push that waited for it, if there was one.
    fn recur(&mut self, slot: u32, due: Millis) {
        self.jobs[slot].attempts = 0;
        self.take_on(slot);
        self.anchor(slot, due);
    }

    /// A recurring job, which is in no tree, waits for its next occurrence: this one is done, or was not in time.
    fn begin_again(&mut self, slot: u32, at: Millis, due: Millis) {
        tick(&mut self.counters.recurred);
        self.wait_since(slot, at);
        self.recur(slot, due);
        self.push_again(slot);
        self.make_due(slot, at, due);
    }

    /// A waiting job gets another payload and TTL, and keeps its place. No token is good for it any more.
    fn renew(&mut self, slot: u32, at: Millis, new: &NewJob<'_>) {
        let job = &self.jobs[slot];
        let (tree, time) = (job.node.tree, self.due_of(slot, at));
        let (is_lapsed, has_missed) = (job.is_lapsed(at), job.has_missed(at));
        self.pass(slot, at);
        self.drop_follower(slot);
        if has_missed {
            self.push_again(slot);
        }
        self.renew_body(slot, new.ttl.map(|ttl| Ttl::from(time.max(new.due), ttl)), new.payload);
        self.end_token(slot);
        let tree = if is_lapsed { self.jobs[slot].due_tree(time, at) } else { tree };
        self.put(slot, tree, time);
    }

    /// Gives a job, which is in no tree, another payload and TTL.
    pub(super) fn renew_body(&mut self, slot: u32, ttl: Option<Ttl>, payload: &[u8]) {
        let job = &mut self.jobs[slot];
        self.body_bytes -= job.body.len();
        let was_timed = job.timing.is_some();
        job.set_payload(payload);
        job.set_ttl(ttl);
        self.timed = self.timed + usize::from(job.timing.is_some()) - usize::from(was_timed);
        self.body_bytes += job.body.len();
    }

    /// RESCHEDULE. A token that outlived its lease stays good: this is none of the things that end it.
    fn reorder(&mut self, slot: u32, at: Millis, due: Option<Millis>, priority: Option<i32>) {
        let job = &self.jobs[slot];
        // Where the lease has ended, its end is the due time now, or the moment after it at which the job comes back.
        let (tree, time) = (job.node.tree, due.unwrap_or(self.due_of(slot, at)));
        let (is_moved, has_missed) = (due.is_some() || job.is_lapsed(at), job.has_missed(at));
        self.pass(slot, at);
        if let Some(due) = due {
            self.anchor(slot, due);
            self.wait_since(slot, at);
        }
        if has_missed {
            self.push_again(slot);
        }
        let job = &mut self.jobs[slot];
        job.node.priority = priority.unwrap_or(job.node.priority);
        let tree = if is_moved { job.due_tree(time, at) } else { tree };
        self.put(slot, tree, time);
    }

    /// REDRIVE of the `count` jobs of a group, or of all, that have been dead the longest.
    pub(super) fn revive_oldest(&mut self, at: Millis, group: Option<&[u8]>, count: u64) {
        for _ in 0..count {
            let slot = self.longest_dead(group.map(|name| self.roots_of(name)), at);
            if slot == NIL {
                return;
            }
            self.carry_out(slot, at, &Change::Revive { id: b"" });
        }
    }

    /// CONFIG. O(1), but O(n) when AGING changes, as every subtree may have another best job then, and O(m) when BACKOFF or JITTER
    /// does, with m the number of claimed jobs.
    pub(super) fn set(&mut self, at: Millis, settings: Settings) {
        let mut claimed: Vec<u32> = Vec::new();
        if settings.backoffs() != self.settings.backoffs() {
            let slots = [TreeId::Claimed, TreeId::Retrying].into_iter().flat_map(|tree| self.slots_in(tree));
            // A job that has come back stays ready, whatever it would wait for now.
            let (ready, others): (Vec<_>, _) = slots.partition(|&slot| self.state_of(slot, at) == State::Ready);
            ready.into_iter().for_each(|slot| self.reorder(slot, at, None, None));
            claimed = others;
            claimed.iter().for_each(|&slot| self.unlink(slot));
        }
        let old = std::mem::replace(&mut self.settings, settings);
        match settings.rate {
            None => self.rate_log.clear(),
            Some(rate) if old.rate != settings.rate => self.rate_log.adopt(rate, at),
            Some(_) => {}
        }
        let order = self.order();
        if old.order() != order {
            let roots = self.roots;
            for &root in &roots[..TREES] {
                tree::rerank(&mut self.jobs, root, order);
            }
            self.returns.rerank(&roots, order);
        }
        for &slot in &claimed {
            let (tree, deadline) = (self.jobs[slot].claimed_tree(&settings), self.jobs[slot].node.time);
            self.link(slot, tree, deadline);
        }
        if self.groups.is_some() || settings.concern_groups() {
            self.adopt_in_groups(at, &old);
        }
        for slot in claimed {
            self.touch(self.jobs[slot].member());
        }
    }

    /// Under ORDERED, the next occurrence of a recurring job is served behind the jobs that were pushed meanwhile.
    fn push_again(&mut self, slot: u32) {
        if self.settings.ordered && self.has_push_numbers() {
            let earlier = std::mem::replace(&mut self.jobs[slot].node.seq, self.next_seq);
            self.notes.renumber(earlier, self.next_seq);
            self.followers.renumber(earlier, self.next_seq);
            self.next_seq += 1;
        }
    }

    /// The job waits for `due`, and no token is good for it.
    fn make_due(&mut self, slot: u32, at: Millis, due: Millis) {
        self.end_token(slot);
        self.put(slot, self.jobs[slot].due_tree(due, at), due);
    }

    /// Notes since when the job waits, unless its push tells.
    fn wait_since(&mut self, slot: u32, at: Millis) {
        let job = &self.jobs[slot];
        let since = if at > job.created() { at } else { 0 };
        if since != 0 || job.is_noted() {
            self.edit_note(slot, |note| note.set_since(since));
        }
    }

    /// No token is good any more. It told when the job was claimed; from now on the note does.
    fn end_token(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        if job.token != 0 {
            let claimed = job.claimed(self.extras(job));
            self.jobs[slot].token = 0;
            self.edit_note(slot, |note| note.claimed = claimed);
        }
    }

    fn anchor(&mut self, slot: u32, due: Millis) {
        let job = &mut self.jobs[slot];
        if let Some(recurrence) = job.timing.as_mut().and_then(|timing| timing.recurrence.as_mut()) {
            recurrence.anchor = due;
        }
        job.count_ttl_from(due);
    }

    /// Takes a job out of its trees that a command moves, before anything about it changes; [`put`](Self::put) follows. A lease that has
    /// ended is counted and noted for good.
    fn lapse(&mut self, slot: u32, at: Millis) {
        self.unlink(slot);
        if self.count_lapse(slot, at) {
            let deadline = self.jobs[slot].node.time;
            self.edit_note(slot, |note| note.failed = deadline);
        }
    }

    /// As [`lapse`](Self::lapse), when the job goes on from where the end of the lease has left it: a recurring one whose last attempt
    /// that was stands at its next occurrence. (An ACK or NACK, however late, is about the attempt itself.)
    fn pass(&mut self, slot: u32, at: Millis) {
        let next = self.jobs[slot].has_missed(at).then(|| self.due_of(slot, at));
        self.lapse(slot, at);
        if let Some(next) = next {
            self.recur(slot, next);
        }
    }

    fn count_lapse(&mut self, slot: u32, at: Millis) -> bool {
        let job = &self.jobs[slot];
        let (has_lapsed, has_missed) = (job.is_lapsed(at), job.has_missed(at));
        if has_lapsed {
            tick(&mut self.counters.expired_leases);
        }
        if has_missed {
            tick(&mut self.counters.missed);
        }
        has_lapsed
    }

    /// A job is taken from whoever holds it.
    fn revoke(&mut self, slot: u32, at: Millis) {
        if self.state_of(slot, at) == State::Claimed {
            tick(&mut self.counters.revoked);
        }
    }

    /// Counts an ACK or NACK that comes after the lease has ended.
    fn count_if_late(&mut self, slot: u32, at: Millis) {
        if self.state_of(slot, at) != State::Claimed {
            tick(&mut self.counters.late);
        }
    }

    /// The slot of the job of that id. O(1).
    pub(super) fn slot_of(&self, id: &[u8]) -> Option<u32> {
        self.index.find(self.index.hash(id), |slot| self.jobs[slot].id() == id)
    }

    fn hash_of(&self, slot: u32) -> u32 {
        self.index.hash(self.jobs[slot].id())
    }

    /// Enters a job whose id and push number are not in the queue.
    pub(super) fn insert(&mut self, job: Job, group: &[u8], tree: TreeId) -> u32 {
        self.body_bytes += job.body.len();
        self.timed += usize::from(job.timing.is_some());
        let time = job.node.time;
        let slot = self.jobs.push(job);
        self.index.insert(self.hash_of(slot), slot);
        self.join_group(slot, group);
        self.put(slot, tree, time);
        slot
    }

    /// Takes a job out of the queue. The push that waits behind it, if there is one, is a job now.
    fn leave(&mut self, slot: u32, at: Millis) {
        if !self.has_follower(slot) {
            self.discard(slot, at);
            return;
        }
        let id: Box<[u8]> = self.jobs[slot].id().into();
        // Without a job for this moment, the group is still held.
        let held_until = self.followers.of(&self.jobs[slot]).and_then(|it| self.held_until(it.group()));
        if let Some(follower) = self.discard(slot, at).filter(|_| self.has_push_numbers()) {
            let mut new = follower.job(&id);
            new.due = new.due.max(at);
            self.enter(at, self.new_job(&new), new.group, None);
            if let Some(until) = held_until {
                self.hold_group(new.group, until);
            }
        }
    }

    /// Takes a job out of the queue. Another job may move into its slot: the numbers of slots that a caller has kept are void. Returns
    /// the push that waited behind the job.
    fn discard(&mut self, slot: u32, at: Millis) -> Option<Follower> {
        self.count_lapse(slot, at);
        self.drop_note(slot);
        self.unlink(slot);
        let follower = self.drop_follower(slot);
        let job = &self.jobs[slot];
        self.body_bytes -= job.body.len();
        self.timed -= usize::from(job.timing.is_some());
        self.leave_group(slot);
        self.index.remove(self.hash_of(slot), slot);
        if let Some(from) = self.jobs.remove(slot) {
            self.index.renumber(self.hash_of(slot), from, slot);
            self.renumber_member(slot);
            self.renumber_return(slot);
            self.renumber_expiry(from, slot);
            let root = *self.root_of(slot);
            *self.root_of(slot) = tree::renumber(&mut self.jobs, root, from, slot);
        }
        follower
    }

    /// Puts a job that is in no tree into one.
    fn put(&mut self, slot: u32, tree: TreeId, time: Millis) {
        self.link(slot, tree, time);
        self.touch(self.jobs[slot].member());
    }

    fn link(&mut self, slot: u32, tree: TreeId, time: Millis) {
        let order = self.order();
        let node = &mut self.jobs[slot].node;
        (node.tree, node.time) = (tree, time);
        self.priorities.enter(node.priority);
        let root = *self.root_of(slot);
        *self.root_of(slot) = tree::insert(&mut self.jobs, root, slot, order);
        self.link_member(slot);
        self.link_return(slot);
        self.link_expiry(slot);
    }

    fn unlink(&mut self, slot: u32) {
        self.priorities.leave(self.jobs[slot].node.priority);
        self.unlink_return(slot);
        self.unlink_expiry(slot);
        let order = self.order();
        let root = *self.root_of(slot);
        *self.root_of(slot) = tree::remove(&mut self.jobs, root, slot, order);
        self.unlink_member(slot);
    }
}
