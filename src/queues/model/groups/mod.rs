//! Groups of jobs, for example one for each customer. The groups take turns: each claim of a job serves the next group.
//!
//! # The idea
//!
//! A group is *open* if a claim can get a job from it. **Without commands, a group whose jobs have no TTL can open but
//! never closes.** A closed group opens when a job becomes due, a lease expires, or a unit of GROUPRATE becomes
//! available again. So each group has one time, `opens_at`, from which on it is open. Only a command changes this time.
//!
//! The groups with jobs form a *ring*: a tree in the order of their turns ([`ring`]). Each group in the ring stores the
//! least `opens_at` of its subtree. So one walk down the tree finds the first group that is open at `now`, and a claim
//! serves this group. The least `opens_at` of all groups is the next time at which a claim gets a job.
//!
//! TTLs can close a group. So a group with TTLs is closed before `opens_at`, but need not be open after this time. The
//! group also stores `closes_at`, the latest end of its TTLs, and is closed from `closes_at` on. Between these two
//! times, a claim searches the group for a job ([`Queue::is_open`]). The walk skips subtrees whose latest `closes_at`
//! has passed.
//!
//! A group goes to the end of the ring when one of its jobs is claimed, or when it gets its first job. A closed group
//! keeps its place, so it is served soon after it opens.
//!
//! # The trees of a job
//!
//! | job | trees of its group (`Job::node`) | trees of all jobs with a group (`Member::node`) |
//! |---|---|---|
//! | without a group | [`Queue::roots`]: the group without a name | - |
//! | with a group | `Group::roots` | `Groups::roots` |
//!
//! The trees of a group determine which of its jobs is served next, and when. The trees of all jobs with a group count
//! and list these jobs by state and time. A queue whose jobs have no group has no [`Groups`], and no cost for groups.
//!
//! # ORDERED
//!
//! The *head* of a group is the job with the lowest push number. Dead letters and expired jobs do not count. A claim
//! gets the head if the head is ready and no job of the group is claimed. So `opens_at` is the due time of the head, or
//! the latest deadline of the group's leases if that is later. If the head has a TTL, the group may open when this TTL
//! ends, because another job becomes the head then.
//!
//! A recurring job that waits for an occurrence is not the head. Otherwise, the job would keep its group closed until
//! that occurrence. Once the recurring job is due, a claim gets this job instead of the head, if the recurring job has
//! the lower push number and no worker has claimed the head before. After this claim, the leases and retries of the
//! recurring job keep the group closed.
//!
//! # Held groups
//!
//! ZQ.HOLD, and NACK with HOLD, set a time before which a group does not open. The next claim that gets a job of the
//! group clears this time. A hold also ends when the group has no job left.
//!
//! # The largest groups
//!
//! Each group in the ring also stores the largest number of jobs in its subtree. So [`Queue::largest_groups`] finds the
//! groups with most jobs without a list of all groups.
//!
//! # The life of a group
//!
//! A group exists as long as it has a job, including dead letters, or taken units of GROUPRATE. A group without jobs is
//! *idle*: it has no turn. When all units of an idle group are available again, a push, a claim or the upkeep removes
//! the group.
//!
//! A change of GROUPRATE updates only the groups with jobs. The queue updates the units of an idle group when the group
//! gets a job, or in the upkeep ([`Queue::settle_groups`]).

mod changes;
mod ring;
mod table;
#[cfg(test)]
mod tests;
pub(super) mod times;
mod view;

use super::items::{DueEntry, Member};
use super::node::{JobNode, Roots, TreeId};
use super::query::{JobItems, JobTree};
use super::rate::{Rate, RateLog};
use super::{ALLOCATION, Millis, Queue, tree};
use crate::base::chunks::{Chunks, NIL};
use crate::base::sparse::{Off, Sparse};
use std::collections::BTreeMap;
use std::sync::Arc;
use table::GroupTable;
use times::Times;
#[cfg(test)]
pub(super) use view::MAX_COUNTED;

/// One claim, or one run of the upkeep, corrects the logs of taken units (GROUPRATE) of at most this number of groups
/// ([`RateLog::settle`]). Later claims and runs correct the other logs.
const SETTLED_AT_ONCE: usize = 128;

/// For each pushed or claimed job, [`Queue::clear_unit_logs`] clears the logs of taken units (GROUPRATE) of at most
/// this number of groups. A claim fills at most one log. So logs are cleared faster than claims fill them.
pub(super) const CLEARED_PER_JOB: usize = 2;

/// One claim, or one run of the upkeep, clears the logs of taken units (GROUPRATE) of at most this number of groups.
const CLEARED_AT_ONCE: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Groups {
    table: GroupTable,
    /// The groups by name. The key of the group without a name is empty.
    names: BTreeMap<Arc<[u8]>, u32>,
    /// The root of the tree of groups with jobs ([`ring`]).
    ring: u32,
    next_turn: u64,
    /// The group without a name, or `NIL` if it does not exist.
    nameless: u32,
    members: Chunks<Member>,
    /// The roots of the trees that contain all jobs with a group.
    roots: Roots,
    /// The groups with taken units of GROUPRATE, ordered by the time at which their last unit becomes available again,
    /// then by name.
    with_units: BTreeMap<(Millis, Arc<[u8]>), u32>,
    name_bytes: usize,
    /// The memory of [`Group::rare`] of all groups.
    rare_bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    name: Arc<[u8]>,
    /// The roots of the trees of the group's jobs. Unused by the group without a name, whose jobs are in the trees of
    /// the queue.
    roots: Roots,
    /// The number of the group's jobs, including dead letters. A group without jobs is idle: it has no turn.
    jobs: u32,
    /// The largest number of jobs that a group in the subtree of this node has.
    most_jobs: u32,
    /// The group's node in the ring ([`ring`]). Groups take turns in the order of `JobNode::seq`. A group without jobs
    /// does not use its node.
    node: JobNode,
    times: Times,
    /// The earliest times of the groups in the subtree of this node.
    least: Times,
    rare: Sparse<Rare>,
}

