//! A queue (data type `zeitqueue`). It is a timer, a delay queue, a priority queue and a reliable queue in one. The
//! code uses no server, no clock and no I/O: the current time is always the parameter `now`.
//!
//! # Terms
//!
//! - A claim gives a worker a *lease* on a job, and a *token*. The lease expires at its *deadline*. ACK, NACK, EXTEND
//!   and PROGRESS need the token.
//! - The queue numbers its pushes. A job has the *push number* of its push.
//! - The *serving order* is the order in which claims take ready jobs: by priority, due time and push number. AGING and
//!   ORDERED change this order ([`tree`]).
//! - A job with EVERY is *recurring*: after an ACK, it waits for its next *occurrence*.
//! - A *dead letter* is a job in the state `Dead`. Claims do not take dead letters.
//! - The *upkeep* acts on a queue without a command. For example, it drops expired jobs ([`wake`]).
//!
//! # Time alone changes nothing
//!
//! No job moves when it becomes due or when its lease expires. Each job is in one of eight trees
//! ([`TreeId`](node::TreeId)), and each tree is ordered by one time of its jobs. This time and `now` determine the
//! state of a job:
//!
//! | tree | its time | before that time | from that time on |
//! |---|---|---|---|
//! | `Ready` | due | ready | ready |
//! | `Delayed` | due | delayed | ready |
//! | `Upcoming` | due: the next occurrence (EVERY) | delayed | ready |
//! | `Claimed` | deadline | claimed | ready |
//! | `ClaimedBackoff` | deadline | claimed | delayed by BACKOFF, then ready |
//! | `ClaimedLast` | deadline | claimed, last attempt | dead |
//! | `ClaimedRecurring` | deadline | claimed, last attempt | delayed until the next occurrence (EVERY), then ready |
//! | `Dead` | when the job became a dead letter | dead | dead |
//!
//! Each node of a tree stores the size of its subtree, and which job of the subtree is served first. So the queue
//! answers each of these questions in O(log n):
//!
//! - how many jobs are in a state at `now`,
//! - which ready job is served first,
//! - when the next job becomes due.
//!
//! A job in `ClaimedBackoff` or `ClaimedRecurring` is also in a second tree, which is ordered by the time at which the
//! job is due again ([`due_entries`]).
//!
//! For each state, [`query::parts`] lists the trees that contain its jobs. For each tree, this list says whether all
//! jobs have the state, only jobs with `time <= now`, or only jobs with `time > now`. Every read of a state uses this
//! list.
//!
//! If the clock steps back, a job in `Ready` stays ready. A job in another tree may return to its earlier state,
//! delayed or claimed.
//!
//! # Only effects change a queue
//!
//! For each job, a command computes the change at `now`, applies it, and returns it as an [`Effect`]. A replica applies
//! the same effects. The stored form ([`Queue::encode`]) contains the jobs as the last effect left them, not their
//! states at `now`. So master and replica have the same stored form, whatever their clocks say. The expiry of a lease
//! needs no replication.
//!
//! The counter `expired_leases` is also the same on master and replica. It grows when an effect moves a job whose lease
//! has expired. The effect's own time ([`Effect::at`]) decides whether the lease has expired. [`Queue::stats`] adds the
//! expired leases of jobs that no effect has moved yet.
//!
//! # Expired jobs, and pushes behind a claim
//!
//! If the TTL of a job has ended, no claim gets the job, and the upkeep drops it with an effect ([`expiry`]). Until
//! then, the job still counts as ready or delayed. If a push with AGAIN has the ID of a claimed job, the push waits
//! until the claim ends ([`followers`]). The effect that ends the claim makes this push a job. A push with DECLARE, a
//! *declaration*, waits in the same way, and then changes the job ([`declare`]).
//!
//! # Times and limits
//!
//! All times are Unix milliseconds, and all durations are milliseconds: 0 ..= [`MAX_TIME`]. The commands reject values
//! that are out of range. The functions of this module clamp such values, and never panic.
//!
//! If the clock steps back by an hour, a delayed job waits an hour longer, and a lease lasts an hour longer. But the
//! next claim corrects the times of taken units of RATE, so these units become available again within one window.
//!
//! # Costs
//!
//! With n jobs, each operation on one job is O(log n). Memory:
//!
//! | for | bytes |
//! |---|---|
//! | each job | a slot of 88, 10 in the index, and one allocation for ID and payload |
//! | EVERY, or a TTL | 16 with ID and payload |
//! | a claim with BACKOFF, a failure, a worker's name, or PROGRESS | 56 in a second allocation, and the texts |
//! | a TTL | 24 to 34 in the set of jobs that expire, 64 in a tree of jobs with a TTL |
//! | a claimed job in `ClaimedBackoff` or `ClaimedRecurring` | 64, with a group 128 |
//!
//! The memory of removed jobs is freed, whatever the order of removal ([`Chunks`]).

mod claim;
mod clean;
mod codec;
mod declare;
mod due_entries;
mod effect;
mod expiry;
mod extras;
pub mod field;
mod finish;
mod followers;
mod groups;
mod ids;
mod items;
mod job;
mod job_data;
mod manage;
mod node;
mod place;
mod priorities;
mod push;
mod query;
mod rate;
mod relocate;
mod settings;
mod stats;
#[cfg(test)]
mod tests;
mod transitions;
mod tree;
mod view;
mod wake;

