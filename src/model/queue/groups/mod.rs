//! Groups: customers, accounts, aggregates that take turns.
//!
//! # The idea
//!
//! A group is opened by the clock as a job is: **left alone, it only opens up.** Jobs fall due and stay due, leases end, units of
//! GROUPRATE come back. So for every group there is one moment, `opens`, from which on a claim gets a job of it if no command comes in
//! between, and that moment changes only when a command changes the group. The groups with jobs hang in a tree in the order of their turns
//! ([`ring`]), and every group knows the least `opens` of its subtree. So the group whose turn it is, the first one of those that are open
//! `now`, is one walk down this tree, and the least `opens` of all is when to look next: again nothing is promoted when time passes.
//!
//! A group that was served goes to the end of the ring; a group whose first job comes goes there, too. One that was closed for a
//! while keeps its place, and so is served soon after it opens: one job, then it is at the end like the others.
//!
//! # Where the jobs are
//!
//! | job | trees of its group (`Job::node`) | trees of all jobs with a group (`Member::node`) |
//! |---|---|---|
//! | without a group | [`Queue::roots`]: the group without a name | - |
//! | with a group | `Group::roots` | `Groups::roots` |
//!
//! The trees of a group say which of its jobs is next, and when. The others count jobs by state and list them by time, over all
//! groups. A queue in which no job has a group has no [`Groups`] at all, and works as if there were none.
//!
//! # ORDERED
//!
//! The *head* of a group is the job that was pushed first of those that are not dead. It is served when it is ready and no job of
//! the group is claimed. When the last lease of the group ends, every claimed job is due again, waits for its BACKOFF, or is dead; so
//! `opens` is the latest end of a lease, or the moment at which the head is due if that is later.
//!
//! A recurring job that waits for an occurrence is not the head meanwhile: it would hold its group until then. When it is due it takes
//! its place in the order of pushes, and what it does from then on holds its group: a retry, a lease.
//!
//! # Held groups
//!
//! ZQ.HOLD and NACK with HOLD give a group a moment before which it does not open, as the units of a GROUPRATE do. A claim of one of its
//! jobs proves that the moment has passed, and clears it. A hold is one of the jobs that are in the group: it goes with the last of them.
//!
//! # What a group costs
//!
//! A group is there from its first job until its last job is gone, dead ones included, and the last unit of its GROUPRATE is back. Units
//! that are back are forgotten step by step, as jobs are pushed and claimed; in a queue that nobody touches, by the upkeep.
//!
//! A group without jobs is idle: it has no turn, and nothing but its units is kept. A change of GROUPRATE goes through the groups with
//! jobs only. The units of an idle group follow when its next job comes, or by the upkeep ([`Queue::settle_groups`]).

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

/// The most groups whose units a claim or the upkeep settles at once; a later one settles the rest.
const SETTLED_AT_ONCE: usize = 128;

/// The most groups whose units are forgotten after a push or a claim: more than one push or claim can have added.
const FORGOTTEN_BY_USE: usize = 2;

/// The most groups whose units are forgotten when the units of RATE are settled.
const FORGOTTEN_AT_ONCE: usize = 64;

/// The groups of a queue.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    table: GroupTable,
    /// By name. The group without a name has the empty one.
    names: BTreeMap<Arc<[u8]>, u32>,
    /// The root of the ring: the groups with jobs.
    ring: u32,
    next_turn: u64,
    /// The group without a name; `NIL` as long as it has neither jobs nor units.
    nameless: u32,
    members: Chunks<Member>,
    /// The trees of all members.
    roots: [u32; TREES],
    /// The groups with units of GROUPRATE, by when the last one comes back and by name.
    held: BTreeMap<(Millis, Arc<[u8]>), u32>,
    /// Bytes of all names.
    name_bytes: usize,
    /// Bytes of all units.
    log_bytes: usize,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    name: Arc<[u8]>,
    /// Its jobs; those of the group without a name have theirs in the queue.
    roots: Roots,
    /// In whatever state; 0: the group is idle.
    jobs: u32,
    /// Its place in the ring, unless it is idle: `seq` is its turn.
    node: JobNode,
    /// From when on a claim gets a job of it.
    opens: Millis,
    /// From when on it has a ready job.
    ready: Millis,
    /// The least of these of the subtree.
    least_opens: Millis,
    least_ready: Millis,
    log: RateLog,
    /// No claim gets a job of it before; 0: it is not held.
    held_until: Millis,
}

/// A job's place among all jobs with a group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    node: JobNode,
    job: u32,
    group: u32,
}

impl Item for Member {
    /// Jobs are served from the trees of their groups; these trees list them.
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

    /// The jobs that have a group, and the trees they are in, by time.
    pub fn members(&self) -> (&Chunks<Member>, &[u32; TREES]) {
        (&self.members, &self.roots)
    }

    pub fn member_chunks_mut(&mut self) -> &mut [Vec<Member>] {
        self.members.chunks_mut()
    }

    /// The name of a job's group.
    pub fn name_of(&self, member: u32) -> &[u8] {
        if member == NIL { b"" } else { &self.table[self.members[member].group].name }
    }

    /// Whether units of a group are held longer than a window.
    pub fn unsettled(&self, rate: Rate, now: Millis) -> bool {
        self.held.last_key_value().is_some_and(|((back, _), _)| *back > rate.horizon(now))
    }

    /// When all units of a group are back, of the group where that is first.
    pub fn first_back(&self) -> Option<Millis> {
        self.held.first_key_value().map(|((back, _), _)| *back)
    }

    /// An estimate of the bytes held. O(1).
    pub fn memory_usage(&self) -> usize {
        /// What an entry of a map costs, about, and what an allocation costs beyond its bytes.
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

    fn group_of(&self, member: u32) -> u32 {
        if member == NIL { self.nameless } else { self.members[member].group }
    }
}

impl Member {
    pub fn job(&self) -> u32 {
        self.job
    }
}

impl Queue {
    /// The trees of the jobs of a group.
    fn group_roots<'a>(&'a self, groups: &'a Groups, group: u32) -> &'a Roots {
        if group == groups.nameless { &self.roots } else { &groups.table[group].roots }
    }

    /// The trees of the jobs of a group; those of none if it is not there.
    pub(super) fn roots_of(&self, name: &[u8]) -> &Roots {
        static NONE: Roots = [NIL; TREES + 2];
        match &self.groups {
            Some(groups) => groups.names.get(name).map_or(&NONE, |&group| self.group_roots(groups, group)),
            None if name.is_empty() => &self.roots,
            None => &NONE,
        }
    }

    /// The tree of the group that the job belongs to.
    pub(super) fn root_of(&mut self, slot: u32) -> &mut u32 {
        let tree = self.jobs[slot].node.tree as usize;
        self.tree_of_job(slot, tree)
    }

    /// A tree of the group that the job belongs to.
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
