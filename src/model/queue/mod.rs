//! The `zeitqueue`: timers, delayed, priority and reliable queues in one value. Pure: no server, no clock, no I/O.
//! `now` is always a parameter.
//!
//! # The idea
//!
//! **Nothing happens when time passes.** A job falls due, and a lease ends, without anything being moved, because the
//! structures answer "as of `now`" by themselves. Each job hangs in exactly one of eight trees (`node::TreeId`), ordered
//! by the one time that matters for it (due time, lease deadline, death), and every node knows the size of its subtree
//! and which job in it is to be served first (`tree`). So counting a state, finding the best due job and finding the
//! next moment of interest are each a walk down two or three trees: O(log n), with no promotion, no backlog, no
//! batches. CLAIM is right by construction: the best of *all* due jobs is served, also when a million fell due in this
//! very millisecond, and reads (`&self`) see exactly what a write would.
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
//! Jobs in `Retrying` and `Recurring` are also in a second tree, by when they are due again (`returns`).
//!
//! A job that a command made due at once is `Ready` for good, so a clock that steps back does not hide it; a job that was
//! given a later time is judged by the clock, whichever way it moves.
//!
//! **State changes by effects only** (`effect`). Each command decides by the clock, then carries out one transition
//! per job, and hands out the [`Effect`] that makes the same transition on a replica. What stands in the trees is
//! canonical; what the clock makes of it is computed, never stored. So the serialised form ([`Queue::encode`]) of
//! primary and replica agree whatever their clocks say, and a lease that ends is not an event to replicate.
//! Even the counter `expired_leases` agrees: a lease is added to the stored count when its job moves on (the effect's
//! `at` says whether it had ended), and until then it is counted by the clock.
//!
//! # What has expired, and what waits behind a claim
//!
//! A job with a TTL that is over is dropped when a claim or the upkeep meets it ([`expiry`]): this takes an effect, and until then the job counts in its
//! state. A push that waits behind a claim (AGAIN) becomes a job with the effect that ends the job in front of it ([`again`]).
//!
//! # Times and limits
//!
//! All times are Unix milliseconds, durations milliseconds, 0 ..= [`MAX_TIME`]. The command layer rejects what is out of
//! range with the errors of the contract; here such values are brought into range, and nothing panics.
//!
//! A due time or a deadline is an instant. When the clock steps back by an hour, a delayed job waits, and a lease lasts,
//! an hour longer; units of RATE alone are brought forward, as the next CLAIM can tell that they are held too long.
//!
//! # Costs
//!
//! n jobs: every operation on one job is O(log n), whatever is in flight. A job takes a slot of 88 bytes, 10
//! bytes of index, and one allocation for id and payload; a recurring one 16 bytes more, and one that has failed, or was
//! claimed by a worker with a name, some 70 bytes and those words. One that is claimed and will wait after its lease takes 64 bytes
//! more, with a group twice that (`returns`). A TTL takes 16 bytes with the job and some 24 in the set of those that expire. What a job took is given back when it goes, whatever order jobs go in (`model/chunks.rs`).

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
pub use job::{Extras, MAX_WORKER, Record, Recurrence, State};
#[cfg(test)]
pub use job::{JobView, Ttl};
pub use push::{Full, NewJob, Push};
pub use rate::{Rate, Taken};
pub use settings::Settings;
pub use stats::{Counters, STORED_STATES};
pub use transitions::Attempt;
pub use view::{NoPage, Which};

use super::chunks::{Chunks, NIL};
use super::time::{MAX as MAX_TIME, Micros, Millis};
use crate::model::index::Index;
use again::Followers;
use groups::Groups;
use job::{Job, Timing};
use node::{Roots, TREES};
use notes::Notes;
use priorities::Priorities;
use rate::RateLog;
use returns::Returns;
use std::collections::BTreeSet;
use tree::ServingOrder;

/// The latest `now` at which a lease can still lie ahead.
const MAX_NOW: Millis = MAX_TIME - 1;

/// A moment that does not come.
const NEVER: Millis = Millis::MAX;

/// The highest token and push number: so high that counting on from it never overflows.
const MAX_TOKEN: u64 = 1 << 62;

/// One queue.
#[derive(Clone, Debug)]
pub struct Queue {
    jobs: Chunks<Job>,
    notes: Notes,
    followers: Followers,
    /// The jobs the upkeep has to do something about, by when, and their slots.
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
    /// Bytes of all ids and payloads.
    body_bytes: usize,
    /// Jobs with EVERY or TTL.
    timed: usize,
    /// Of all jobs.
    priorities: Priorities,
    /// Only if there is a job with a group, or a setting of groups.
    groups: Option<Box<Groups>>,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Queue {
    /// An empty queue with all settings off. O(1); takes no memory beyond the value itself.
    pub fn new() -> Self {
        Self {
            jobs: Chunks::default(),
            notes: Notes::default(),
            followers: Followers::default(),
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

    /// Jobs in whatever state, dead ones included. O(1).
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there is no job in any state.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What ZQ.CONFIG has set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The counters that go on for the life of the queue.
    pub fn totals(&self) -> Totals {
        Totals { last_token: self.last_token, last_id: self.last_id, next_seq: self.next_seq, counters: self.counters }
    }

    /// An estimate of the bytes held, allocator overhead included. O(1).
    pub fn memory_usage(&self) -> usize {
        /// What an allocation costs beyond its bytes: rounding and bookkeeping.
        const ALLOCATION: usize = 12;
        /// What an entry of a set whose nodes are two thirds full takes.
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

    /// What it takes to free the queue: allocations. O(1).
    pub fn free_effort(&self) -> usize {
        self.len()
    }

    fn order(&self) -> ServingOrder {
        self.settings.order()
    }
}
