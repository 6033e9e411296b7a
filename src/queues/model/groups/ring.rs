//! The ring: a tree of the groups with jobs, in the order of their turns. Each group also stores the earliest times
//! ([`Times`]) and the largest number of jobs of its subtree.

use super::times::Times;
use super::{Group, Groups};
use crate::base::chunks::NIL;
use crate::queues::model::node::JobNode;
use crate::queues::model::query::ByTime;
use crate::queues::model::tree::{self, Item, Items, ServingOrder};
use crate::queues::model::{Millis, NEVER};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl Item for Group {
    const SERVED: bool = false;

    fn node(&self) -> &JobNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut JobNode {
        &mut self.node
    }

    fn update_bounds(items: &mut impl Items<Group>, root: u32) -> bool {
        let Group { times, jobs, ref node, .. } = items[root];
        let children = [node.links.left, node.links.right].into_iter().filter(|&child| child != NIL);
        let (least, most_jobs) = children
            .map(|child| &items[child])
            .fold((times, jobs), |(least, most), child| (least.outer(child.least), most.max(child.most_jobs)));
        let group = &mut items[root];
        let has_changed = (group.least, group.most_jobs) != (least, most_jobs);
        (group.least, group.most_jobs) = (least, most_jobs);
        has_changed
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

    /// Gives a group the last turn: adds it at the end of the ring. The group must not be in the ring.
    pub(super) fn enqueue(&mut self, group: u32) {
        self.table[group].node.seq = self.next_turn;
        self.next_turn += 1;
        self.ring = tree::insert(&mut self.table, self.ring, group, ServingOrder::default());
    }

    pub(super) fn set_times(&mut self, group: u32, times: Times) {
        if std::mem::replace(&mut self.table[group].times, times) != times {
            self.update_ring(group);
        }
    }

    /// After a change of a group, updates the earliest times and the largest number of jobs that the ring stores of
    /// each subtree. The group must be in the ring. O(log n).
    pub(super) fn update_ring(&mut self, group: u32) {
        tree::update_path(&mut self.table, self.ring, group);
    }

    /// Returns the earliest times of all groups with jobs.
    fn least(&self) -> Times {
        if self.ring == NIL { Times::NEVER } else { self.table[self.ring].least }
    }

    /// Returns a time before which no claim gets a job of any group.
    pub(super) fn opens_at(&self) -> Millis {
        self.least().opens_at
    }

    /// Returns a time after `now` before which no claim gets a job of any group. Must be called only if no group is
    /// open at `now`. The [`Times`] of a group may allow a claim at `now` although all its ready jobs have expired. For
    /// such a group, `next` must return the time.
    pub(super) fn opens_after(&self, now: Millis, next: impl Fn(u32) -> Millis) -> Millis {
        self.opens_after_in(self.ring, now, &next)
    }

    fn opens_after_in(&self, root: u32, now: Millis, next: &impl Fn(u32) -> Millis) -> Millis {
        let of = |times: &Times| match times.may_be_open(now) {
            true => None,
            false if times.opens_at > now => Some(times.opens_at),
            false => Some(NEVER),
        };
        if root == NIL {
            return NEVER;
        }
        let Group { least, times, node, .. } = &self.table[root];
        of(least).unwrap_or_else(|| {
            let own = of(times).unwrap_or_else(|| next(root));
            [node.links.left, node.links.right]
                .into_iter()
                .fold(own, |opens_at, child| opens_at.min(self.opens_after_in(child, now, next)))
        })
    }

    /// Returns the earliest time from which on a job of any group waits for a claim.
    pub(in crate::queues::model) fn waits_from(&self) -> Millis {
        self.least().waits_from
    }

    /// Of the groups whose turn comes after `turn`, returns the first one that has a ready job at `now`, or `NIL`.
    /// O(log n).
    pub(super) fn next_ready(&self, turn: Option<u64>, now: Millis) -> u32 {
        self.first_where(turn, |times| times.ready_at <= now, |_| true)
    }

    /// Of the groups whose turn comes after `behind`, returns the first one for which `may` and `is` return true, or
    /// `NIL`. To skip subtrees, the search also calls `may` with the [outer](Times::outer) times of a subtree. So if
    /// `may` returns true for a group, it must return true for each subtree that contains the group.
    pub(super) fn first_where(
        &self,
        behind: Option<u64>,
        may: impl Fn(&Times) -> bool,
        is: impl Fn(u32) -> bool,
    ) -> u32 {
        self.first_in(self.ring, behind, &may, &is)
    }

    fn first_in(
        &self,
        root: u32,
        behind: Option<u64>,
        may: &impl Fn(&Times) -> bool,
        is: &impl Fn(u32) -> bool,
    ) -> u32 {
        #[cfg(test)]
        crate::queues::model::query::STEPS.set(crate::queues::model::query::STEPS.get() + 1);
        if root == NIL || !may(&self.table[root].least) {
            return NIL;
        }
        let Group { times, node: JobNode { seq, links, .. }, .. } = &self.table[root];
        if behind.is_none_or(|behind| *seq > behind) {
            let found = self.first_in(links.left, behind, may, is);
            if found != NIL {
                return found;
            }
            if may(times) && is(root) {
                return root;
            }
        }
        self.first_in(links.right, behind, may, is)
    }

    /// Visits the groups with jobs, until `visit` returns false. The second argument of `visit` is the number of jobs of
    /// the group, or 0 if the group has no ready job at `now`. The groups are visited in the order of this number, the
    /// largest first. O(log n) per group.
    pub(super) fn by_jobs(&self, now: Millis, mut visit: impl FnMut(u32, u32) -> bool) {
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        enum Piece {
            Subtree(Reverse<u32>),
            Group(Reverse<u32>),
        }
        let most_ready = |times: Times, jobs: u32| if times.ready_at <= now { jobs } else { 0 };
        let subtree = |root: u32| {
            let Group { least, most_jobs, .. } = self.table[root];
            (most_ready(least, most_jobs), Piece::Subtree(Reverse(root)))
        };
        let mut pieces: BinaryHeap<_> = Some(self.ring).filter(|&root| root != NIL).map(subtree).into_iter().collect();
        while let Some((most, piece)) = pieces.pop() {
            match piece {
                Piece::Group(Reverse(group)) => {
                    if !visit(group, most) {
                        return;
                    }
                }
                Piece::Subtree(Reverse(root)) => {
                    let Group { times, jobs, ref node, .. } = self.table[root];
                    pieces.push((most_ready(times, jobs), Piece::Group(Reverse(root))));
                    pieces.extend([node.links.left, node.links.right].into_iter().filter(|&it| it != NIL).map(subtree));
                }
            }
        }
    }

    pub(in crate::queues::model) fn with_jobs(&self) -> usize {
        tree::size(&self.table, self.ring) as usize
    }

    /// Lists the groups with jobs in the order of their turns.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = u32> {
        ByTime::of(&self.table, self.ring, None).map(|(group, _)| group)
    }
}
