//! All queues together, for INFO: how many, how many jobs stand where, and which job has been ready the longest. Kept up to date with
//! each change of a queue, so that INFO reads numbers, and walks through no queue.
//!
//! A queue is counted from the moment at which the server has its value (a first push, a load, a copy) until the server frees it,
//! which may be in a thread of its own: so numbers that all threads may change, and a lock around the one list.

use crate::model::queue::{Queue, STORED_STATES};
use crate::model::time::Millis;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static QUEUES: AtomicU64 = AtomicU64::new(0);
static JOBS: [AtomicU64; STORED_STATES] = [const { AtomicU64::new(0) }; STORED_STATES];
static EXPIRED: AtomicU64 = AtomicU64::new(0);
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
static FIRSTS: Mutex<Firsts> = Mutex::new(Firsts { by_time: BTreeMap::new() });

/// No job waits.
const NEVER: Millis = Millis::MAX;

/// Queues by a moment at or before the one at which their first job is due.
///
/// When that moment becomes earlier, the queue is entered again at once. When it becomes later, as with every claim, the entry stays,
/// and is corrected only when INFO meets it: a claim pays one write for it.
struct Firsts {
    by_time: BTreeMap<(Millis, u64), Arc<First>>,
}

/// When the first job of a queue is due: in truth, and as the list has it.
struct First {
    due: AtomicU64,
    entered: AtomicU64,
}

fn firsts() -> MutexGuard<'static, Firsts> {
    FIRSTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Firsts {
    fn enter(&mut self, number: u64, first: &Arc<First>, due: Millis) {
        let entered = first.entered.swap(due, Relaxed);
        self.by_time.remove(&(entered, number));
        self.by_time.insert((due, number), Arc::clone(first));
    }

    /// The earliest moment at which any job is due. Corrects the entries it meets on its way.
    fn earliest(&mut self) -> Option<Millis> {
        loop {
            let (&(entered, number), first) = self.by_time.first_key_value()?;
            let due = first.due.load(Relaxed);
            if due == entered {
                return (due != NEVER).then_some(due);
            }
            let first = Arc::clone(first);
            self.enter(number, &first, due);
        }
    }
}

/// What the totals contain of one queue.
pub struct Contribution {
    number: u64,
    jobs: [u64; STORED_STATES],
    expired: u64,
    first: Arc<First>,
}

impl Contribution {
    pub fn of(queue: &Queue) -> Contribution {
        QUEUES.fetch_add(1, Relaxed);
        let number = NEXT_NUMBER.fetch_add(1, Relaxed);
        let first = Arc::new(First { due: AtomicU64::new(NEVER), entered: AtomicU64::new(NEVER) });
        firsts().enter(number, &first, NEVER);
        // Leases that ended before the queue came here were counted where it came from.
        let mut contribution =
            Contribution { number, jobs: [0; STORED_STATES], expired: queue.totals().counters.expired_leases, first };
        contribution.update(queue, || true);
        contribution
    }

    /// To be called after each change of the queue. Leases whose end was counted elsewhere, where the change was made, are not counted
    /// here (`is_replayed`).
    pub fn update(&mut self, queue: &Queue, is_replayed: impl FnOnce() -> bool) {
        let jobs = queue.stored_states();
        for ((total, counted), now) in JOBS.iter().zip(&mut self.jobs).zip(jobs) {
            if *counted != now {
                total.fetch_add(now.wrapping_sub(*counted), Relaxed);
                *counted = now;
            }
        }
        let expired = queue.totals().counters.expired_leases;
        if expired > self.expired && !is_replayed() {
            EXPIRED.fetch_add(expired - self.expired, Relaxed);
        }
        self.expired = expired;
        let due = queue.first_due().unwrap_or(NEVER);
        self.first.due.store(due, Relaxed);
        if due < self.first.entered.load(Relaxed) {
            firsts().enter(self.number, &self.first, due);
        }
    }
}

impl Drop for Contribution {
    fn drop(&mut self) {
        QUEUES.fetch_sub(1, Relaxed);
        for (total, counted) in JOBS.iter().zip(self.jobs) {
            total.fetch_sub(counted, Relaxed);
        }
        let mut firsts = firsts();
        let entered = self.first.entered.load(Relaxed);
        firsts.by_time.remove(&(entered, self.number));
    }
}

/// All queues together.
pub struct AllQueues {
    pub queues: u64,
    /// By [`Queue::stored_states`].
    pub jobs: [u64; STORED_STATES],
    /// For how long the job has been due that has been so the longest; 0: none is.
    pub longest_wait: Millis,
    /// Leases that ended without ACK or NACK, counted when something next happens to their jobs.
    pub expired_leases: u64,
}

pub fn totals(now: Millis) -> AllQueues {
    let earliest = firsts().earliest();
    AllQueues {
        queues: QUEUES.load(Relaxed),
        jobs: JOBS.each_ref().map(|jobs| jobs.load(Relaxed)),
        longest_wait: earliest.map_or(0, |due| now.saturating_sub(due)),
        expired_leases: EXPIRED.load(Relaxed),
    }
}
