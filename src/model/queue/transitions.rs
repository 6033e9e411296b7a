//! The transitions of a job: everything that ever moves one, for commands and effects alike.
//!
//! The callers have checked that a transition is allowed; here it is carried out. `at` is the clock of the server that
//! ran the command.

use super::ids::AutoId;
use super::job::{Job, NIL, Node, Place, Recurrence};
use super::settings::Settings;
use super::slab::MAX_JOBS;
use super::{MAX_TOKEN, Millis, Queue, tree};

/// Counts up to [`MAX_TOKEN`] and no further: beyond it the queue could be saved, but not loaded.
fn tick(counter: &mut u64) {
    *counter = (*counter + 1).min(MAX_TOKEN);
}

impl Queue {
    pub(super) fn has_room(&self) -> bool {
        self.len() < MAX_JOBS && self.has_push_numbers()
    }

    /// Whether there is a number for one more push. There always is, but for a queue that came by a made-up payload.
    pub(super) fn has_push_numbers(&self) -> bool {
        self.next_seq < MAX_TOKEN
    }

    /// A job with the next push number, not yet in the queue. `recurrence`: period and anchor.
    pub(super) fn new_job(
        &self,
        id: &[u8],
        payload: &[u8],
        time: Millis,
        priority: i32,
        max_attempts: u32,
        recurrence: Option<(Millis, Millis)>,
    ) -> Job {
        Job {
            node: Node {
                time,
                seq: self.next_seq,
                priority,
                left: NIL,
                right: NIL,
                size: 1,
                best: NIL,
                place: Place::Ready,
            },
            body: [id, payload].concat().into_boxed_slice(),
            id_len: id.len(),
            token: 0,
            recurrence: recurrence.map(|(period, anchor)| Box::new(Recurrence { period, anchor })),
            attempts: 0,
            max_attempts,
            hash: 0,
            next: NIL,
        }
    }

    /// A push: the job takes the place of whatever had its id. `auto`: its id, if the queue made it up.
    pub(super) fn enter(&mut self, at: Millis, job: Job, auto: Option<AutoId>) -> u32 {
        if let Some(old) = self.index.find(&self.jobs, job.id()) {
            self.discard(old, at);
        }
        if let Some(auto) = auto {
            self.last_id = self.last_id.max(auto);
        }
        self.next_seq += 1;
        tick(&mut self.counters.pushed);
        let place = due_place(job.node.time, at);
        self.insert(job, place)
    }

    /// CLAIM.
    pub(super) fn lease(&mut self, slot: u32, at: Millis, token: u64, deadline: Millis) {
        self.count_lapse(slot, at);
        self.last_token = token;
        tick(&mut self.counters.claimed);
        if let Some(rate) = self.settings.rate {
            self.rate_log.take(rate, at);
        }
        let job = &mut self.jobs[slot];
        job.token = token;
        job.attempts = job.attempts.saturating_add(1);
        let place = job.claimed_place();
        self.move_to(slot, place, deadline);
    }

    /// ACK: the job is done, for good or until `again`.
    pub(super) fn finish(&mut self, slot: u32, at: Millis, again: Option<Millis>) {
        tick(&mut self.counters.acked);
        match again {
            None => self.discard(slot, at),
            Some(due) => {
                self.count_lapse(slot, at);
                self.jobs[slot].attempts = 0;
                self.anchor(slot, due);
                self.make_due(slot, at, due);
            }
        }
    }

    /// NACK with deliveries left.
    pub(super) fn retry(&mut self, slot: u32, at: Millis, due: Millis) {
        tick(&mut self.counters.nacked);
        self.count_lapse(slot, at);
        self.make_due(slot, at, due);
    }

    /// NACK of the last delivery, or DEAD.
    pub(super) fn bury(&mut self, slot: u32, at: Millis) {
        tick(&mut self.counters.nacked);
        self.count_lapse(slot, at);
        self.jobs[slot].token = 0;
        self.move_to(slot, Place::Dead, at);
    }

    /// CANCEL.
    pub(super) fn cancel_slot(&mut self, slot: u32, at: Millis) {
        tick(&mut self.counters.cancelled);
        self.discard(slot, at);
    }

