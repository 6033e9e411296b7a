//! The ring: a tree of the groups with jobs, in the order of their turns. Each group also stores two times of its
//! subtree: the earliest time at which a claim can get a job, and the earliest time at which a job is ready.

use super::{Group, Groups};
use crate::base::chunks::NIL;
use crate::queues::model::node::{JobNode, key};
use crate::queues::model::query::ByTime;
use crate::queues::model::tree::{self, Item, Items, ServingOrder};
use crate::queues::model::{Millis, NEVER};

impl Item for Group {
    const SERVED: bool = false;

    fn node(&self) -> &JobNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut JobNode {
        &mut self.node
    }

    fn gather(items: &mut impl Items<Group>, root: u32) -> bool {
        let Group { opens, ready, ref node, .. } = items[root];
        let children = [node.links.left, node.links.right].into_iter().filter(|&child| child != NIL);
        let least = children.fold((opens, ready), |least, child| {
            let child = &items[child];
            (least.0.min(child.least_opens), least.1.min(child.least_ready))
        });
        let it = &mut items[root];
        let known = (it.least_opens, it.least_ready);
        (it.least_opens, it.least_ready) = least;
        least != known
    }
}

impl Groups {
    pub(super) fn requeue(&mut self, group: u32) {
        self.dequeue(group);
        self.enqueue(group);
    }

    pub(super) fn dequeue(&mut self, group: u32) {
        self.ring = tree::remove(&mut self.table, self.ring, group, ServingOrder::default());
    }

    /// Adds a group at the end of the ring. The group must not be in the ring.
    pub(super) fn enqueue(&mut self, group: u32) {
        self.table[group].node.seq = self.next_turn;
        self.next_turn += 1;
        self.ring = tree::insert(&mut self.table, self.ring, group, ServingOrder::default());
    }

    pub(super) fn set_times(&mut self, group: u32, (ready, opens): (Millis, Millis)) {
        let it = &mut self.table[group];
        if (it.ready, it.opens) != (ready, opens) {
            (it.ready, it.opens) = (ready, opens);
            let wanted = key(&self.table[group].node);
            tree::changed(&mut self.table, self.ring, group, wanted);
        }
    }

    /// Returns the earliest time at which a claim can get a job of any group, or [`NEVER`].
    pub(in crate::queues::model) fn opens(&self) -> Millis {
        if self.ring == NIL { NEVER } else { self.table[self.ring].least_opens }
    }

    /// Returns the first group that is open at `now`, or `NIL`. O(log n).
    pub(super) fn turn(&self, now: Millis) -> u32 {
        self.first_from(self.ring, None, now, |group| (group.least_opens, group.opens))
    }

    /// Returns the first group after `turn` that has a ready job at `now`, or `NIL`. O(log n).
    pub(super) fn next_ready(&self, turn: Option<u64>, now: Millis) -> u32 {
        self.first_from(self.ring, turn, now, |group| (group.least_ready, group.ready))
    }

    /// Searches the subtree with the root `root`. Returns the first group whose turn comes after `behind` and whose own
    /// time is at most `now`, or `NIL`. `times` returns two times of a group: the earliest time in the group's subtree,
    /// and the group's own time.
    fn first_from(
        &self,
        root: u32,
        behind: Option<u64>,
        now: Millis,
        times: impl Fn(&Group) -> (Millis, Millis) + Copy,
    ) -> u32 {
        if root == NIL || times(&self.table[root]).0 > now {
            return NIL;
        }
        let JobNode { seq, links, .. } = self.table[root].node;
        if behind.is_none_or(|behind| seq > behind) {
            let found = self.first_from(links.left, behind, now, times);
            if found != NIL {
                return found;
            }
            if times(&self.table[root]).1 <= now {
                return root;
            }
        }
        self.first_from(links.right, behind, now, times)
    }

    pub(in crate::queues::model) fn with_jobs(&self) -> usize {
        tree::size(&self.table, self.ring) as usize
    }

    /// Lists the groups with jobs in the order of their turns.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = u32> {
        ByTime::of(&self.table, self.ring, None).map(|(group, _)| group)
    }
}
