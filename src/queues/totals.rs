//! Totals of all queues for INFO: the jobs in each state, and how long a job has waited for a claim.
//!
//! A change only notes that the queue has changed. INFO and the server's cron then update the queue's contribution to
//! the totals ([`Contribution::update`]).
//!
//! The totals include a queue from the creation of its value (by a push, a load or a copy) until the server frees the
//! value. The server can free it in another thread, so the totals are atomics, and a lock protects the list of queues.

use crate::base::time::{Millis, NEVER};
use crate::queues::model::{Queue, STORED_STATES};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

static JOBS: [AtomicU64; STORED_STATES] = [const { AtomicU64::new(0) }; STORED_STATES];
/// The number of leases that expired without ACK or NACK. An expired lease is counted when its job changes next.
pub static EXPIRED_LEASES: AtomicU64 = AtomicU64::new(0);
/// The number of jobs that became dead letters.
pub static DEAD_LETTERS: AtomicU64 = AtomicU64::new(0);
/// How many jobs, and runs of recurring jobs, were dropped because they expired (TTL).
pub static EXPIRED_JOBS: AtomicU64 = AtomicU64::new(0);
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
/// The queues with a job that waits for a claim, or will wait later. They are ordered by the time from which the first
/// such job waits ([`Queue::waits_from`]). A number identifies the queue.
static WAITING: Mutex<BTreeSet<(Millis, u64)>> = Mutex::new(BTreeSet::new());

fn waiting() -> MutexGuard<'static, BTreeSet<(Millis, u64)>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One queue's contribution to the totals. The fields are atomics, because INFO only borrows the queue.
pub struct Contribution {
    number: u64,
    jobs: [AtomicU32; STORED_STATES],
    /// The queue's time in [`WAITING`], or [`NEVER`] if the queue is not in it.
    waits_from: AtomicU64,
    /// Whether the queue has changed since the last update.
    pub is_outdated: AtomicBool,
}

impl Contribution {
    pub fn of(queue: &Queue) -> Contribution {
        let contribution = Contribution {
            number: NEXT_NUMBER.fetch_add(1, Relaxed),
            jobs: Default::default(),
            waits_from: AtomicU64::new(NEVER),
            is_outdated: AtomicBool::new(false),
        };
        contribution.update(queue);
        contribution
    }

    pub fn update(&self, queue: &Queue) {
        self.contribute(queue.stored_states(), queue.waits_from().unwrap_or(NEVER));
        self.is_outdated.store(false, Relaxed);
    }

    fn contribute(&self, jobs: [u32; STORED_STATES], waits_from: Millis) {
        for ((total, counted), now) in JOBS.iter().zip(&self.jobs).zip(jobs) {
            let before = counted.swap(now, Relaxed);
            total.fetch_add(u64::from(now).wrapping_sub(before.into()), Relaxed);
        }
        let before = self.waits_from.swap(waits_from, Relaxed);
        if before != waits_from {
            let mut waiting = waiting();
            waiting.remove(&(before, self.number));
            if waits_from != NEVER {
                waiting.insert((waits_from, self.number));
            }
        }
    }
}

impl Drop for Contribution {
    fn drop(&mut self) {
        self.contribute([0; STORED_STATES], NEVER);
    }
}

/// Returns the number of jobs in each state, in the order of [`Queue::stored_states`].
pub fn jobs() -> [u64; STORED_STATES] {
    JOBS.each_ref().map(|jobs| jobs.load(Relaxed))
}

/// Returns the longest time, in ms, that a job has waited for a claim ([`Queue::waits_from`]). Returns 0 if no job
/// waits.
pub fn longest_wait(now: Millis) -> Millis {
    waiting().first().map_or(0, |(waits_from, _)| now.saturating_sub(*waits_from))
}
