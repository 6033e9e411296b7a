//! Additional entries of a job: in the trees that contain all jobs with a group, and in trees that are ordered by due
//! time or by the end of the TTL.

use super::Millis;
use super::node::{JobNode, Links, OrderKey, TreeId, key};
use super::tree::{Item, Items};
use crate::base::chunks::NIL;

/// A job's entry in the trees that contain all jobs with a group.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub node: JobNode,
    pub job: u32,
    pub group: u32,
}

impl Item for Member {
    /// The trees that contain all jobs with a group need no serving order, because no claim takes a job from them.
    const SERVED: bool = false;

    fn node(&self) -> &JobNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut JobNode {
        &mut self.node
    }

    fn job(&self, _number: u32) -> u32 {
        self.job
    }
}

/// A job's entry in a tree of [`TreeId::OF_DUE_ENTRIES`]. The time of its node is the time at which the job is due
/// (again): [`Job::due_again_at`](super::job::Job::due_again_at).
#[derive(Clone, Debug)]
pub(super) struct DueEntry {
    pub node: JobNode,
    /// The deadline of the job's lease. In a tree of [`TreeId::OF_TTL`], the end of the job's TTL.
    pub end: Millis,
    /// The earliest deadline of the subtree: if it is in the future, a search for expired leases skips the subtree. In
    /// a tree of [`TreeId::OF_TTL`], the latest end of a TTL: if it has passed, all jobs of the subtree have expired.
    pub bound: Millis,
    pub job: u32,
    /// Whether the entry is in the tree that contains the jobs of all groups. If not, it is in the tree of the job's
    /// own group.
    pub of_all_groups: bool,
}

impl Item for DueEntry {
    fn node(&self) -> &JobNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut JobNode {
        &mut self.node
    }

    fn key(&self) -> OrderKey {
        let (due, priority, seq) = key(&self.node);
        (if self.node.tree == TreeId::ReadyTtl { self.end } else { due }, priority, seq)
    }

    fn job(&self, _number: u32) -> u32 {
        self.job
    }

    fn first_deadline(&self) -> Millis {
        self.bound
    }

    fn update_bounds(items: &mut impl Items<DueEntry>, root: u32) -> bool {
        let Links { left, right, .. } = items[root].node.links;
        let children = [left, right].into_iter().filter(|&child| child != NIL);
        let is_of_ttl = TreeId::OF_TTL.contains(&items[root].node.tree);
        let outer = if is_of_ttl { Millis::max } else { Millis::min };
        let bound = children.map(|child| items[child].bound).fold(items[root].end, outer);
        std::mem::replace(&mut items[root].bound, bound) != bound
    }
}
