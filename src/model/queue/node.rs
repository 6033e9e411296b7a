//! What of a job its tree looks at, and which trees there are.

use super::Millis;
use super::job::State;
use crate::model::chunks::NIL;

/// The tree a job hangs in: exactly one of eight. It follows from what the last effect made of the job
/// ([`Record::state`](super::job::Record::state)), and changes by effects only, never because time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum TreeId {
    /// Ready because a command said so (a push that was due at once, a NACK without delay, REDRIVE). It stays ready
    /// when the clock steps back.
    Ready = 0,
    /// Waits for its due time.
    Delayed = 1,
    /// Claimed with attempts left, without BACKOFF: when the lease ends it is due again.
    Claimed = 2,
    /// Claimed for the last time: when the lease ends it is dead.
    Spent = 3,
    /// Dead by command.
    Dead = 4,
    /// Claimed with attempts left: when the lease ends it is due again after BACKOFF. See [`super::returns`].
    Retrying = 5,
    /// Claimed for the last time, with EVERY: when the lease ends it waits for its next occurrence.
    Recurring = 6,
    /// Has EVERY and waits for an occurrence: it holds nobody under ORDERED.
    Upcoming = 7,
}

impl TreeId {
    /// The state of its jobs before their time, which is also their stored state, and from then on. In [`TreeId::Retrying`] and
    /// [`TreeId::Recurring`], a job is delayed from its time until [`Job::back_at`](super::job::Job::back_at).
    pub fn states(self) -> (State, State) {
        match self {
            TreeId::Ready => (State::Ready, State::Ready),
            TreeId::Delayed | TreeId::Upcoming => (State::Delayed, State::Ready),
            TreeId::Claimed | TreeId::Retrying | TreeId::Recurring => (State::Claimed, State::Ready),
            TreeId::Spent => (State::Claimed, State::Dead),
            TreeId::Dead => (State::Dead, State::Dead),
        }
    }

    /// Whether its jobs are served, or wait for that in the order in which they will be: not the dead, nor those that will die or come back
    /// for their next occurrence when their leases end.
    pub fn is_served(self) -> bool {
        match self {
            TreeId::Ready | TreeId::Delayed | TreeId::Claimed | TreeId::Retrying | TreeId::Upcoming => true,
            TreeId::Spent | TreeId::Dead | TreeId::Recurring => false,
        }
    }
}

/// The trees of claimed jobs.
pub(super) const CLAIMED: [TreeId; 4] = [TreeId::Claimed, TreeId::Spent, TreeId::Retrying, TreeId::Recurring];

/// The trees whose jobs are ready from their time on.
pub(super) const FALLING_DUE: [TreeId; 3] = [TreeId::Delayed, TreeId::Claimed, TreeId::Upcoming];

/// How many trees there are.
pub(super) const TREES: usize = 8;

/// The jobs in [`TreeId::Retrying`] by when they are due again.
pub(super) const RETRIES: usize = TREES;
/// The jobs in [`TreeId::Recurring`] by when they are due again.
pub(super) const RECURRENCES: usize = TREES + 1;

/// The roots of the trees of a group, and of its two trees of returns.
pub(super) type Roots = [u32; TREES + 2];

/// An item's place in its tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub left: u32,
    pub right: u32,
    /// Items in this subtree.
    pub size: u32,
}

impl Links {
    /// Of a tree of one item.
    pub const ALONE: Links = Links { left: NIL, right: NIL, size: 1 };
}

/// The part of a job the trees look at, kept together so that a step down a tree touches one spot of memory.
#[derive(Clone, Debug)]
pub(super) struct JobNode {
    /// Due time; lease deadline while claimed; moment of death when dead.
    pub time: Millis,
    /// Order of push; unique in the queue.
    pub seq: u64,
    pub priority: i32,
    pub links: Links,
    /// The job of this subtree that is served first, where any is ([`TreeId::is_served`]).
    pub best: u32,
    pub tree: TreeId,
    /// The upper bits of [`Job::created`](super::job::Job::created), and two flags of the job: here, where there would be a gap otherwise.
    pub high: [u8; 3],
}