    /// RESCHEDULE. A token that outlived its lease stays good: this is none of the things that end it.
    pub(super) fn reorder(&mut self, slot: u32, at: Millis, due: Option<Millis>, priority: Option<i32>) {
        self.count_lapse(slot, at);
        let node = &self.jobs[slot].node;
        let (time, place) = match (due, node.place) {
            (Some(due), _) => (due, due_place(due, at)),
            // The lease has ended; its end is the due time now.
            (None, Place::Leased) => (node.time, Place::Ready),
            (None, place) => (node.time, place),
        };
        if let Some(due) = due {
            self.anchor(slot, due);
        }
        self.unlink(slot);
        let node = &mut self.jobs[slot].node;
        node.priority = priority.unwrap_or(node.priority);
        self.link(slot, place, time);
    }

    /// REDRIVE of the `count` jobs that have been dead the longest.
    pub(super) fn revive(&mut self, at: Millis, count: u64) {
        for _ in 0..count {
            // No later than `at` is dead, wherever it stands.
            let buried = tree::first(&self.jobs, self.roots[Place::Dead as usize]);
            let spent = tree::first(&self.jobs, self.roots[Place::Spent as usize]);
            let spent = if spent != NIL && self.jobs[spent].node.time <= at { spent } else { NIL };
            let slot = match (buried, spent) {
                (NIL, NIL) => return,
                (NIL, slot) | (slot, NIL) => slot,
                (a, b) if tree::by_time(&self.jobs[b].node, &self.jobs[a].node).is_lt() => b,
                (a, _) => a,
            };
            tick(&mut self.counters.redriven);
            self.count_lapse(slot, at);
            self.jobs[slot].attempts = 0;
            self.make_due(slot, at, at);
        }
    }

    /// CONFIG. O(1), but O(n) when AGING changes, as every subtree may have another best job then.
    pub(super) fn set(&mut self, at: Millis, settings: Settings) {
        let old = std::mem::replace(&mut self.settings, settings);
        match settings.rate {
            None => self.rate_log.clear(),
            Some(rate) if old.rate != settings.rate => self.rate_log.adopt(rate, at),
            Some(_) => {}
        }
        if old.aging != settings.aging {
            let order = self.order();
            for root in self.roots {
                tree::rerank(&mut self.jobs, root, order);
            }
        }
    }

    /// The job waits for `due`, and no token is good for it.
    fn make_due(&mut self, slot: u32, at: Millis, due: Millis) {
        self.jobs[slot].token = 0;
        self.move_to(slot, due_place(due, at), due);
    }

    fn anchor(&mut self, slot: u32, due: Millis) {
        if let Some(recurrence) = &mut self.jobs[slot].recurrence {
            recurrence.anchor = due;
        }
    }

    /// To be called when a job leaves its place by a command: a lease that has ended is counted for good.
    fn count_lapse(&mut self, slot: u32, at: Millis) {
        let node = &self.jobs[slot].node;
        if matches!(node.place, Place::Leased | Place::Spent) && node.time <= at {
            tick(&mut self.counters.expired_leases);
        }
    }

    /// Enters a job whose id and push number are not in the queue.
    pub(super) fn insert(&mut self, job: Job, place: Place) -> u32 {
        self.body_bytes += job.body.len();
        self.recurring += usize::from(job.recurrence.is_some());
        let time = job.node.time;
        let slot = self.jobs.insert(job);
        self.index.insert(&mut self.jobs, slot);
        self.link(slot, place, time);
        slot
    }

    /// Takes a job out of the queue.
    fn discard(&mut self, slot: u32, at: Millis) {
        self.count_lapse(slot, at);
        self.unlink(slot);
        let job = &self.jobs[slot];
        self.body_bytes -= job.body.len();
        self.recurring -= usize::from(job.recurrence.is_some());
        self.index.remove(&mut self.jobs, slot);
        self.jobs.remove(slot);
    }

    pub(super) fn move_to(&mut self, slot: u32, place: Place, time: Millis) {
        self.unlink(slot);
        self.link(slot, place, time);
    }

    fn link(&mut self, slot: u32, place: Place, time: Millis) {
        let order = self.order();
        let node = &mut self.jobs[slot].node;
        (node.place, node.time) = (place, time);
        let root = &mut self.roots[place as usize];
        *root = tree::insert(&mut self.jobs, *root, slot, order);
    }

    fn unlink(&mut self, slot: u32) {
        let order = self.order();
        let root = &mut self.roots[self.jobs[slot].node.place as usize];
        *root = tree::remove(&mut self.jobs, *root, slot, order);
    }
}

/// Where a job due at `due` waits, when a command puts it there.
fn due_place(due: Millis, at: Millis) -> Place {
    if due <= at { Place::Ready } else { Place::Scheduled }
}
