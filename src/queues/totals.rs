//! Totals of all queues for INFO: the number of queues, the jobs in each state, and how long a job has waited for a claim.
//! Each change of a queue updates the totals, so INFO opens no queue.
//!
//! The totals include a queue from the creation of its value (by a push, a load or a copy) until the server frees the
//! value. The server can free it in another thread, so the totals are atomics, and a lock protects the list of queues.

use crate::base::time::{Millis, NEVER};
use crate::queues::model::{Queue, STORED_STATES};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static QUEUES: AtomicU64 = AtomicU64::new(0);
static JOBS: [AtomicU64; STORED_STATES] = [const { AtomicU64::new(0) }; STORED_STATES];
static EXPIRED_LEASES: AtomicU64 = AtomicU64::new(0);
/// The number of jobs that became dead letters, for INFO.
static DEAD_LETTERS: AtomicU64 = AtomicU64::new(0);
/// How many jobs, and runs of recurring jobs, were dropped because their TTL ended. For INFO.
static EXPIRED_JOBS: AtomicU64 = AtomicU64::new(0);
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
static FIRSTS: Mutex<Firsts> = Mutex::new(Firsts { by_time: BTreeMap::new() });

/// The queues, ordered by the time at which the first job of a queue begins to wait for a claim ([`Queue::waits`]).
///
/// If this time of a queue becomes earlier, the queue's entry is moved at once. If this time becomes later, as it does
/// at each claim, only `First::due` changes, so a claim usually needs no lock. The time of the entry is then too early,
/// until INFO moves the entry.
struct Firsts {
    by_time: BTreeMap<(Millis, u64), Arc<First>>,
}

/// `due` is the time of a queue ([`Queue::waits`]). `entered` is the time that [`Firsts`] has for the queue. If
/// `entered` is outdated, it is earlier than `due`.
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

    /// Returns the earliest time of all queues, or `None` if no job waits or will wait. Also moves the outdated entries at
    /// the beginning of `by_time` to their current times.
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
        // Leases that expired before this value was created have been counted already.
        let mut contribution =
            Contribution { number, jobs: [0; STORED_STATES], expired: queue.totals().counters.expired_leases, first };
        contribution.update(queue, || true);
        contribution
    }

    /// Updates the totals after a change of the queue. If `is_replayed` returns true, this function does not count
    /// expired leases, because the server that ran the command has counted them.
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
            EXPIRED_LEASES.fetch_add(expired - self.expired, Relaxed);
        }
        self.expired = expired;
        let due = queue.waits().unwrap_or(NEVER);
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

pub fn dead_letters() -> u64 {
    DEAD_LETTERS.load(Relaxed)
}

pub fn count_dead_letters(count: u64) {
    DEAD_LETTERS.fetch_add(count, Relaxed);
}

pub fn expired_jobs() -> u64 {
    EXPIRED_JOBS.load(Relaxed)
}

pub fn count_expired_jobs(count: u64) {
    EXPIRED_JOBS.fetch_add(count, Relaxed);
}

pub struct AllQueues {
    pub queues: u64,
    /// The number of jobs in each state, in the order of [`Queue::stored_states`].
    pub jobs: [u64; STORED_STATES],
    /// How long, in ms, a job has waited for a claim ([`Queue::waits`]). 0 if no job waits.
    pub longest_wait: Millis,
    /// The number of leases that expired without ACK or NACK. An expired lease is counted when its job changes next.
    pub expired_leases: u64,
}

pub fn totals(now: Millis) -> AllQueues {
    let earliest = firsts().earliest();
    AllQueues {
        queues: QUEUES.load(Relaxed),
        jobs: JOBS.each_ref().map(|jobs| jobs.load(Relaxed)),
        longest_wait: earliest.map_or(0, |due| now.saturating_sub(due)),
        expired_leases: EXPIRED_LEASES.load(Relaxed),
    }
}
