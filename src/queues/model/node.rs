//! The trees of a queue, and the part of a job that a tree reads ([`JobNode`]).

use super::Millis;
use crate::base::chunks::NIL;
use std::ops::{Index, IndexMut};

/// The state of a job. As time passes, it can differ from the *stored state*, the state after the last effect. The
/// numbers of the variants are part of the stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The job is due. CONCURRENCY, RATE or PAUSED may prevent a claim.
    Ready = 0,
    /// The job is not due yet.
    Delayed = 1,
    /// A worker holds a lease on the job.
    Claimed = 2,
    /// The job is a dead letter: it has no attempts left, or a NACK made it a dead letter.
    Dead = 3,
}

impl State {
    pub const ALL: [State; 4] = [State::Ready, State::Delayed, State::Claimed, State::Dead];

    /// Returns the name of the state in replies and in the replication stream.
    pub fn name(self) -> &'static str {
        ["ready", "delayed", "claimed", "dead"][self as usize]
    }
}

/// The kind of a tree. The jobs of a group are in several trees, one of each kind: [`Roots`] has the roots of these
/// trees. A job is in a tree of one of the kinds [`TreeId::OF_JOBS`]. Only an [`Effect`](super::effect::Effect) moves a
/// job to a tree of another kind. The table in [`queue`](super) shows the states of the jobs in each tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum TreeId {
    /// The command that set the due time of the job set a time that had come already, for example a push, a NACK
    /// without a delay, or REDRIVE.
    Ready = 0,
    Delayed = 1,
    /// The job is claimed and has attempts left, and BACKOFF is off. When the lease expires, the job is due again.
    Claimed = 2,
    /// The job is claimed, and this is its last attempt. When the lease expires, the job becomes a dead letter.
    ClaimedLast = 3,
    Dead = 4,
    /// The job is claimed and has attempts left, and BACKOFF is on. When the lease expires, the job waits for the delay
    /// of BACKOFF ([`super::due_entries`]).
    ClaimedBackoff = 5,
    /// The job is recurring and claimed, and has no attempts left. When the lease expires, the job waits for its next
    /// occurrence (EVERY).
    ClaimedRecurring = 6,
    /// The job is recurring and waits for its next due time. With ORDERED, such a job does not block its group.
    Upcoming = 7,
    /// Has an entry for each job in `ClaimedBackoff`, ordered by the time at which the job is due again
    /// ([`super::due_entries`]).
    BackoffDue = 8,
    /// Has an entry for each job in `ClaimedRecurring`, ordered by the time of the job's next occurrence
    /// ([`super::due_entries`]).
    RecurringDue = 9,
    /// Has an entry for each job in `Ready` that has a TTL, ordered by the end of the TTL ([`super::expiry`]).
    ReadyTtl = 10,
    /// Has an entry for each job in `Delayed`, `Claimed` and `ClaimedBackoff` that has a TTL, ordered by the time at
    /// which the job is due (again).
    WaitingTtl = 11,
    /// Has an entry for each job in `Upcoming` and `ClaimedRecurring` that has a TTL, ordered by the time at which the
    /// job is due (again).
    UpcomingTtl = 12,
}

impl TreeId {
    pub const OF_JOBS: [TreeId; 8] = [
        TreeId::Ready,
        TreeId::Delayed,
        TreeId::Claimed,
        TreeId::ClaimedLast,
        TreeId::Dead,
        TreeId::ClaimedBackoff,
        TreeId::ClaimedRecurring,
        TreeId::Upcoming,
    ];
    pub const OF_DUE_ENTRIES: [TreeId; 5] =
        [TreeId::BackoffDue, TreeId::RecurringDue, TreeId::ReadyTtl, TreeId::WaitingTtl, TreeId::UpcomingTtl];
    pub const OF_TTL: [TreeId; 3] = [TreeId::ReadyTtl, TreeId::WaitingTtl, TreeId::UpcomingTtl];
    pub const OF_LEASES: [TreeId; 4] =
        [TreeId::Claimed, TreeId::ClaimedLast, TreeId::ClaimedBackoff, TreeId::ClaimedRecurring];

    /// Returns two states of a job in this tree: the state before [`JobNode::time`], and the state from
    /// [`Job::due_again_at`](super::job::Job::due_again_at) on. The first state is also the stored state. Between the
    /// two times, the job is delayed. The two times differ only in [`TreeId::ClaimedBackoff`] and
    /// [`TreeId::ClaimedRecurring`].
    pub fn states(self) -> (State, State) {
        match self {
            TreeId::Ready | TreeId::ReadyTtl => (State::Ready, State::Ready),
            TreeId::Delayed
            | TreeId::Upcoming
            | TreeId::BackoffDue
            | TreeId::RecurringDue
            | TreeId::WaitingTtl
            | TreeId::UpcomingTtl => (State::Delayed, State::Ready),
            TreeId::Claimed | TreeId::ClaimedBackoff | TreeId::ClaimedRecurring => (State::Claimed, State::Ready),
            TreeId::ClaimedLast => (State::Claimed, State::Dead),
            TreeId::Dead => (State::Dead, State::Dead),
        }
    }

