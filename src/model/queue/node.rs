//! The trees of a queue, and the part of a job that a tree reads.

use super::Millis;
use super::job::State;
use crate::model::chunks::NIL;

/// The tree of a job. Only an effect moves a job to another tree. Time does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum TreeId {
    /// A command made the job due at once: a push, a NACK without delay, REDRIVE. The job stays ready if the clock steps back.
    Ready = 0,
    /// The job waits for its due time.
    Delayed = 1,
    /// The job is claimed and has attempts left. There is no BACKOFF: the job is due again when its lease expires.
    Claimed = 2,
    /// The job is claimed for the last time. It is dead when its lease expires.
    Spent = 3,
    /// A command made the job a dead letter.
    Dead = 4,
    /// The job is claimed and has attempts left. After its lease has expired, it waits for BACKOFF. See [`super::returns`].
    Retrying = 5,
    /// The job has EVERY and is claimed for the last time. When its lease expires, it waits for its next occurrence.
    Recurring = 6,
    /// The job has EVERY and waits for an occurrence. With ORDERED, the job does not keep its group closed.
    Upcoming = 7,
}

impl TreeId {
    /// Returns two states of a job in this tree: its state before the time by which the tree orders it, and its state
    /// from that time on. The first state is also the stored state. A job in [`TreeId::Retrying`] or
    /// [`TreeId::Recurring`] is delayed from its time until [`Job::back_at`](super::job::Job::back_at).
    pub fn states(self) -> (State, State) {
        match self {
            TreeId::Ready => (State::Ready, State::Ready),
            TreeId::Delayed | TreeId::Upcoming => (State::Delayed, State::Ready),
            TreeId::Claimed | TreeId::Retrying | TreeId::Recurring => (State::Claimed, State::Ready),
            TreeId::Spent => (State::Claimed, State::Dead),
            TreeId::Dead => (State::Dead, State::Dead),
        }
    }

    /// Whether this tree has an order of serving, because its jobs are ready or will be. Dead jobs have no such order.
    /// Neither have claimed jobs that die, or wait for their next occurrence, when their lease expires.
    pub fn is_served(self) -> bool {
        match self {
            TreeId::Ready | TreeId::Delayed | TreeId::Claimed | TreeId::Retrying | TreeId::Upcoming => true,
            TreeId::Spent | TreeId::Dead | TreeId::Recurring => false,
        }
    }
}

/// The trees of claimed jobs.
pub(super) const CLAIMED: [TreeId; 4] = [TreeId::Claimed, TreeId::Spent, TreeId::Retrying, TreeId::Recurring];

/// The trees whose jobs become ready at the time by which the tree orders them.
pub(super) const FALLING_DUE: [TreeId; 3] = [TreeId::Delayed, TreeId::Claimed, TreeId::Upcoming];

/// The number of trees.
pub(super) const TREES: usize = 8;

/// The index in [`Roots`] of the tree that orders the jobs in [`TreeId::Retrying`] by the time at which they are due
/// again.
pub(super) const RETRIES: usize = TREES;
/// The index in [`Roots`] of the tree that orders the jobs in [`TreeId::Recurring`] by the time at which they are due
/// again.
pub(super) const RECURRENCES: usize = TREES + 1;

/// The roots of a group: its trees, and its two trees of returns.
pub(super) type Roots = [u32; TREES + 2];

/// The position of an item in its tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub left: u32,
    pub right: u32,
    /// The number of items in this subtree.
    pub size: u32,
}

impl Links {
    /// The links of a tree with one item.
    pub const ALONE: Links = Links { left: NIL, right: NIL, size: 1 };
}

/// The part of a job that the trees read. It is small, so a step down a tree reads one place in memory.
#[derive(Clone, Debug)]
pub(super) struct JobNode {
    /// The due time, the deadline of the lease, or the time of death.
    pub time: Millis,
    /// The push number, unique in the queue.
    pub seq: u64,
    pub priority: i32,
    pub links: Links,
    /// The job of this subtree that is served first. Unused if the tree is not served ([`TreeId::is_served`]).
    pub best: u32,
    pub tree: TreeId,
    /// The upper bits of [`Job::created`](super::job::Job::created), and two flags of the job. Without this field,
    /// these bytes would be padding.
    pub high: [u8; 3],
}
