//! The `zeitqueue`: timers, delayed, priority and reliable queues in one value. This code is pure: no server, no clock, no I/O. The current
//! time is always the parameter `now`.
//!
//! # The idea
//!
//! **Time alone changes nothing.** No job moves when it becomes due or when its lease expires. Each job is in one of
//! eight trees ([`TreeId`](node::TreeId)). A tree is ordered by one time of its jobs: the due time, the deadline of the
//! lease, or the time of death. Each node stores the size of its subtree and the job of its subtree that is served
//! first ([`tree`]). Walks down two or three trees answer the following questions in O(log n):
//!
//! - how many jobs are in a state at `now`,
//! - which due job is served first,
//! - when the next job becomes due.
//!
//! A claim finds the job that is served first among all due jobs, even if a million jobs became due in this
//! millisecond. A read (`&self`) sees the same states as a write.
//!
//! | tree | its time | before that time | from that time on |
//! |---|---|---|---|
//! | `Ready` | due | ready | ready |
//! | `Delayed` | due | delayed | ready |
//! | `Upcoming` | due: the next occurrence (EVERY) | delayed | ready |
//! | `Claimed` | lease deadline | claimed | ready: due again at the deadline |
//! | `Retrying` | lease deadline | claimed | delayed by BACKOFF, then ready |
//! | `Spent` | lease deadline | claimed, last attempt | dead since the deadline |
//! | `Recurring` | lease deadline | claimed, last attempt before the next occurrence (EVERY) | delayed until then, then ready, no attempt counted |
//! | `Dead` | death | dead | dead |
//!
//! A job in `Retrying` or `Recurring` is also in a second tree, which is ordered by the time at which jobs are due
//! again ([`returns`]).
//!
//! If a command makes a job due at once, the job is `Ready`. It stays ready if the clock steps back. A job that got a later time is delayed
//! again if the clock steps back before that time.
//!
//! **Only effects change a queue** ([`effect`]). A command decides by the clock, makes one transition for each job, and
//! returns the [`Effect`] that makes the same transition on a replica. The trees hold the result of the last effect.
//! The state by the clock is computed and never stored. So the stored form ([`Queue::encode`]) is the same on master
//! and replica, whatever their clocks say, and the expiry of a lease needs no replication. The counter `expired_leases`
//! is also equal. An effect that moves a job counts its lease if the lease had expired at the effect's `at`. Expired
//! leases of jobs that no effect has moved yet are added by [`Queue::stats`], by the clock.
//!
//! # Expired jobs, and pushes behind a claim
//!
//! If the TTL of a job has ended, a claim or the upkeep drops the job with an effect ([`expiry`]). Until then, the job
//! counts in its state. A push with AGAIN can wait behind a claim. The effect that ends the claim makes this push a job
//! ([`again`]).
//!
//! # Times and limits
//!
//! All times are Unix milliseconds and all durations are milliseconds, 0 ..= [`MAX_TIME`]. The commands reject values that are out of
//! range. The functions here clamp such values. They never panic.
//!
//! A due time or a deadline is an instant. If the clock steps back by an hour, a delayed job waits an hour longer, and
//! a lease lasts an hour longer. Only units of RATE are not: the next CLAIM shortens the time for which they are held
//! to one window.
//!
//! # Costs
//!
//! With n jobs, each operation on one job is O(log n), however many jobs are claimed. Memory:
//!
//! | for | bytes |
//! |---|---|
//! | each job | a slot of 88, 10 in the index, and one allocation for ID and payload |
//! | EVERY, TTL, or both | 32 in a second allocation |
//! | a TTL | 24 in the set of jobs that expire |
//! | a note: a failure, or a worker with a name | 70 and the texts |
//! | a claimed job that waits after its lease ([`returns`]) | 64, with a group 128 |
//!
//! The memory of removed jobs is freed, in any order of removal (`model/chunks.rs`).

mod again;
mod claim;
mod clean;
mod codec;
mod effect;
mod expiry;
mod field;
mod finish;
mod groups;
mod ids;
mod job;
mod manage;
mod node;
mod notes;
mod priorities;
mod push;
mod rate;
mod relocate;
mod returns;
mod settings;
mod side;
mod stats;
mod stretch;
#[cfg(test)]
mod tests;
mod transitions;
mod tree;
mod view;
mod wake;

