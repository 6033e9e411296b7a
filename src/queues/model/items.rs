//! The items of trees that refer to a job: a job's entry in the trees of all groups, and its entry in a tree of due
//! times.

use super::Millis;
use super::node::{JobNode, Links};
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
    /// No claim takes a job from the trees that contain all jobs with a group. So these trees need no serving order.
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

/// A job's entry in a tree of [`TreeId::OF_DUE_ENTRIES`](super::node::TreeId::OF_DUE_ENTRIES), ordered by the time at which the job is due again
/// ([`Job::back_at`](super::job::Job::back_at)).
#[derive(Clone, Debug)]
pub(super) struct DueEntry {
    pub node: JobNode,
    pub deadline: Millis,
    /// The earliest deadline of the subtree. If it is in the future, a search for expired leases skips the subtree.
    pub first_deadline: Millis,
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

    fn job(&self, _number: u32) -> u32 {
        self.job
    }

    fn first_deadline(&self) -> Millis {
        self.first_deadline
    }

    fn gather(items: &mut impl Items<DueEntry>, root: u32) -> bool {
        let Links { left, right, .. } = items[root].node.links;
        let children = [left, right].into_iter().filter(|&child| child != NIL);
        let first = children.map(|child| items[child].first_deadline).fold(items[root].deadline, Millis::min);
        std::mem::replace(&mut items[root].first_deadline, first) != first
    }
}