    /// Returns the tree that has a due entry for each job in this tree ([`super::due_entries`]), if there is one.
    pub fn second(self) -> Option<TreeId> {
        match self {
            TreeId::ClaimedBackoff => Some(TreeId::BackoffDue),
            TreeId::ClaimedRecurring => Some(TreeId::RecurringDue),
            _ => None,
        }
    }

    /// Returns the tree of [`TreeId::OF_TTL`] with the entries of this tree's jobs that have a TTL. Returns `None` if
    /// claims never get a job of this tree, for example a dead letter.
    pub fn of_ttl(self) -> Option<TreeId> {
        match self {
            TreeId::Ready => Some(TreeId::ReadyTtl),
            TreeId::Delayed | TreeId::Claimed | TreeId::ClaimedBackoff => Some(TreeId::WaitingTtl),
            TreeId::Upcoming | TreeId::ClaimedRecurring => Some(TreeId::UpcomingTtl),
            _ => None,
        }
    }

    /// Whether this tree contains due entries, which refer to jobs ([`super::due_entries`]). Other trees contain jobs.
    pub fn is_of_due_entries(self) -> bool {
        self as u8 >= TreeId::BackoffDue as u8
    }

    /// Whether this tree stores the serving order of its jobs. Trees of dead letters, and of claimed jobs without an
    /// attempt left, do not store this order.
    pub fn is_served(self) -> bool {
        !matches!(self, TreeId::ClaimedLast | TreeId::Dead | TreeId::ClaimedRecurring)
    }
}

/// The roots of thirteen trees, one for each [`TreeId`]. A queue has one `Roots` for the jobs without a group, and one
/// for each group. If it has groups, it also has one `Roots` for all jobs with a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roots([u32; 13]);

impl Roots {
    pub const EMPTY: Roots = Roots([NIL; 13]);

    /// Whether any job in these trees has a TTL. Ignores dead letters, and jobs that become dead letters when their
    /// leases expire.
    pub fn have_ttl(&self) -> bool {
        TreeId::OF_TTL.into_iter().any(|tree| self[tree] != NIL)
    }

    /// Returns the roots of the trees that contain jobs ([`TreeId::OF_JOBS`]).
    pub fn of_jobs(&self) -> impl Iterator<Item = u32> {
        TreeId::OF_JOBS.map(|tree| self[tree]).into_iter()
    }
}

impl Default for Roots {
    fn default() -> Self {
        Roots::EMPTY
    }
}

impl Index<TreeId> for Roots {
    type Output = u32;

    fn index(&self, tree: TreeId) -> &u32 {
        &self.0[tree as usize]
    }
}

impl IndexMut<TreeId> for Roots {
    fn index_mut(&mut self, tree: TreeId) -> &mut u32 {
        &mut self.0[tree as usize]
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub left: u32,
    pub right: u32,
    pub size: u32,
}

impl Links {
    pub const ALONE: Links = Links { left: NIL, right: NIL, size: 1 };

    pub fn child(&mut self, is_left: bool) -> &mut u32 {
        if is_left { &mut self.left } else { &mut self.right }
    }
}

/// The part of a job that the trees read. This part is small, so a step down a tree reads one place in memory.
#[derive(Clone, Debug)]
pub(super) struct JobNode {
    /// The time that orders the tree: the due time, the deadline, or the time at which the job became a dead letter.
    pub time: Millis,
    /// The push number, unique in the queue.
    pub seq: u64,
    pub priority: i32,
    pub links: Links,
    /// The item of this subtree that is served first, or `NIL`. Only [candidates](JobNode::is_candidate) count. Unused
    /// if the tree has no serving order ([`TreeId::is_served`]).
    pub best: u32,
    pub tree: TreeId,
    /// The upper bits of [`Job::created`](super::job::Job::created), and three flags of the job. Without this field,
    /// these bytes would be padding.
    pub high: [u8; 3],
}

/// The key of an item in a tree: time, priority, push number. Without ORDERED, jobs with the same time are in serving
/// order, whatever the value of AGING is.
pub(super) type OrderKey = (Millis, i32, u64);

pub(super) fn key(node: &JobNode) -> OrderKey {
    (node.time, node.priority, node.seq)
}

/// A flag in the last byte of [`JobNode::high`]: the job has a TTL, so a claim finds it in one of
/// [`TreeId::OF_TTL`].
pub(super) const HAS_TTL: u8 = 0x20;

impl JobNode {
    /// Whether the item is a *candidate*: it can be the item of its tree that is served first. A job with a TTL is a
    /// candidate only in a tree of [`TreeId::OF_TTL`].
    pub fn is_candidate(&self) -> bool {
        self.high[2] & HAS_TTL == 0
    }

    /// Returns a node that is not in a tree.
    pub fn new((time, priority, seq): OrderKey) -> JobNode {
        JobNode { time, seq, priority, links: Links::ALONE, best: NIL, tree: TreeId::Ready, high: [0; 3] }
    }
}