/// The data that most groups do not have, in an allocation of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rare {
    /// The taken units of GROUPRATE.
    log: RateLog,
    /// No claim gets a job of this group before this time. 0: the group is not held.
    held_until: Millis,
}

impl Off for Rare {
    const OFF: &'static Self = &Rare { log: RateLog::EMPTY, held_until: 0 };
}

impl Group {
    fn rare_bytes(&self) -> usize {
        self.rare.boxed_bytes() + self.rare.log.bytes()
    }
}

impl Groups {
    pub fn new() -> Self {
        Self {
            table: GroupTable::default(),
            names: BTreeMap::new(),
            ring: NIL,
            next_turn: 0,
            nameless: NIL,
            members: Chunks::default(),
            roots: Roots::EMPTY,
            with_units: BTreeMap::new(),
            name_bytes: 0,
            rare_bytes: 0,
        }
    }

    /// Returns the number of jobs in the tree `id` that contains the jobs of all groups.
    pub fn tree_size(&self, id: TreeId) -> u32 {
        tree::size(&self.members, self.roots[id])
    }

    /// Returns the tree `id` that contains the jobs of all groups.
    pub fn tree_of_all_groups<'a>(&'a self, id: TreeId, due_entries: &'a Chunks<DueEntry>) -> JobTree<'a> {
        let items =
            if id.is_of_due_entries() { JobItems::DueEntries(due_entries) } else { JobItems::Members(&self.members) };
        JobTree { items, root: self.roots[id] }
    }

    #[cfg(test)]
    pub fn roots_of_all_groups(&self) -> &Roots {
        &self.roots
    }

    pub fn member_chunks_mut(&mut self) -> &mut [Vec<Member>] {
        self.members.chunks_mut()
    }

    /// Returns the name of a job's group. `member` is the number of the job's [`Member`]. If it is `NIL`, the name is
    /// empty.
    pub fn name_of(&self, member: u32) -> &[u8] {
        if member == NIL { b"" } else { &self.table[self.members[member].group].name }
    }

    /// Whether a unit of GROUPRATE stays taken for longer than one window from `now`.
    pub fn needs_settling(&self, rate: Rate, now: Millis) -> bool {
        self.with_units.last_key_value().is_some_and(|((back, _), _)| *back > rate.back_at(now))
    }

    /// Returns the earliest time at which a group has all its units of GROUPRATE again.
    pub fn first_back_at(&self) -> Option<Millis> {
        self.with_units.first_key_value().map(|((back, _), _)| *back)
    }

    /// Estimates the memory of the groups in bytes, without their jobs. O(1).
    pub fn memory_usage(&self) -> usize {
        /// The memory of one entry in `names` or `with_units`, in bytes, including the overhead of its allocation.
        const ENTRY: usize = 40;
        size_of::<Self>()
            + self.table.bytes()
            + self.members.bytes()
            + self.name_bytes
            + self.names.len() * (ENTRY + 2 * size_of::<usize>() + 2 * ALLOCATION)
            + self.with_units.len() * (ENTRY + size_of::<Arc<[u8]>>() + ALLOCATION)
            + self.rare_bytes
    }

    /// Returns the roots of the trees of a group. `nameless` has the roots of the group without a name.
    fn roots_of<'a>(&'a self, group: u32, nameless: &'a Roots) -> &'a Roots {
        if group == self.nameless { nameless } else { &self.table[group].roots }
    }

    fn group_of(&self, member: u32) -> u32 {
        if member == NIL { self.nameless } else { self.members[member].group }
    }
}

/// Returns the root of the tree `tree`. `member` selects the jobs that the tree contains:
///
/// - `None`: all jobs with a group.
/// - `NIL`: the jobs without a group. The root is in `roots`.
/// - The number of a [`Member`]: the jobs of the member's group.
pub(super) fn root_mut<'a>(
    roots: &'a mut Roots,
    groups: Option<&'a mut Groups>,
    member: Option<u32>,
    tree: TreeId,
) -> &'a mut u32 {
    let roots = match (groups, member) {
        (Some(groups), None) => &mut groups.roots,
        (Some(groups), Some(member)) if member != NIL => &mut groups.table[groups.members[member].group].roots,
        _ => roots,
    };
    &mut roots[tree]
}

impl Queue {
    /// Returns the roots of the trees of the group with this name. If there is no such group, the trees are empty.
    pub(super) fn roots_by_name(&self, name: &[u8]) -> &Roots {
        static NONE: Roots = Roots::EMPTY;
        match &self.groups {
            Some(groups) => groups.names.get(name).map_or(&NONE, |&group| groups.roots_of(group, &self.roots)),
            None if name.is_empty() => &self.roots,
            None => &NONE,
        }
    }
}
