//! The invariants of a queue, for tests: panics where one does not hold.

use super::job::Job;
use super::node::{Links, TREES, Tree};
use super::rate::MAX_ENTRIES;
use super::tree;
use super::{MAX_TIME, Queue};
use crate::model::chunks::NIL;
use std::collections::HashSet;

const ALL: [Tree; TREES] = [
    Tree::Ready,
    Tree::Scheduled,
    Tree::Leased,
    Tree::Spent,
    Tree::Dead,
    Tree::Retrying,
    Tree::Recurring,
    Tree::Upcoming,
];

impl Queue {
    pub(super) fn check(&self) {
        let mut seen = Vec::new();
        for (tree, root) in self.all_roots().flat_map(|roots| ALL.into_iter().zip(*roots)) {
            let before = seen.len();
            self.check_tree(root, tree, &mut seen);
            let in_order =
                seen[before..].is_sorted_by(|&a, &b| tree::key(&self.jobs[a].node) < tree::key(&self.jobs[b].node));
            assert!(in_order, "a tree is in order of time");
        }
        assert_eq!(seen.len(), self.len(), "every job is in one tree");
        let numbers: HashSet<u64> = seen.iter().map(|&s| self.jobs[s].node.seq).collect();
        assert_eq!(numbers.len(), self.len(), "push numbers are distinct");
        for &slot in &seen {
            let job = &self.jobs[slot];
            assert_eq!(self.index.find(&self.jobs, job.id()), Some(slot));
            self.check_job(job);
        }
        self.check_returns(&seen);
        self.check_groups(&seen);
        let bodies: usize = seen.iter().map(|&s| self.jobs[s].body.len()).sum();
        assert_eq!(bodies, self.body_bytes);
        let recurring = |&&s: &&u32| self.jobs[s].recurrence.is_some();
        assert_eq!(seen.iter().filter(recurring).count(), self.recurring);
        self.priorities.check(seen.iter().map(|&slot| self.jobs[slot].node.priority));
        let noted = |&&s: &&u32| self.jobs[s].is_noted();
        assert_eq!(seen.iter().filter(noted).count(), self.notes.len());
        assert!(seen.iter().filter(noted).all(|&s| self.notes.get(self.jobs[s].node.seq).is_some()));
        assert!(self.index.buckets() <= 2 * self.len() + 1);
        let log = self.rate_log.entries();
        assert!(log.len() <= MAX_ENTRIES && log.is_sorted_by(|a, b| a.back_at < b.back_at));
    }

    fn check_job(&self, job: &Job) {
        assert!(job.node.seq < self.next_seq && job.token <= self.last_token);
        assert!(job.node.time <= MAX_TIME);
        match job.node.tree {
            Tree::Ready => assert!(!job.exhausted()),
            Tree::Scheduled | Tree::Upcoming => {
                assert!(!job.exhausted());
                assert_eq!(job.delayed_tree(job.node.time), job.node.tree);
            }
            Tree::Leased | Tree::Retrying => {
                assert!(!job.exhausted() && job.token > 0);
                assert_eq!(job.claimed_tree(&self.settings), job.node.tree);
            }
            Tree::Spent | Tree::Recurring => {
                assert!(job.exhausted() && job.token > 0);
                assert_eq!(job.claimed_tree(&self.settings), job.node.tree);
            }
            Tree::Dead => assert!(job.token == 0),
        }
    }

    fn check_tree(&self, root: u32, tree: Tree, seen: &mut Vec<u32>) {
        if root == NIL {
            return;
        }
        let node = &self.jobs[root].node;
        assert_eq!(node.tree, tree);
        let Links { left, right, size } = node.links;
        self.check_tree(left, tree, seen);
        seen.push(root);
        self.check_tree(right, tree, seen);
        let children = [left, right].map(|child| tree::size(&self.jobs, child));
        assert_eq!(size, children[0] + children[1] + 1);
        let (light, heavy) = (children[0] + 1, children[1] + 1);
        assert!(light <= 3 * heavy && heavy <= 3 * light, "balanced");
        if !tree.is_served() {
            return;
        }
        let children = [left, right].map(|child| tree::best(&self.jobs, child));
        let best = children.into_iter().fold(root, |a, b| self.order().better(&self.jobs, a, b));
        assert_eq!(node.best, best);
    }
}