pub use claim::Claimed;
pub use clean::TooManySkipped;
pub use effect::{Change, Effect, JobChange, Totals};
pub use field::{Field, Notation};
pub use finish::{Fate, NackOptions};
pub use ids::AutoId;
pub use job::Attempt;
pub use job_data::{Extras, JobData, MAX_PROGRESS, MAX_WORKER, NewJob};
#[cfg(test)]
pub use job_data::{Recurrence, Ttl};
pub use node::State;
pub use push::{Full, Push};
pub use rate::{Rate, Taken};
pub use settings::Settings;
pub use stats::{Counters, STORED_STATES};
pub use view::{AfterError, JobFilter};

use crate::base::chunks::Chunks;
use crate::base::index::Index;
use crate::base::sparse::{Off, Sparse};
use crate::base::time::{MAX as MAX_TIME, Micros, Millis, NEVER};
use groups::Groups;
use items::DueEntry;
use job::Job;
use node::Roots;
use priorities::Priorities;
use rate::RateLog;
use std::collections::BTreeSet;
use tree::ServingOrder;

/// The maximum of `now`. It is less than [`MAX_TIME`], because a deadline must be later than `now`.
const MAX_NOW: Millis = MAX_TIME - 1;

/// The overhead of an allocation in bytes, estimated.
const ALLOCATION: usize = 12;

/// The maximum of tokens, push numbers and counters. In practice, no queue reaches this number.
const MAX_COUNT: u64 = 1 << 62;

#[derive(Clone, Debug, Default)]
pub struct Queue {
    jobs: Chunks<Job>,
    /// The jobs on which the upkeep must act ([`expiry`]), for example because their TTL ends: the time, and the job's
    /// slot.
    expiries: Sparse<BTreeSet<(Millis, u32)>>,
    /// The jobs by ID. Empty while the queue has few jobs ([`place`]).
    index: Index,
    /// The trees of the jobs without a group.
    roots: Roots,
    due_entries: Sparse<Chunks<DueEntry>>,
    settings: Sparse<Settings>,
    rate_log: Sparse<RateLog>,
    /// The three counters that almost every job increases. They are 0 in `rare_counters`, which has the other counters.
    pushed: u64,
    claimed: u64,
    acked: u64,
    rare_counters: Sparse<Counters>,
    last_token: u64,
    last_id: AutoId,
    next_seq: u64,
    /// The heap memory of the elements of `jobs`, in bytes.
    owned_bytes: usize,
    /// The number of pushes with AGAIN that wait for the end of a claim. MAXLEN counts these pushes.
    followers: u32,
    priorities: Sparse<Priorities>,
    /// The groups of jobs. `None` if no job has a group, no group is held, and GROUPCONCURRENCY, GROUPRATE and ORDERED
    /// are off.
    groups: Option<Box<Groups>>,
}

impl Queue {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of jobs, including dead letters.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the queue has only counters: no job, no taken unit of RATE or GROUPRATE, and no setting that differs
    /// from its default. A hold (ZQ.HOLD) needs no check, because it ends with the last job of its group. O(1).
    pub fn is_unused(&self) -> bool {
        self.is_empty()
            && self.groups.is_none()
            && self.rate_log.last_back_at().is_none()
            && *self.settings == *Settings::OFF
    }

    /// Whether the last token or generated ID is ahead of the clock, because the clock was set back. If such a queue
    /// were deleted, the next claim or push could repeat that token or ID.
    pub fn is_ahead(&self, now: Millis) -> bool {
        self.last_token / 1000 > now || self.last_id.ms > now
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn totals(&self) -> Totals {
        let &Queue { last_token, last_id, next_seq, pushed, claimed, acked, .. } = self;
        let counters = Counters { pushed, claimed, acked, ..*self.rare_counters };
        Totals { last_token, last_id, next_seq, counters }
    }

    /// Estimates the memory in bytes, including the overhead of the allocator. O(1).
    pub fn memory_usage(&self) -> usize {
        /// Estimates the bytes of a B-tree with `len` elements, whose nodes are about two thirds full.
        const fn tree<T>(len: usize) -> usize {
            len * size_of::<T>() * 3 / 2
        }
        size_of::<Self>()
            + self.jobs.bytes()
            + self.index.bytes()
            + self.due_entries.bytes()
            + self.due_entries.boxed_bytes()
            + self.settings.boxed_bytes()
            + self.rate_log.boxed_bytes()
            + self.rare_counters.boxed_bytes()
            + self.priorities.boxed_bytes()
            + self.expiries.boxed_bytes()
            + self.owned_bytes
            + self.len() * ALLOCATION
            + tree::<(Millis, u32)>(self.expiries.len())
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

    /// Whether the keys of the trees ([`node::OrderKey`]) alone determine the serving order: all jobs have the same
    /// priority, and ORDERED is off.
    fn is_served_by_key(&self) -> bool {
        !self.settings.ordered && self.priorities.are_one(self.len())
    }
}
