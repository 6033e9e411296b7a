//! Checks of the invariants of a queue.

use super::super::items::DueEntry;
use super::super::job::Job;
use super::super::node::{Links, Roots, TreeId, key};
use super::super::query::ByTime;
use super::super::rate::MAX_ENTRIES;
use super::super::tree::{self, Item, ServingOrder};
use super::super::{MAX_NOW, MAX_TIME, Millis, NEVER, Queue, State};
use crate::base::chunks::NIL;
use std::collections::{BTreeSet, HashSet};

impl Queue {
    /// Returns an upper bound for the number of jobs that a claim gets now. If the bound is not 0, a claim gets at
    /// least one job.
    pub fn claimable(&self, now: Millis) -> u64 {
        let now = now.min(MAX_NOW);
        if self.best_ready(now) == NIL { 0 } else { self.free(now).min(self.count(now, State::Ready)) }
    }

    pub(in crate::queues::model) fn check(&self) {
        let mut seen = Vec::new();
        for (tree, root) in self.roots_of_each_group().flat_map(|roots| TreeId::OF_JOBS.map(|tree| (tree, roots[tree])))
        {
            let before = seen.len();
            self.check_tree(root, tree, &mut seen);
            let in_order = seen[before..].is_sorted_by(|&a, &b| key(&self.jobs[a].node) < key(&self.jobs[b].node));
            assert!(in_order, "a tree is in order of time");
        }
        assert_eq!(seen.len(), self.len(), "every job is in one tree");
        let numbers: HashSet<u64> = seen.iter().map(|&s| self.jobs[s].node.seq).collect();
        assert_eq!(numbers.len(), self.len(), "push numbers are distinct");
        for &slot in &seen {
            let job = &self.jobs[slot];
            assert_eq!(self.slot_of(job.id()), Some(slot));
            self.check_job(job);
        }
        self.check_due_entries(&seen);
        self.check_groups(&seen);
        let of_jobs: usize = seen.iter().map(|&s| self.jobs[s].owned_bytes()).sum();
        assert_eq!(of_jobs, self.owned_bytes);
        self.priorities.check(seen.iter().map(|&slot| self.jobs[slot].node.priority));
        self.check_expiries(&seen);
        self.check_followers(&seen);
        let log = self.rate_log.entries();
        assert!(log.len() <= MAX_ENTRIES && log.is_sorted_by(|a, b| a.back_at < b.back_at));
    }

    fn check_expiries(&self, seen: &[u32]) {
        let expected = seen.iter().map(|&slot| (self.expiry(slot), slot)).filter(|(expiry, _)| *expiry != NEVER);
        assert_eq!(expected.collect::<BTreeSet<_>>(), self.expiries);
        for &(expiry, slot) in &self.expiries {
            let at = expiry.min(MAX_NOW);
            let is_dead = self.jobs[slot].state(at) == State::Dead;
            assert!(
                expiry > at
                    || is_dead && self.has_follower(slot)
                    || self.has_declaration(slot)
                    || self.is_expired(slot, at),
                "there is something to do then"
            );
        }
    }

    fn check_followers(&self, seen: &[u32]) {
        assert_eq!(seen.iter().filter(|&&slot| self.has_follower(slot)).count(), self.followers as usize);
        assert!(seen.iter().all(|&slot| self.jobs[slot].node.tree != TreeId::Dead || !self.has_follower(slot)));
        let mut declared = seen.iter().filter(|&&slot| self.has_declaration(slot));
        let has_lease = |slot: u32| TreeId::OF_LEASES.contains(&self.jobs[slot].node.tree);
        assert!(declared.all(|&slot| has_lease(slot)));
    }

    fn check_job(&self, job: &Job) {
        assert!(job.rare.as_ref().is_none_or(|rare| !rare.is_nothing()));
        assert!(job.node.seq < self.next_seq && job.token <= self.last_token);
        assert!(job.node.time <= MAX_TIME);
        match job.node.tree {
            TreeId::Ready => assert!(!job.exhausted()),
            TreeId::Delayed | TreeId::Upcoming => {
                assert!(!job.exhausted());
                assert_eq!(job.delayed_tree(job.node.time), job.node.tree);
            }
            TreeId::Claimed | TreeId::ClaimedBackoff => {
                assert!(!job.exhausted() && job.token > 0);
                assert_eq!(job.claimed_tree(), job.node.tree);
            }
            TreeId::ClaimedLast | TreeId::ClaimedRecurring => {
                assert!(job.exhausted() && job.token > 0);
                assert_eq!(job.claimed_tree(), job.node.tree);
            }
            TreeId::Dead => assert!(job.token == 0),
            _ => panic!("trees of due entries have no jobs"),
        }
    }

    fn check_tree(&self, root: u32, tree: TreeId, seen: &mut Vec<u32>) {
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
        assert_eq!(node.is_candidate(), self.jobs[root].ttl().is_none());
        let children = [left, right].map(|child| tree::best(&self.jobs, child));
        let own = if node.is_candidate() { root } else { NIL };
        let best = children.into_iter().fold(own, |a, b| self.order().better(&self.jobs, a, b));
        assert_eq!(node.best, best);
    }

    fn check_due_entries(&self, seen: &[u32]) {
        let mut found = Vec::new();
        for roots in self.roots_of_each_group() {
            self.check_due_entry_trees(roots, self.order(), false, &mut found);
        }
        if let Some(groups) = &self.groups {
            self.check_due_entry_trees(groups.roots_of_all_groups(), ServingOrder::default(), true, &mut found);
        }
        let entries = |&slot: &u32| self.entries(slot).map(move |(tree, of_all)| (slot, tree as u8, of_all));
        let mut expected: Vec<_> = seen.iter().flat_map(entries).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(self.due_entries.len(), found.len());
    }

    fn check_due_entry_trees(
        &self,
        roots: &Roots,
        order: ServingOrder,
        of_all_groups: bool,
        found: &mut Vec<(u32, u8, bool)>,
    ) {
        let items = &*self.due_entries;
        for tree in TreeId::OF_DUE_ENTRIES {
            let is_of_ttl = TreeId::OF_TTL.contains(&tree);
            let all: Vec<u32> = ByTime::of(items, roots[tree], None).map(|(entry, _)| entry).collect();
            assert!(all.is_sorted_by_key(|&entry| items[entry].key()));
            for entry in all {
                let it @ DueEntry { job: slot, .. } = &items[entry];
                let job = &self.jobs[*slot];
                assert_eq!(key(&it.node), (job.due_again_at(), job.node.priority, job.node.seq));
                let end = if is_of_ttl { self.end_of_ttl(*slot) } else { job.node.time };
                assert_eq!((it.end, it.of_all_groups, it.node.tree), (end, of_all_groups, tree));
                assert_eq!(it.node.is_candidate(), is_of_ttl || job.ttl().is_none());
                let Links { left, right, .. } = it.node.links;
                let children = || [left, right].into_iter().filter(|&child| child != NIL);
                let outer = if is_of_ttl { Millis::max } else { Millis::min };
                assert_eq!(it.bound, children().map(|child| items[child].bound).fold(it.end, outer));
                let own = if it.node.is_candidate() { entry } else { NIL };
                let best = children().fold(own, |best, child| order.better(items, best, tree::best(items, child)));
                assert_eq!(it.node.best, best);
                found.push((*slot, tree as u8, of_all_groups));
            }
        }
    }
}