pub use claim::Claimed;
pub use clean::Unreached;
pub use effect::{Change, Effect, Totals};
pub use field::{Field, Notation};
pub use finish::{Nack, NackOptions};
pub use ids::AutoId;
pub use job::{Extras, MAX_WORKER, Record, State};
#[cfg(test)]
pub use job::{JobView, Recurrence, Ttl};
pub use push::{Full, NewJob, Push};
pub use rate::{Rate, Taken};
pub use settings::Settings;
pub use stats::{Counters, STORED_STATES};
pub use transitions::Attempt;
pub use view::{NoPage, Which};

use super::chunks::{Chunks, NIL};
use super::time::{MAX as MAX_TIME, Micros, Millis};
use crate::model::index::Index;
use again::Follower;
use groups::Groups;
use job::{Job, Timing};
use node::{Roots, TREES};
use notes::Note;
use priorities::Priorities;
use rate::RateLog;
use returns::Returns;
use side::Side;
use std::collections::BTreeSet;
use tree::ServingOrder;

/// The latest `now`. A lease that begins at this time still has a later deadline.
const MAX_NOW: Millis = MAX_TIME - 1;

/// A time after all possible times.
const NEVER: Millis = Millis::MAX;

/// The maximum token and push number. Counters that start from this number never overflow in practice.
const MAX_TOKEN: u64 = 1 << 62;

/// One queue.
#[derive(Clone, Debug)]
pub struct Queue {
    jobs: Chunks<Job>,
    notes: Side<Note>,
    followers: Side<Follower>,
    /// The slots of jobs on which the upkeep must act, each with the time at which it must act ([`expiry`]).
    expiries: BTreeSet<(Millis, u32)>,
    index: Index,
    /// The trees of the jobs without a group.
    roots: Roots,
    returns: Returns,
    settings: Settings,
    rate_log: RateLog,
    counters: Counters,
    last_token: u64,
    last_id: AutoId,
    next_seq: u64,
    /// The bytes of all IDs and payloads.
    body_bytes: usize,
    /// The number of jobs with EVERY or TTL.
    timed: usize,
    /// The priorities of all jobs.
    priorities: Priorities,
    /// `None` if no job has a group and no setting of groups is on.
    groups: Option<Box<Groups>>,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Queue {
    /// Creates an empty queue with all settings off. O(1), without an allocation.
    pub fn new() -> Self {
        Self {
            jobs: Chunks::default(),
            notes: Side::default(),
            followers: Side::default(),
            expiries: BTreeSet::new(),
            index: Index::default(),
            roots: [NIL; TREES + 2],
            returns: Returns::new(),
            settings: Settings::default(),
            rate_log: RateLog::default(),
            counters: Counters::default(),
            last_token: 0,
            last_id: AutoId::default(),
            next_seq: 0,
            body_bytes: 0,
            timed: 0,
            priorities: Priorities::default(),
            groups: None,
        }
    }

    /// Returns the number of jobs in all states, dead ones included. O(1).
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether the queue has no job in any state.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the settings of ZQ.CONFIG.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the counters.
    pub fn totals(&self) -> Totals {
        Totals { last_token: self.last_token, last_id: self.last_id, next_seq: self.next_seq, counters: self.counters }
    }

    /// Estimates the memory in bytes, with the overhead of the allocator. O(1).
    pub fn memory_usage(&self) -> usize {
        /// The overhead of an allocation.
        const ALLOCATION: usize = 12;
        /// The size of an entry in a set whose nodes are two thirds full.
        const EXPIRY: usize = size_of::<(Millis, u32)>() * 3 / 2;
        let timing = size_of::<Timing>() + ALLOCATION;
        size_of::<Self>()
            + self.jobs.bytes()
            + self.index.bytes()
            + self.returns.bytes()
            + self.body_bytes
            + self.len() * ALLOCATION
            + self.timed * timing
            + self.notes.memory_usage()
            + self.followers.memory_usage()
            + self.expiries.len() * EXPIRY
            + self.rate_log.bytes()
            + self.groups.as_deref().map_or(0, Groups::memory_usage)
    }

    /// Returns the number of allocations that a deletion frees. O(1).
    pub fn free_effort(&self) -> usize {
        self.len()
    }

    fn order(&self) -> ServingOrder {
        self.settings.order()
    }
}
