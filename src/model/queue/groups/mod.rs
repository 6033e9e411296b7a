//! Groups of jobs, for example one for each customer or account. The groups take turns.
//!
//! # The idea
//!
//! **Without commands, a group can open but never closes.** Jobs become due, leases expire, units of GROUPRATE become
//! available again. So each group has one time, `opens`, from which on a claim gets a job of the group. Only a command
//! changes this time. The groups with jobs are in a tree in the order of their turns ([`ring`]). Each group stores the
//! least `opens` of its subtree. A claim serves the first group in the ring that is open at `now`: one walk down the
//! tree. The least `opens` of all groups is the next time at which a claim gets a job. Nothing changes when time
//! passes.
//!
//! After a claim of one job, the group goes to the end of the ring. A new group, and an idle group that gets a job,
//! also starts at the end. A closed group keeps its place, so it is served soon after it opens.
//!
//! # The trees of a job
//!
//! | job | trees of its group (`Job::node`) | trees of all jobs with a group (`Member::node`) |
//! |---|---|---|
//! | without a group | [`Queue::roots`]: the group without a name | - |
//! | with a group | `Group::roots` | `Groups::roots` |
//!
//! The trees of a group determine which of its jobs is served next, and when. The other trees count and list the jobs
//! of all groups by state and time. A queue whose jobs have no group has no [`Groups`], and no cost for them.
//!
//! # ORDERED
//!
//! The *head* of a group is the job with the lowest push number that is not dead. A claim gets the head if it is ready and no job of the
//! group is claimed. When the last lease of the group expires, each claimed job is due again, waits for its BACKOFF, or is dead. So `opens`
//! is the latest deadline of a lease, or the due time of the head if that is later.
//!
//! A recurring job that waits for an occurrence is not the head, because it would keep its group closed until that
//! occurrence. When the job is due, it takes its place in the order of pushes. From then on, its leases and retries
//! keep the group closed.
//!
//! # Held groups
//!
//! ZQ.HOLD, and NACK with HOLD, set a time before which a group does not open. A claim that gets a job of the group
//! clears this time, because it has passed. A hold also ends when the last job leaves the group.
//!
//! # The life of a group
//!
//! A group exists as long as it has a job, even a dead one, or stored units of GROUPRATE. When all units of a group are
//! available again, pushes and claims forget them in small steps. In queues that are not used, the upkeep forgets them.
//!
//! A group without jobs is idle: it has no turn, and only its units are stored. A change of GROUPRATE processes only
//! the groups with jobs. The units of an idle group are adapted when the group gets a job, or by the upkeep
//! ([`Queue::settle_groups`]).

mod changes;
mod ring;
mod table;
#[cfg(test)]
mod tests;
pub(super) mod times;
mod view;

use super::node::{JobNode, Roots, TREES};
use super::rate::{Rate, RateLog};
use super::tree::Item;
use super::{Millis, Queue};
use crate::model::chunks::{Chunks, NIL};
use std::collections::BTreeMap;
use std::sync::Arc;
use table::GroupTable;

/// The maximum number of groups whose units one claim or one run of the upkeep settles. The next claim or run
/// continues.
const SETTLED_AT_ONCE: usize = 128;

/// Each push and each claimed job forgets the units of at most this many groups. It adds fewer of them, so their number
/// falls.
const FORGOTTEN_BY_USE: usize = 2;

/// The maximum number of groups whose units are forgotten when units are settled.
const FORGOTTEN_AT_ONCE: usize = 64;

