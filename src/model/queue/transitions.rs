//! The transitions of a job: everything that ever moves one, for commands and effects alike.
//!
//! The callers have checked that a transition is allowed; here it is carried out. `at` is the clock of the server that
//! ran the command.

use super::ids::AutoId;
use super::index::Chain;
use super::job::{Job, Recurrence, State};
use super::node::{Links, Node, TREES, Tree};
use super::settings::Settings;
use super::tree;
use super::{MAX_TOKEN, Millis, Queue};
use crate::model::chunks::MAX_ITEMS;
use crate::model::chunks::NIL;

/// What a claim gives a job.
pub(super) struct Lease<'a> {
    pub token: u64,
    pub deadline: Millis,
    pub worker: &'a [u8],
}

/// Counts up to [`MAX_TOKEN`] and no further: beyond it the queue could be saved, but not loaded.
fn tick(counter: &mut u64) {
    *counter = (*counter + 1).min(MAX_TOKEN);
}

/// What a job is about.
pub(super) struct Body<'a> {
    pub id: &'a [u8],
    pub payload: &'a [u8],
    /// Empty: none.
    pub group: &'a [u8],
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

    /// A job with the next push number, not yet in the queue. `recurrence`: period and anchor.
    pub(super) fn new_job(
        &self,
        body: &Body<'_>,
        time: Millis,
        priority: i32,
        max_attempts: u32,
        recurrence: Option<(Millis, Millis)>,
    ) -> Job {
        let Body { id, payload, group } = *body;
        let member = if group.is_empty() { &[][..] } else { &NIL.to_le_bytes() };
        let mut job = Job {
            node: Node {
                time,
                seq: self.next_seq,
                priority,
                links: Links::ALONE,
                best: NIL,
                tree: Tree::Ready,
                high: [0; 3],
            },
            body: [member, id, payload].concat().into_boxed_slice(),
            id_len: u32::try_from(id.len()).unwrap_or(u32::MAX),
            low: 0,
            token: 0,
            recurrence: recurrence.map(|(period, anchor)| Box::new(Recurrence { period, anchor })),
            attempts: 0,
            max_attempts,
            chain: Chain::NEW,
        };
        job.set_grouped(!group.is_empty());
        job
    }

    /// A push: the job takes the place of whatever had its id. `auto`: its id, if the queue made it up.
    pub(super) fn enter(&mut self, at: Millis, mut job: Job, group: &[u8], auto: Option<AutoId>) -> u32 {
        job.set_created(at);
        self.forget_units(at);
        if let Some(old) = self.index.find(&self.jobs, job.id()) {
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
        self.insert(job, group, tree)
    }

    /// CLAIM.
    pub(super) fn lease(&mut self, slot: u32, at: Millis, lease: &Lease<'_>) {
        let Lease { token, deadline, worker } = *lease;
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
        self.move_to(slot, tree, deadline);
    }

    /// ACK: the job is done, for good or until `again`.
    pub(super) fn finish(&mut self, slot: u32, at: Millis, again: Option<Millis>) {
        tick(&mut self.counters.acked);
        self.count_if_late(slot, at);
        match again {
            None => self.discard(slot, at),
            Some(due) => {
                tick(&mut self.counters.recurred);
                self.lapse(slot, at);
                self.wait_since(slot, at);
                self.recur(slot, due);
                self.make_due(slot, at, due);
                self.push_again(slot);
            }
        }
    }

    /// NACK after which the job waits.
    pub(super) fn retry(&mut self, slot: u32, at: Millis, due: Millis, attempt: Attempt, error: &[u8]) {
        let has_missed = self.jobs[slot].has_missed(at);
        self.give_back(slot, at, attempt == Attempt::Free, error);
        if attempt == Attempt::Last {
            if !has_missed {
                tick(&mut self.counters.missed);
            }
            self.recur(slot, due);
        }
        self.make_due(slot, at, due);
        if attempt == Attempt::Last {
            self.push_again(slot);
        }
    }

    /// NACK of the last delivery, or DEAD.
    pub(super) fn bury(&mut self, slot: u32, at: Millis, is_free: bool, error: &[u8]) {
        self.give_back(slot, at, is_free, error);
        self.end_token(slot);
        self.move_to(slot, Tree::Dead, at);
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

    /// The next occurrence of a job, at `due`.
    fn recur(&mut self, slot: u32, due: Millis) {
        self.jobs[slot].attempts = 0;
        self.anchor(slot, due);
    }

    /// CANCEL.
    pub(super) fn cancel_slot(&mut self, slot: u32, at: Millis) {
        tick(&mut self.counters.cancelled);
        self.revoke(slot, at);
        self.discard(slot, at);
    }

    /// RESCHEDULE. A token that outlived its lease stays good: this is none of the things that end it.
    pub(super) fn reorder(&mut self, slot: u32, at: Millis, due: Option<Millis>, priority: Option<i32>) {
        let job = &self.jobs[slot];
        // Where the lease has ended, its end is the due time now, or the moment after it at which the job comes back.
        let (tree, time) = (job.node.tree, due.unwrap_or(self.due_of(slot, at)));
        let (is_moved, has_missed) = (due.is_some() || job.is_lapsed(at), job.has_missed(at));
        self.pass(slot, at);
        if let Some(due) = due {
            self.anchor(slot, due);
            self.wait_since(slot, at);
        }
        let tree = if is_moved { self.jobs[slot].due_tree(time, at) } else { tree };
        self.unlink(slot);
        let node = &mut self.jobs[slot].node;
        node.priority = priority.unwrap_or(node.priority);
        self.link(slot, tree, time);
        self.touch(self.jobs[slot].member());
        if has_missed {
            self.push_again(slot);
        }
    }

    /// CLEAN.
    pub(super) fn remove_clean(&mut self, slot: u32, at: Millis) {
        tick(&mut self.counters.cleaned);
        self.discard(slot, at);
    }

    /// DEADLEN, DEADTTL.
    pub(super) fn drop_slot(&mut self, slot: u32, at: Millis) {
        tick(&mut self.counters.dropped);
        self.discard(slot, at);
    }

    /// REDRIVE of the `count` jobs that have been dead the longest.
    pub(super) fn revive_oldest(&mut self, at: Millis, count: u64) {
        for _ in 0..count {
            let slot = self.longest_dead(at);
            if slot == NIL {
                return;
            }
            self.revive(slot, at);
        }
    }

    /// REDRIVE of one job.
    pub(super) fn revive(&mut self, slot: u32, at: Millis) {
        tick(&mut self.counters.redriven);
        self.lapse(slot, at);
        self.jobs[slot].attempts = 0;
        self.make_due(slot, at, at);
    }

    /// CONFIG. O(1), but O(n) when AGING changes, as every subtree may have another best job then, and O(m) when BACKOFF or JITTER
    /// does, with m the number of claimed jobs.
    pub(super) fn set(&mut self, at: Millis, settings: Settings) {
        let mut claimed: Vec<u32> = Vec::new();
        if settings.backoffs() != self.settings.backoffs() {
            let trees = [Tree::Leased, Tree::Retrying].into_iter();
            let slots = trees.flat_map(|tree| self.by_time(tree, None).map(|(slot, _)| slot));
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
            self.unlink(slot);
            let node = &mut self.jobs[slot].node;
            let earlier = std::mem::replace(&mut node.seq, self.next_seq);
            let Node { tree, time, .. } = *node;
            self.notes.renumber(earlier, self.next_seq);
            self.next_seq += 1;
            self.link(slot, tree, time);
            self.touch(self.jobs[slot].member());
        }
    }

    /// The job waits for `due`, and no token is good for it.
    fn make_due(&mut self, slot: u32, at: Millis, due: Millis) {
        self.end_token(slot);
        self.move_to(slot, self.jobs[slot].due_tree(due, at), due);
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
        if let Some(recurrence) = &mut self.jobs[slot].recurrence {
            recurrence.anchor = due;
        }
    }

    /// To be called when a job leaves its tree by a command and stays in the queue: a lease that has ended is counted and noted for
    /// good. What else is noted of the job may change from now on.
    fn lapse(&mut self, slot: u32, at: Millis) {
        self.unlink_return(slot);
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

    /// Enters a job whose id and push number are not in the queue.
    pub(super) fn insert(&mut self, job: Job, group: &[u8], tree: Tree) -> u32 {
        self.body_bytes += job.body.len();
        self.recurring += usize::from(job.recurrence.is_some());
        let time = job.node.time;
        let slot = self.jobs.insert(job);
        let count = self.jobs.len();
        self.index.insert(&mut self.jobs, count, slot);
        self.join_group(slot, group);
        self.link(slot, tree, time);
        self.touch(self.jobs[slot].member());
        slot
    }

    /// Takes a job out of the queue. Another job may move into its slot: the numbers of slots that a caller has kept are void.
    fn discard(&mut self, slot: u32, at: Millis) {
        self.count_lapse(slot, at);
        self.drop_note(slot);
        self.unlink(slot);
        let job = &self.jobs[slot];
        self.body_bytes -= job.body.len();
        self.recurring -= usize::from(job.recurrence.is_some());
        self.leave_group(slot);
        let left = self.jobs.len() - 1;
        self.index.remove(&mut self.jobs, left, slot);
        if let Some(from) = self.jobs.remove(slot) {
            self.index.renumber(&mut self.jobs, from, slot);
            self.renumber_member(slot);
            self.renumber_return(slot);
            let root = *self.root_of(slot);
            *self.root_of(slot) = tree::renumber(&mut self.jobs, root, from, slot);
        }
    }

    pub(super) fn move_to(&mut self, slot: u32, tree: Tree, time: Millis) {
        self.unlink(slot);
        self.link(slot, tree, time);
        self.touch(self.jobs[slot].member());
    }

    fn link(&mut self, slot: u32, tree: Tree, time: Millis) {
        let order = self.order();
        let node = &mut self.jobs[slot].node;
        (node.tree, node.time) = (tree, time);
        self.priorities.enter(node.priority);
        let root = *self.root_of(slot);
        *self.root_of(slot) = tree::insert(&mut self.jobs, root, slot, order);
        self.link_member(slot);
        self.link_return(slot);
    }

    fn unlink(&mut self, slot: u32) {
        self.priorities.leave(self.jobs[slot].node.priority);
        self.unlink_return(slot);
        let order = self.order();
        let root = *self.root_of(slot);
        *self.root_of(slot) = tree::remove(&mut self.jobs, root, slot, order);
        self.unlink_member(slot);
    }
}