/// The groups of a queue.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    table: GroupTable,
    /// The groups by name. The name of the group without a name is empty.
    names: BTreeMap<Arc<[u8]>, u32>,
    /// The root of the tree of groups with jobs ([`ring`]).
    ring: u32,
    next_turn: u64,
    /// The group without a name. `NIL` if it has neither jobs nor units.
    nameless: u32,
    members: Chunks<Member>,
    /// The trees of all members.
    roots: [u32; TREES],
    /// The groups with units of GROUPRATE, by the time at which the last unit becomes available again, and by name.
    held: BTreeMap<(Millis, Arc<[u8]>), u32>,
    /// The bytes of all names.
    name_bytes: usize,
    /// The bytes of all units.
    log_bytes: usize,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    name: Arc<[u8]>,
    /// The trees of the group's jobs. The group without a name uses the trees of the queue instead.
    roots: Roots,
    /// The number of jobs in all states. 0: the group is idle.
    jobs: u32,
    /// The position of the group in the ring. `seq` is the turn of the group. Unused if the group is idle.
    node: JobNode,
    /// The time from which on a claim gets a job of this group.
    opens: Millis,
    /// The time from which on this group has a ready job.
    ready: Millis,
    /// The minimum of `opens` in the subtree. `least_ready` is the minimum of `ready`.
    least_opens: Millis,
    least_ready: Millis,
    log: RateLog,
    /// Before this time, no claim gets a job of this group. 0: the group is not held.
    held_until: Millis,
}

/// The position of a job among all jobs with a group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    node: JobNode,
    pub job: u32,
    group: u32,
}

impl Item for Member {
    /// Only the trees of the groups need the order of serving.
    const SERVED: bool = false;

    fn node(&self) -> &JobNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut JobNode {
        &mut self.node
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
            roots: [NIL; TREES],
            held: BTreeMap::new(),
            name_bytes: 0,
            log_bytes: 0,
        }
    }

    /// Returns the members, and the roots of their trees.
    pub fn members(&self) -> (&Chunks<Member>, &[u32; TREES]) {
        (&self.members, &self.roots)
    }

    pub fn member_chunks_mut(&mut self) -> &mut [Vec<Member>] {
        self.members.chunks_mut()
    }

    /// Returns the name of a job's group.
    pub fn name_of(&self, member: u32) -> &[u8] {
        if member == NIL { b"" } else { &self.table[self.members[member].group].name }
    }

    /// Whether any group has units that are held for longer than a window.
    pub fn unsettled(&self, rate: Rate, now: Millis) -> bool {
        self.held.last_key_value().is_some_and(|((back, _), _)| *back > rate.horizon(now))
    }

    /// Returns the earliest time at which some group has all its units available again.
    pub fn first_back(&self) -> Option<Millis> {
        self.held.first_key_value().map(|((back, _), _)| *back)
    }

    /// Estimates the memory in bytes. O(1).
    pub fn memory_usage(&self) -> usize {
        /// The size of an entry of a map plus the overhead of its allocation.
        const ENTRY: usize = 40;
        const ALLOCATION: usize = 12;
        size_of::<Self>()
            + self.table.bytes()
            + self.members.bytes()
            + self.name_bytes
            + self.names.len() * (ENTRY + 2 * size_of::<usize>() + 2 * ALLOCATION)
            + self.held.len() * (ENTRY + size_of::<Arc<[u8]>>() + ALLOCATION)
            + self.log_bytes
    }

    /// Returns the trees of a group. `nameless`: the trees of the group without a name.
    fn roots_of<'a>(&'a self, group: u32, nameless: &'a Roots) -> &'a Roots {
        if group == self.nameless { nameless } else { &self.table[group].roots }
    }

    fn group_of(&self, member: u32) -> u32 {
        if member == NIL { self.nameless } else { self.members[member].group }
    }
}

impl Queue {
    /// Returns the trees of the group with this name. If there is none, the trees are empty.
    pub(super) fn roots_of(&self, name: &[u8]) -> &Roots {
        static NONE: Roots = [NIL; TREES + 2];
        match &self.groups {
            Some(groups) => groups.names.get(name).map_or(&NONE, |&group| groups.roots_of(group, &self.roots)),
            None if name.is_empty() => &self.roots,
            None => &NONE,
        }
    }

    /// Returns the root of the tree that contains the job.
    pub(super) fn root_of(&mut self, slot: u32) -> &mut u32 {
        let tree = self.jobs[slot].node.tree as usize;
        self.tree_of_job(slot, tree)
    }

    /// Returns the root of a tree of the job's group.
    pub(super) fn tree_of_job(&mut self, slot: u32, tree: usize) -> &mut u32 {
        let job = &self.jobs[slot];
        match &mut self.groups {
            Some(groups) if job.member() != NIL => {
                let group = groups.members[job.member()].group;
                &mut groups.table[group].roots[tree]
            }
            _ => &mut self.roots[tree],
        }
    }
}
